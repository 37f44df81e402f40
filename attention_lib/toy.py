"""Attention without parameters, in NumPy: look up, score, normalise, mix.

Convention: the last axis of scores and weights is the key axis. Masks are boolean, and
True means "may attend". A query that may attend to nothing gets zeros. Whole numbers
are computed as float64; booleans are refused, except in a mask.
"""

import math

import numpy as np
from jaxtyping import Bool, Float

from attention_lib.validation import as_floats, require_inputs, require_scores


def softmax(
    x: Float[np.ndarray, "..."], axis: int = -1, temperature: float = 1.0
) -> Float[np.ndarray, "..."]:
    """Turn scores into weights: positive, summing to 1 along ``axis``.

    A low temperature sharpens the weights, a high one flattens them. A score of -inf
    gets the weight 0, and where all scores are -inf, all weights are 0.

    Args:
        x: scores of any shape.
        axis: the axis along which the weights sum to 1.
        temperature: divides the scores; above 0.

    Raises:
        TypeError: booleans, or anything but numbers.
        ValueError: temperature not above 0 or not finite; no such axis; NaN or +inf.
    """
    x = as_floats("x", x)
    require_scores(x, axis, temperature)
    peak = x.max(axis=axis, keepdims=True)
    # exp never sees a number above 0, so it cannot overflow.
    with np.errstate(over="ignore"):  # far below the peak is -inf, whose weight is 0
        e = np.exp((x - np.where(np.isneginf(peak), 0, peak)) / float(temperature))
    total = e.sum(axis=axis, keepdims=True)
    return e / np.where(total == 0, 1, total)


def attention(
    query: Float[np.ndarray, "*B Q D"],
    key: Float[np.ndarray, "*#B K D"],
    value: Float[np.ndarray, "*#B K V"],
    *,
    scale: float | None = None,
    mask: Bool[np.ndarray, "..."] | None = None,
) -> tuple[Float[np.ndarray, "*B Q V"], Float[np.ndarray, "*B Q K"]]:
    """Mix the values, each weighted by how well its key matches the query.

    softmax(query keyᵀ · scale) value: equation (1) of Vaswani et al. (2017).

    Args:
        query: what each row looks for.
        key: what each entry is found by.
        value: the content of each entry.
        scale: multiplies the scores; 1/√D when left out.
        mask: True where a query may attend to a key; broadcasts to (..., Q, K).

    Returns:
        The context (..., Q, V) and the weights (..., Q, K).

    Raises:
        TypeError: a mask that is not boolean; types that differ; booleans elsewhere.
        ValueError: shapes that do not fit together; NaN or +inf among the scores.
    """
    query, key = as_floats("query", query), as_floats("key", key)
    value = as_floats("value", value)
    require_inputs(query, key, value, mask, scale=scale, kind=np.ndarray)
    # math.sqrt, not np.sqrt: a Python float leaves float32 arrays float32.
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    scores = query @ key.swapaxes(-2, -1) * scale  # (..., Q, K)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = softmax(scores)
    return weights @ value, weights
