"""Whether a module does only what its class says, so that its weights may be used.

A layer calls its parts, so that an adapter, a hook or a different module in the place
of a part acts and learns. Only the weights of a plain part may be used directly.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypeGuard, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

Kind = TypeVar("Kind", bound=nn.Module)

_WEIGHTED = nn.Linear, NonDynamicallyQuantizableLinear, nn.LayerNorm, nn.Embedding


def is_unmodified(module: nn.Module, kind: type[Kind]) -> TypeGuard[Kind]:
    """Return whether a call of a module does nothing but the ``forward`` of this class.

    It does more, or something else, if it has hooks or a parametrisation, was compiled,
    got a different ``forward``, or was replaced by a different module.
    """
    return (
        type(module) is kind
        and not is_hooked(module)
        and "forward" not in vars(module)
        and module._compiled_call_impl is None
    )


def is_hooked(module: nn.Module) -> bool:
    """Return whether a module has hooks.

    Hooks on all modules do not count: tools that count operations set them.
    """
    own = vars(module)  # layers ask at each call: no lookup through __getattr__
    return bool(
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
    )


def uncompiled(module: Any) -> Any:
    """Return the module that ``torch.compile`` wrapped, or the object as it is."""
    return getattr(module, "_orig_mod", module)


def takes(module: nn.Module, name: str) -> bool:
    """Return whether the call of a module has a parameter of this name.

    A wrapper around a module, such as a compiled one, names none.
    """
    return name in inspect.signature(module.forward).parameters


def weight_of(part: nn.Module) -> Tensor | None:
    """Return the weight of one of PyTorch's own layers; None of any other module.

    Other modules may compute their weight on request, or hold packed bits.
    """
    return part.weight if type(part) in _WEIGHTED else None  # type: ignore[return-value]


def inlined(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return a plain layer of PyTorch as a function with its weights at hand.

    It computes the same numbers in less time, which counts where a single token is
    read. Any other module is returned as it is.
    """
    if isinstance(module, nn.Linear) and is_unmodified(module, nn.Linear):
        return partial(F.linear, weight=module.weight, bias=module.bias)
    if isinstance(module, nn.LayerNorm) and is_unmodified(module, nn.LayerNorm):
        weight, bias, eps = module.weight, module.bias, module.eps
        shape = list(module.normalized_shape)
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return module


def placement(layer: nn.Module) -> dict[str, Any]:
    """Return the device and the type of a layer's weights, for tensors to go with them.

    They are those of its largest float parameter: an adapter beside it may differ, and
    quantised weights are not computed with.
    """
    floats = [own for own in layer.parameters() if own.is_floating_point()]
    wide = [own for own in floats if own.dtype.itemsize > 1]  # 8 bits only store
    if not wide:
        return {}
    largest = max(wide, key=Tensor.numel)
    return {"device": largest.device, "dtype": largest.dtype}
