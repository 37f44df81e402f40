"""The first step at which a layer computes other numbers than its reference.

Both are recorded in one call. From the result, which differs, the way leads back
through numbers that the other layer never has, up to a step that still reads what both
have, and gives what one alone has. So it matters little how either is written: what
is written otherwise and gives the same again further on is no difference.
"""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_lib.examine.probe import Probe
from attention_lib.examine.shared_weights import listed
from attention_lib.examine.trace import Recorder, Step, Value, value_of

_TRIED = 4
_ALIKE = 0.7  # of the steps
_TIGHT = 1e-9
_LONGEST = 110  # letters of a line of a program


def tell_first_step(
    mine: Probe,
    other: Probe,
    run: Callable[[Probe], Tensor],
    *,
    gradients: bool = False,
    seed: int = 0,
) -> str:
    """Says which step of a layer, and which of its reference, is the first to differ.

    Gives "" where one of the two cannot be recorded, or no step tells it.
    """
    try:
        ours, result = _record(mine, run, seed)
        theirs, wanted = _record(other, run, seed)
        if gradients:
            return _cut(ours, theirs, _tolerance(mine))
        tolerance = _TIGHT if _written_alike(ours, theirs) else _tolerance(mine)
        return _tell(ours, result, theirs, wanted, tolerance)
    except Exception:
        return ""


def _tolerance(t: Probe) -> float:
    narrow = torch.finfo(t.dtype).bits < 32
    return 4 * torch.finfo(t.dtype).eps if narrow else t.tolerance / 10


def _written_alike(ours: list[Step], theirs: list[Step]) -> bool:
    """Whether most steps are the same calls: then also their roundings are equal."""
    known = {step.words for step in theirs}
    return sum(step.words in known for step in ours) >= _ALIKE * len(ours)


def _record(
    t: Probe, run: Callable[[Probe], Tensor], seed: int
) -> tuple[list[Step], Value]:
    alone = copy.copy(t)
    alone.layer = copy.deepcopy(t.layer)
    torch.manual_seed(seed)
    with torch.no_grad(), Recorder(alone.layer) as recorder:
        found = run(alone)
    return recorder.steps, value_of(found)


class _Known:
    """The values of one layer in each of its calls, to be looked up with a tolerance.

    In other calls a value is found by chance: a mask of two tokens, a first token.
    """

    def __init__(self, steps: list[Step], tolerance: float) -> None:
        self.tolerance = tolerance
        self.by_size: dict[tuple[int, int], dict[Any, Value]] = {}
        self.found: dict[Any, bool] = {}
        for step in steps:
            for each in (*step.reads, *step.gives):
                alike = self.by_size.setdefault((step.call, each.numel), {})
                alike[each.key] = each

    def has(self, value: Value, call: int) -> bool:
        """Whether a value is known in a call."""
        if (call, value.key) not in self.found:
            near = self.by_size.get((call, value.numel), {}).values()
            same = any(_same(value, each, self.tolerance) for each in near)
            self.found[call, value.key] = same
        return self.found[call, value.key]


def _same(one: Value, two: Value, tolerance: float) -> bool:
    sizes = [max(pair) for pair in zip(one.norms, two.norms, strict=True)]
    return all(
        abs(a - b) <= tolerance * sizes[i // 3] + 1e-30
        for i, (a, b) in enumerate(zip(one.dots, two.dots, strict=True))
    )


def _apart(
    steps: list[Step], result: Value, known: _Known
) -> tuple[list[Step], list[Value]]:
    """The steps that give other numbers of known ones; and all numbers that differ.

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
        old = at is not None and steps[at].call != call
        if at is not None and old and known.has(value, steps[at].call):
            return None  # right in its own call: the wrong is that it serves again
        return at

    first: set[int] = set()
    wrong: dict[Any, tuple[int, Value]] = {}
    todo = [(result, steps[-1].call)]
    while todo:
        value, call = todo.pop()
        if (call, value.key) in wrong or known.has(value, call):
            continue
        at = maker(value, call)
        wrong[call, value.key] = -1 if at is None else at, value
        if at is None:
            continue
        step = steps[at]
        unknown = [read for read in step.reads if not known.has(read, step.call)]
        if all(maker(read, step.call) in (None, at) for read in unknown):
            first.add(at)
        todo += [(read, step.call) for read in unknown]
    found = [steps[at] for at in sorted(first) if steps[at].place]
    ordered = sorted(wrong.values(), key=lambda each: each[0])
    return found, [value for _, value in ordered]


def _tell(
    ours: list[Step],
    result: Value,
    theirs: list[Step],
    wanted: Value,
    tolerance: float,
) -> str:
    mine, wrong = _apart(ours, result, _Known(theirs, tolerance))
    right, missing = _apart(theirs, wanted, _Known(ours, tolerance))
    if not mine and not right:
        return ""
    one, two = _pair(mine, right)
    words = []
    own, their = (Counter(step.words for step in each) for each in (ours, theirs))
    extra = one is not None and own[one.words] > their[one.words]
    lacks = two is not None and their[two.words] > own[two.words]
    types = [
        {str(v.dtype)[6:] for v in s.gives if v.floats} if s else set()
        for s in (one, two)
    ]
    if one is not None and (extra or not lacks):
        words.append(f"the layer computes {_said(one, types)}")
        if extra and not lacks:
            words[-1] += ", which the reference does not"
    if two is not None and (lacks or not extra):
        words.append(f"the reference computes {_said(two, types[::-1])}")
        if lacks and not extra:
            words[-1] += ", which the layer does not"
        data = one is not None and "x" in one.sources
        if one and data and (more := two.sources - one.sources):
            words.append(f"its input depends on {listed(sorted(more))}, too")
    if one is not None and two is not None and not extra and not lacks:
        words += _otherwise(one, two, ours, theirs)
    old = _old(one, ours) if one is not None else 0
    if old and not (two is not None and _old(two, theirs)):
        words.append(f"the layer reads what its call {old} made")
    how = _relation(wrong, missing, max(tolerance, 1e-9))
    return "; ".join(words) + (f"; {how}" if how else "")


def _old(step: Step, steps: list[Step]) -> int:
    """The number of an earlier call that made what a step reads; 0 if none."""
    own = [each for each in steps[::-1] if each.place]
    calls = {each.key: s.call for s in own for each in s.gives}
    made = {calls.get(read.key, step.call) for read in step.reads}
    return min((call for call in made if 0 < call < step.call), default=0)


def _otherwise(one: Step, two: Step, ours: list[Step], theirs: list[Step]) -> list[str]:
    """Says what two steps that both layers have tell: another order, or operand."""
    if one.words != two.words:
        places = [[each.words for each in steps] for steps in (ours, theirs)]
        swapped = [p.index(one.words) < p.index(two.words) for p in places]
        return ["both do both, in another order"] * (swapped == [True, False])
    moved = {read.key for read in one.reads} - {read.key for read in two.reads}
    for step in theirs:
        if moved & {read.key for read in step.reads} and step.place:
            return [f"what it reads there the reference reads in {step.words}"]
    return []


def _pair(mine: list[Step], right: list[Step]) -> tuple[Step | None, Step | None]:
    """The first of each; better two calls of one function with other arguments."""
    for one in mine[:_TRIED]:
        for two in right[:_TRIED]:
            if one.name == two.name and one.words != two.words:
                return one, two
    return (mine or [None])[0], (right or [None])[0]  # type: ignore[list-item]


def _said(step: Step, types: Sequence[set[str]] = ()) -> str:
    if all(types) and len({frozenset(each) for each in types}) > 1:
        name = ", ".join(sorted(types[0]))
        return f"{step.words} in {name} (in {step.place[:_LONGEST]})"
    return f"{step.words} (in {step.place[:_LONGEST]})"


def _relation(wrong: list[Value], missing: list[Value], tolerance: float) -> str:
    """Says how numbers that differ go together: by a factor, or by their order."""
    pairs = [(a, b) for a in wrong for b in missing if a.numel == b.numel > 3]
    masks = [(a.truth, b.truth) for a, b in pairs]
    far = [(a.reshape(b.shape) != b, b) for a, b in masks if a is not None is not b]
    if far:
        places, right = min(far, key=lambda each: int(each[0].sum()))
        at = [
            int(i) for i in torch.unravel_index(places.float().argmax(), places.shape)
        ]
        says, count = bool(right[tuple(at)]), int(places.sum())
        if 2 * count < places.numel():
            many = f"{count} of {places.numel()} places differ"
            shape = "×".join(map(str, right.shape))
            return f"at {at} of {shape} it has {not says}, not {says}; {many}"
    for one, two in pairs:
        if one.floats and two.floats and (how := _alike(one, two, tolerance)):
            return f"numbers of {'×'.join(map(str, one.shape))} are {how}"
    return ""


def _alike(one: Value, two: Value, tolerance: float) -> str:
    if not min(one.norms[0], two.norms[0]) > 0 or not two.dots[0]:
        return ""
    ratio = one.dots[0] / two.dots[0]
    far = [a - ratio * b for a, b in zip(one.dots, two.dots, strict=True)][:3]
    if max(map(abs, far)) <= tolerance * one.norms[0] and abs(ratio - 1) > tolerance:
        return f"{ratio:.4g} times as large" if ratio > 0 else f"{ratio:.4g} times"
    size, cube = one.norms[0], one.norms[0] ** 3
    far = [
        (size - two.norms[0]) / size,
        (one.moments[0] - two.moments[0]) / size,
        (one.moments[1] - two.moments[1]) / cube,
    ]
    moved = any(
        abs(a - b) > tolerance * size
        for a, b in zip(one.dots[:3], two.dots[:3], strict=True)
    )
    if moved and max(map(abs, far)) < tolerance:
        return "the same, in another order"
    return ""


def _cut(ours: list[Step], theirs: list[Step], tolerance: float) -> str:
    """Says at which step gradients end in one of the two layers alone."""
    found = []
    for steps, others in ((ours, theirs), (theirs, ours)):
        ends = [each for s in others if _ends(s) for each in s.gives]
        cuts = [
            s
            for s in steps
            if _ends(s) and s.place
            if not any(_same(s.gives[0], each, tolerance) for each in ends)
        ]
        found.append(cuts[0] if cuts else None)
    if found[0] is not None:
        return f"gradients end at {_said(found[0])}"
    if found[1] is not None:
        return f"in the reference gradients end at {_said(found[1])}, not here"
    return ""


def _ends(step: Step) -> bool:
    """Whether what a step reads has a gradient, and what it gives has none."""
    floats = [each for each in step.gives if each.floats]
    return (
        bool(floats)
        and not any(each.grad for each in floats)
        and any(each.grad for each in step.reads)
    )
