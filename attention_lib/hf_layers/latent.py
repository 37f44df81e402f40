"""Latent attention: DeepSeek-V2 and V3, and Kimi Linear, which has no rotation."""

from typing import Any

import torch

from attention_lib.hf_layers.parts import PublishedAttention, load_copies, read_rotation
from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.rope import rope_attention_factor

# Latent attention: their names of our parts. A layer has q_proj or the three below it.
LATENT = "DeepseekV2Attention", "DeepseekV3Attention", "KimiLinearAttention"
_LATENT_PARTS = {
    "q_proj": "q_proj",
    "q_a_proj": "q_proj.0",
    "q_a_layernorm": "q_proj.1",
    "q_b_proj": "q_proj.2",
    "kv_a_proj_with_mqa": "kv_down_proj",
    "kv_a_layernorm": "kv_norm",
    "kv_b_proj": "kv_up_proj",
    "o_proj": "out_proj",
}


def convert_latent(
    layer: Any, kind: type[MultiHeadLatentAttention] = MultiHeadLatentAttention
) -> PublishedAttention:
    """Convert latent attention; V2 always rotates neighbouring pairs."""
    rotated = not type(layer).__name__.startswith("Kimi")
    rotation: dict[str, Any] = read_rotation(layer) if rotated else {}
    with torch.device("meta"):
        ours = kind(
            layer.hidden_size,
            layer.num_heads,
            q_latent_dim=layer.q_lora_rank,
            kv_latent_dim=layer.kv_lora_rank,
            nope_dim=layer.qk_nope_head_dim,
            rope_dim=layer.qk_rope_head_dim,
            value_dim=layer.v_head_dim,
            absorb=True,
            scale=layer.scaling,
            rope_scale=rope_attention_factor(rotation.get("scaling")),
            bias=layer.o_proj.bias is not None,
            layout="interleaved"
            if getattr(layer.config, "rope_interleave", True)
            else "half",
            norm_eps=layer.kv_a_layernorm.variance_epsilon,
        )
    weights = {}
    for name, weight in layer.named_parameters():
        part, end = name.rsplit(".", 1)
        if part in _LATENT_PARTS:
            weights[f"{_LATENT_PARTS[part]}.{end}"] = weight
    load_copies(ours, weights)
    head_dim = layer.qk_rope_head_dim if rotated else None
    return PublishedAttention(ours, head_dim=head_dim, **rotation)
