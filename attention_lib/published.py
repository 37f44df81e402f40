"""Attention layers of ``transformers``, rebuilt from this book's layers.

A layer is recognised by the name of its class, so nothing here imports that library.
Each family with rotary positions is written as what differs from Llama's attention.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor, nn

from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.multi_head import MultiHeadAttention, MultiHeadLayer
from attention_lib.relative_attention import RelativeAttention
from attention_lib.rope import rope_angles, rope_attention_factor
from attention_lib.rope_scaling import Scaling
from attention_lib.validation import check_published

# What each family has that Llama's attention has not, as options of our layer.
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
    "GptOssAttention": lambda layer: {"window": layer.sliding_window, "sinks": True},
    "SmolLM3Attention": lambda layer: {"window": layer.sliding_window},
}

# Latent attention: their names of our parts. A layer has q_proj or the three below it.
LATENT = "DeepseekV2Attention", "DeepseekV3Attention"
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

# Those that may attend to both sides or to a memory: our names of their parts.
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


class Rebuilt(nn.Module):
    """A published attention layer in this book's parts; ``rebuild`` makes it.

    Args:
        attention: holds the weights.
        head_dim: the width that is turned; None where positions turn nothing.
        base: of the rotation; see ``rope_angles``.
        scaling: of the rotation; see ``rope_angles``.
        causal: whether no token sees a later one.
        norm: of what comes in plus what was found, where the layer adds them itself.
    """

    def __init__(
        self,
        attention: MultiHeadLayer,
        *,
        head_dim: int | None = None,
        base: float = 10_000.0,
        scaling: Scaling | None = None,
        causal: bool = True,
        norm: nn.LayerNorm | None = None,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.head_dim = head_dim
        self.base = base
        self.scaling = scaling
        self.causal = causal
        self.norm = norm

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        positions: Num[Tensor, " T"] | None = None,
        memory: Float[Tensor, "B S M"] | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Attends as the published layer does with the mask of its model.

        Args:
            x: the tokens.
            mask: hides more, such as padding; broadcasts to (B, T, T), or to (B, T, S).
            positions: the place of each token, where the layer turns by it; counted
                from 0 when left out.
            memory: the source of keys and values, where the layer takes one.
        """
        angles = None
        if self.head_dim is not None:
            if positions is None:
                positions = torch.arange(x.shape[1], device=x.device)
            angles = rope_angles(
                positions, self.head_dim, base=self.base, scaling=self.scaling
            )
        found = self.attention(
            x, mask, causal=self.causal, angles=angles, memory=memory
        )
        return found if self.norm is None else self.norm(x + found)


def rebuild(layer: nn.Module) -> Rebuilt:
    """Makes one of our layers from an attention layer of ``transformers``.

    It has copies of that layer's weights, in their type and on their device, and no
    dropout.

    Args:
        layer: of a class in ``FAMILIES``, ``LATENT`` or ``BOTH_WAYS``, or
            ``GPT2Attention``. Latent attention is rebuilt absorbed. A
            ``BertAttention`` adds what came in and normalises; ``BertSelfAttention``
            and ``BertCrossAttention`` end before the output projection. T5's distances
            are those of the first layer, which gives them to the others: so a later
            layer is rebuilt without, and may share that layer's ``distance_bias``.

    Raises:
        TypeError: no layer.
        ValueError: a layer of another class; one with an option that is not rebuilt
            here: another family's attention in both directions or to a memory, part
            of a head turned, an unknown scaling of the rotation.
    """
    check_published(layer, [*FAMILIES, *LATENT, *BOTH_WAYS, "GPT2Attention"], BOTH_WAYS)
    own: Any = layer
    if type(layer).__name__ in BOTH_WAYS:
        return _both_ways(own)
    if type(layer).__name__ in LATENT:
        return _latent(own)
    if type(layer).__name__ == "GPT2Attention":
        return Rebuilt(_gpt2(own))
    turned = getattr(own, "use_rope", True)
    rotation: dict[str, Any] = _rotation(own) if turned else {}
    factor = rope_attention_factor(rotation.get("scaling"))
    options = FAMILIES[type(layer).__name__](own)
    with torch.device("meta"):  # the weights come in a moment
        ours = GroupedQueryAttention(
            own.q_proj.in_features,
            own.q_proj.out_features // own.head_dim,
            own.k_proj.out_features // own.head_dim,
            head_dim=own.head_dim,
            qkv_bias=own.q_proj.bias is not None,
            out_bias=own.o_proj.bias is not None,
            # YaRN multiplies queries and keys, so each score by the square.
            scale=own.scaling * factor**2,
            **options,
        )
    weights = {
        name.replace("o_proj", "out_proj"): weight
        for name, weight in own.named_parameters()
    }
    _give(ours, weights)
    return Rebuilt(ours, head_dim=own.head_dim if turned else None, **rotation)


def _rotation(layer: Any) -> dict[str, Any]:
    """Reads base and scaling from the layer's config, which may have them by kind."""
    config = layer.config
    found: Mapping[str, Any] = config.rope_parameters
    found = found.get(getattr(layer, "layer_type", ""), found)
    told = {key: value for key, value in found.items() if key != "type"}
    if told.get("partial_rotary_factor") == 1:
        del told["partial_rotary_factor"]
    if told.get("rope_type") == "dynamic":
        name = "original_max_position_embeddings"
        told.setdefault(name, config.max_position_embeddings)
    return {"base": float(told["rope_theta"]), "scaling": told}


def _gpt2(layer: Any) -> MultiHeadAttention:
    """Cuts the fused projection, whose ``Conv1D`` holds (in, out), and turns it."""
    width = layer.embed_dim
    with torch.device("meta"):
        ours = MultiHeadAttention(width, layer.num_heads, qkv_bias=True)
    weights = {
        "out_proj.weight": layer.c_proj.weight.T,
        "out_proj.bias": layer.c_proj.bias,
    }
    for kind, own in (("weight", layer.c_attn.weight.T), ("bias", layer.c_attn.bias)):
        for name, part in zip("qkv", own.split(width), strict=True):
            weights[f"{name}_proj.{kind}"] = part
    # Our scores are divided by √D; another scale of theirs goes into the queries.
    scale = layer.scaling / layer.head_dim**-0.5
    for name in ("q_proj.weight", "q_proj.bias"):
        weights[name] = weights[name] * scale
    _give(ours, weights)
    return ours


def _latent(layer: Any) -> Rebuilt:
    """Reads the widths of latent attention; V2 always rotates pairs side by side."""
    rotation = _rotation(layer)
    with torch.device("meta"):
        ours = MultiHeadLatentAttention(
            layer.hidden_size,
            layer.num_heads,
            q_latent_dim=layer.q_lora_rank,
            kv_latent_dim=layer.kv_lora_rank,
            nope_dim=layer.qk_nope_head_dim,
            rope_dim=layer.qk_rope_head_dim,
            value_dim=layer.v_head_dim,
            absorb=True,
            scale=layer.scaling,
            rope_scale=rope_attention_factor(rotation["scaling"]),
            bias=layer.o_proj.bias is not None,
            layout="interleaved"
            if getattr(layer.config, "rope_interleave", True)
            else "half",
            norm_eps=layer.kv_a_layernorm.variance_epsilon,
        )
    weights = {}
    for name, weight in layer.named_parameters():
        part, kind = name.rsplit(".", 1)
        weights[f"{_LATENT_PARTS[part]}.{kind}"] = weight
    _give(ours, weights)
    return Rebuilt(ours, head_dim=layer.qk_rope_head_dim, **rotation)


def _both_ways(layer: Any) -> Rebuilt:
    """Rebuilds BERT's, BART's and T5's: of one text, or with a memory."""
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
        else:
            heads = getattr(inner, "num_attention_heads", None) or inner.num_heads
            biased = "q_proj.bias" in weights
            ours = MultiHeadAttention(width, heads, qkv_bias=biased)
    query = weights["q_proj.weight"]
    if kind in ("BertSelfAttention", "BertCrossAttention"):  # its end is elsewhere
        weights["out_proj.weight"] = torch.eye(width).to(query)
    if kind != "T5Attention":
        zeros = torch.zeros(width).to(query)
        weights.setdefault("out_proj.bias", zeros)
    _give(ours, weights)
    norm = copy.deepcopy(layer.output.LayerNorm) if kind == "BertAttention" else None
    return Rebuilt(ours, causal=inner.is_causal, norm=norm)


def _give(ours: nn.Module, weights: Mapping[str, Tensor]) -> None:
    copies = {
        name: weight.detach().clone(memory_format=torch.contiguous_format)
        for name, weight in weights.items()
    }
    ours.load_state_dict(copies, assign=True)
