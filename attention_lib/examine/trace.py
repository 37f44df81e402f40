"""Steps of one call: the first that differs from a reference, and those that are odd.

Beside a reference, both layers are recorded. From the result, which differs, the way
goes back through numbers that the other layer never has, to a step that still reads
what both have and gives what one alone has. How either is written matters little: what
is written differently and gives the same again further on is no difference.

Without a reference, a step that seldom belongs into attention explains what a probe
saw, and is no fault by itself.
"""

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from attention_lib.examine.outcomes import (
    FaultError,
    NotApplicableError,
    listed,
    or_else,
)
from attention_lib.examine.probe import LENGTH, Probe, Run
from attention_lib.examine.recorder import Recorder, Step, Value, is_near, value_of

_BATCH, _LENGTH = 17, 13  # sizes that are no widths, so that axes are known by them
_PRODUCTS = {"matmul", "bmm", "einsum", "linear", "addmm", "baddbmm", "tensordot"}
_MEANS = {"mean", "var", "std", "norm", "var_mean", "std_mean", "vector_norm"}
_MOST = {"max", "amax", "min", "amin", "logsumexp"}
_NORMS = {"batch_norm", "instance_norm"}
_WAVES = {"cos", "sin", "polar"}


def tell_first_step(
    mine: Probe, other: Probe, run: Run, *, gradients: bool = False
) -> str:
    """Name the first step at which a layer and its reference differ, or return ""."""
    bits = torch.finfo(mine.dtype)
    tolerance = 4 * bits.eps if bits.bits < 32 else mine.tolerance / 10
    (ours, result), (theirs, wanted) = (_record(each, run) for each in (mine, other))
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


def _record(probe: Probe, run: Run) -> tuple[list[Step], Value]:
    fresh = probe.fresh()
    with Recorder(fresh.layer) as recorder:
        result = run(fresh)
    return recorder.steps, value_of(result)


def _lookup(steps: list[Step], tolerance: float) -> Callable[[Value, int], bool]:
    """Return a function that tells whether a layer has a value in a call.

    In other calls a value is found by chance: a mask of two tokens, a first token.
    """
    values: defaultdict[Any, dict[Any, Value]] = defaultdict(dict)
    for step in steps:
        for each in (*step.reads, *step.gives):
            values[step.call, each.key[0]][each.key] = each
    known: dict[Any, bool] = {}

    def has(value: Value, call: int) -> bool:
        if (call, value.key) not in known:
            near = values[call, value.key[0]]
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
    wrong: dict[Any, tuple[int, Value]] = {}  # with the step that made it
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
    pairs = ((one, two) for one in first[:4] for two in right[:4])
    told = (it for it in pairs if it[0].name == it[1].name)
    told = (it for it in told if it[0].words != it[1].words)
    return next(told, (next(iter(first), None), next(iter(right), None)))


def _compare(
    one: Step | None, two: Step | None, ours: list[Step], theirs: list[Step]
) -> list[str]:
    """Return what the layer computes, and what the reference computes instead."""
    own, their = (Counter(step.words for step in each) for each in (ours, theirs))
    extra = one is not None and own[one.words] > their[one.words]
    lacks = two is not None and their[two.words] > own[two.words]
    given = {frozenset(step.types) for step in (one, two) if step and step.types}
    words = []
    for step, only, other, who, others in (
        (one, extra, lacks, "layer", "reference"),
        (two, lacks, extra, "reference", "layer"),
    ):
        if step and (only or not other):
            alone = f", which the {others} does not" if only and not other else ""
            said = step.said(types=len(given) == 2)
            words.append(f"the {who} computes {said}{alone}")
    if one and two and (lacks or not extra):
        more = sorted(two.sources - one.sources) if "x" in one.sources else []
        words += [f"its input depends on {listed(more)}, too"] if more else []
        words += _otherwise(one, two, ours, theirs) if not lacks else []
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
                many = f"{len(differ)} of {one.key[0]} entries differ"
                return f"at {at} of {two.size} it has {not right}, not {right}; {many}"
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
            return f"numbers of {one.size} are {how}"
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
            near = any(value.is_near(each, tolerance) for each in ends)
            if step.ends_gradient and step.place and not near:
                return words.format(step.said())
    return ""


def _steps(probe: Probe, run: Run) -> list[Step]:
    """Return the steps of a layer that nobody has called; none where it refuses."""
    new = copy.copy(probe)
    new.layer = probe.copied(probe.dtype).train(probe.layer.training)
    return or_else(([], None), _record, new, run)[0]


def _plain_steps(probe: Probe, x: Tensor | None = None) -> list[Step]:
    x = probe.x(_BATCH, _LENGTH) if x is None else x
    return _steps(probe, lambda each: each.run_causal(x))


def changed_in_place(probe: Probe) -> str:
    """Name the step that changes the input of a call."""
    for step in _plain_steps(probe, probe.x()):
        if step.in_place and f"{step.words}(".partition("(")[2].startswith("x"):
            return f" by {step.words}, in {step.place}"
    return ""


def capped_scores(probe: Probe, x: Tensor) -> float:
    """Return the largest number of a softmax's input after a full tanh; 0 if none."""
    steps = _plain_steps(probe, x)
    full = [s.name == "tanh" and s.gives[0].most > 0.999 for s in steps]
    after = steps[full.index(True) :] if True in full else []
    most = (step.reads[0].most for step in after if step.name == "softmax")
    return max(most, default=0.0)


def find_suspects(probe: Probe) -> str:
    """Name steps that mix tokens or texts where attention does not, two at most."""
    return "; ".join([*dict.fromkeys(_suspects(_plain_steps(probe)))][:2])


def _suspects(steps: list[Step]) -> Iterator[str]:
    for step in steps:
        if not (step.place and step.reads and step.gives and "x" in step.sources):
            continue
        shape, left = step.reads[0].shape, step.gives[0].shape
        where = f"{step.words}, in {step.place}"
        lost = [n for n in (_BATCH, _LENGTH) if n in shape and n not in left]
        names = " and ".join({_BATCH: "texts", _LENGTH: "tokens"}[n] for n in lost)
        if step.drops:
            yield f"it drops {step.drops:.0%} in evaluation mode: {where}"
        elif step.name in _MEANS and lost and shape.count(_LENGTH) < 2:
            yield f"it takes the {step.name} over {names}: {where}"
        elif step.name in _MOST and _BATCH in lost:
            yield f"it takes the {step.name} over all {names}, not of each row: {where}"
        elif step.name in _NORMS:
            yield f"a norm over more than one token: {where}"
        elif step.name == "softmax" and shape.count(_LENGTH) == 2:
            axis = (step.axis if step.axis is not None else -1) % len(shape)
            if axis != max(i for i, n in enumerate(shape) if n == _LENGTH):
                queries = shape[axis] == _LENGTH
                kind = "queries" if queries else "neither keys nor queries"
                yield f"the softmax runs over axis {axis}, {kind}: {where}"


def dropped_scores(probe: Probe) -> str:
    """Name the step where dropout is taken of scores, before the softmax."""
    dropped: dict[Any, Step] = {}
    for step in _plain_steps(probe):
        known = [dropped[read.key] for read in step.reads if read.key in dropped]
        scores = step.reads and step.reads[0].shape.count(_LENGTH) == 2
        if not scores or step.name in _PRODUCTS or not (known or step.drops):
            continue
        first = known[0] if known else step
        if step.name in ("softmax", "exp"):
            return f"{first.words}, in {first.place}"
        for each in step.gives:
            dropped[each.key] = first
    return ""


def positions_in(probe: Probe) -> str:
    """Test what positions do where all tokens are equal.

    Then scores of two tokens can depend on their positions alone: with relative ones,
    on their distance.
    """
    unknown = NotApplicableError("no positions come from outside")
    steps = _plain_steps(probe, probe.x()[:, :1].repeat(1, LENGTH, 1))
    if rotates := any(step.name in _WAVES for step in steps):
        _expect_values_still(steps)
    inputs = (step.reads[0] for step in steps if step.name == "softmax")
    square = next((it for it in inputs if it.shape[-2:] == (LENGTH, LENGTH)), None)
    if square is None or probe.equal_rows > probe.tolerance:
        raise unknown
    scores = square.numbers.view(square.shape)
    hidden = square.fills.view(square.shape) != 0
    size = scores.abs().max().clamp(min=1e-3)
    low, high = (scores.masked_fill(hidden, end) for end in (torch.inf, -torch.inf))
    if float((high.amax((-1, -2)) - low.amin((-1, -2))).max()) <= 1e-4 * size:
        raise unknown
    either = hidden[..., 1:, 1:] | hidden[..., :-1, :-1]
    moved = (scores[..., 1:, 1:] - scores[..., :-1, :-1]).abs().masked_fill(either, 0)
    if (change := float(moved.max() / size)) <= 1e-4:
        return "positions count inside: scores of equal tokens, by distance alone"
    if not rotates:
        raise unknown
    words = "positions count, not distances alone: scores of equal tokens change along"
    raise FaultError(f"{words} a diagonal, by {change:.2f}")


def positions_restart(probe: Probe, run: Run) -> bool:
    """Return whether the calls of a run compute the same sines, one after the other."""
    waves: dict[int, set[Any]] = {}
    for step in _steps(probe, run):
        if step.name in _WAVES:
            values = [tuple(each.numbers.tolist()) for each in step.gives]
            waves.setdefault(step.call, set()).update(values)
    return len(waves) > 1 and waves[max(waves)] == waves[min(waves)]


def _expect_values_still(steps: list[Step]) -> None:
    """Name the line where values are rotated by sines and cosines of positions."""
    rotated, weights = set[Any](), set[Any]()
    for step in steps:
        keys = [read.key for read in step.reads]
        if step.name in _PRODUCTS:
            others = [key for key in keys if key not in weights]
            if len(others) < len(keys) and rotated & {*others}:
                words = f"values carry positions, too: RoPE turns them, in {step.place}"
                raise FaultError(words)
            continue
        if step.name == "softmax" or weights & {*keys}:
            weights |= {each.key for each in step.gives}
        elif step.name in _WAVES or rotated & {*keys}:
            rotated |= {each.key for each in step.gives}
