"""MiniMax's lightning attention: linear, with a fixed decay for each head."""

import copy
from typing import Any

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor, nn

from attention_lib.hf_layers.delta import CHUNK, DeltaCache, refuse_padding_within
from attention_lib.multi_head import merge_heads
from attention_lib.norms import RMSNorm
from attention_lib.precision import no_autocast, widened


class LightningAttention(nn.Module):
    """Linear attention without feature map and divisor: old tokens decay instead.

    MiniMax (2025), section 2.2. A norm and a gate follow it.

    Args:
        layer: its projections, its norm and its decays are copied.
    """

    decay: Tensor

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.num_heads = layer.num_attention_heads
        self.activation = copy.deepcopy(layer.act_fn)
        self.qkv_proj = copy.deepcopy(layer.qkv_proj)
        self.gate_proj = copy.deepcopy(layer.output_gate)
        self.out_proj = copy.deepcopy(layer.out_proj)
        self.norm = RMSNorm(len(layer.norm.weight), eps=layer.norm.variance_epsilon)
        self.norm.weight = nn.Parameter(layer.norm.weight.detach().clone())
        self.register_buffer("decay", layer.slope_rate.detach().clone())  # (H, 1, 1)

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        positions: Num[Tensor, "*B T"] | None = None,
        cache: DeltaCache | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Read tokens like the published layer.

        Args:
            x: the tokens; with a cache, those that are new.
            mask: which tokens are real; padding may come before a text, or, without a
                cache, after it, but not between its tokens.
            positions: not used: only the distance between tokens counts.
            cache: a ``DeltaCache``, which this call changes.
        """
        mixed = self.activation(self.qkv_proj(x))
        if mask is not None:
            refuse_padding_within(cache, mask)
            mixed = mixed * mask[..., None]
        heads = mixed.unflatten(-1, (self.num_heads, 3, -1))  # (B, T, H, 3, D)
        query, key, value = heads.transpose(1, 2).unbind(3)  # (B, H, T, D)
        state = None if cache is None else cache.state
        out = []
        parts = (it.split(CHUNK, dim=2) for it in (query, key, value))
        for q, k, v in zip(*parts, strict=True):
            context, state = fading_attention(q, k, v, self.decay, state)
            out.append(context)
        if cache is not None:
            cache.state = state
        mixed = self.norm(merge_heads(torch.cat(out, dim=2)).to(x.dtype))
        return self.out_proj(mixed * self.gate_proj(x).sigmoid())

    def new_cache(self, batch_size: int, max_len: int) -> DeltaCache:
        """Make an empty cache; its size depends neither on texts nor on lengths."""
        return DeltaCache()


def fading_attention(
    query: Float[Tensor, "*B T D"],
    key: Float[Tensor, "*B T D"],
    value: Float[Tensor, "*B T V"],
    decay: Float[Tensor, "*#B 1 1"],
    state: Float[Tensor, "*B D V"] | None = None,
) -> tuple[Float[Tensor, "*B T V"], Float[Tensor, "*B D V"]]:
    """Mix values by query · key · exp(-decay · distance); also return the new state.

    All tokens are one chunk: (Q Kᵀ ⊙ fading) V, plus what the state still holds. Both
    are in float32 at least.
    """
    query, key, value, decay = widened(query, key, value, decay)
    position = torch.arange(query.shape[-2], device=query.device)[:, None].to(query)
    left = len(position) - 1 - position
    with no_autocast(query):
        fading = (-decay * (position - position.mT).tril()).exp().tril()  # (..., T, T)
        context = (query @ key.mT * fading) @ value
        new = (key * (-decay * left).exp()).mT @ value
        if state is not None:
            context = context + (query * (-decay * (position + 1)).exp()) @ state
            new = new + (-decay * len(position)).exp() * state
    return context, new
