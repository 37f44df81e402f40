"""DeepSeek-V3.2 and GLM-5: latent attention to the keys chosen by a cheap index."""

import copy
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lib.hf_layers.latent import convert_latent
from attention_lib.hf_layers.parts import PublishedAttention
from attention_lib.kv_cache import CacheLike, LayerCache
from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.masks import with_causal
from attention_lib.multi_head import split_heads
from attention_lib.precision import no_autocast, widened
from attention_lib.rope import Layout, apply_rope
from attention_lib.sparse_attention import top_k_keys

SPARSE: dict[str, Layout] = {  # the pairs that the index rotates
    "DeepseekV32Attention": "half",
    "GlmMoeDsaAttention": "interleaved",
}


class IndexedCache(LayerCache):
    """A cache of latents that also keeps the index's key of each token.

    Args:
        like: an empty cache of the latents.
        width: of a key of the index.
    """

    def __init__(self, like: LayerCache, width: int) -> None:
        batch_size, num_heads, max_len, key_dim = like.keys.shape
        super().__init__(
            batch_size,
            num_heads,
            max_len,
            key_dim,
            value_dim=like.values.shape[-1],
            device=like.keys.device,
            dtype=like.keys.dtype,
        )
        with torch.inference_mode(False):  # as LayerCache
            self.index_keys = like.keys.new_zeros(batch_size, max_len, width)

    def append_index(self, key: Float[Tensor, "B T D"]) -> Float[Tensor, "B K D"]:
        """Append the index's keys of new tokens, before their latents are appended."""
        end = self.length + key.shape[1]
        self.index_keys[:, self.length : end] = key
        return self.index_keys[:, :end]


class Index(nn.Module):
    """Score all keys for each query, with a few small heads: DeepSeek-AI (2025).

    Args:
        layer: the published one; its parts are copied.
        layout: the pairs that it rotates.
        rope_scale: multiplies what is rotated; see ``rope_attention_factor``.
    """

    def __init__(self, layer: Any, layout: Layout, rope_scale: float) -> None:
        super().__init__()
        self.q_proj = copy.deepcopy(layer.wq_b)
        self.k_proj = copy.deepcopy(layer.wk)
        self.k_norm = copy.deepcopy(layer.k_norm)
        self.weight_proj = copy.deepcopy(layer.weights_proj)
        self.head_dim = layer.wk.out_features
        self.num_heads, self.num_keys = layer.n_heads, layer.index_topk
        self.layout, self.rope_scale = layout, rope_scale

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        latent: Float[Tensor, "B T L"],
        angles: Float[Tensor, "*B T P"],
        cache: IndexedCache | None = None,
    ) -> Float[Tensor, "B T K"]:
        """Return the score Σ weight · relu(query · key / √D), over the index's heads.

        Args:
            x: the source of the keys and of the heads' weights.
            latent: of the queries; attention makes its queries from it as well.
            angles: those of attention; they rotate the first part of each vector.
            cache: keeps the keys.
        """
        per_head = angles[:, None] if angles.ndim == 3 else angles  # for all heads
        query = self._rotate(split_heads(self.q_proj(latent), self.num_heads), per_head)
        key = self._rotate(self.k_norm(self.k_proj(x)), angles)  # one for all heads
        if cache is not None:
            key = cache.append_index(key)
        query, key, weight = widened(query, key, self.weight_proj(x))
        with no_autocast(query):
            hits = (query @ key[:, None].mT * key.shape[-1] ** -0.5).relu()
        weight = weight * self.num_heads**-0.5  # (B, T, H); hits are (B, H, T, K)
        return (weight.mT[..., None] * hits).sum(dim=1)

    def _rotate(self, x: Tensor, angles: Tensor) -> Tensor:
        width = 2 * angles.shape[-1]
        rotated = apply_rope(x[..., :width], angles, layout=self.layout)
        return torch.cat((rotated * self.rope_scale, x[..., width:]), dim=-1)


class IndexedLatentAttention(MultiHeadLatentAttention):
    """Latent attention in which each query attends to its chosen keys only."""

    index: Index

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
        angles: Float[Tensor, "*B T P"] | None = None,
        cache: CacheLike | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Choose keys, and attend to them."""
        chosen = self.choose(x, mask, causal=causal, angles=angles, cache=cache)
        return super().forward(x, chosen, angles=angles, cache=cache)

    @torch.no_grad()
    def choose(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        angles: Any = None,
        cache: Any = None,
    ) -> Bool[Tensor, "B T K"]:
        """Return which keys each query attends to; later layers of GLM reuse them.

        A choice has no gradient: the index is trained with a separate loss.
        """
        down: Any = self.q_proj
        scores = self.index(x, down[1](down[0](x)), angles, cache)
        seen = with_causal(mask, causal, scores, scores.mT)
        return top_k_keys(scores, self.index.num_keys, seen)

    def new_cache(self, batch_size: int, max_len: int) -> LayerCache:
        """Make an empty cache, of latents and of the index's keys."""
        plain = super().new_cache(batch_size, max_len)
        return IndexedCache(plain, self.index.head_dim)


def convert_sparse(layer: Any) -> PublishedAttention:
    """Convert latent attention and its index; a GLM layer without one needs a mask."""
    if layer.indexer is None:
        return convert_latent(layer)
    ours = convert_latent(layer, IndexedLatentAttention)
    attention: Any = ours.attention
    layout = SPARSE[type(layer).__name__]
    attention.index = Index(layer.indexer, layout, attention.rope_scale)
    return ours
