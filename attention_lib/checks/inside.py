"""Where two layers with parts of the same names begin to differ.

Shapes: M width of a part's input or output.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attention_lib.checks.subject import Subject

Seen = list[tuple[str, str, Tensor]]


def tell_inside(
    mine: Subject, other: Subject, run: Callable[[Subject], Tensor]
) -> str:
    """Says which part is the first to get or to give other numbers than its twin."""
    names = {name for name, part in other.layer.named_modules() if name}
    try:
        ours, theirs = (_numbers(each, run, names) for each in (mine, other))
    except Exception:
        return ""
    alike: list[str] = []
    for (name, what, found), (also, kind, wanted) in zip(ours, theirs, strict=False):
        if (name, what) != (also, kind):
            return f" ({name} is called where the reference calls {also})"
        if found.shape != wanted.shape:
            return f" ({name} {what} {tuple(found.shape)}, not {tuple(wanted.shape)})"
        scale = wanted.abs().max().clamp(min=1e-3)
        wrong = (found - wanted).abs() > mine.tolerance * scale
        if wrong.any() or bool(found.isnan().any()):
            known = f"{', '.join(alike)} the same; " if alike else ""
            return f" ({known}{name} {what} other numbers{_features(wrong)})"
        if what == "gives" and name not in alike:
            alike.append(name)
    return ""


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


def _numbers(
    t: Subject, run: Callable[[Subject], Tensor], names: set[str]
) -> Seen:
    """What each part gets and gives in one run, in the order of the calls."""
    alone, seen = copy.copy(t), Seen()
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
