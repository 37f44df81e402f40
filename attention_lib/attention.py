"""Scaled dot-product attention and one trainable head, in torch.

Shapes: B batch, T length, Q and K query and key length, M d_model, D head_dim, V value
width. Masks are boolean, True means "may attend", and an empty row gives zeros.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lib.validation import (
    check_dropout,
    check_inputs,
    check_positive,
    check_tokens,
)


def softmax_weights(
    query: Float[Tensor, "*B Q D"],
    key: Float[Tensor, "*#B K D"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | None = None,
) -> Float[Tensor, "*B Q K"]:
    """Says how much each query takes from each key: softmax(query keyᵀ · scale).

    Args:
        query: what each row looks for.
        key: what each entry is found by.
        mask: True where a query may attend to a key; broadcasts to (..., Q, K).
        scale: multiplies the scores; 1/√D when left out.

    Returns:
        Rows that sum to 1 over what the mask allows. Where it allows nothing, a row
        holds 1/K everywhere, and ``zero_empty_rows`` sets it to zero. NaN in a query
        spoils its own row only; NaN in a key spoils every row that may see it.

    Raises:
        TypeError: a mask that is not boolean; types or devices that differ.
        ValueError: shapes that do not fit together; an axis of length zero.
    """
    check_inputs(query, key, mask=mask)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    # Scaling the query is Q·D products; scaling the scores would be Q·K.
    scores = query * scale @ key.transpose(-2, -1)  # (..., Q, K)
    if mask is not None:
        # The lowest finite number, not -inf: an empty row stays finite, backward too.
        scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1)


def zero_empty_rows(
    rows: Float[Tensor, "*B Q N"], mask: Bool[Tensor, "..."] | None
) -> Float[Tensor, "*B Q N"]:
    """Sets to zero the rows of queries that may attend to nothing.

    Args:
        rows: one row for each query: its weights (N = K), or its mix (N = V).
        mask: True where a query may attend to a key; broadcasts to (..., Q, K).
    """
    if mask is None:
        return rows
    return rows.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


def attention_weights(
    query: Float[Tensor, "*B Q D"],
    key: Float[Tensor, "*#B K D"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | None = None,
) -> Float[Tensor, "*B Q K"]:
    """Gives the weights of ``softmax_weights``, with zeros in empty rows.

    Arguments and errors are those of ``softmax_weights``.
    """
    return zero_empty_rows(softmax_weights(query, key, mask, scale=scale), mask)


def scaled_dot_product_attention(
    query: Float[Tensor, "*B Q D"],
    key: Float[Tensor, "*#B K D"],
    value: Float[Tensor, "*#B K V"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "*B Q V"]:
    """Mixes the values by the attention weights: Vaswani et al. (2017), equation (1).

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
        ValueError: shapes that do not fit together; an axis of length zero.
    """
    check_inputs(query, key, value)
    weights = softmax_weights(query, key, mask, scale=scale)  # (..., Q, K)
    if dropout:
        weights = F.dropout(weights, dropout)
    # Empty rows are zeroed in the mix: it is smaller than the table of weights.
    return zero_empty_rows(weights @ value, mask)  # (..., Q, V)


class SelfAttention(nn.Module):
    """One trainable head: every position asks every position of the same sequence.

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
        check_positive(d_model=d_model, head_dim=head_dim)
        check_dropout(dropout)
        self.q_proj = nn.Linear(d_model, head_dim, bias=qkv_bias)
        self.k_proj = nn.Linear(d_model, head_dim, bias=qkv_bias)
        self.v_proj = nn.Linear(d_model, head_dim, bias=qkv_bias)
        self.dropout = dropout

    def forward(
        self, x: Float[Tensor, "B T M"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B T D"]:
        """Gives each position its mix of all values that the mask lets it see."""
        check_tokens(x, self.q_proj.weight)
        return scaled_dot_product_attention(
            self.q_proj(x),
            self.k_proj(x),
            self.v_proj(x),
            mask,
            dropout=self.dropout if self.training else 0.0,
        )

    def attention_weights(
        self, x: Float[Tensor, "B T M"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B T T"]:
        """Gives the weights that ``forward`` uses, before dropout."""
        check_tokens(x, self.q_proj.weight)
        return attention_weights(self.q_proj(x), self.k_proj(x), mask)
