"""Latent attention: keys and values are made from one small vector per token.

Shapes: B batch, H heads, T length, K number of keys, M d_model, C width of the latent,
N width of a key without position, R width of its rotated part, V width of a value, P
pairs of the rotated part. Masks are boolean, True means "may attend".

The weights have the layout of DeepSeek's checkpoints: the rows of a projection are
ordered by head; in each head, the rotated part follows the rest, and the value's rows
follow the key's.
"""

from collections.abc import Sequence
from typing import get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lib.attention import attention_weights
from attention_lib.kv_cache import CacheLike, LayerCache
from attention_lib.masks import with_causal
from attention_lib.modules import is_unmodified, placement
from attention_lib.multi_head import MultiHeadLayer, add_head_axis, split_heads
from attention_lib.norms import RMSNorm
from attention_lib.rope import Layout
from attention_lib.validation import (
    require_above_zero,
    require_alone,
    require_choice,
    require_flags,
    require_pairs,
    require_positive,
    require_source,
)


class MultiHeadLatentAttention(MultiHeadLayer):
    """Multi-head attention whose keys and values are made from a shared latent.

    DeepSeek-AI (2024), DeepSeek-V2, section 2.1: equations (9) to (19). A token's
    latent (C numbers) and one rotated key (R numbers) for all heads are all that later
    queries need of it.

    Args:
        d_model: width of the input.
        num_heads: number of heads.
        q_latent_dim: width of the latent of queries; None makes queries directly.
        kv_latent_dim: width of the latent of keys and values, C.
        nope_dim: width of the part of queries and keys that is not rotated, N.
        rope_dim: width of the rotated part, R; even.
        value_dim: width of a value, V.
        absorb: whether the up-projections are multiplied into queries and outputs, so
            that attention reads the latents themselves and a cache holds C + R numbers
            per token; else keys and values are cached, H · (N + R + V) numbers.
            The outputs are equal. If ``kv_up_proj`` has hooks or was replaced, it is
            called on all latents instead, as its weights are not all that it does.
        scale: multiplies the scores; 1/√(N + R) when left out.
        rope_scale: multiplies the rotated parts; see ``rope_attention_factor``.
        bias: whether the projections from and to the stream have a bias.
        layout: the pairs of the rotation; see ``apply_rope``.
        norm_eps: added to the mean square of a latent.
        dropout: the probability that a weight is dropped while training.

    Raises:
        TypeError: a width that is not an int; an input of another type or device.
        ValueError: a width below 1; an odd ``rope_dim``; an input of another width, or
            with an empty axis.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        q_latent_dim: int | None,
        kv_latent_dim: int,
        nope_dim: int,
        rope_dim: int,
        value_dim: int,
        absorb: bool = False,
        scale: float | None = None,
        rope_scale: float = 1.0,
        bias: bool = False,
        layout: Layout = "interleaved",
        norm_eps: float = 1e-6,
        dropout: float = 0.0,
    ) -> None:
        require_positive(d_model=d_model, num_heads=num_heads, nope_dim=nope_dim)
        require_positive(kv_latent_dim=kv_latent_dim, value_dim=value_dim)
        require_pairs(rope_dim=rope_dim)
        key_dim = nope_dim + rope_dim
        super().__init__(d_model, num_heads, head_dim=key_dim, dropout=dropout)
        require_flags(absorb=absorb, bias=bias)
        require_above_zero(rope_scale=rope_scale, norm_eps=norm_eps)
        if scale is not None:
            require_above_zero(scale=scale)
        require_choice("layout", layout, get_args(Layout))
        self.absorb, self.layout = absorb, layout
        self.widths, self.latent_dim = (nope_dim, rope_dim, value_dim), kv_latent_dim
        self.scale = key_dim**-0.5 if scale is None else scale
        self.rope_scale = rope_scale
        width = num_heads * key_dim
        self.q_proj: nn.Module
        if q_latent_dim is None:
            self.q_proj = nn.Linear(d_model, width, bias=False)
        else:
            require_positive(q_latent_dim=q_latent_dim)
            self.q_proj = nn.Sequential(
                nn.Linear(d_model, q_latent_dim, bias=bias),
                RMSNorm(q_latent_dim, eps=norm_eps),
                nn.Linear(q_latent_dim, width, bias=False),
            )
        self.kv_down_proj = nn.Linear(d_model, kv_latent_dim + rope_dim, bias=bias)
        self.kv_norm = RMSNorm(kv_latent_dim, eps=norm_eps)
        self.kv_up_proj = nn.Linear(
            kv_latent_dim, num_heads * (nope_dim + value_dim), bias=False
        )
        self.out_proj = nn.Linear(num_heads * value_dim, d_model, bias=bias)

    def attention_weights(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
        angles: Float[Tensor, "*B T P"] | None = None,
    ) -> Float[Tensor, "B H T K"]:
        """Return the attention weights of each head, before dropout."""
        query, key, _ = self._queries_keys_values(x, memory, angles)
        return self._weights(query, key, add_head_axis(mask), causal)

    def new_cache(self, batch_size: int, max_len: int) -> LayerCache:
        """Make an empty cache; with ``absorb`` it holds latents and rotated keys."""
        nope, rope, value = self.widths
        heads, key_dim, value_dim = self.num_heads, nope + rope, value
        if self.absorb:
            heads, key_dim, value_dim = 1, self.latent_dim, rope
        sizes = batch_size, heads, max_len, key_dim
        return LayerCache(*sizes, value_dim=value_dim, **placement(self))

    def weights_by_head(self) -> dict[str, Sequence[Tensor]]:
        """Return views of all parameters; the up-projections are split into heads."""
        parts = dict(self.named_parameters())
        last = "q_proj.2.weight" if "q_proj.2.weight" in parts else "q_proj.weight"
        heads = dict.fromkeys((last, "kv_up_proj.weight"), self.num_heads)
        return {name: part.chunk(heads.get(name, 1)) for name, part in parts.items()}

    def _queries_keys_values(
        self,
        x: Tensor,
        memory: Tensor | None,
        angles: Tensor | None = None,
        cache: CacheLike | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, or latents instead of keys and values."""
        require_alone(memory, angles=angles, cache=cache)
        source = require_source(x, memory, self.kv_down_proj, self.d_model)
        nope, rope, _ = self.widths
        query, rotated = split_heads(self.q_proj(x), self.num_heads).split(
            [nope, rope], dim=-1
        )
        down = self.kv_down_proj(source)[:, None]  # (B, 1, K, C + R): one for all heads
        latent, shared = down.split([self.latent_dim, rope], dim=-1)
        latent = self.kv_norm(latent)
        if angles is not None:
            rotated = self._rotate(rotated, angles) * self.rope_scale
            shared = self._rotate(shared, angles) * self.rope_scale
        if self.absorb and cache is not None:
            latent, shared = cache.append(latent, shared)
        if self._absorbs():
            up_key, _ = self._up()
            query = query @ up_key  # (B, H, T, N) @ (H, N, C): the key's up-projection
            key, value = torch.cat((latent, shared), dim=-1), latent
            return torch.cat((query, rotated), dim=-1), key, value
        key, value = self._keys_values(latent)
        shared = shared.expand(-1, self.num_heads, -1, -1)
        key = torch.cat((key, shared), dim=-1)  # (B, H, K, N + R)
        if cache is not None and not self.absorb:
            key, value = cache.append(key, value)
        return torch.cat((query, rotated), dim=-1), key, value

    def _absorbs(self) -> bool:
        """Return whether the up-projections are multiplied into queries and outputs."""
        up = self.kv_up_proj
        return self.absorb and is_unmodified(up, nn.Linear) and up.bias is None

    def _up(self) -> tuple[Float[Tensor, "H N C"], Float[Tensor, "H V C"]]:
        """Return the up-projections of each head's keys and values."""
        nope, _, value = self.widths
        weight = self.kv_up_proj.weight.unflatten(0, (self.num_heads, nope + value))
        up_key, up_value = weight.split([nope, value], dim=1)
        return up_key, up_value

    def _keys_values(
        self, latent: Float[Tensor, "B 1 K C"]
    ) -> tuple[Float[Tensor, "B H K N"], Float[Tensor, "B H K V"]]:
        """Return keys and values made from latents by a call of ``kv_up_proj``."""
        nope, _, value = self.widths
        both = split_heads(self.kv_up_proj(latent[:, 0]), self.num_heads)
        keys, values = both.split([nope, value], dim=-1)
        return keys, values

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        *,
        square: bool,
    ) -> Tensor:
        weights = self._weights(query, key, mask, causal)  # (B, H, T, K)
        weights = F.dropout(weights, self.dropout if self.training else 0.0)
        if not self._absorbs():
            return weights @ value  # (B, H, T, V)
        if weights.shape[-2] == 1:
            mixed = (weights.transpose(1, 2) @ value).transpose(1, 2)
        else:
            mixed = weights @ value  # (B, H, T, C)
        _, up_value = self._up()
        return mixed @ up_value.mT  # (B, H, T, C) @ (H, C, V)

    def _weights(
        self, query: Tensor, key: Tensor, mask: Tensor | None, causal: bool
    ) -> Float[Tensor, "B H T K"]:
        mask = with_causal(mask, causal, query, key)
        if not self._absorbs() or query.shape[-2] > 1:
            return attention_weights(query, key, mask, scale=self.scale)
        # One new token: its heads become rows of one matrix, so no latent is copied.
        if mask is not None and mask.ndim == 4:
            mask = mask.transpose(1, 2)
        rows = attention_weights(query.transpose(1, 2), key, mask, scale=self.scale)
        return rows.transpose(1, 2)
