"""One block: attention between tokens, then a small network for each token.

Shapes: B batch, T length, M d_model, H heads. Masks are boolean, True means "may
attend". The residual stream is the tensor that each block adds to: one vector
per token.
"""

from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lib.kv_cache import CacheLike, LayerCache
from attention_lib.mha_variants import MHA_VARIANTS, make_mha
from attention_lib.validation import (
    require_choice,
    require_features,
    require_positive,
    require_tokens,
)

NormPlacement = Literal["pre", "post", "none"]


def layer_norm(
    x: Float[Tensor, "... M"],
    weight: Float[Tensor, " M"],
    bias: Float[Tensor, " M"],
    *,
    eps: float = 1e-5,
) -> Float[Tensor, "... M"]:
    """Bring each token to mean 0 and variance 1, then scale and shift it.

    Ba, Kiros and Hinton (2016). It computes what ``nn.LayerNorm`` computes; a
    half-precision input is computed in float32.

    Args:
        x: tokens; each is normalised with its own mean and variance.
        weight: the trained scale.
        bias: the trained shift.
        eps: added to the variance, so that a token of equal numbers gives ``bias``,
            not NaN.

    Raises:
        TypeError: no float tensors; types or devices that differ.
        ValueError: a weight or bias whose length is not the width of a token.
    """
    require_features(x, eps=eps, weight=weight, bias=bias)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # at least float32
    centred = wide - wide.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)  # divided by M, not M - 1
    normed = centred / (variance + eps).sqrt()
    return (normed * weight + bias).to(x.dtype)


class FeedForward(nn.Module):
    """Two linear layers with a GELU between them, applied to each token on its own.

    Vaswani et al. (2017), equation (2), with the GELU of Hendrycks and Gimpel (2016)
    instead of ReLU.

    Args:
        d_model: width of the input and of the output.
        hidden_dim: width of the hidden layer; four times ``d_model`` when left out.

    Raises:
        TypeError: a width that is not an int; an input of another type or device.
        ValueError: a width below 1; an input of another width, or with an empty axis.
    """

    def __init__(self, d_model: int, hidden_dim: int | None = None) -> None:
        super().__init__()
        require_positive(d_model=d_model)
        hidden_dim = 4 * d_model if hidden_dim is None else hidden_dim
        require_positive(hidden_dim=hidden_dim)
        self.d_model = d_model
        self.up_proj = nn.Linear(d_model, hidden_dim)
        self.down_proj = nn.Linear(hidden_dim, d_model)

    def forward(self, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
        """Compute each output token from the input token at the same position."""
        require_tokens(x, self.up_proj, self.d_model)
        return self.down_proj(F.gelu(self.up_proj(x)))


class TinyBlock(nn.Module):
    """Attention and a feed-forward network, each added to the residual stream.

    Args:
        d_model: width of the stream.
        num_heads: number of attention heads.
        norm: ``pre`` normalises the input of each layer; ``post`` normalises the stream
            after each addition; ``none`` does neither.
        dropout: the probability that an attention weight, or a number that a layer
            adds to the stream, is dropped while training.
        mha: the kind of attention, as ``make_mha`` names it.

    Raises:
        TypeError: a width that is not an int; an input of another type or device.
        ValueError: an unknown norm or kind; widths that do not fit together; a
            dropout below 0, or of 1 and more; an input of another width, or with an
            empty axis.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        norm: NormPlacement = "pre",
        dropout: float = 0.0,
        mha: str = "split",
    ) -> None:
        super().__init__()
        require_choice("norm", norm, get_args(NormPlacement))
        require_choice("mha", mha, MHA_VARIANTS)
        self.d_model = d_model
        self.attention = make_mha(mha, d_model, num_heads, dropout=dropout)
        self.feed_forward = FeedForward(d_model)
        make_norm = nn.Identity if norm == "none" else nn.LayerNorm
        self.attention_norm = make_norm(d_model)
        self.feed_forward_norm = make_norm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm = norm

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        angles: Float[Tensor, "*B T P"] | None = None,
        cache: CacheLike | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Add the output of attention to the stream, then that of the MLP.

        Args:
            x: the residual stream.
            mask: True where a query may attend to a key; broadcasts to (B, T, T).
            causal: hides the future as well; see ``causal_mask``.
            angles: rotate queries and keys; see ``rope_angles``.
            cache: of ``new_cache``, holds the tokens before x.
        """
        require_tokens(x, self.attention_norm, self.d_model)
        call: dict[str, Any] = {"causal": causal, "angles": angles, "cache": cache}
        if self.norm == "post":
            context = self.attention(x, mask, **call)
            x = self.attention_norm(x + self.dropout(context))
            return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        context = self.attention(self.attention_norm(x), mask, **call)
        x = x + self.dropout(context)
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))

    def attention_weights(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        angles: Float[Tensor, "*B T P"] | None = None,
    ) -> Float[Tensor, "B H T T"]:
        """Return the attention weights of each head, before dropout."""
        require_tokens(x, self.attention_norm, self.d_model)
        seen = x if self.norm == "post" else self.attention_norm(x)
        return self.attention.attention_weights(
            seen, mask, causal=causal, angles=angles
        )

    def new_cache(self, batch_size: int, max_len: int) -> LayerCache:
        """Make an empty cache for texts of at most ``max_len`` tokens."""
        return self.attention.new_cache(batch_size, max_len)
