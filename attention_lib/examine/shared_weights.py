"""A layer and its reference with the same weights, so that their outputs compare.

Weights of the same names are replaced by random ones in both.
"""

import copy

import torch
from torch import Tensor, nn

from attention_lib.examine.probe import Probe

_SHOWN = 4


def listed(words: list[str]) -> str:
    """Names the first, and how many more there are."""
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def other_weights(layer: nn.Module, reference: nn.Module) -> str:
    """Says which weights are not those of a reference that names them alike."""
    own, theirs = layer.state_dict(), reference.state_dict()
    if own.keys() != theirs.keys():
        return ""
    kept = {name: each.data_ptr() for name, each in theirs.items() if each.numel()}
    for name, each in own.items():
        for also, second in own.items():
            one = each.numel() and each.data_ptr() == second.data_ptr()
            if also < name and one and kept[also] != kept[name]:
                return f"{name} is {also}; in the reference they are two weights"
    for name, each in own.items():
        if each.shape != theirs[name].shape:
            shapes = f"{tuple(each.shape)}, not {tuple(theirs[name].shape)}"
            return f"the shape of {name} is {shapes}"
    wrong = [name for name, each in own.items() if not _equal(each, theirs[name])]
    if wrong:
        return f"its weights are not the reference's: {listed(wrong)}"
    return ""


def _equal(one: Tensor, two: Tensor) -> bool:
    return one.is_meta or torch.allclose(one.double(), two.to(one.device).double())


def missing_weights(layer: nn.Module, reference: nn.Module) -> str:
    """Says which weights one has and the other lacks, where the rest is alike."""
    own, theirs = {*layer.state_dict()}, {*reference.state_dict()}
    if own < theirs:
        return f"; it lacks the weights {listed(sorted(theirs - own))}"
    if theirs and theirs < own:
        return f"; it has more weights: {listed(sorted(own - theirs))}"
    return ""


def made_alike(s: Probe, other: Probe) -> tuple[Probe, Probe]:
    """Gives both with the same weights: random ones, where their names are the same.

    Weights that start at 0 or 1 would hide a bias or a gain that is lost.
    """
    mine, other = copy.copy(s), copy.copy(other)
    narrow = torch.float32 in (s.dtype, other.dtype)
    dtype = torch.float32 if narrow else torch.float64
    names = s.original.state_dict().keys()
    stirred = names == other.original.state_dict().keys() and len(names) > 0
    for each in (mine, other):
        each.dtype, each.tolerance = dtype, 1e-4 if narrow else 2e-6
        if stirred:
            each.layer = s.copied(dtype) if each is mine else other.copied(dtype)
        else:
            each.layer = copy.deepcopy(each.original).eval().to(dtype)
    if stirred:
        other.layer.load_state_dict(mine.layer.state_dict())
    if _dropouts(mine.original) != _dropouts(other.original):
        for each in (mine, other):  # what was raised in one alone stays as it was
            for (part, name), value in _dropouts(each.original).items():
                setattr(each.layer.get_submodule(part), name, value)
    for each in (mine, other):
        for weight in each.layer.parameters():
            weight.requires_grad_(weight.is_floating_point())
    return mine, other


def _dropouts(layer: nn.Module) -> dict[tuple[str, str], float]:
    """The shares that parts of a layer drop, by their names."""
    return {
        (part, name): value
        for part, each in layer.named_modules()
        for name, value in vars(each).items()
        if isinstance(value, float) and (name == "p" or "drop" in name)
    }


def fresh(t: Probe, dtype: torch.dtype | None = None) -> Probe:
    """The same with a layer that nobody has called."""
    found = copy.copy(t)
    found.layer = copy.deepcopy(t.layer)
    if dtype is not None:
        found.layer, found.dtype = found.layer.to(dtype), dtype
    return found
