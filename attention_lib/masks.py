"""Masks: which query may attend to which key.

One convention for the whole book: masks are boolean, True means "may attend", rows are
queries and columns are keys. A mask has no axis for heads; layers add it.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attention_lib.validation import (
    require_flags,
    require_key_positions,
    require_lengths,
    require_mask,
    require_masks,
    require_positive,
)


def causal_mask(
    query_len: int,
    key_len: int | None = None,
    *,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "Q K"]:
    """Let each query attend to the keys up to its own position, and to none after it.

    The last query is aligned with the last key (bottom-right alignment), as in
    decoding, where the keys of earlier steps are kept. With more queries than keys, the
    first rows see nothing.

    Args:
        query_len: rows.
        key_len: columns; the number of rows when left out.
        device: where the mask is made.

    Raises:
        TypeError: a length that is not an int.
        ValueError: a length below 1.
    """
    key_len = query_len if key_len is None else key_len
    require_positive(query_len=query_len, key_len=key_len)
    key_position = torch.arange(key_len, device=device)
    query_position = torch.arange(key_len - query_len, key_len, device=device)
    return key_position <= query_position[:, None]  # (K,) against (Q, 1)


def sliding_window_mask(
    query_len: int,
    window: int,
    key_len: int | None = None,
    *,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "Q K"]:
    """Let each query attend to its own position and the ``window - 1`` before it.

    Aligned as ``causal_mask``: the local attention of Beltagy et al. (2020), causal.

    Args:
        query_len: rows.
        window: how many keys a query sees at most, its own included.
        key_len: columns; the number of rows when left out.
        device: where the mask is made.

    Raises:
        TypeError: a length or window that is not an int.
        ValueError: a length or window below 1.
    """
    require_positive(window=window)
    causal = causal_mask(query_len, key_len, device=device)
    # What was visible `window` positions earlier has left the window.
    return causal & ~causal.tril(causal.shape[1] - causal.shape[0] - window)


def window_mask_at(
    query_positions: Int[Tensor, "*B Q"],
    key_positions: Int[Tensor, "*B K"],
    window: int,
) -> Bool[Tensor, "*B Q K"]:
    """Let each query attend to the last ``window`` positions.

    ``sliding_window_mask`` counts columns; this mask counts positions, so padding
    between the tokens of a text does not shorten the window. The padding must be hidden
    by another mask. Columns are in the order of the text: the last query belongs to the
    last key, and later columns are hidden.

    Args:
        query_positions: the position of each query in its own text.
        key_positions: the position of each key; those of the queries come last.
        window: how many positions a query sees at most, its own included.

    Raises:
        TypeError: positions that are not whole numbers in a tensor; a number that is
            not an int.
        ValueError: a window below 1; on the CPU, keys that do not end with the
            positions of the queries.
    """
    require_key_positions(query_positions, key_positions)
    require_positive(window=window)
    keys = key_positions[..., None, :]  # (*B, 1, K)
    near = query_positions[..., :, None] - keys < window  # (*B, Q, K)
    sizes = query_positions.shape[-1], key_positions.shape[-1]
    return near & causal_mask(*sizes, device=key_positions.device)


def padding_mask(
    lengths: Int[Tensor, " B"],
    max_len: int,
    *,
    side: Literal["left", "right"] = "right",
) -> Bool[Tensor, "B 1 K"]:
    """Hide the padding of a batch from every query: its keys, that is, its columns.

    The values of the lengths are not read, so a compiler and a GPU need not wait. A
    length above ``max_len`` counts as ``max_len``, and one below 0 as 0.

    Args:
        lengths: how many real tokens each sequence has, 0 to ``max_len``.
        max_len: the length that all were padded to.
        side: where the padding is.

    Raises:
        TypeError: lengths that are not whole numbers in a tensor.
        ValueError: lengths that do not have exactly one axis; an unknown side.
    """
    require_lengths(lengths, max_len, side)
    position = torch.arange(max_len, device=lengths.device)
    if side == "left":
        position = position.flip(0)
    return (position < lengths[:, None])[:, None, :]  # (B, K) -> (B, 1, K)


def combine_masks(*masks: Bool[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """Let a query attend to a key only where every mask does.

    Args:
        *masks: at least one; shapes that broadcast, such as (Q, K) and (B, 1, K).

    Raises:
        TypeError: a mask that is not a boolean tensor, or is on a different device.
        ValueError: no masks; shapes that do not broadcast.
    """
    require_masks(masks)
    combined = masks[0]
    for mask in masks[1:]:
        combined = combined & mask
    return combined


def with_causal(
    mask: Bool[Tensor, "..."] | None, causal: bool, query: Tensor, key: Tensor
) -> Bool[Tensor, "..."] | None:
    """Return a layer's mask, combined with the causal one if ``causal`` is set.

    Args:
        mask: the layer's argument.
        causal: whether no query may see a key after its own position.
        query: (..., Q, D): one row of the mask per query.
        key: (..., K, D): one column of the mask per key.

    Raises:
        TypeError: a choice that is not True or False; a mask that is not boolean.
        ValueError: a mask that does not fit to (Q, K).
    """
    require_flags(causal=causal)
    if not causal:
        return mask
    future_hidden = causal_mask(query.shape[-2], key.shape[-2], device=query.device)
    if mask is None:
        return future_hidden
    require_mask(mask, (*query.shape[:-1], key.shape[-2]), like=query)
    return combine_masks(mask, future_hidden)
