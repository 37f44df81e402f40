"""Shared by the checks: numbers, kinds and types, devices."""

import sys
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

_is_tracing: Any = torch.jit.is_tracing  # type: ignore[attr-defined]
INTS = int, torch.SymInt  # the second while a compiler traces a layer
# Arguments that are not made by embedding ids, or by converting numbers.
MADE = {
    "angles": "make them with `rope_angles(positions, head_dim)`",
    "logits": "pass the scores that the model returns",
}


def is_traced(tensor: Tensor) -> bool:
    """Return whether a tensor has no values yet: a tracer or ``vmap`` holds it."""
    wrapped: Any = torch._C._functorch.is_functorch_wrapped_tensor
    held = isinstance(tensor, FakeTensor) or wrapped(tensor)
    return tensor.is_meta or held or get_proxy_mode() is not None


def is_readable(tensor: Tensor) -> bool:
    """Return whether reading values costs nothing: on the CPU, and not while traced."""
    if torch.compiler.is_compiling() or tensor.device.type != "cpu":
        return False
    return not is_traced(tensor)


def require_int(name: str, number: Any) -> None:
    if isinstance(number, Tensor) and _is_tracing():
        return  # a size
    if isinstance(number, bool) or not isinstance(number, INTS):
        hint = ": convert it with `int(...)`" * isinstance(number, np.integer)
        raise TypeError(f"{name} must be an int; got {_received(number)}{hint}")


def _received(number: Any) -> str:
    if shape := getattr(number, "shape", ()):
        return f"{type(number).__name__} of shape {tuple(shape)}"
    return repr(number)


def require_between(name: str, number: Any, least: int, most: int, words: str) -> None:
    require_int(name, number)
    if not least <= number <= most:
        raise ValueError(f"{name} must be between {least} and {words}; got {number}")


def require_number(
    name: str, number: Any, wanted: str, fits: Callable[[Any], bool], hint: str = ""
) -> None:
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"{name} must be a number; got {_received(number)}")
    # A whole number may be larger than every float.
    huge = isinstance(number, int) and abs(number) > sys.float_info.max
    if huge or not fits(number):
        received = "an int outside float64" if huge else number
        raise ValueError(f"{name} must be {wanted}; got {received}{hint}")


def require_kind(name: str, array: Any, kind: type[Any]) -> None:
    if not isinstance(array, kind):
        raise TypeError(
            f"{name} must be a {kind.__module__}.{kind.__name__}; "
            f"got {type(array).__name__}"
        )


def require_floats(name: str, array: Any, kind: type[Any] = Tensor) -> None:
    if kind is Tensor and type(array) is Tensor and array.dtype.is_floating_point:
        return  # the usual case, tested first because each layer comes here
    require_kind(name, array, kind)
    if not (
        array.dtype.is_floating_point
        if isinstance(array, Tensor)
        else array.dtype.kind == "f"
    ):
        ids = array.dtype in (torch.int64, torch.int32)
        hint = "embed token ids first, or convert numbers" if ids else "convert it"
        hint = MADE.get(name, f"{hint} with `.float()`")
        if array.dtype == torch.bool:
            hint = "a mask is given as `mask`; convert others with `.float()`"
        raise TypeError(f"{name} must hold floats; got {array.dtype}: {hint}")


def require_whole(name: str, ids: Any, hint: str = "") -> None:
    received = ids.dtype if isinstance(ids, Tensor) else type(ids).__name__
    if received not in (torch.int32, torch.int64):
        raise TypeError(f"{name} must be a tensor of int64; got {received}{hint}")


def require_same_type(name: str, array: Any, of: str, like: Any) -> None:
    if array.dtype != like.dtype:
        require_floats(name, array, type(array))
        # Under autocast, PyTorch itself converts the types.
        if not (isinstance(array, Tensor) and is_autocast(array.device.type)):
            raise TypeError(
                f"{name} must have the type of {of}, {like.dtype}; got {array.dtype}: "
                "convert one to the other's type"
            )
    require_same_device(name, array, of, like)


def is_autocast(device: str) -> bool:
    return device != "meta" and torch.is_autocast_enabled(device)


def require_same_device(name: str, array: Any, of: str, like: Any) -> None:
    if isinstance(like, Tensor) and array.device != like.device:
        raise TypeError(
            f"{name} must be on the device of {of}, {like.device}; got {array.device}: "
            "move it with `.to(device)`"
        )


def refuse_axes(name: str, array: Any) -> None:
    shape = tuple(array.shape)
    if len(shape) < 2:
        raise ValueError(
            f"{name} must have at least two axes, (length, width); got {shape}: write "
            f"a single vector as one row, `{name}[None, :]`"
        )
    raise ValueError(
        f"{name} has an axis of length zero, {shape}: leave empty batches and "
        "sequences out"
    )


def broadcasts(shape: Sequence[int], wanted: Sequence[int], until: int = 0) -> bool:
    """Return whether a shape can be expanded to the one that is wanted.

    Args:
        shape: the shape at hand.
        wanted: the shape to expand it to.
        until: the index of the first axis that does not count, as a negative number.
    """
    if not until and shape == wanted[-len(shape) :]:
        return True  # the usual case
    if len(shape) > len(wanted):
        return False
    for axis in range(-len(shape), until):
        if shape[axis] != wanted[axis] and shape[axis] != 1:
            return False
    return True
