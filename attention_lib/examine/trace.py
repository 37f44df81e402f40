"""Where a layer begins to differ from its reference: step, part, and token.

For the step, both are recorded in one call. From the result, which differs, the way
goes back through numbers that the other layer never has, to a step that still reads
what both have and gives what one alone has. How either is written matters little: what
is written differently and gives the same again further on is no difference.

Shapes: T length, K keys, M width of a part's input or output.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attention_lib.examine.outcomes import listed
from attention_lib.examine.probe import LONG, Probe
from attention_lib.examine.recorder import Recorder, Step, Value, is_near, value_of

Run = Callable[[Probe], Tensor]


def tell_first_step(
    mine: Probe, other: Probe, run: Run, *, gradients: bool = False
) -> str:
    """Name the first step at which a layer and its reference differ, or return ""."""
    bits = torch.finfo(mine.dtype)
    tolerance = 4 * bits.eps if bits.bits < 32 else mine.tolerance / 10
    try:
        ours, result = _record(mine, run)
        theirs, wanted = _record(other, run)
        if gradients:
            return _gradient_end(ours, theirs, tolerance)
        calls = {step.words for step in theirs}
        if sum(step.words in calls for step in ours) >= 0.7 * len(ours):
            tolerance = 1e-9  # most steps are the same calls, with the same rounding
        first, wrong = _first_apart(ours, result, _lookup(theirs, tolerance))
        right, missing = _first_apart(theirs, wanted, _lookup(ours, tolerance))
        words = _compare(*_pair(first, right), ours, theirs)
        how = _relation(wrong, missing, tolerance) if words else ""
        return "; ".join([*words, how] if how else words)
    except Exception:  # a layer may refuse to be recorded
        return ""


def _record(probe: Probe, run: Run) -> tuple[list[Step], Value]:
    fresh = probe.fresh()
    with Recorder(fresh.layer) as recorder:
        result = run(fresh)
    return recorder.steps, value_of(result)


def _lookup(steps: list[Step], tolerance: float) -> Callable[[Value, int], bool]:
    """Return a function that tells whether a layer has a value in a call.

    In other calls a value is found by chance: a mask of two tokens, a first token.
    """
    values: dict[tuple[int, int], dict[Any, Value]] = {}
    for step in steps:
        for each in (*step.reads, *step.gives):
            values.setdefault((step.call, each.key[0]), {})[each.key] = each
    known: dict[Any, bool] = {}

    def has(value: Value, call: int) -> bool:
        if (call, value.key) not in known:
            near = values.get((call, value.key[0]), {})
            known[call, value.key] = value.key in near or any(
                value.is_near(each, tolerance) for each in near.values()
            )
        return known[call, value.key]

    return has


def _first_apart(
    steps: list[Step], result: Value, has: Callable[[Value, int], bool]
) -> tuple[list[Step], list[Value]]:
    """Return the steps that give other numbers of known ones, and all such numbers.

    A step that reads what no step made, and the other layer does not know, counts.
    """
    made: dict[Any, int] = {}
    for number, step in enumerate(steps):
        for each in step.gives:
            if all(each.key != read.key for read in step.reads):
                made.setdefault((step.call, each.key), number)
    last = {key: number for (_, key), number in made.items()}  # what a cache kept

    def maker(value: Value, call: int) -> int | None:
        at = made.get((call, value.key), last.get(value.key))
        if at is not None and steps[at].call != call and has(value, steps[at].call):
            return None  # correct in the call that made it; the fault is reusing it
        return at

    first: set[int] = set()
    wrong: dict[Any, tuple[int, Value]] = {}
    todo = [(result, steps[-1].call)]
    while todo:
        value, call = todo.pop()
        if (call, value.key) in wrong or has(value, call):
            continue
        at = maker(value, call)
        wrong[call, value.key] = -1 if at is None else at, value
        if at is not None:
            call = steps[at].call
            unknown = [read for read in steps[at].reads if not has(read, call)]
            if all(maker(read, call) in (None, at) for read in unknown):
                first.add(at)
            todo += [(read, call) for read in unknown]
    ordered = sorted(wrong.values(), key=lambda each: each[0])
    found = [steps[at] for at in sorted(first) if steps[at].place]
    return found, [value for _, value in ordered]


def _pair(first: list[Step], right: list[Step]) -> tuple[Step | None, Step | None]:
    """Return the first of each; better two calls of one function, told apart."""
    for one in first[:4]:
        for two in right[:4]:
            if one.name == two.name and one.words != two.words:
                return one, two
    return next(iter(first), None), next(iter(right), None)


def _compare(
    one: Step | None, two: Step | None, ours: list[Step], theirs: list[Step]
) -> list[str]:
    """Return what the layer computes, and what the reference computes instead."""
    own, their = (Counter(step.words for step in each) for each in (ours, theirs))
    extra = one is not None and own[one.words] > their[one.words]
    lacks = two is not None and their[two.words] > own[two.words]
    both_types = [step.types for step in (one, two) if step and step.types]
    types = len(both_types) == 2 and both_types[0] != both_types[1]
    words = []
    if one and (extra or not lacks):
        words.append(f"the layer computes {one.said(types=types)}")
        if extra and not lacks:
            words[-1] += ", which the reference does not"
    if two and (lacks or not extra):
        words.append(f"the reference computes {two.said(types=types)}")
        if lacks and not extra:
            words[-1] += ", which the layer does not"
        more = two.sources - one.sources if one and "x" in one.sources else set()
        if more:
            words.append(f"its input depends on {listed(sorted(more))}, too")
    if one and two and not extra and not lacks:
        words += _otherwise(one, two, ours, theirs)
    old = _made_before(one, ours) if one else 0
    if old and not (two and _made_before(two, theirs)):
        words.append(f"the layer reads what its call {old} made")
    return words


def _made_before(step: Step, steps: list[Step]) -> int:
    """Return the number of an earlier call that made what a step reads; 0 if none."""
    calls = {each.key: s.call for s in steps[::-1] if s.place for each in s.gives}
    made = {calls.get(read.key, step.call) for read in step.reads}
    return min((call for call in made if 0 < call < step.call), default=0)


def _otherwise(one: Step, two: Step, ours: list[Step], theirs: list[Step]) -> list[str]:
    """Compare two steps that both layers have: another order, or another operand."""
    if one.words != two.words:
        places = [[each.words for each in steps] for steps in (ours, theirs)]
        before = [each.index(one.words) < each.index(two.words) for each in places]
        return ["both do both, in another order"] if before == [True, False] else []
    moved = {read.key for read in one.reads} - {read.key for read in two.reads}
    for step in theirs:
        if moved & {read.key for read in step.reads} and step.place:
            return [f"what it reads there the reference reads in {step.words}"]
    return []


def _relation(wrong: list[Value], missing: list[Value], tolerance: float) -> str:
    """Return how numbers that differ are related: by a factor, or by their order."""
    pairs = [(a, b) for a in wrong for b in missing if a.key[0] == b.key[0] > 3]
    for one, two in pairs:
        if one.dtype == two.dtype == torch.bool:
            differ = (one.numbers != two.numbers).nonzero().flatten()
            if 2 * len(differ) < one.key[0]:
                at = [int(i) for i in torch.unravel_index(differ[0], two.shape)]
                right = bool(two.numbers[differ[0]])
                many = f"{len(differ)} of {one.key[0]} places differ"
                shape = "×".join(map(str, two.shape))
                return f"at {at} of {shape} it has {not right}, not {right}; {many}"
    for one, two in pairs:
        a, b = one.numbers, two.numbers
        if not (one.dtype.is_floating_point and a.norm() and b.norm()):
            continue
        ratio, how = float(a @ b / (b @ b)), ""
        if is_near(a, ratio * b, tolerance) and abs(ratio - 1) > tolerance:
            how = f"{ratio:.4g} times" + (" as large" if ratio > 0 else "")
        elif is_near(a.sort()[0], b.sort()[0], tolerance):
            how = "the same, in another order"
        if how and not is_near(a, b, tolerance):
            return f"numbers of {'×'.join(map(str, one.shape))} are {how}"
    return ""


def _gradient_end(ours: list[Step], theirs: list[Step], tolerance: float) -> str:
    """Name the step at which gradients end in one of the two layers alone."""
    for steps, others, words in (
        (ours, theirs, "gradients end at {}"),
        (theirs, ours, "in the reference gradients end at {}, not here"),
    ):
        ends = [each for s in others if s.ends_gradient for each in s.gives]
        for step in steps:
            value = step.gives[0]
            sames = [each for each in ends if each.key[0] == value.key[0]]
            same = any(value.is_near(each, tolerance) for each in sames)
            if step.ends_gradient and step.place and not same:
                return words.format(step.said())
    return ""


def tell_inside(mine: Probe, other: Probe, run: Run) -> str:
    """Name the first part that gets or gives other numbers than in the reference."""
    names = {name for name, part in other.layer.named_modules() if name}
    try:
        ours, theirs = (_numbers(each, run, names) for each in (mine, other))
    except Exception:
        return ""
    same: list[str] = []
    times: Counter[str] = Counter()
    for (name, what, found), (also, kind, wanted) in zip(ours, theirs, strict=False):
        if (name, what) != (also, kind):
            return f" ({name} is called where the reference calls {also})"
        if found.shape != wanted.shape:
            return f" ({name} {what} {tuple(found.shape)}, not {tuple(wanted.shape)})"
        times[name] += what == "gets"
        scale = wanted.abs().max().clamp(min=1e-3)
        wrong = (found - wanted).abs() > mine.tolerance * scale
        if wrong.any() or bool(found.isnan().any()):
            known = f"{', '.join(same)} the same; " if same else ""
            call = f" in call {times[name]}" if times[name] > 1 else ""
            return f" ({known}{name}{call} {what} other numbers{_features(wrong)})"
        if what == "gives" and name not in same:
            same.append(name)
    if len(ours) < len(theirs):
        return f" (the reference calls {theirs[len(ours)][0]}, too)"
    if len(ours) > len(theirs):
        return f" (the reference does not call {ours[len(theirs)][0]})"
    words = "get and give the same: it differs between or after them"
    return f" (its parts {', '.join(same)} {words})" if same else ""


def _numbers(probe: Probe, run: Run, names: set[str]) -> list[tuple[str, str, Tensor]]:
    """Return what each part gets and gives in one run, in the order of the calls."""
    fresh, seen = probe.fresh(), []

    def note(name: str, what: str, part: Any, inputs: Any, *outputs: Any) -> None:
        found = outputs[0] if outputs else inputs
        found = found[0] if isinstance(found, tuple) and found else found
        if isinstance(found, Tensor) and found.ndim > 1:
            seen.append((name, what, found.detach().clone()))

    for name, part in fresh.layer.named_modules():
        if name in names:
            part.register_forward_pre_hook(partial(note, name, "gets"))
            part.register_forward_hook(partial(note, name, "gives"))
    run(fresh)
    return seen


def _features(wrong: Tensor) -> str:
    """Return which features are wrong, where they are a part of all."""
    at = wrong.flatten(0, -2).any(0).nonzero().flatten().tolist()
    width = wrong.shape[-1]
    if not at or len(at) == width:
        return ""
    if at[-1] - at[0] + 1 == len(at):
        return f" in features {at[0]} to {at[-1]} of {width}"
    return f" in {len(at)} features of {width}, from {at[0]} on"


def tell_reach(mine: Probe, other: Probe, run: Run) -> str:
    """Name an output that depends on another token than in the reference.

    In a long text few tokens are changed: those around the first output that differs.
    """
    try:
        one, two = (run(each.fresh()) for each in (mine, other))
        if one.ndim != 3 or one.shape != two.shape:
            return ""
        length = one.shape[1]
        positions = [*range(length)]
        if length > LONG:
            wrong = (one - two).abs().amax(dim=(0, 2)) > mine.tolerance
            row = int(wrong.float().argmax())
            near = {0, row - 1, row, row + 1, length // 2, length - 1}
            positions = sorted(near & {*positions})
        ours, theirs = (_reach(each, run, positions) for each in (mine, other))
    except Exception:
        return ""
    for wrong, words in (
        (ours & ~theirs, "changes with token {}, which the reference hides there"),
        (theirs & ~ours, "does not depend on token {}, as it does in the reference"),
    ):
        if wrong.any():
            row, key = wrong.nonzero()[0].tolist()
            count = int(wrong[row].sum())
            more = f" (nor on {count - 1} more)" if count > 1 and "not" in words else ""
            return f": output {row} {words.format(positions[key])}{more}"
    return ""


def _reach(probe: Probe, run: Run, positions: list[int]) -> Tensor:
    """Return on which of these tokens each output of a call depends, (T, K)."""
    columns = []
    before = run(probe.fresh())
    for position in positions:
        changed = probe.fresh()
        changed.changed_position = position
        columns.append((run(changed) - before).abs().amax(dim=(0, 2)))
    least = probe.tolerance / 1e3 if len(columns[0]) > LONG else probe.tolerance
    return torch.stack(columns, dim=-1) > least
