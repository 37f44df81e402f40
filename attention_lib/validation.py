"""Refuse bad input early, in words: which argument, what came, what was wanted.

What layers check on each call reads shapes, types and devices only, never values: it
costs nothing on a GPU and holds on ``meta``. NumPy arrays and tensors are served alike.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def check_inputs(
    query: Any, key: Any, value: Any = None, mask: Any = None, *, kind: type = Tensor
) -> None:
    """Checks what attention gets, before anything is computed.

    Args:
        query: (..., Q, D).
        key: (..., K, D); its leading axes broadcast to the query's.
        value: (..., K, V), where there is one; likewise.
        mask: boolean, broadcasts to (..., Q, K), where there is one.
        kind: what all of them must be, ``Tensor`` or ``np.ndarray``.

    Raises:
        TypeError: an argument of another kind, type or device than wanted.
        ValueError: shapes that do not fit together, or an axis of length zero.
    """
    named = {"query": query, "key": key} | ({} if value is None else {"value": value})
    for name, array in named.items():
        _check_kind(name, array, kind)
        _check_same_type(name, array, "the query", query)
        _check_axes(name, array)
        _check_broadcasts(name, array.shape[:-2], query.shape[:-2])
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"query and key must have the same width; got query {tuple(query.shape)} "
            f"and key {tuple(key.shape)}: project both to one head_dim"
        )
    if value is not None and value.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"key and value must have the same length; got key {tuple(key.shape)} and "
            f"value {tuple(value.shape)}: each key needs exactly one value"
        )
    if mask is not None:
        check_mask(mask, (*query.shape[:-1], key.shape[-2]), like=query)


def check_mask(mask: Any, scores_shape: tuple[int, ...], *, like: Any) -> None:
    """Checks that a mask is boolean and broadcasts to the scores.

    Args:
        mask: what came.
        scores_shape: (..., Q, K), which the mask may not enlarge.
        like: an array whose kind and device the mask must share.

    Raises:
        TypeError: not boolean, or of another kind or device than ``like``.
        ValueError: a shape that does not broadcast to ``scores_shape``.
    """
    if str(getattr(mask, "dtype", "")) not in ("bool", "torch.bool"):
        came = getattr(mask, "dtype", type(mask).__name__)
        raise TypeError(
            f"mask must be boolean (True: may attend); got {came}: turn an additive "
            "mask of 0 and -inf into `mask == 0`, a 0/1 mask into `mask == 1`"
        )
    _check_kind("mask", mask, Tensor if isinstance(like, Tensor) else np.ndarray)
    _check_same_device("mask", mask, "the query", like)
    if not _broadcasts(mask.shape, scores_shape):
        raise ValueError(
            f"mask {tuple(mask.shape)} does not broadcast to the scores "
            f"{scores_shape}: rows are queries, columns are keys"
        )


def check_masks(masks: Sequence[Any]) -> None:
    """Checks that there are masks, boolean, on one device, that broadcast together.

    Raises:
        TypeError: a mask that is not a boolean tensor, or on another device.
        ValueError: no mask at all; shapes that do not broadcast.
    """
    if not masks:
        raise ValueError("combine_masks needs at least one mask")
    for mask in masks:
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            came = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
            raise TypeError(f"masks must be boolean (True: may attend); got {came}")
        _check_same_device("each mask", mask, "the first", masks[0])
    try:
        np.broadcast_shapes(*(tuple(mask.shape) for mask in masks))
    except ValueError:
        shapes = " and ".join(str(tuple(mask.shape)) for mask in masks)
        raise ValueError(f"masks do not broadcast: {shapes}") from None


def check_lengths(lengths: Any, max_len: int, side: str) -> None:
    """Checks what a padding mask is made from; its values too, except on ``meta``.

    Raises:
        TypeError: lengths that are not whole numbers in a tensor.
        ValueError: lengths with another number of axes, or outside 0 to ``max_len``;
            a side that is neither left nor right.
    """
    check_positive(max_len=max_len)
    came = lengths.dtype if isinstance(lengths, Tensor) else type(lengths).__name__
    if came not in (torch.int32, torch.int64):
        raise TypeError(
            f"lengths must be a tensor of int64; got {came}: `torch.tensor([3, 5])`"
        )
    if lengths.ndim != 1 or len(lengths) == 0:
        raise ValueError(
            f"lengths must be (batch,), one a sequence; got {tuple(lengths.shape)}"
        )
    if side not in ("left", "right"):
        raise ValueError(f'side must be "left" or "right"; got {side!r}')
    if not lengths.is_meta and ((lengths < 0) | (lengths > max_len)).any():
        raise ValueError(
            f"lengths must lie between 0 and max_len {max_len}; got {lengths.tolist()}"
        )


def check_scores(x: np.ndarray, axis: int, temperature: float) -> None:
    """Checks what a softmax in NumPy gets, its values too.

    Raises:
        ValueError: temperature not above 0 and finite; no such axis, or an empty one;
            NaN or +inf among the scores.
    """
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be above 0 and finite; got {temperature}")
    if not -x.ndim <= axis < x.ndim or x.shape[axis] == 0:
        raise ValueError(f"x has nothing to share out along axis {axis}: {x.shape}")
    if np.isnan(x).any() or np.isposinf(x).any():
        raise ValueError("x holds NaN or +inf: look at what made the scores")


def check_tokens(x: Any, weight: Tensor) -> None:
    """Checks that ``x`` is (B, T, M), ready for a layer with this (out, M) weight.

    Raises:
        TypeError: no tensor, or of another type or device than the weight.
        ValueError: another number of axes, another width, or an empty axis.
    """
    _check_kind("x", x, Tensor)
    _check_same_type("x", x, "the layer", weight)
    if x.ndim != 3 or x.shape[-1] != weight.shape[-1]:
        raise ValueError(
            f"x must be (batch, length, {weight.shape[-1]}); got {tuple(x.shape)}: "
            f"this layer was built for d_model={weight.shape[-1]}"
        )
    _check_axes("x", x)


def check_positive(**sizes: int) -> None:
    """Checks that each named size is a whole number of at least 1.

    Raises:
        TypeError: not an ``int``.
        ValueError: below 1.
    """
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"{name} must be an int; got {size!r}")
        if size < 1:
            raise ValueError(f"{name} must be at least 1; got {size}")


def check_dropout(dropout: float) -> None:
    """Checks that a probability to drop lies from 0 to below 1.

    Raises:
        ValueError: it does not.
    """
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be at least 0 and below 1; got {dropout}")


def _check_kind(name: str, array: Any, kind: type[Any]) -> None:
    if not isinstance(array, kind):
        raise TypeError(
            f"{name} must be a {kind.__module__}.{kind.__name__}; "
            f"got {type(array).__name__}"
        )
    if isinstance(array, Tensor) and not (
        array.is_floating_point() or array.dtype == torch.bool
    ):
        raise TypeError(
            f"{name} must hold floats; got {array.dtype}: convert it with `.float()`"
        )


def _check_same_type(name: str, array: Any, of: str, like: Any) -> None:
    if array.dtype != like.dtype:
        raise TypeError(
            f"{name} must have the type of {of}, {like.dtype}; got {array.dtype}: "
            "convert one to the other's type"
        )
    _check_same_device(name, array, of, like)


def _check_same_device(name: str, array: Any, of: str, like: Any) -> None:
    if isinstance(like, Tensor) and array.device != like.device:
        raise TypeError(
            f"{name} must be on the device of {of}, {like.device}; got {array.device}: "
            "move it with `.to(device)`"
        )


def _check_axes(name: str, array: Any) -> None:
    if array.ndim < 2:
        raise ValueError(
            f"{name} must have at least two axes, (length, width); got "
            f"{tuple(array.shape)}: write a single vector as one row, `{name}[None, :]`"
        )
    if 0 in array.shape:
        raise ValueError(
            f"{name} has an axis of length zero, {tuple(array.shape)}: "
            "leave empty batches and sequences out"
        )


def _check_broadcasts(name: str, leading: Any, wanted: Any) -> None:
    if not _broadcasts(leading, wanted):
        raise ValueError(
            f"the leading axes of {name}, {tuple(leading)}, do not broadcast to the "
            f"query's, {tuple(wanted)}: expand the query first"
        )


def _broadcasts(shape: Any, wanted: Any) -> bool:
    try:
        return np.broadcast_shapes(tuple(shape), tuple(wanted)) == tuple(wanted)
    except ValueError:
        return False
