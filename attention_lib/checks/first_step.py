"""The first step at which a layer computes other numbers than its reference.

Both are recorded in one call. From the result, which differs, the way leads back
through numbers that the other layer never has, up to a step that still reads what both
have, and gives what one alone has. So it matters little how either is written: what
is written otherwise and gives the same again further on is no difference.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_lib.checks.steps import Recorder, Step, Value, value_of
from attention_lib.checks.subject import Subject
from attention_lib.checks.twins import listed

_TRIED = 4
_ALIKE = 0.7  # of the steps
_TIGHT = 1e-9
_LONGEST = 110  # letters of a line of a program


def tell_first_step(
    mine: Subject,
    other: Subject,
    run: Callable[[Subject], Tensor],
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


def _tolerance(t: Subject) -> float:
    narrow = torch.finfo(t.dtype).bits < 32
    return 4 * torch.finfo(t.dtype).eps if narrow else t.tolerance / 10


def _written_alike(ours: list[Step], theirs: list[Step]) -> bool:
    """Whether most steps are the same calls: then also their roundings are equal."""
    known = {step.words for step in theirs}
    return sum(step.words in known for step in ours) >= _ALIKE * len(ours)


def _record(
    t: Subject, run: Callable[[Subject], Tensor], seed: int
) -> tuple[list[Step], Value]:
    alone = copy.copy(t)
    alone.layer = copy.deepcopy(t.layer)
    torch.manual_seed(seed)
    with torch.no_grad(), Recorder(alone.layer) as recorder:
        found = run(alone)
    return recorder.steps, value_of(found)


class _Known:
    """The values of one layer, to be looked up with a tolerance."""

    def __init__(self, steps: Iterable[Step], tolerance: float) -> None:
        self.tolerance = tolerance
        self.by_size: dict[int, dict[Any, Value]] = {}
        self.found: dict[Any, bool] = {}
        for step in steps:
            for each in (*step.reads, *step.gives):
                self.by_size.setdefault(each.numel, {})[each.key] = each

    def __contains__(self, value: Value) -> bool:
        if value.key not in self.found:
            near = self.by_size.get(value.numel, {}).values()
            self.found[value.key] = any(_same(value, v, self.tolerance) for v in near)
        return self.found[value.key]


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
                made.setdefault(each.key, number)
    first: set[int] = set()
    wrong: dict[Any, Value] = {}
    todo = [result]
    while todo:
        value = todo.pop()
        if value.key in wrong or value in known:
            continue
        wrong[value.key] = value
        if (at := made.get(value.key)) is None:
            continue
        unknown = [read for read in steps[at].reads if read not in known]
        if not any(read.key in made for read in unknown):
            first.add(at)
        todo += unknown
    found = [steps[at] for at in sorted(first) if steps[at].place]
    return found, sorted(wrong.values(), key=lambda v: made.get(v.key, -1))


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
    own, their = (Counter(step.words for step in each) for each in (ours, theirs))
    extra = one is not None and own[one.words] > their[one.words]
    lacks = two is not None and their[two.words] > own[two.words]
    types = [
        {str(v.dtype)[6:] for v in s.gives if v.floats} if s else set()
        for s in (one, two)
    ]
    words = []
    if one is not None and (extra or not lacks):
        words.append(f"it computes {_said(one, types)}")
        if extra and not lacks:
            words[-1] += ", which the reference does not"
    if two is not None and (lacks or not extra):
        words.append(f"the reference computes {_said(two, types[::-1])}")
        if lacks and not extra:
            words[-1] += ", which it does not"
        data = one is not None and "x" in one.sources
        if one and data and (more := two.sources - one.sources):
            words.append(f"which depends on {listed(sorted(more))}, too")
    swapped = one is not None and two is not None and one.words != two.words
    if swapped and not extra and not lacks:
        words.append("both do both: in another order?")
    how = _relation(wrong, missing, max(tolerance, 1e-9))
    return "; ".join(words) + (f"; {how}" if how else "")


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
        ends = _Known(
            [Step("", "", "", [], step.gives) for step in others if _ends(step)],
            tolerance,
        )
        cuts = [s for s in steps if _ends(s) and s.place and s.gives[0] not in ends]
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
