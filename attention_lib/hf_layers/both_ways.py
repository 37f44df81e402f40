"""BERT, BART and T5: attention to both sides, or to a memory."""

import copy
from typing import Any

import torch

from attention_lib.hf_layers.parts import PublishedAttention, load_copies
from attention_lib.multi_head import MultiHeadAttention
from attention_lib.relative_attention import RelativeAttention

# Layers that may attend to both sides or to a memory: our names of their parts.
BOTH_WAYS: dict[str, dict[str, str]] = {
    "BertSelfAttention": {"query": "q_proj", "key": "k_proj", "value": "v_proj"},
    "BertCrossAttention": {"query": "q_proj", "key": "k_proj", "value": "v_proj"},
    "BertAttention": {
        "self.query": "q_proj",
        "self.key": "k_proj",
        "self.value": "v_proj",
        "output.dense": "out_proj",
    },
    "BartAttention": {
        name: name for name in ("q_proj", "k_proj", "v_proj", "out_proj")
    },
    "T5Attention": {
        "q": "q_proj",
        "k": "k_proj",
        "v": "v_proj",
        "o": "out_proj",
        "relative_attention_bias": "distance_bias",
    },
}


def convert_both_ways(layer: Any) -> PublishedAttention:
    """Convert BERT's, BART's and T5's layers: within one text, or with a memory."""
    kind = type(layer).__name__
    inner = layer.self if kind == "BertAttention" else layer
    weights = {}
    for name, weight in layer.named_parameters():
        part, end = name.rsplit(".", 1)
        if part in BOTH_WAYS[kind]:
            weights[f"{BOTH_WAYS[kind][part]}.{end}"] = weight
    width = weights["q_proj.weight"].shape[1]
    with torch.device("meta"):
        if kind == "T5Attention":
            table = getattr(layer, "relative_attention_bias", None)
            ours: MultiHeadAttention = RelativeAttention(
                width,
                layer.n_heads,
                num_buckets=0 if table is None else table.num_embeddings,
                max_distance=layer.relative_attention_max_distance,
                both_ways=not layer.is_decoder,
                head_dim=layer.key_value_proj_dim,
            )
            ours.num_buckets = layer.relative_attention_num_buckets
        else:
            heads = getattr(inner, "num_attention_heads", None) or inner.num_heads
            biased = "q_proj.bias" in weights
            ours = MultiHeadAttention(width, heads, qkv_bias=biased)
    query = weights["q_proj.weight"]
    if kind in ("BertSelfAttention", "BertCrossAttention"):  # the block projects
        weights["out_proj.weight"] = torch.eye(width).to(query)
    if kind != "T5Attention":
        zeros = torch.zeros(width).to(query)
        weights.setdefault("out_proj.bias", zeros)
    load_copies(ours, weights)
    norm = copy.deepcopy(layer.output.LayerNorm) if kind == "BertAttention" else None
    placed = isinstance(ours, RelativeAttention)
    return PublishedAttention(ours, causal=inner.is_causal, norm=norm, placed=placed)
