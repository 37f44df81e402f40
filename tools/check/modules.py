"""Moving a module to the pretended GPU: its parameters stay the objects they were.

On CUDA, `.to(device)` fills the parameters that are there, so tied weights stay tied,
and an optimiser made before keeps them. For a device in Python, PyTorch makes new ones.
Here these become the old objects again, or at least stay tied where they were.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def keeping_parameters(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Return `nn.Module._apply`, which all moves and conversions call, mended."""
    within = False  # it calls itself for each part of a module

    def apply(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal within
        if within:
            return usual(module, *args, **kwargs)
        places = [
            (part._parameters, name, old)
            for part in module.modules()
            for name, old in part._parameters.items()
            if old is not None
        ]
        within = True
        try:
            usual(module, *args, **kwargs)
        finally:
            within = False
        kept: dict[int, Any] = {}
        for home, name, old in places:
            new = home[name]
            if new is not old:
                home[name] = kept.setdefault(id(old), new)
        for home, name, old in places:
            if id(old) in kept:
                home[name] = kept[id(old)] = _taken_over(old, kept[id(old)])
        return module

    return apply


def _taken_over(old: nn.Parameter, new: Any) -> Any:
    """Return the old object with the new content; where a graph holds it, the new."""
    if old is not new:
        try:
            torch.utils.swap_tensors(old, new)
        except RuntimeError:
            return new
    return old
