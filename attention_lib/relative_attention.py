"""Attention in which the distance between two tokens is added to their score, as in T5.

Shapes: B batch, T length, S length of a memory, Q and K query and key length, M
d_model, H heads, D head_dim. Masks are boolean, True means "may attend".
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Num
from torch import Tensor, nn

from attention_lib.kv_cache import CacheLike
from attention_lib.masks import with_causal
from attention_lib.multi_head import MultiHeadAttention, add_head_axis, merge_heads
from attention_lib.precision import no_autocast
from attention_lib.validation import (
    require_alone,
    require_flags,
    require_inputs,
    require_key_count,
    require_layer_cache,
    require_not_negative,
    require_positive,
)


class RelativeAttention(MultiHeadAttention):
    """The attention of T5: scores are not scaled, and distance adds to them.

    Raffel et al. (2020): each head adds a learned number to a score, depending on how
    far the key is from the query. Each near distance has its own number; farther ones
    share them. With a memory, distances mean nothing, and nothing is added.

    Args:
        d_model: width of the input.
        num_heads: number of heads.
        num_buckets: how many numbers each head has; 0 for none.
        max_distance: from this distance on, all share one number.
        both_ways: whether later keys have their own numbers, half of them all.
        head_dim: width of each head; d_model / num_heads when left out.
        qkv_bias: whether queries, keys and values get a bias.
        out_bias: whether the output gets one.
        dropout: the probability that a weight is dropped while training.

    Raises:
        TypeError: a width that is not an int; an input of a different type or device.
        ValueError: widths that do not fit together; buckets that do not leave a number
            for far distances.
    """

    scale = 1.0

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_buckets: int = 32,
        max_distance: int = 128,
        both_ways: bool = True,
        head_dim: int | None = None,
        qkv_bias: bool = False,
        out_bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            d_model, num_heads, head_dim=head_dim, qkv_bias=qkv_bias, dropout=dropout
        )
        width = num_heads * self.head_dim
        self.out_proj = nn.Linear(width, d_model, bias=out_bias)
        require_flags(both_ways=both_ways, out_bias=out_bias)
        require_not_negative(num_buckets=num_buckets)
        require_positive(max_distance=max_distance)
        least = 4 if both_ways else 2
        near = num_buckets // least
        if num_buckets and (near < 1 or max_distance <= near):
            raise ValueError(
                f"num_buckets must be 0 or at least {least}, and max_distance above "
                f"{near}; got {num_buckets} and {max_distance}"
            )
        self.num_buckets = num_buckets
        self.max_distance, self.both_ways = max_distance, both_ways
        self.distance_bias = (
            nn.Embedding(num_buckets, num_heads) if num_buckets else None
        )

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
        angles: Float[Tensor, "*B T P"] | None = None,
        cache: CacheLike | None = None,
        key_positions: Num[Tensor, "*B K"] | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Attend in all heads, join their outputs and project them.

        It takes the arguments of ``MultiHeadLayer``, and ``key_positions``: those of
        all keys in their texts, (K,) or (B, K), of which the last T are those of x; the
        column numbers when left out. The tokens of a memory have no such positions.
        """
        mask = add_head_axis(mask)
        require_layer_cache(cache, x, mask, causal, self.num_heads, key_positions)
        require_alone(memory, key_positions=key_positions)
        query, key, value = self._queries_keys_values(x, memory, angles, cache)
        offset = None if memory is not None else _offsets(query, key, key_positions)
        weights = self._weights(query, key, mask, causal, offset)
        weights = F.dropout(weights, self.dropout, self.training)
        return self.out_proj(merge_heads(weights @ value))

    def attention_weights(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
        angles: Float[Tensor, "*B T P"] | None = None,
        key_positions: Num[Tensor, "*B K"] | None = None,
    ) -> Float[Tensor, "B H T K"]:
        """Return the attention weights of each head, before dropout."""
        require_alone(memory, key_positions=key_positions)
        query, key, _ = self._queries_keys_values(x, memory, angles)
        offset = None if memory is not None else _offsets(query, key, key_positions)
        return self._weights(query, key, mask, causal, offset)

    def _weights(
        self,
        query: Tensor,
        key: Tensor,
        mask: Tensor | None,
        causal: bool,
        offset: Tensor | None,
    ) -> Tensor:
        """Return the weights (B, H, Q, K); without an offset, distance adds nothing."""
        mask = with_causal(add_head_axis(mask), causal, query, key)
        require_inputs(query, key, mask=mask)
        wide = torch.promote_types(query.dtype, torch.float32)
        with no_autocast(query):  # scores that are not scaled soon overflow
            scores = query.to(wide) * self.scale @ key.to(wide).mT
        bias = None if offset is None else self._bias(offset, wide)
        scores = scores if bias is None else scores + bias
        if mask is None:
            return scores.softmax(dim=-1).to(query.dtype)
        # As in ``attention_weights``: an empty row gets zeros.
        weights = scores.where(mask, torch.finfo(wide).min).softmax(dim=-1)
        return (weights * mask).to(query.dtype)

    def _bias(
        self, offset: Num[Tensor, "*B Q K"], dtype: torch.dtype
    ) -> Float[Tensor, "*B H Q K"] | None:
        """Return what is added to each score, depending on how far the key is ahead."""
        if self.distance_bias is None:
            return None
        return self.distance_bias(self._buckets(offset)).movedim(-1, -3).to(dtype)

    def _buckets(self, offset: Num[Tensor, "*B Q K"]) -> Num[Tensor, "*B Q K"]:
        """Return the bucket of each query and key.

        Half of the buckets are for the nearest distances, one each. The others cover
        ranges of growing width up to ``max_distance``.
        """
        assert self.distance_bias is not None
        # A loaded embedding may be larger; an adapter has no ``num_embeddings``.
        count = getattr(self.distance_bias, "num_embeddings", self.num_buckets)
        if self.both_ways:
            count //= 2
            first = count * (offset > 0)
            distance = offset.abs()
        else:
            first, distance = torch.zeros_like(offset), (-offset).clamp(min=0)
        near = count // 2
        steps = (distance.clamp(min=1).float() / near).log()
        steps = steps / math.log(self.max_distance / near) * (count - near)
        far = (near + steps.long()).clamp(max=count - 1)
        return first + distance.where(distance < near, far).long()


def _offsets(
    query: Float[Tensor, "... Q D"],
    key: Float[Tensor, "... K D"],
    positions: Num[Tensor, "... K"] | None,
) -> Num[Tensor, "... Q K"]:
    """Return the position of each key minus that of each query, the last Q of them."""
    query_len, key_len = query.shape[-2], key.shape[-2]
    if positions is None:
        positions = torch.arange(key_len, device=key.device)
    require_key_count(positions, query.shape[0], key_len)
    return positions[..., None, :] - positions[..., key_len - query_len :, None]
