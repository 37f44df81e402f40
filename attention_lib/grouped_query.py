"""Grouped queries: several query heads share one head of keys and values.

Shapes: B batch, T length, K number of keys, M d_model, H query heads, G KV
heads, D head_dim. Query heads i · H/G to (i + 1) · H/G - 1 share KV head i. Masks are
boolean, True means "may attend".
"""

from collections.abc import Sequence
from typing import get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lib.attention import attention_weights
from attention_lib.kv_cache import CacheLike, LayerCache, WindowCache
from attention_lib.masks import (
    combine_masks,
    sliding_window_mask,
    window_mask_at,
    with_causal,
)
from attention_lib.modules import placement
from attention_lib.multi_head import (
    MultiHeadLayer,
    add_head_axis,
    merge_heads,
    split_heads,
)
from attention_lib.norms import QKNorm, RMSNorm
from attention_lib.precision import no_autocast
from attention_lib.rope import Layout
from attention_lib.validation import (
    require_above_zero,
    require_choice,
    require_columns,
    require_flags,
    require_groups,
    require_layer_cache,
    require_layout,
    require_mask,
    require_positive,
    require_source,
    require_token_positions,
    require_window,
)


def repeat_kv(x: Float[Tensor, "B G T D"], groups: int) -> Float[Tensor, "B H T D"]:
    """Repeat each head of keys or values for the query heads that share it.

    Args:
        x: KV heads.
        groups: how many query heads share one of them, H / G.

    Raises:
        TypeError: not a tensor; a number of groups that is not an int.
        ValueError: a wrong number of axes; a number of groups below 1.
    """
    require_layout(x, "batch", "heads", "length", "head_dim")
    require_positive(groups=groups)
    return x.repeat_interleave(groups, dim=1)


class GroupedQueryAttention(MultiHeadLayer):
    """Multi-head attention whose query heads share keys and values in groups.

    Ainslie et al. (2023). With as many KV heads as query heads it is multi-head
    attention, with a single one the multi-query attention of Shazeer (2019). The
    further options are those of published models.

    Args:
        d_model: width of the input.
        num_heads: number of query heads.
        num_kv_heads: number of KV heads; divides ``num_heads``.
        head_dim: width of each head; d_model / num_heads when left out.
        d_out: width of the output; d_model when left out.
        qkv_bias: whether queries, keys and values get a bias, as in Qwen 2.
        out_bias: whether the output gets one.
        qk_norm: normalises each query and key before the rotation: ``rms`` as in
            Qwen 3, ``rms_plus_one`` as in Gemma 3. See ``RMSNorm``.
        norm_eps: the ``eps`` of these norms.
        scale: multiplies the scores; 1/√D when left out.
        softcap: bounds each score s, before the mask, by softcap · tanh(s / softcap),
            as in Gemma 2.
        window: how many keys a query sees at most, its own and those before it, as in
            Mistral 7B; later ones are then hidden in any case. It counts positions,
            which are columns unless the call specifies others.
        sinks: whether each head has a learned score that takes part in the softmax but
            has no value, as in gpt-oss: rows then sum to less than 1.
        layout: the pairs of a rotation; see ``apply_rope``.
        dropout: the probability that a weight is dropped while training.

    Raises:
        TypeError: a width that is not an int; an input of another type or device.
        ValueError: heads that do not divide each other or the width; a size below 1;
            an unknown norm or layout; a window together with a memory.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        *,
        head_dim: int | None = None,
        d_out: int | None = None,
        qkv_bias: bool = False,
        out_bias: bool = False,
        qk_norm: QKNorm | None = None,
        norm_eps: float = 1e-6,
        scale: float | None = None,
        softcap: float | None = None,
        window: int | None = None,
        sinks: bool = False,
        layout: Layout = "half",
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            d_model,
            num_heads,
            head_dim=head_dim,
            d_out=d_out,
            qkv_bias=qkv_bias,
            dropout=dropout,
        )
        require_groups(num_heads, num_kv_heads)
        require_flags(out_bias=out_bias, sinks=sinks)
        require_above_zero(norm_eps=norm_eps)
        if scale is not None:
            require_above_zero(scale=scale)
        require_choice("layout", layout, get_args(Layout))
        if qk_norm is not None:
            require_choice("qk_norm", qk_norm, get_args(QKNorm))
        if softcap is not None:
            require_above_zero(softcap=softcap)
        if window is not None:
            require_positive(window=window)
        self.num_kv_heads, head_dim = num_kv_heads, self.head_dim
        self.scale = head_dim**-0.5 if scale is None else scale
        self.softcap, self.window, self.layout = softcap, window, layout
        width, shared = num_heads * head_dim, num_kv_heads * head_dim
        self.q_proj = nn.Linear(d_model, width, bias=qkv_bias)
        self.k_proj = nn.Linear(d_model, shared, bias=qkv_bias)
        self.v_proj = nn.Linear(d_model, shared, bias=qkv_bias)
        self.out_proj = nn.Linear(width, d_out or d_model, bias=out_bias)
        self.q_norm: RMSNorm | None = None
        self.k_norm: RMSNorm | None = None
        if qk_norm is not None:
            plus_one = qk_norm == "rms_plus_one"
            self.q_norm = RMSNorm(head_dim, eps=norm_eps, unit_offset=plus_one)
            self.k_norm = RMSNorm(head_dim, eps=norm_eps, unit_offset=plus_one)
        self.sinks = nn.Parameter(torch.zeros(num_heads)) if sinks else None

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
        angles: Float[Tensor, "*B T P"] | None = None,
        cache: CacheLike | None = None,
        positions: Int[Tensor, "*B T"] | None = None,
    ) -> Float[Tensor, "B T O"]:
        """Attend as a ``MultiHeadLayer`` does; a window counts ``positions``.

        Args:
            x: the source of the queries; for all other arguments see
                ``MultiHeadLayer``.
            mask: hides keys, such as padding.
            causal: hides the future as well.
            memory: the source of keys and values.
            angles: rotate queries and keys.
            cache: of ``new_cache``.
            positions: the position of each token of x in its own text, (T,) or (B, T),
                which only a window needs, but which are checked in any case; counted
                on from the cache when left out.
        """
        if positions is not None:
            require_layout(x, "batch", "length", "width")
            require_token_positions(positions, x)
        if self.window is None:
            return super().forward(
                x, mask, causal=causal, memory=memory, angles=angles, cache=cache
            )
        mask = add_head_axis(mask)
        require_layer_cache(cache, x, mask, causal, self.num_heads)
        query, key, value = self._queries_keys_values(x, memory, angles, cache)
        key_positions, padding = self._key_positions(x, positions, cache)
        context = self._attend(
            query,
            key,
            value,
            mask,
            causal,
            square=False,  # a window needs a mask in any case
            key_positions=key_positions,
            padding=padding,
        )
        return self.out_proj(merge_heads(context))  # (B, T, H·D) -> (B, T, O)

    def attention_weights(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
        angles: Float[Tensor, "*B T P"] | None = None,
        positions: Int[Tensor, "*B T"] | None = None,
    ) -> Float[Tensor, "B H T K"]:
        """Return the attention weights of each query head, before dropout."""
        query, key, _ = self._queries_keys_values(x, memory, angles)
        if positions is not None:
            require_token_positions(positions, x)
        key_positions, _ = self._key_positions(x, positions, None)
        mask = self._full_mask(query, key, add_head_axis(mask), causal, key_positions)
        return self._weights(query, key, mask)

    def new_cache(self, batch_size: int, max_len: int) -> LayerCache:
        """Make an empty cache for the G KV heads.

        With a window, it keeps the positions of its keys as well.
        """
        sizes = batch_size, self.num_kv_heads, max_len, self.head_dim
        kind = LayerCache if self.window is None else WindowCache
        return kind(*sizes, **placement(self))

    def weights_by_head(self) -> dict[str, Sequence[Tensor]]:
        """Return views of all parameters, split into their heads."""
        heads = {"q_proj": self.num_heads, "sinks": self.num_heads}
        heads |= dict.fromkeys(("k_proj", "v_proj"), self.num_kv_heads)
        return {
            name: own.chunk(heads.get(name.split(".")[0], 1))
            for name, own in self.named_parameters()
        }

    def _project(
        self, x: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        source = require_source(x, memory, self.q_proj, self.d_model)
        require_window(self.window, memory)
        query = split_heads(self.q_proj(x), self.num_heads)
        key = split_heads(self.k_proj(source), self.num_kv_heads)
        value = split_heads(self.v_proj(source), self.num_kv_heads)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        return query, key, value  # (B, H, T, D), and twice (B, G, K, D)

    def _key_positions(
        self, x: Tensor, positions: Tensor | None, cache: CacheLike | None
    ) -> tuple[Tensor | None, int | None]:
        """Return the positions of all keys, and the padding that a window spans.

        The positions are None where columns serve as well, as for pages, whose padding
        is on the left. For the padding see ``WindowCache``.
        """
        if cache is None:
            return positions, 0
        if not isinstance(cache, WindowCache):
            if self.window is not None and positions is not None:
                require_columns(positions, cache.length - x.shape[1])
            return None, 0
        key_positions = cache.add_positions(positions, x.shape[1])
        return key_positions, 0 if key_positions is None else cache.padding

    def _full_mask(
        self,
        query: Tensor,
        key: Tensor,
        mask: Tensor | None,
        causal: bool,
        key_positions: Tensor | None = None,
    ) -> Tensor | None:
        """Return the mask joined with the window, or with the causal mask."""
        if self.window is None:
            return with_causal(mask, causal, query, key)
        length, device = query.shape[-2], query.device
        if key_positions is None:
            sizes = length, self.window, key.shape[-2]
            near = sliding_window_mask(*sizes, device=device)
        else:
            newest = key_positions[..., -length:]
            near = window_mask_at(newest, key_positions, self.window)
            near = near if near.ndim == 2 else near[:, None]  # for all heads
        return near if mask is None else combine_masks(mask, near)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        *,
        square: bool,
        key_positions: Tensor | None = None,
        padding: int | None = 0,
    ) -> Tensor:
        """Return the output of each head, (B, H, T, D).

        ``square``: see ``MultiHeadLayer``. ``key_positions``: of the keys, where they
        are not their columns. ``padding``: see ``WindowCache``.
        """
        require_flags(causal=causal)
        length, key_len = query.shape[-2], key.shape[-2]
        if mask is not None:
            require_mask(mask, (*query.shape[:-1], key_len), like=query)
        reach = key_len
        if self.window is not None and padding is not None:
            reach = self.window + length - 1 + padding
        if key_len > reach:  # older keys of the cache are outside of every window
            key, value = key[:, :, -reach:], value[:, :, -reach:]
            if mask is not None and mask.ndim and mask.shape[-1] > 1:
                mask = mask[..., -reach:]
            if key_positions is not None:
                key_positions = key_positions[..., -reach:]
        by_hand = self.softcap is not None or self.sinks is not None
        plain = mask is None and self.window is None and not by_hand
        is_causal = causal and square and plain
        if not is_causal:
            mask = self._full_mask(query, key, mask, causal, key_positions)
        dropout = self.dropout if self.training else 0.0
        if not by_hand:
            return self._sdpa(query, key, value, mask, is_causal, dropout)
        weights = F.dropout(self._weights(query, key, mask), dropout)
        return weights @ repeat_kv(value, self.num_heads // self.num_kv_heads)

    def _sdpa(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        is_causal: bool,
        dropout: float,
    ) -> Tensor:
        """Attend with PyTorch's kernel, which copies no shared head."""
        shape, groups = query.shape, self.num_heads // self.num_kv_heads
        if mask is not None and mask.ndim < 2:
            mask = mask.view(1, -1)  # the kernel wants both axes, (Q, K)
        rows = shape[-2] == 1 and groups > 1
        if rows:  # one query in each head: those of a group become rows of one head
            query = query.reshape(shape[0], self.num_kv_heads, groups, shape[-1])
            if mask is not None and mask.ndim == 4 and mask.shape[1] > 1:
                mask = mask.reshape(-1, self.num_kv_heads, groups, mask.shape[-1])
        context = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=is_causal,
            dropout_p=dropout,
            scale=self.scale,
            enable_gqa=groups > 1 and not rows,
        )
        return context.reshape(shape)

    def _weights(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        """Return the weights (B, H, Q, K), computed step by step."""
        key = repeat_kv(key, self.num_heads // self.num_kv_heads)
        if self.softcap is None and self.sinks is None:
            return attention_weights(query, key, mask, scale=self.scale)
        at_least_float32 = torch.promote_types(query.dtype, torch.float32)
        with no_autocast(query):
            scaled = query.to(at_least_float32) * self.scale
            scores = scaled @ key.to(at_least_float32).mT  # (B, H, Q, K)
        if self.softcap is not None:
            scores = self.softcap * (scores / self.softcap).tanh()
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        if self.sinks is not None:
            sinks = self.sinks.to(scores.dtype)[:, None, None]
            scores = torch.cat((scores, sinks.expand(*scores.shape[:-1], 1)), dim=-1)
        weights = scores.softmax(dim=-1)[..., : key.shape[-2]]
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)  # where a row is empty
        return weights.to(query.dtype)
