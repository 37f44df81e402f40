"""Suspects among the steps of one call, without another layer to compare with.

A suspect is a step that seldom belongs into attention: it explains what a probe saw,
and is no fault by itself.

Shapes: B batch, T length.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from attention_lib.examine.outcomes import FaultError, NotApplicableError
from attention_lib.examine.probe import LENGTH, Probe
from attention_lib.examine.recorder import Recorder, Step

_BATCH, _LENGTH = 17, 13  # sizes that are no widths, so that axes are known by them
_PRODUCTS = {"matmul", "bmm", "einsum", "linear", "addmm", "baddbmm", "tensordot"}
_MEANS = {"mean", "var", "std", "norm", "var_mean", "std_mean", "vector_norm"}
_MOST = {"max", "amax", "min", "amin", "logsumexp"}
_NORMS = {"batch_norm", "instance_norm"}
_WAVES = {"cos", "sin", "polar"}


def _steps(probe: Probe, x: Tensor) -> list[Step]:
    """Return the steps of one call; none where the layer refuses to be recorded."""
    layer = probe.copied(probe.dtype).train(probe.layer.training)
    try:
        with Recorder(layer) as recorder:
            probe.run_causal(x, layer=layer, raw=True)
    except Exception:
        return []
    return recorder.steps


def changed_in_place(probe: Probe) -> str:
    """Name the step that changes the input of a call."""
    for step in _steps(probe, probe.x()):
        if step.in_place and f"{step.words}(".partition("(")[2].startswith("x"):
            return f" by {step.words}, in {step.place}"
    return ""


def capped_scores(probe: Probe, x: Tensor) -> float:
    """Return the largest number of a softmax's input after a full tanh; 0 if none."""
    steps = iter(_steps(probe, x))
    for step in steps:
        if step.name == "tanh" and step.gives[0].most > 0.999:
            break
    after = [step.reads[0].most for step in steps if step.name == "softmax"]
    return max(after, default=0.0)


def find_suspects(probe: Probe) -> str:
    """Name steps that mix tokens or texts where attention does not, two at most."""
    steps = _steps(probe, probe.x(_BATCH, _LENGTH))
    return "; ".join(list(dict.fromkeys(_suspects(steps)))[:2])


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
    for step in _steps(probe, probe.x(_BATCH, _LENGTH)):
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
    x = probe.x()[:, :1].repeat(1, LENGTH, 1)
    steps = _steps(probe, x)
    rotates = any(step.name in _WAVES for step in steps)
    if rotates:
        _expect_values_still(steps)
    inputs = [step.reads[0] for step in steps if step.name == "softmax"]
    square = [each for each in inputs if each.shape[-2:] == (LENGTH, LENGTH)]
    if not square or probe.equal_rows > probe.tolerance:
        raise unknown
    scores = square[0].numbers.view(square[0].shape)
    seen = square[0].fills.view(scores.shape) == 0
    size = scores.abs().max().clamp(min=1e-3)
    both = seen[..., 1:, 1:] & seen[..., :-1, :-1]
    moved = (scores[..., 1:, 1:] - scores[..., :-1, :-1]).abs().masked_fill(~both, 0)
    low = scores.masked_fill(~seen, torch.inf).amin((-1, -2))
    high = scores.masked_fill(~seen, -torch.inf).amax((-1, -2))
    if float((high - low).max()) <= 1e-4 * size:
        raise unknown
    change = float(moved.max() / size)
    if change <= 1e-4:
        return "positions count inside: scores of equal tokens, by distance alone"
    if not rotates:
        raise unknown
    words = "not distances alone: scores of equal tokens change along a diagonal, "
    raise FaultError(f"positions count, {words}by {change:.2f}")


def positions_restart(probe: Probe, run: Callable[[], Any]) -> bool:
    """Return whether the calls of a run compute the same sines, one after the other."""
    layer = probe.layer
    probe.layer = probe.copied(probe.dtype)
    try:
        with Recorder(probe.layer) as recorder:
            run()
    except Exception:
        return False
    finally:
        probe.layer = layer
    waves: dict[int, set[Any]] = {}
    for step in recorder.steps:
        if step.name in _WAVES:
            values = [tuple(each.numbers.tolist()) for each in step.gives]
            waves.setdefault(step.call, set()).update(values)
    return len(waves) > 1 and waves[max(waves)] == waves[min(waves)]


def _expect_values_still(steps: list[Step]) -> None:
    """Name the line where values are rotated by sines and cosines of positions."""
    rotated: set[Any] = set()
    weights: set[Any] = set()
    for step in steps:
        keys = [read.key for read in step.reads]
        if step.name in _PRODUCTS:
            others = [key for key in keys if key not in weights]
            if len(others) < len(keys) and rotated & {*others}:
                words = f"values carry positions, too: RoPE turns them, in {step.place}"
                raise FaultError(words)
            continue
        gives = {each.key for each in step.gives}
        if step.name == "softmax" or weights & {*keys}:
            weights |= gives
        elif step.name in _WAVES or rotated & {*keys}:
            rotated |= gives
