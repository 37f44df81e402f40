"""Families that differ from Llama's attention by options of our layer, and GPT-2."""

from collections.abc import Callable
from typing import Any

import torch

from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.hf_layers.parts import PublishedAttention, load_copies, read_rotation
from attention_lib.multi_head import MultiHeadAttention
from attention_lib.rope import rope_attention_factor

# How each family differs from Llama's attention, as options of our layer.
FAMILIES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "LlamaAttention": lambda layer: {},
    "Qwen2Attention": lambda layer: {"window": layer.sliding_window},
    "Qwen3Attention": lambda layer: {
        "window": layer.sliding_window,
        "qk_norm": "rms",
        "norm_eps": layer.q_norm.variance_epsilon,
    },
    "MistralAttention": lambda layer: {"window": layer.config.sliding_window},
    "Gemma2Attention": lambda layer: {
        "window": layer.sliding_window,
        "softcap": layer.attn_logit_softcapping,
    },
    "Gemma3Attention": lambda layer: {
        "window": layer.sliding_window,
        "qk_norm": "rms_plus_one",
        "norm_eps": layer.q_norm.eps,
    },
    "MiniMaxAttention": lambda layer: {},
    "GptOssAttention": lambda layer: {"window": layer.sliding_window, "sinks": True},
    "SmolLM3Attention": lambda layer: {"window": layer.sliding_window},
}


def convert_grouped(layer: Any) -> PublishedAttention:
    """Convert a layer with separate projections, with its family's options."""
    rotated = getattr(layer, "use_rope", True)
    rotation: dict[str, Any] = read_rotation(layer) if rotated else {}
    factor = rope_attention_factor(rotation.get("scaling"))
    options = FAMILIES[type(layer).__name__](layer)
    with torch.device("meta"):  # the weights are loaded below
        ours = GroupedQueryAttention(
            layer.q_proj.in_features,
            layer.q_proj.out_features // layer.head_dim,
            layer.k_proj.out_features // layer.head_dim,
            head_dim=layer.head_dim,
            qkv_bias=layer.q_proj.bias is not None,
            out_bias=layer.o_proj.bias is not None,
            # YaRN multiplies queries and keys, so each score by the square.
            scale=layer.scaling * factor**2,
            **options,
        )
    weights = {
        name.replace("o_proj", "out_proj"): weight
        for name, weight in layer.named_parameters()
    }
    load_copies(ours, weights)
    return PublishedAttention(
        ours, head_dim=layer.head_dim if rotated else None, **rotation
    )


def convert_gpt2(layer: Any) -> PublishedAttention:
    """Split and transpose the fused projection, a ``Conv1D`` that holds (in, out)."""
    width = layer.embed_dim
    with torch.device("meta"):
        ours = MultiHeadAttention(width, layer.num_heads, qkv_bias=True)
    weights = {
        "out_proj.weight": layer.c_proj.weight.T,
        "out_proj.bias": layer.c_proj.bias,
    }
    for kind, fused in (("weight", layer.c_attn.weight.T), ("bias", layer.c_attn.bias)):
        for name, part in zip("qkv", fused.split(width), strict=True):
            weights[f"{name}_proj.{kind}"] = part
    # Our scores are divided by √D; a different scale goes into the queries.
    scale = layer.scaling / layer.head_dim**-0.5
    for name in ("q_proj.weight", "q_proj.bias"):
        weights[name] = weights[name] * scale
    load_copies(ours, weights)
    return PublishedAttention(ours)
