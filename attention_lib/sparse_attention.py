"""Attention to a few keys: a window with sinks, and keys that a score has chosen.

Masks are boolean, True means "may attend", rows are queries and columns are keys.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention_lib.masks import causal_mask, sliding_window_mask
from attention_lib.validation import check_mask, check_not_negative, check_positive


def sink_window_mask(
    query_len: int,
    window: int,
    num_sinks: int,
    key_len: int | None = None,
    *,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "Q K"]:
    """Lets each query see a sliding window, and the first keys of the text as well.

    Aligned as ``causal_mask``: Xiao et al. (2024), section 3.2.

    Args:
        query_len: rows.
        window: how many keys a query sees at most, itself included, the sinks apart.
        num_sinks: how many keys at the beginning every later query sees.
        key_len: columns; as many as rows when left out.
        device: where the mask is made.

    Raises:
        TypeError: a number that is not an int.
        ValueError: a length or window below 1; a negative num_sinks.
    """
    check_not_negative(num_sinks=num_sinks)
    seen = sliding_window_mask(query_len, window, key_len, device=device)
    sinks = torch.arange(seen.shape[1], device=device) < num_sinks
    return seen | (sinks & causal_mask(query_len, key_len, device=device))


def chunk_mask(
    query_len: int, chunk_len: int, *, device: torch.device | str | None = None
) -> Bool[Tensor, "T T"]:
    """Lets each query see the keys of its own chunk, up to its own place.

    Args:
        query_len: rows and columns.
        chunk_len: tokens per chunk.
        device: where the mask is made.

    Raises:
        TypeError: a length that is not an int.
        ValueError: a length below 1.
    """
    check_positive(chunk_len=chunk_len)
    causal = causal_mask(query_len, device=device)
    chunk = torch.arange(query_len, device=device) // chunk_len
    return causal & (chunk == chunk[:, None])


def choose_keys(
    scores: Float[Tensor, "*B Q K"],
    num_keys: int,
    mask: Bool[Tensor, "..."] | None = None,
) -> Bool[Tensor, "*B Q K"]:
    """Lets each query see the keys of its largest scores, of those that it may see.

    Among equal scores the earlier key is taken, so that the choice does not depend on
    the shape of the call.

    Args:
        scores: how much each query would gain from each key, by any cheap measure.
        num_keys: how many keys a query sees at most.
        mask: True where a query may attend to a key; broadcasts to (..., Q, K).

    Raises:
        TypeError: a mask that is not boolean; a num_keys that is not an int.
        ValueError: a num_keys below 1; a mask that does not fit.
    """
    check_positive(num_keys=num_keys)
    if mask is not None:
        check_mask(mask, tuple(scores.shape), like=scores)
        scores = scores.masked_fill(~mask, -torch.inf)
    best = scores.argsort(dim=-1, descending=True, stable=True)[..., :num_keys]
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, value=True)
    return chosen if mask is None else chosen & mask
