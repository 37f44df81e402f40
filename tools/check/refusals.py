"""What CUDA refuses, and the pretended GPU with it: other devices, draws, kernels.

Each check raises a RuntimeError in CUDA's words, and names the operation.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

Check = Callable[[tuple[Any, ...], dict[str, Any]], None]

# CUDA takes CPU tensors as indices, and to fill with where they hold one number.
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
FILLING = {"fill", "fill_", "masked_fill", "masked_fill_"} | INDEXING

# What throws, once `use_deterministic_algorithms(True)` is set, by the documentation of
# PyTorch 2.13; here by the operation that does. Layers for images and sound are left
# out: no chapter has any. The last ones throw for some arguments only.
REFUSED = {
    *("histc", "put_", "median.dim_values", "nanmedian.dim_values"),
    *("nll_loss2d_forward", "_ctc_loss_backward", "upsample_bicubic2d_backward"),
}
REFUSED_FOR: dict[str, Callable[..., bool]] = {
    "cumsum": lambda x, *_, **__: x.is_floating_point() or x.is_complex(),
    "cumsum_": lambda x, *_, **__: x.is_floating_point() or x.is_complex(),
    "bincount": lambda _, weights=None, *__: weights is not None,
    "scatter_reduce": lambda *args, **_: "prod" in args,
    "scatter_reduce_": lambda *args, **_: "prod" in args,
}


def device_check(op: OpOverload, here: str) -> Check:
    """Return a check of an operation's arguments: all tensors are on the device."""
    name = op._schema.name.removeprefix("aten::")
    numbers = name in FILLING or torch.Tag.pointwise in op.tags
    changed = {
        place
        for place, argument in enumerate(op._schema.arguments)
        if argument.alias_info and argument.alias_info.is_write
    }

    def look(place: int, argument: Any) -> None:
        if isinstance(argument, Tensor):
            number = argument.is_cpu and argument.ndim == 0
            allowed = number and numbers and place not in changed
            if argument.device.type != here and not allowed:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least "
                    f"two devices, {here}:0 and {argument.device}! (in {name}, which "
                    f"got a tensor of shape {tuple(argument.shape)} there)"
                )
        elif isinstance(argument, list | tuple):
            if name not in INDEXING or place != 1:
                for part in argument:
                    look(place, part)
        elif isinstance(argument, torch.Generator) and argument.device.type != here:
            raise RuntimeError(
                f"Expected a '{here}' device type for generator but found "
                f"'{argument.device.type}' (in {name})"
            )

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for place, argument in enumerate(args):
            look(place, argument)
        for argument in kwargs.values():
            look(-1, argument)

    return check


def repeat_check(op: OpOverload) -> list[Check]:
    """Return the check of an operation without a repeatable kernel; none for others."""
    full = op._schema.name.removeprefix("aten::")
    refused_for = REFUSED_FOR.get(full)
    if refused_for is None and not REFUSED & {full, f"{full}.{op._overloadname}"}:
        return []

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.are_deterministic_algorithms_enabled() and (
            refused_for is None or refused_for(*args, **kwargs)
        ):
            raise RuntimeError(
                f"{full} does not have a deterministic implementation on CUDA, but you "
                "set 'torch.use_deterministic_algorithms(True)'"
            )

    return [check]
