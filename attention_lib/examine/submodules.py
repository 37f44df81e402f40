"""Where two layers with parts of the same names begin to differ.

Shapes: M width of a part's input or output.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attention_lib.examine.probe import LONG, Probe

Seen = list[tuple[str, str, Tensor]]


def tell_inside(mine: Probe, other: Probe, run: Callable[[Probe], Tensor]) -> str:
    """Says which part is the first to get or to give other numbers than its twin."""
    names = {name for name, part in other.layer.named_modules() if name}
    try:
        ours, theirs = (_numbers(each, run, names) for each in (mine, other))
    except Exception:
        return ""
    alike: list[str] = []
    times: dict[str, int] = {}
    for (name, what, found), (also, kind, wanted) in zip(ours, theirs, strict=False):
        if (name, what) != (also, kind):
            return f" ({name} is called where the reference calls {also})"
        if found.shape != wanted.shape:
            return f" ({name} {what} {tuple(found.shape)}, not {tuple(wanted.shape)})"
        scale = wanted.abs().max().clamp(min=1e-3)
        times[name] = times.get(name, 0) + (what == "gets")
        wrong = (found - wanted).abs() > mine.tolerance * scale
        if wrong.any() or bool(found.isnan().any()):
            known = f"{', '.join(alike)} the same; " if alike else ""
            number = times[name]
            call = f" in call {number}" if number > 1 else ""
            return f" ({known}{name}{call} {what} other numbers{_features(wrong)})"
        if what == "gives" and name not in alike:
            alike.append(name)
    if len(ours) < len(theirs):
        return f" (the reference calls {theirs[len(ours)][0]}, too)"
    if len(ours) > len(theirs):
        return f" (the reference does not call {ours[len(theirs)][0]})"
    words = "get and give the same: it differs between or after them"
    return f" (its parts {', '.join(alike)} {words})" if alike else ""


def tell_reach(mine: Probe, other: Probe, run: Callable[[Probe], Tensor]) -> str:
    """Says which output depends on another token than in the reference.

    In a long text few tokens are changed: those around the first output that differs.
    """
    try:
        with torch.no_grad():
            one, two = (run(_redrawn(each, each.x)) for each in (mine, other))
        if one.ndim != 3 or one.shape != two.shape:
            return ""
        length = one.shape[1]
        places = [*range(length)]
        if length > LONG:
            wrong = (one - two).abs().amax(dim=(0, 2)) > mine.tolerance
            row = int(wrong.float().argmax())
            near = {0, row - 1, row, row + 1, length // 2, length - 1}
            places = sorted(near & {*places})
        ours, theirs = (_reach(each, run, places) for each in (mine, other))
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
            return f": output {row} {words.format(places[key])}{more}"
    return ""


def _reach(t: Probe, run: Callable[[Probe], Tensor], places: list[int]) -> Tensor:
    """What each output depends on in a call: on which of these tokens, (T, K)."""
    columns: list[Tensor] = []
    draw = t.x
    with torch.no_grad():
        before = run(_redrawn(t, draw))
        for place in places:

            def drawn(*args: Any, place: int = place, **options: Any) -> Tensor:
                x = draw(*args, **options)
                x[:, place : place + 1] *= -1.5
                return x

            change = (run(_redrawn(t, drawn)) - before).abs()
            columns.append(change.amax(dim=(0, 2)))
    least = t.tolerance / 1e3 if len(columns[0]) > LONG else t.tolerance
    return torch.stack(columns, dim=-1) > least


def _redrawn(t: Probe, drawn: Callable[..., Tensor]) -> Probe:
    """The same with another input, and a layer that nobody has called."""
    found = copy.copy(t)
    found.layer = copy.deepcopy(t.layer)
    found.x = drawn  # type: ignore[method-assign]
    return found


def _features(wrong: Tensor) -> str:
    """Says in which features, where they are a part of all."""
    places = wrong.flatten(0, -2).any(0).nonzero().flatten().tolist()
    width = wrong.shape[-1]
    if not places or len(places) == width:
        return ""
    first, last = places[0], places[-1]
    if last - first + 1 == len(places):
        return f" in features {first} to {last} of {width}"
    return f" in {len(places)} features of {width}, from {first} on"


def _numbers(t: Probe, run: Callable[[Probe], Tensor], names: set[str]) -> Seen:
    """What each part gets and gives in one run, in the order of the calls."""
    alone = copy.copy(t)
    seen: Seen = []
    alone.layer = copy.deepcopy(t.layer)

    def before(name: str) -> Callable[..., None]:
        def note(part: Any, inputs: Any) -> None:
            if inputs and isinstance(inputs[0], Tensor) and inputs[0].ndim > 1:
                seen.append((name, "gets", inputs[0].detach().clone()))

        return note

    def after(name: str) -> Callable[..., None]:
        def note(part: Any, inputs: Any, found: Any) -> None:
            found = found[0] if isinstance(found, tuple) else found
            if isinstance(found, Tensor) and found.ndim > 1:
                seen.append((name, "gives", found.detach().clone()))

        return note

    for name, part in alone.layer.named_modules():
        if name in names:
            part.register_forward_pre_hook(before(name))
            part.register_forward_hook(after(name))
    with torch.no_grad():
        run(alone)
    return seen
