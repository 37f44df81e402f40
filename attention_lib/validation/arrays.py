"""Queries, keys and values, masks, and scores in NumPy."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attention_lib.validation._common import (
    broadcasts,
    is_readable,
    refuse_axes,
    require_floats,
    require_int,
    require_kind,
    require_number,
    require_same_device,
    require_same_type,
    require_whole,
)
from attention_lib.validation.sizes import require_above_zero, require_positive

LARGEST = torch.finfo(torch.float32).max


def require_inputs(
    query: Any,
    key: Any,
    value: Any = None,
    mask: Any = None,
    *,
    scale: Any = None,
    kind: type = Tensor,
) -> None:
    """Check the arguments of attention, before anything is computed.

    Args:
        query: (..., Q, D).
        key: (..., K, D); its leading axes broadcast to the query's.
        value: (..., K, V), where there is one; likewise.
        mask: boolean, broadcasts to (..., Q, K), where there is one.
        scale: a finite number, where there is one.
        kind: what the arrays must be, ``Tensor`` or ``np.ndarray``.
    """
    require_floats("query", query, kind)
    shape = query.shape
    if len(shape) < 2 or 0 in shape:
        refuse_axes("query", query)
    _require_like_query("key", key, query, kind)
    key_shape = key.shape
    # Axis by axis: comparing whole shapes would fix the lengths in an export.
    _require_leading("key", key, query)
    if shape[-1] != key_shape[-1]:
        raise ValueError(
            f"query and key must have the same width; got query {tuple(shape)} "
            f"and key {tuple(key_shape)}: project both to one head_dim"
        )
    if value is not None:
        require_value(query, key, value, kind=kind)
    if mask is not None:
        *rows, _ = shape
        require_mask(mask, (*rows, key_shape[-2]), like=query)
    if scale is not None:
        # math.isfinite would stop torch.compile with sizes that vary.
        require_number("scale", scale, "finite in float32", lambda n: abs(n) <= LARGEST)


def require_value(query: Any, key: Any, value: Any, *, kind: type = Tensor) -> None:
    """Check that values go with a query and a key that fit together."""
    _require_like_query("value", value, query, kind)
    if value.shape == key.shape:  # and the key fits the query
        return
    _require_leading("value", value, query)
    if value.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"key and value must have the same length; got key {tuple(key.shape)} and "
            f"value {tuple(value.shape)}: each key needs exactly one value"
        )


def require_mask(
    mask: Any, scores_shape: tuple[int, ...], *, like: Any, name: str = "mask"
) -> None:
    """Check that a mask is boolean and broadcasts to the scores.

    Args:
        mask: the argument.
        scores_shape: (..., Q, K), which the mask may not enlarge.
        like: an array whose kind and device the mask must share.
        name: of the mask, for the error.
    """
    both = type(mask) is Tensor and type(like) is Tensor
    if not both or mask.dtype is not torch.bool or mask.device != like.device:
        _require_boolean(name, mask)
        require_kind(name, mask, Tensor if isinstance(like, Tensor) else np.ndarray)
        require_same_device(name, mask, "the query", like)
    if not broadcasts(mask.shape, scores_shape):
        hint = "rows are queries, columns are keys"
        if tuple(mask.shape) == (scores_shape[0], scores_shape[-1]):
            ones = len(scores_shape) - 2
            axes = ", ".join(["batch", *"1" * ones, "keys"])
            hint = f"padding is ({axes}): `{name}[:{', None' * ones}]`"
        elif len(scores_shape) == 4 == mask.ndim and mask.shape[0] > scores_shape[0]:
            batch, heads = scores_shape[:2]  # three axes got one for the heads
            if mask.shape[1] == 1 and mask.shape[0] in (heads, batch * heads):
                hint = "one mask per head is (batch, heads, queries, keys)"
        raise ValueError(
            f"{name} {tuple(mask.shape)} does not broadcast to the scores "
            f"{tuple(scores_shape)}: {hint}"
        )


def require_masks(masks: Sequence[Any]) -> None:
    """Check that there are masks: boolean, on one device, broadcastable together."""
    if not masks:
        raise ValueError("combine_masks needs at least one mask")
    for mask in masks:
        _require_boolean("masks", mask)
        require_kind("each mask", mask, Tensor)
        require_same_device("each mask", mask, "the first", masks[0])
    for one, other in combinations(masks, 2):
        sizes = zip(reversed(one.shape), reversed(other.shape), strict=False)
        if not all(a == b or a == 1 or b == 1 for a, b in sizes):
            shapes = " and ".join(str(tuple(mask.shape)) for mask in masks)
            raise ValueError(f"masks do not broadcast: {shapes}")


def require_lengths(lengths: Any, max_len: int, side: str = "right") -> None:
    """Check the arguments of a padding mask, but not the values of the lengths."""
    require_positive(max_len=max_len)
    require_whole("lengths", lengths, ": `torch.tensor([3, 5])`")
    if lengths.ndim != 1 or lengths.shape[0] == 0:
        raise ValueError(
            f"lengths must be (batch,), one per sequence; got {tuple(lengths.shape)}"
        )
    if side not in ("left", "right"):
        raise ValueError(f'side must be "left" or "right"; got {side!r}')


def require_key_positions(query_positions: Any, key_positions: Any) -> None:
    """Check the positions of queries (..., Q) and of keys (..., K): whole numbers."""
    both = {"query_positions": query_positions, "key_positions": key_positions}
    for name, positions in both.items():
        require_whole(name, positions)
        require_same_device(name, positions, "query_positions", query_positions)
        if positions.ndim == 0 or positions.shape[-1] == 0:
            raise ValueError(
                f"{name} must be (..., length), with at least one position; got "
                f"{tuple(positions.shape)}"
            )
    leading = query_positions.shape[:-1], key_positions.shape[:-1]
    sizes = zip(*(reversed(axes) for axes in leading), strict=False)
    if not all(a == b or 1 in (a, b) for a, b in sizes):
        raise ValueError(
            "query_positions and key_positions must be of the same texts; got "
            f"{tuple(query_positions.shape)} and {tuple(key_positions.shape)}"
        )
    count = query_positions.shape[-1]
    if not (is_readable(query_positions) and is_readable(key_positions)):
        return
    last = key_positions[..., -count:]
    same = last.shape == query_positions.shape  # and the same memory, as in a layer
    same = same and last.data_ptr() == query_positions.data_ptr()
    if not same and (last.shape[-1] != count or (last != query_positions).any()):
        raise ValueError(
            "key_positions must end with the query_positions; got "
            f"{tuple(key_positions.shape)} for {tuple(query_positions.shape)} queries, "
            "or other numbers"
        )


def require_scores(x: np.ndarray, axis: int, temperature: float) -> None:
    """Check the arguments of a softmax in NumPy, its values too: no NaN, no +inf."""
    require_int("axis", axis)
    require_above_zero(temperature=temperature)
    if not -x.ndim <= axis < x.ndim or x.shape[axis] == 0:
        raise ValueError(f"x has no numbers along axis {axis}: {x.shape}")
    if np.isnan(x).any() or np.isposinf(x).any():
        raise ValueError("x holds NaN or +inf: check how the scores were computed")


def as_floats(name: str, array: Any) -> np.ndarray:
    """Return an array of floats: whole numbers become float64, floats stay as they are.

    Booleans are refused, since NumPy would multiply them as in logic.
    """
    array = np.asarray(array)
    if array.dtype.kind in "iu":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise TypeError(
            f"{name} must hold numbers; got {array.dtype}: convert booleans with "
            "`.astype(float)`"
        )
    return array


def _require_boolean(name: str, mask: Any) -> None:
    dtype = getattr(mask, "dtype", None)
    if dtype is not torch.bool and (dtype is None or dtype != np.bool_):
        received = f"{type(mask).__name__}, not a tensor" if dtype is None else dtype
        hint = (
            "turn an additive mask of 0 and -inf into `mask == 0`, a 0/1 mask into "
            "`mask == 1`"
        )
        if isinstance(mask, bool):
            hint = "`causal=True` of a layer, or `causal_mask`, hides the future"
        elif isinstance(mask, list | tuple):
            hint = "make one tensor of it; several masks are `combine_masks(*masks)`"
        elif dtype is None:
            hint = "make a tensor of True and False, or leave it out"
        raise TypeError(
            f"{name} must be boolean (True: may attend); got {received}: {hint}"
        )


def _require_like_query(name: str, array: Any, query: Any, kind: type) -> None:
    """Check that keys or values are of the kind, type and device of the query."""
    both = type(array) is kind is Tensor
    if not both or array.dtype != query.dtype or array.device != query.device:
        require_kind(name, array, kind)
        require_same_type(name, array, "the query", query)


def _require_leading(name: str, array: Any, query: Any) -> None:
    shape = array.shape
    if len(shape) < 2 or 0 in shape:
        refuse_axes(name, array)
    if not broadcasts(shape, query.shape, until=-2):
        raise ValueError(
            f"the leading axes of {name}, {tuple(shape[:-2])}, do not broadcast to the "
            f"query's, {tuple(query.shape[:-2])}: each must be equal or 1"
        )


def require_sequence(query: Any, key: Any, value: Any, **numbers: Any) -> None:
    """Check (..., T, D) twice and (..., T, V), and numbers of shape (..., T)."""
    require_inputs(query, key, value)
    require_value(query, key, value)
    if query.shape != key.shape or key.shape[:-1] != value.shape[:-1]:
        raise ValueError(
            "query, key and value must have the same length; got "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    for name, number in numbers.items():
        require_kind(name, number, Tensor)
        require_same_type(name, number, "the query", query)
        if number.shape != query.shape[:-1]:
            raise ValueError(
                f"{name} must hold one number per token, {tuple(query.shape[:-1])}; "
                f"got {tuple(number.shape)}"
            )


def require_state(query: Any, key: Any, value: Any, state: Any, **numbers: Any) -> None:
    """Check (..., T, D) twice, (..., T, V), a state (..., D, V), numbers (..., T, 1).

    Types may differ: a state is kept in float32.
    """
    given = {"query": query, "key": key, "value": value, "state": state, **numbers}
    for name, array in given.items():
        require_floats(name, array)
        require_same_device(name, array, "the query", query)
        if array.ndim < 2:
            refuse_axes(name, array)
    *rows, width = query.shape
    value_dim = value.shape[-1]
    wanted = {"key": (*rows, width), "value": (*rows, value_dim)}
    wanted["state"] = (*rows[:-1], width, value_dim)
    wanted |= dict.fromkeys(numbers, (*rows, 1))
    for name, shape in wanted.items():
        if given[name].shape != shape:
            raise ValueError(
                f"{name} must be {tuple(shape)} for a query {tuple(query.shape)}; got "
                f"{tuple(given[name].shape)}"
            )


def require_context(shape: Any) -> None:
    """Check the shape of a result, (..., Q, V)."""
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise TypeError(f"shape must be a tuple of ints; got {shape!r}")
    for size in shape:
        require_positive(**{"each size of shape": size})
    if len(shape) < 2:
        raise ValueError(f"shape must be (..., Q, V); got {tuple(shape)}")


def require_piece(scores: Any, value: Any, context: Tensor) -> None:
    """Check scores (..., Q, K) and values (..., K, V) that go into a context."""
    require_table(scores)
    require_floats("value", value)
    for name, array in (("scores", scores), ("value", value)):
        require_same_device(name, array, "the sums", context)
    *rows, value_dim = context.shape
    if scores.shape[:-1] != (*rows,):
        raise ValueError(
            f"scores must be ({', '.join(map(str, rows))}, K) for a result "
            f"{tuple(context.shape)}; got {tuple(scores.shape)}"
        )
    fits = (*rows[:-1], scores.shape[-1], value_dim)
    whole = value.shape[-2:] == fits[-2:]
    if not whole or not broadcasts(value.shape, fits, until=-2):
        raise ValueError(
            f"value must be {fits}, one row for each column of the scores; got "
            f"{tuple(value.shape)}"
        )


def require_table(scores: Any) -> None:
    """Check a table of scores, (..., Q, K)."""
    require_floats("scores", scores)
    if scores.ndim < 2 or 0 in scores.shape:
        raise ValueError(f"scores must be (..., Q, K); got {tuple(scores.shape)}")
