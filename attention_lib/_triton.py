"""Triton, where it is installed: what the modules with kernels share.

Kernels need Triton (``pip install triton``, on Linux) and tensors on a GPU. With
TRITON_INTERPRET=1 set before Triton is first imported, they run on a CPU, slowly, for
tests.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from torch import Tensor

triton: Any = import_module("triton") if find_spec("triton") else None
tl: Any = import_module("triton.language") if triton else None


def jit(function: Callable[..., Any]) -> Any:
    """Make a kernel of a function, or leave it as it is where there is no Triton."""
    return function if triton is None else triton.jit(function)


def require_runnable(kernel: Any, **tensor: Tensor) -> None:
    """Raise unless a kernel can run where this tensor is."""
    ((name, x),) = tensor.items()
    if triton is None:
        raise ModuleNotFoundError(
            "this kernel needs Triton: pip install triton (Linux only)", name="triton"
        )
    interpreted = not hasattr(kernel, "device_caches")
    if not interpreted and not x.is_cuda:
        raise ValueError(
            f"{name} must be on a GPU, or TRITON_INTERPRET=1 be set before Triton is "
            f"imported; got a tensor on {x.device}"
        )
