"""One decode step of latent attention: absorbed, and with recomputed keys.

A case is one call of an attention layer with one new token, after the many that its
cache holds. The last of them stays the same token, so that every call reads as much.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import DeepseekV3Config, DynamicCache
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as published

from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.hf_layers import from_transformers
from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.multi_head import copy_weights
from attention_lib.rope import rope_angles

D_MODEL, NUM_HEADS, LATENT, NOPE, ROPE, VALUE = 512, 16, 64, 32, 16, 32
KEPT = 2000
REFERENCE = "Hugging Face DeepSeek-V3"
OURS = "absorbed"
GROUPED = {"grouped, 4 heads": 4, "grouped, 1 head": 1, "all heads": NUM_HEADS}
MODELS = (REFERENCE, "expanded anew", OURS, "all keys kept", *GROUPED)


def their_layer() -> tuple[Any, Any]:
    """Return their layer, in evaluation mode, and what turns positions into angles."""
    config = DeepseekV3Config(
        hidden_size=D_MODEL,
        num_attention_heads=NUM_HEADS,
        num_key_value_heads=NUM_HEADS,
        kv_lora_rank=LATENT,
        q_lora_rank=None,
        qk_nope_head_dim=NOPE,
        qk_rope_head_dim=ROPE,
        v_head_dim=VALUE,
        attn_implementation="sdpa",
    )
    torch.manual_seed(0)
    layer = published.DeepseekV3Attention(config, layer_idx=0).eval()
    return layer, published.DeepseekV3RotaryEmbedding(config)


def latent_layer(absorb: bool) -> MultiHeadLatentAttention:
    """Return our layer, with the weights of theirs."""
    ours = MultiHeadLatentAttention(
        D_MODEL,
        NUM_HEADS,
        q_latent_dim=None,
        kv_latent_dim=LATENT,
        nope_dim=NOPE,
        rope_dim=ROPE,
        value_dim=VALUE,
        absorb=absorb,
    ).eval()
    copy_weights(from_transformers(their_layer()[0]).attention, ours)
    return ours


def expanding(layer: MultiHeadLatentAttention) -> Callable[..., Tensor]:
    """Keep latents like the absorbed form, but make keys and values of them."""

    def call(x: Tensor, *, causal: bool, angles: Tensor, cache: Any) -> Tensor:
        absorbed = layer._queries_keys_values(x, None, angles, cache)
        query, key, latent = absorbed  # of C + R, C + R and C numbers
        plain = layer.q_proj(x).unflatten(-1, (NUM_HEADS, -1)).transpose(1, 2)
        query = torch.cat((plain[..., :NOPE], query[..., LATENT:]), dim=-1)
        up_key, up_value = layer._up()
        shared = key[..., LATENT:].expand(-1, NUM_HEADS, -1, -1)
        key = torch.cat((latent @ up_key.mT, shared), dim=-1)
        weights = (query @ key.mT * layer.scale).softmax(dim=-1)
        mixed = weights @ (latent @ up_value.mT)
        return layer.out_proj(mixed.transpose(1, 2).flatten(2))

    return call


def make_call(name: str) -> Callable[[], Any]:
    """Return the timed call: one new token after the cached ones."""
    tokens = torch.randn(1, KEPT + 1, D_MODEL, generator=torch.Generator())
    past, new = tokens[:, :KEPT], tokens[:, KEPT:]
    if name == REFERENCE:
        return _their_call(past, new)
    layer: Any
    if name in GROUPED:
        shared = GROUPED[name]
        layer = GroupedQueryAttention(D_MODEL, NUM_HEADS, shared, head_dim=VALUE).eval()
    else:
        layer = latent_layer(absorb=name != "all keys kept")
    width = VALUE if name in GROUPED else ROPE
    angles = rope_angles(torch.arange(KEPT + 1), width)
    cache = layer.new_cache(1, KEPT + 1)
    step = expanding(layer) if name == "expanded anew" else layer
    with torch.no_grad():
        layer(past, causal=True, angles=angles[:KEPT], cache=cache)

    @torch.no_grad()
    def call() -> Tensor:
        cache.crop(KEPT)
        return step(new, causal=True, angles=angles[KEPT:], cache=cache)

    return call


def _their_call(past: Tensor, new: Tensor) -> Callable[[], Any]:
    layer, rotate = their_layer()
    places, cache = torch.arange(KEPT + 1)[None], DynamicCache()
    turns = rotate(past, places[:, :KEPT]), rotate(new, places[:, KEPT:])
    with torch.no_grad():
        layer(past, turns[0], attention_mask=None, past_key_values=cache)
    kept = cache.layers[0]
    keys, values = kept.keys, kept.values

    @torch.no_grad()
    def call() -> Tensor:
        kept.keys, kept.values = keys, values
        return layer(new, turns[1], attention_mask=None, past_key_values=cache)[0]

    return call
