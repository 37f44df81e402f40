"""Attention to a few keys: a window with sinks, and keys chosen by a score.

Masks are boolean, True means "may attend", rows are queries and columns are keys.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention_lib.masks import causal_mask, sliding_window_mask
from attention_lib.validation import (
    require_mask,
    require_not_negative,
    require_positive,
    require_table,
)


def sink_window_mask(
    query_len: int,
    window: int,
    num_sinks: int,
    key_len: int | None = None,
    *,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "Q K"]:
    """Let each query attend to a sliding window and to the first keys of the text.

    Aligned as ``causal_mask``: Xiao et al. (2024), section 3.2.

    Args:
        query_len: rows.
        window: how many keys a query sees at most, its own included, sinks not counted.
        num_sinks: how many keys at the beginning every later query sees.
        key_len: columns; the number of rows when left out.
        device: where the mask is made.

    Raises:
        TypeError: a number that is not an int.
        ValueError: a length or window below 1; a negative num_sinks.
    """
    require_not_negative(num_sinks=num_sinks)
    seen = sliding_window_mask(query_len, window, key_len, device=device)
    sinks = torch.arange(seen.shape[1], device=device) < num_sinks
    return seen | (sinks & causal_mask(query_len, key_len, device=device))


def chunk_mask(
    query_len: int,
    chunk_len: int,
    key_len: int | None = None,
    *,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "Q K"]:
    """Let each query attend to the keys of its own chunk, up to its own position.

    Aligned as ``causal_mask``; the first chunk begins at the first key.

    Args:
        query_len: rows.
        chunk_len: tokens per chunk.
        key_len: columns; the number of rows when left out.
        device: where the mask is made.

    Raises:
        TypeError: a length that is not an int.
        ValueError: a length below 1.
    """
    require_positive(chunk_len=chunk_len)
    key_len = query_len if key_len is None else key_len
    causal = causal_mask(query_len, key_len, device=device)
    key_position = torch.arange(key_len, device=device)
    query_position = torch.arange(key_len - query_len, key_len, device=device)
    same_chunk = key_position // chunk_len == query_position[:, None] // chunk_len
    return causal & same_chunk


def top_k_keys(
    scores: Float[Tensor, "*B Q K"],
    num_keys: int,
    mask: Bool[Tensor, "..."] | None = None,
) -> Bool[Tensor, "*B Q K"]:
    """Let each query attend to its highest-scoring keys, of those that it may see.

    Among equal scores the earlier key is taken, so that the choice does not depend on
    the shape of the call. The choice has no gradient. NaN counts as the largest score:
    such a key is chosen, where it may be seen, so that attention to it shows the NaN.

    Args:
        scores: how useful each key is to each query, by any cheap measure; a key with
            -inf is never chosen.
        num_keys: how many keys a query sees at most.
        mask: True where a query may attend to a key; broadcasts to (..., Q, K).

    Raises:
        TypeError: scores that are not floats; a mask that is not boolean; a num_keys
            that is not an int.
        ValueError: scores with fewer than two axes; a num_keys below 1; a mask that
            does not fit.
    """
    require_table(scores)
    require_positive(num_keys=num_keys)
    if mask is not None:
        require_mask(mask, tuple(scores.shape), like=scores)
        scores = scores.masked_fill(~mask, -torch.inf)
    best = scores.argsort(dim=-1, descending=True, stable=True)[..., :num_keys]
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, value=True)
    return chosen & (scores != -torch.inf)
