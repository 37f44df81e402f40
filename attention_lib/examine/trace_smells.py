"""What the steps of one call tell of a layer, without another to compare it with.

A suspect is a step that seldom belongs into attention: it explains what a check saw,
and is no fault by itself.

Shapes: B batch, T length.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from attention_lib.examine.probe import LENGTH, Probe
from attention_lib.examine.trace import Recorder, Step

_BATCH, _LENGTH = 17, 13  # sizes that are no widths, so that axes are known by them
_PRODUCTS = {"matmul", "bmm", "einsum", "linear", "addmm", "baddbmm", "tensordot"}
_MEANS = {"mean", "var", "std", "norm", "var_mean", "std_mean", "vector_norm"}
_MOST = {"max", "amax", "min", "amin", "logsumexp"}
_NORMS = {"batch_norm", "instance_norm"}


def _recorded(s: Probe, x: Tensor, **more: Any) -> Recorder:
    with torch.no_grad(), Recorder(layer := s.copied(s.dtype)) as recorder:
        s.run(x, layer=layer.train(s.layer.training), raw=True, **more)
    return recorder


def changed_in_place(s: Probe) -> str:
    """Says which step changes the input of a call."""
    try:
        steps = _recorded(s, s.x()).steps
    except Exception:
        return ""
    for step in steps:
        if step.in_place and f"{step.words}(".partition("(")[2].startswith("x"):
            return f" by {step.words}, in {step.place}"
    return ""


def capped_scores(s: Probe, x: Tensor) -> float:
    """The largest number of which a softmax is taken after a full tanh; 0 if none."""
    steps = _recorded(s, x, **s.hides_future).steps
    full = [n for n, each in enumerate(steps) if _is_full(each)]
    after = (
        [each for each in steps[full[0] :] if each.name == "softmax"] if full else []
    )
    return max((each.reads[0].most for each in after), default=0.0)


def _is_full(step: Step) -> bool:
    return step.name == "tanh" and step.gives[0].most > 0.999


def find_suspects(s: Probe) -> str:
    """Names steps that mix tokens or texts where attention does not, one of each."""
    try:
        steps = _recorded(s, s.x(_BATCH, _LENGTH), **s.hides_future).steps
    except Exception:
        return ""
    words = dict.fromkeys(_suspects(steps))
    return "; ".join(list(words)[:2])


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
            keys = max(i for i, n in enumerate(shape) if n == _LENGTH)
            if axis != keys:
                kind = (
                    "queries" if shape[axis] == _LENGTH else "neither keys nor queries"
                )
                yield f"the softmax runs over axis {axis}, {kind}: {where}"


def dropped_scores(s: Probe) -> str:
    """Says where dropout is taken of scores, before the softmax."""
    try:
        steps = _recorded(s, s.x(_BATCH, _LENGTH), **s.hides_future).steps
    except Exception:
        return ""
    dropped: dict[Any, Step] = {}
    for step in steps:
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


def positions_in(s: Probe) -> tuple[str, str]:
    """Says what positions do where all tokens are equal: what is wrong, what holds.

    Then scores of two tokens can depend on their positions alone: with relative ones,
    on their distance.
    """
    x = s.x()[:, :1].repeat(1, LENGTH, 1)
    try:
        found = _recorded(s, x, **s.hides_future)
    except Exception:
        return "", ""
    turned = {step.name for step in found.steps} & {"cos", "sin", "polar"}
    if turned and (words := _turned_values(found.steps)):
        return words, ""
    square = [each for each in found.scores if each.shape[-2:] == (LENGTH, LENGTH)]
    if not square or s.equal_rows > s.tolerance:
        return "", ""
    scores = square[0].double()
    seen = scores.abs() < 1e8
    scores = scores.masked_fill(~seen, 0)
    size = scores.abs().max().clamp(min=1e-3)
    both = seen[..., 1:, 1:] & seen[..., :-1, :-1]
    moved = (scores[..., 1:, 1:] - scores[..., :-1, :-1]).abs().masked_fill(~both, 0)
    low = scores.masked_fill(~seen, torch.inf).amin((-1, -2))
    high = scores.masked_fill(~seen, -torch.inf).amax((-1, -2))
    if float((high - low).max()) <= 1e-4 * size:
        return "", ""
    change = float(moved.max() / size)
    if change <= 1e-4:
        return "", "positions count inside: scores of equal tokens, by distance alone"
    words = "not distances alone: scores of equal tokens change along a diagonal, "
    return (f"positions count, {words}by {change:.2f}" if turned else ""), ""


def positions_again(s: Probe, run: Callable[[], Any]) -> bool:
    """Whether the calls of a run compute the same sines, one after the other."""
    layer = s.layer
    s.layer = s.copied(s.dtype)
    try:
        with torch.no_grad(), Recorder(s.layer) as recorder:
            run()
    except Exception:
        return False
    finally:
        s.layer = layer
    turns: dict[int, set[Any]] = {}
    for step in recorder.steps:
        if step.name in ("cos", "sin", "polar"):
            values = [tuple(round(d, 6) for d in each.dots) for each in step.gives]
            turns.setdefault(step.call, set()).update(values)
    return len(turns) > 1 and turns[max(turns)] == turns[min(turns)]


def _turned_values(steps: list[Step]) -> str:
    """Says where values are turned by sines and cosines of positions."""
    turned: dict[Any, Step] = {}
    weights: set[Any] = set()
    for step in steps:
        own = step if step.name in ("cos", "sin", "polar") else None
        known = next((turned[r.key] for r in step.reads if r.key in turned), own)
        if step.name in _PRODUCTS:
            others = [read for read in step.reads if read.key not in weights]
            if len(others) < len(step.reads) and any(o.key in turned for o in others):
                return f"values carry positions, too: RoPE turns them, in {step.place}"
            continue
        weighs = step.name == "softmax" or any(r.key in weights for r in step.reads)
        for each in step.gives:
            if weighs:
                weights.add(each.key)
            elif known is not None:
                turned.setdefault(each.key, known)
    return ""
