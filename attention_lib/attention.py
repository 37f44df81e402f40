"""Scaled dot-product attention and one trainable head, in torch.

Shapes: B batch, T length, S length of a memory, Q and K query and key length, M
d_model, D head_dim, V value width. Masks are boolean, True means "may attend", and an
empty row gives zeros.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lib.masks import with_causal
from attention_lib.precision import no_autocast
from attention_lib.validation import (
    require_dropout,
    require_flags,
    require_inputs,
    require_positive,
    require_source,
    require_value,
)


def attention_weights(
    query: Float[Tensor, "*B Q D"],
    key: Float[Tensor, "*#B K D"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | None = None,
) -> Float[Tensor, "*B Q K"]:
    """Return the weight of each key for each query: softmax(query keyᵀ · scale).

    Half precision is computed in float32, as PyTorch's own kernel does, under autocast
    too.

    Args:
        query: what each row looks for.
        key: what each entry is found by.
        mask: True where a query may attend to a key; broadcasts to (..., Q, K).
        scale: multiplies the scores; 1/√D when left out.

    Returns:
        Rows that sum to 1 over what the mask allows, and are zeros where it allows
        nothing. NaN in a query spoils its own row only; NaN in a key spoils every row
        that may see it. A score that overflows to -inf gets the weight 0, but a row
        that may see all keys is NaN if all its scores are -inf.

    Raises:
        TypeError: a mask that is not boolean; types or devices that differ.
        ValueError: shapes that do not fit together; an axis of length zero.
    """
    require_inputs(query, key, mask=mask, scale=scale)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    at_least_float32 = torch.promote_types(query.dtype, torch.float32)
    with no_autocast(query):  # in half precision a score can overflow
        # Scaling the query is Q·D products; scaling the scores would be Q·K.
        query_scaled = query.to(at_least_float32) * scale
        scores = query_scaled @ key.to(at_least_float32).mT  # (..., Q, K)
    if mask is None:
        return scores.softmax(dim=-1).to(query.dtype)
    # The lowest finite number, not -inf: an empty row stays finite, backward too.
    weights = scores.where(mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
    # An empty row shares its weight among hidden keys: times 0.
    return (weights * mask).to(query.dtype)


def scaled_dot_product_attention(
    query: Float[Tensor, "*B Q D"],
    key: Float[Tensor, "*#B K D"],
    value: Float[Tensor, "*#B K V"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "*B Q V"]:
    """Mix the values by the attention weights: Vaswani et al. (2017), equation (1).

    Args:
        query: what each row looks for.
        key: what each entry is found by.
        value: what each entry gives.
        mask: True where a query may attend to a key; broadcasts to (..., Q, K).
        scale: multiplies the scores; 1/√D when left out.
        dropout: the probability that a weight is dropped. A function cannot know
            whether it trains, so a layer passes 0 in evaluation.

    Raises:
        TypeError: a mask that is not boolean; types or devices that differ.
        ValueError: shapes that do not fit together; an axis of length zero; a dropout
            below 0, or of 1 and more.
    """
    weights = attention_weights(query, key, mask, scale=scale)  # (..., Q, K)
    require_value(query, key, value)
    if dropout != 0:
        require_dropout(dropout)
        weights = F.dropout(weights, dropout)
    return weights @ value  # (..., Q, V)


class SelfAttention(nn.Module):
    """One trainable head: every position attends to its own sequence.

    With a memory, it attends to a different sequence instead.

    Args:
        d_model: width of the input.
        head_dim: width of queries, keys, values, and so of the output.
        qkv_bias: whether the three projections add a bias.
        dropout: the probability that a weight is dropped while training.

    Raises:
        TypeError: a width that is not an int; an input of another type or device.
        ValueError: a width below 1; a dropout below 0, or of 1 and more; an input of
            another width, or with an empty axis.
    """

    def __init__(
        self,
        d_model: int,
        head_dim: int,
        *,
        qkv_bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        require_positive(d_model=d_model, head_dim=head_dim)
        require_flags(qkv_bias=qkv_bias)
        require_dropout(dropout)
        self.d_model = d_model
        self.q_proj = nn.Linear(d_model, head_dim, bias=qkv_bias)
        self.k_proj = nn.Linear(d_model, head_dim, bias=qkv_bias)
        self.v_proj = nn.Linear(d_model, head_dim, bias=qkv_bias)
        self.dropout = dropout

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return, for each position, its mix of the values that it may see.

        Args:
            x: the source of queries, and without a memory also of keys and values.
            mask: True where a query may attend to a key; broadcasts to (B, T, T).
            causal: hides the future as well; see ``causal_mask``.
            memory: the source of keys and values; S then replaces T.
        """
        source = require_source(x, memory, self.q_proj, self.d_model)
        query, key = self.q_proj(x), self.k_proj(source)
        return scaled_dot_product_attention(
            query,
            key,
            self.v_proj(source),
            with_causal(mask, causal, query, key),
            dropout=self.dropout if self.training else 0.0,
        )

    def attention_weights(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
    ) -> Float[Tensor, "B T K"]:
        """Return the weights that ``forward`` uses, before dropout."""
        source = require_source(x, memory, self.q_proj, self.d_model)
        query, key = self.q_proj(x), self.k_proj(source)
        return attention_weights(query, key, with_causal(mask, causal, query, key))
