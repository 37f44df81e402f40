"""Each family's ``config.json``, converted to the options of our own layers."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from attention_lib.pretrained.decoder_config import (
    DecoderConfig,
    LatentConfig,
    LayerConfig,
)
from attention_lib.pretrained.fields import REQUIRED, Fields
from attention_lib.pretrained.rotary import (
    ACTIVATIONS,
    qwen_windows,
    read_rotary,
    width_of_heads,
    windows_by_type,
)
from attention_lib.validation import require_instance


def read_config(fields: Mapping[str, Any]) -> DecoderConfig:
    """Convert a family's ``config.json`` to the options of our own layers.

    Args:
        fields: the file's content.

    Raises:
        TypeError: fields that are not a mapping.
        ValueError: an unknown family; a field that is missing, of the wrong type, or
            not understood. The error names it.
    """
    require_instance("fields", fields, Mapping)
    family = fields.get("model_type")
    if not isinstance(family, str) or family not in READERS:
        raise ValueError(
            f"config.json says model_type = {family!r}; load_pretrained knows "
            f"{', '.join(READERS)}"
        )
    left = Fields(fields)
    config = READERS[family](left)
    left.end()
    return config


def _gpt2(fields: Fields) -> DecoderConfig:
    width, heads = fields.take("n_embd"), fields.take("n_head")
    for name in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"):
        fields.expect(name, False)
    fields.expect("add_cross_attention", False)
    return DecoderConfig(
        vocab_size=fields.take("vocab_size"),
        context_len=fields.take("n_positions"),
        d_model=width,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=width_of_heads(fields, "n_embd", width, "n_head", heads),
        hidden_dim=fields.take("n_inner", None) or 4 * width,
        layers=(LayerConfig(rope_base=None),) * fields.take("n_layer"),
        norm="layer",
        norm_eps=fields.take("layer_norm_epsilon", 1e-5),
        mlp="plain",
        activation=fields.choose("activation_function", GELUS, "gelu_new"),
        qkv_bias=True,
        out_bias=True,
        scale=None if fields.take("scale_attn_weights", True) else 1.0,
        learned_positions=True,
        tie_weights=fields.take("tie_word_embeddings", True),
    )


def _llama(fields: Fields) -> DecoderConfig:
    fields.left.setdefault("num_key_value_heads", None)
    _fill_heads(fields)
    fields.expect("mlp_bias", False)
    fields.expect("pretraining_tp", 1)
    fields.expect("rope_interleaved", False)
    bias = fields.take("attention_bias", False)
    return read_rotary(fields, windows=None, qkv_bias=bias, out_bias=bias)


def _mistral(fields: Fields) -> DecoderConfig:
    if fields.left.get("layer_types"):  # transformers reads it as Ministral
        return read_rotary(fields, windows=windows_by_type(fields, every=1))
    return read_rotary(fields, windows=fields.take("sliding_window"))


def _fill_heads(fields: Fields) -> None:
    """Set the number of KV heads to that of query heads, if the file says null."""
    if fields.left.get("num_key_value_heads", 0) is None:
        fields.left["num_key_value_heads"] = fields.peek("num_attention_heads")


def _qwen2(fields: Fields) -> DecoderConfig:
    _fill_heads(fields)
    fields.expect("use_mrope", False)
    return read_rotary(fields, windows=qwen_windows(fields), qkv_bias=True)


def _qwen3(fields: Fields) -> DecoderConfig:
    _fill_heads(fields)
    bias = fields.take("attention_bias", False)
    fields.left.setdefault("head_dim", 128)
    return read_rotary(
        fields,
        windows=qwen_windows(fields),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm="rms",
    )


def _gemma2(fields: Fields) -> DecoderConfig:
    return _gemma(fields, every=2, softcap=fields.take("attn_logit_softcapping"))


def _gemma3(fields: Fields) -> DecoderConfig:
    fields.expect("attn_logit_softcapping", None)  # its attention would ignore it
    every = fields.take("sliding_window_pattern", 6)
    fields.left.pop("_sliding_window_pattern", None)  # layer_types says it as well
    return _gemma(fields, every=every, qk_norm="rms_plus_one")


def _gemma(fields: Fields, *, every: int, **options: Any) -> DecoderConfig:
    fields.expect("use_bidirectional_attention", None, False)
    bias = fields.take("attention_bias", False)
    fields.left.pop("hidden_act", None)  # the older name, which the model ignores
    fields.left.setdefault("tie_word_embeddings", True)
    fields.left.setdefault("head_dim", 256)
    return read_rotary(
        fields,
        windows=windows_by_type(fields, every),
        activation=fields.choose("hidden_activation", ACTIVATIONS, REQUIRED),
        norm="rms_plus_one",
        norm_outputs=True,
        qkv_bias=bias,
        out_bias=bias,
        scale=fields.take("query_pre_attn_scalar") ** -0.5,
        embedding_scale=fields.peek("hidden_size") ** 0.5,
        logits_softcap=fields.take("final_logit_softcapping"),
        **options,
    )


def _gpt_oss(fields: Fields) -> DecoderConfig:
    for name in ("initial_context_length", "experts_per_token", "hidden_act"):
        fields.left.pop(name, None)  # the model ignores it
    bias = fields.take("attention_bias")
    experts = fields.peek("num_local_experts")
    chosen = fields.peek("num_experts_per_tok")
    if chosen > experts:
        wanted = f"at most num_local_experts = {experts}"
        fields.refuse("num_experts_per_tok", chosen, wanted)
    return read_rotary(
        fields,
        windows=windows_by_type(fields, every=2),
        qkv_bias=bias,
        out_bias=bias,
        sinks=True,
        mlp="experts",
        num_experts=fields.take("num_local_experts"),
        experts_per_token=fields.take("num_experts_per_tok"),
        expert_limit=fields.take("swiglu_limit", 7.0),
        expert_alpha=fields.take("swiglu_alpha", 1.702),
    )


def _deepseek_v3(fields: Fields) -> DecoderConfig:
    heads, count = fields.peek("num_attention_heads"), fields.peek("num_hidden_layers")
    if fields.take("first_k_dense_replace") < count:
        raise ValueError(
            "config.json needs layers of experts (first_k_dense_replace is below "
            "num_hidden_layers); load_pretrained knows deepseek_v3 without them"
        )
    for name in ROUTING:
        fields.left.pop(name, None)
    fields.expect("num_key_value_heads", heads, None)
    fields.left["num_key_value_heads"] = heads
    fields.expect("pretraining_tp", 1)
    layouts = {True: "interleaved", False: "half"}
    latent = LatentConfig(
        q_latent_dim=fields.take("q_lora_rank"),
        kv_latent_dim=fields.take("kv_lora_rank"),
        nope_dim=fields.take("qk_nope_head_dim"),
        rope_dim=fields.take("qk_rope_head_dim"),
        value_dim=fields.take("v_head_dim"),
        layout=fields.choose("rope_interleave", layouts, True),
    )
    if latent.rope_dim % 2:
        fields.refuse("qk_rope_head_dim", latent.rope_dim, "an even number")
    fields.expect("head_dim", latent.rope_dim, None)
    fields.left["head_dim"] = latent.rope_dim  # what is rotated
    bias = fields.take("attention_bias", False)
    config = read_rotary(fields, windows=None, out_bias=bias, latent=latent)
    scale = (latent.nope_dim + latent.rope_dim) ** -0.5
    scaling = config.layers[0].rope_scaling or {}
    factor, stretch = scaling.get("factor", 1), scaling.get("mscale_all_dim") or 0
    if stretch and factor > 1:  # YaRN: the published code squares it as well
        scale *= (0.1 * stretch * math.log(factor) + 1) ** 2
    return dataclasses.replace(config, scale=scale)


# Fields that route tokens to experts, unused here; widths that follow from others.
# fmt: off
ROUTING = [
    "moe_intermediate_size", "n_routed_experts", "n_shared_experts", "n_group",
    "topk_group", "num_experts_per_tok", "norm_topk_prob", "routed_scaling_factor",
    "num_nextn_predict_layers", "num_mtp_layers", "qk_head_dim",
]
# fmt: on
GELUS = {word: ours for word, ours in ACTIVATIONS.items() if ours != "silu"}
READERS: dict[str, Callable[[Fields], DecoderConfig]] = {
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt_oss": _gpt_oss,
    "deepseek_v3": _deepseek_v3,
}
