"""Layers that attend to a part of the text: Llama 4, ModernBERT, Longformer."""

import copy
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor, nn

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.hf_layers.parts import PublishedAttention, load_copies, read_rotation
from attention_lib.kv_cache import CacheLike
from attention_lib.multi_head import merge_heads, split_heads
from attention_lib.precision import widened
from attention_lib.rope import rope_attention_factor
from attention_lib.validation import require_not_negative, require_positive


def both_sides(
    reach: int, query: Num[Tensor, "*#B T"], key: Num[Tensor, "*#B K"]
) -> Bool[Tensor, "*#B T K"]:
    """Let each position attend to those at most ``reach`` before or after it."""
    require_not_negative(reach=reach)
    return (query[..., :, None] - key[..., None, :]).abs() <= reach


def chunks(
    size: int, query: Num[Tensor, "*#B T"], key: Num[Tensor, "*#B K"]
) -> Bool[Tensor, "*#B T K"]:
    """Let each position attend to its own chunk, also to later positions in it."""
    require_positive(size=size)
    return query[..., :, None] // size == key[..., None, :] // size


class TemperedAttention(GroupedQueryAttention):
    """Llama 4: a norm after the rotation, or, without rotation, a temperature."""

    normed: bool = False
    norm_eps: float = 1e-5
    tuning: tuple[float, float] | None = None

    def _queries_keys_values(
        self,
        x: Tensor,
        memory: Tensor | None,
        angles: Tensor | None = None,
        cache: CacheLike | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        start = 0 if cache is None else cache.length
        query, key, value = super()._queries_keys_values(x, memory, angles)
        dtype = query.dtype
        if self.normed:  # to a mean square of 1, without a learned scale
            query, key = (
                it * (it.square().mean(-1, keepdim=True) + self.norm_eps).rsqrt()
                for it in widened(query, key)
            )
        if self.tuning is not None:
            # Late in a text, queries grow, so that the softmax stays as sharp.
            step, strength = self.tuning
            (query,) = widened(query)
            position = torch.arange(start, start + x.shape[1], device=x.device)
            grown = strength * ((position + 1).to(query) / step).floor().log1p() + 1
            query = query * grown[:, None]
        query, key = query.to(dtype), key.to(dtype)
        if cache is not None:
            key, value = cache.append(key, value)
        return query, key, value


def convert_llama4(layer: Any) -> PublishedAttention:
    """Convert Llama 4's: most layers rotate and see a chunk, each fourth sees all.

    The latter's temperature counts columns, padding included, as in the original.
    """
    config, rotated = layer.config, bool(layer.use_rope)
    rotation: dict[str, Any] = read_rotation(layer) if rotated else {}
    factor = rope_attention_factor(rotation.get("scaling"))
    with torch.device("meta"):
        ours = TemperedAttention(
            layer.q_proj.in_features,
            layer.num_attention_heads,
            layer.num_key_value_heads,
            head_dim=layer.head_dim,
            qkv_bias=layer.q_proj.bias is not None,
            out_bias=layer.o_proj.bias is not None,
            scale=layer.scaling * factor**2,
            layout="interleaved",
        )
    ours.normed, ours.norm_eps = hasattr(layer, "qk_norm"), config.rms_norm_eps
    if layer.attn_temperature_tuning and not rotated:
        ours.tuning = layer.floor_scale, layer.attn_scale
    named = layer.named_parameters()
    load_copies(
        ours, {name.replace("o_proj", "out_proj"): weight for name, weight in named}
    )
    chunked = config.layer_types[layer.layer_idx] == "chunked_attention"
    near = partial(chunks, config.attention_chunk_size) if chunked else None
    head_dim = layer.head_dim if rotated else None
    return PublishedAttention(ours, head_dim=head_dim, near=near, **rotation)


def convert_modernbert(layer: Any) -> PublishedAttention:
    """Convert ModernBERT's: rotated, both sides; most have a window, rotate faster."""
    heads = layer.config.num_attention_heads
    width = layer.Wqkv.in_features
    with torch.device("meta"):
        ours = GroupedQueryAttention(
            width,
            heads,
            heads,
            qkv_bias=layer.Wqkv.bias is not None,
            out_bias=layer.Wo.bias is not None,
        )
    weights = {
        f"out_proj.{name}": weight for name, weight in layer.Wo.named_parameters()
    }
    for kind, fused in layer.Wqkv.named_parameters():
        for name, part in zip("qkv", fused.chunk(3), strict=True):
            weights[f"{name}_proj.{kind}"] = part
    load_copies(ours, weights)
    window = layer.sliding_window  # its reach plus one
    return PublishedAttention(
        ours,
        head_dim=layer.head_dim,
        causal=False,
        near=None if window is None else partial(both_sides, window - 1),
        **read_rotation(layer),
    )


class LongformerAttention(nn.Module):
    """A window to both sides, and global tokens: they see all, and all see them.

    Beltagy et al. (2020), section 3.1. Global tokens attend through separate
    projections.

    Args:
        layer: its projections are copied.
    """

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.num_heads = layer.num_heads
        self.reach = layer.one_sided_attn_window_size
        for end in ("", "_global"):
            for name in ("query", "key", "value"):
                projection = copy.deepcopy(getattr(layer, name + end))
                self.add_module(name + end, projection)

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        positions: Num[Tensor, "*B T"] | None = None,
        global_tokens: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Attend like the published layer, up to the output projection.

        Args:
            x: the tokens.
            mask: hides padding: its columns, so (B, 1, T).
            positions: of each token, for the window; 0 to T - 1 when left out.
            global_tokens: which tokens attend to all and are visible to all.
        """
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        seen = both_sides(self.reach, *[torch.atleast_2d(positions)] * 2)
        if global_tokens is not None:
            seen = seen | global_tokens[:, None, :]
        if mask is not None:
            seen = seen & mask
        context = self._attend(x, seen, "")
        if global_tokens is None:
            return context
        of_all = self._attend(x, mask, "_global")
        return torch.where(global_tokens[..., None], of_all, context)

    def _attend(self, x: Tensor, mask: Tensor | None, end: str) -> Tensor:
        query, key, value = (
            split_heads(self.get_submodule(name + end)(x), self.num_heads)
            for name in ("query", "key", "value")
        )
        mask = None if mask is None else mask[:, None]
        return merge_heads(scaled_dot_product_attention(query, key, value, mask))
