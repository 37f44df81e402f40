"""What a layer costs: operations, and bytes that training keeps.

A multiplication and the addition after it are two floating-point operations (FLOPs).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from attention_lib.validation import require_function


def count_flops(function: Callable[..., Any], *inputs: Any) -> int:
    """Counts the FLOPs of matrix products in one call.

    PyTorch's counter says 0 for its fused kernel on a CPU, and for the fast path that
    ``nn.MultiheadAttention`` takes without gradients, so the call runs without both.

    Raises:
        TypeError: no function.
    """
    require_function("function", function)
    inputs = tuple(
        each.detach().requires_grad_() if _is_floats(each) else each for each in inputs
    )
    counter = FlopCounterMode(display=False)
    with torch.enable_grad(), counter, sdpa_kernel(SDPBackend.MATH):
        function(*inputs)
    return int(counter.get_total_flops())


def saved_bytes(function: Callable[..., Tensor], *inputs: Any) -> int:
    """Counts the bytes that a call keeps for its gradients.

    Each piece of memory counts once, however many tensors look at it. Parameters and
    inputs do not count: they are there in any case.

    Raises:
        TypeError: no function.
    """
    require_function("function", function)
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    own = {t.untyped_storage().data_ptr() for t in inputs if isinstance(t, Tensor)}
    if isinstance(function, nn.Module):
        own |= {p.untyped_storage().data_ptr() for p in function.parameters()}
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function(*inputs)
    del result
    return sum(size for place, size in kept.items() if place not in own)


def _is_floats(each: Any) -> bool:
    return isinstance(each, Tensor) and each.is_floating_point()
