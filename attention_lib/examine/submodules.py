"""Where a layer and its reference begin to differ: in which part, and which tokens.

Shapes: T length, K keys, M width of a part's input or output.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attention_lib.examine.probe import LONG, Probe

Run = Callable[[Probe], Tensor]


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
    with torch.no_grad():
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
        with torch.no_grad():
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
            row, key = divmod(int(wrong.float().argmax()), wrong.shape[1])
            count = int(wrong[row].sum())
            more = f" (nor on {count - 1} more)" if count > 1 and "not" in words else ""
            return f": output {row} {words.format(positions[key])}{more}"
    return ""


def _reach(probe: Probe, run: Run, positions: list[int]) -> Tensor:
    """Return on which of these tokens each output of a call depends, (T, K)."""
    columns = []
    with torch.no_grad():
        before = run(probe.fresh())
        for position in positions:
            changed = probe.fresh()
            changed.changed_position = position
            columns.append((run(changed) - before).abs().amax(dim=(0, 2)))
    least = probe.tolerance / 1e3 if len(columns[0]) > LONG else probe.tolerance
    return torch.stack(columns, dim=-1) > least
