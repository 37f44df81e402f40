"""What CUDA refuses, and the pretended GPU with it: other devices, draws, kernels.

Each check raises a RuntimeError in CUDA's words, and names the operation.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

# CUDA takes CPU tensors as indices, and to fill with where they hold one number.
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
FILLING = {"fill", "fill_", "masked_fill", "masked_fill_"} | INDEXING

# What throws, once `use_deterministic_algorithms(True)` is set, by the documentation of
# PyTorch 2.13; here by the operation that does. These do so for some arguments only.
REFUSED_FOR: dict[str, Callable[..., bool]] = {
    "cumsum": lambda x, *_, **__: x.is_floating_point() or x.is_complex(),
    "cumsum_": lambda x, *_, **__: x.is_floating_point() or x.is_complex(),
    "bincount": lambda _, weights=None, *__: weights is not None,
    "scatter_reduce": lambda *args, **_: "prod" in args,
    "scatter_reduce_": lambda *args, **_: "prod" in args,
}
REFUSED = {
    "histc",
    "put_",
    "median.dim_values",
    "nanmedian.dim_values",
    "nll_loss2d_forward",
    "_ctc_loss_backward",
    "grid_sampler_2d_backward",
    "grid_sampler_3d_backward",
    "max_unpool2d",
    "max_unpool3d",
    "avg_pool3d_backward",
    "adaptive_max_pool2d_backward",
    "_adaptive_avg_pool2d_backward",
    "_adaptive_avg_pool3d_backward",
    "fractional_max_pool2d_backward",
    "fractional_max_pool3d_backward",
    "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "reflection_pad3d_backward",
    "upsample_linear1d_backward",
    "upsample_bilinear2d_backward",
    "upsample_bicubic2d_backward",
    "upsample_trilinear3d_backward",
}


def device_check(op: OpOverload, here: str) -> Callable[[Any, Any], None]:
    """Return a check of an operation's arguments: all tensors are on the device."""
    name = op._schema.name.removeprefix("aten::")
    indices = 1 if name in INDEXING else None  # the place of the argument
    numbers = name in FILLING or torch.Tag.pointwise in op.tags
    changed = {
        place
        for place, argument in enumerate(op._schema.arguments)
        if argument.alias_info and argument.alias_info.is_write
    }

    def look(place: int, argument: Any) -> None:
        if isinstance(argument, Tensor):
            if argument.is_cpu or argument.is_meta:
                number = argument.is_cpu and argument.ndim == 0
                if not number or not numbers or place in changed:
                    _refuse_tensor(name, argument, here)
        elif isinstance(argument, list | tuple):
            if place != indices:
                for part in argument:
                    look(place, part)
        elif isinstance(argument, torch.Generator):
            _check_generator(name, argument, here)

    def check(args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
        for place, argument in enumerate(args):
            look(place, argument)
        for argument in kwargs.values():
            look(-1, argument)

    return check


def repeat_check(op: OpOverload) -> Callable[..., None] | None:
    """Return a check of an operation without a repeatable kernel; None for others."""
    full = op._schema.name.removeprefix("aten::")
    with_overload = f"{full}.{op._schema.overload_name}"
    refused_for = REFUSED_FOR.get(full)
    if refused_for is None and not REFUSED & {full, with_overload}:
        return None

    def check(*args: Any, **kwargs: Any) -> None:
        if not torch.are_deterministic_algorithms_enabled():
            return
        if refused_for is None or refused_for(*args, **kwargs):
            raise RuntimeError(
                f"{full} does not have a deterministic implementation on CUDA, but you "
                "set 'torch.use_deterministic_algorithms(True)'"
            )

    return check


def _refuse_tensor(name: str, tensor: Tensor, here: str) -> None:
    raise RuntimeError(
        "Expected all tensors to be on the same device, but found at least two "
        f"devices, {here}:0 and {tensor.device}! (in {name}, which got a tensor of "
        f"shape {tuple(tensor.shape)} there)"
    )


def _check_generator(name: str, generator: torch.Generator, here: str) -> None:
    if generator.device.type != here:
        raise RuntimeError(
            f"Expected a '{here}' device type for generator but found "
            f"'{generator.device.type}' (in {name})"
        )
