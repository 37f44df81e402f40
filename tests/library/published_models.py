"""Tiny random models of each published family, stored as transformers stores them."""

import pytest
import torch

from attention_lib.reproducibility import seeded

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
# Whose layers 0 and 1 differ: the layers of all others are alike.
OF_TWO_KINDS = (
    *("Gemma2Attention", "Gemma3Attention", "GptOssAttention", "SmolLM3Attention"),
    *("Llama4TextAttention", "MiniMaxLightningAttention"),
    *("ModernBertAttention", "LongformerSelfAttention"),
)
SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}
LLAMA3 = YARN | {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
WINDOW = {"head_dim": 16, "sliding_window": 5}
LATENT = {
    "num_key_value_heads": 4,
    "first_k_dense_replace": 2,
    "kv_lora_rank": 12,
    "q_lora_rank": 20,
    "qk_rope_head_dim": 6,
    "qk_nope_head_dim": 10,
    "v_head_dim": 7,
}
MSCALE = {"mscale": 1.0, "mscale_all_dim": 0.8}
FAMILIES = {
    "gpt2": ("GPT2", {}),
    "gpt2, other activation": ("GPT2", {"activation_function": "gelu", "n_inner": 40}),
    "llama": ("Llama", {}),
    "llama, biases": ("Llama", {"attention_bias": True, "tie_word_embeddings": True}),
    "llama, llama3": ("Llama", {"rope_parameters": LLAMA3, "head_dim": 12}),
    "llama, yarn": ("Llama", {"rope_parameters": YARN}),
    "mistral": ("Mistral", {"sliding_window": 5}),
    "mistral, no window": ("Mistral", {"sliding_window": None}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2, window": (
        "Qwen2",
        {"use_sliding_window": True, "max_window_layers": 1, "sliding_window": 5},
    ),
    "qwen3": ("Qwen3", {"head_dim": 16, "num_key_value_heads": 1}),
    "gemma2": ("Gemma2", {**WINDOW, "query_pre_attn_scalar": 24}),
    "gemma3_text": (
        "Gemma3Text",
        {**WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "deepseek_v3": ("DeepseekV3", LATENT),
    "deepseek_v3, yarn": (
        "DeepseekV3",
        LATENT | {"q_lora_rank": None, "rope_parameters": YARN | MSCALE},
    ),
    "gpt_oss": (
        "GptOss",
        {**WINDOW, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
}


def saved(name, folder, shard="1GB", **changes):
    """A tiny random checkpoint, as transformers writes it, and its model."""
    kind, options = FAMILIES[name]
    options = SIZES | options | changes
    if kind == "GPT2":
        old = (
            "hidden_size num_hidden_layers num_attention_heads max_position_embeddings"
        )
        new = "n_embd", "n_layer", "n_head", "n_positions"
        options |= {n: options.pop(o) for o, n in zip(old.split(), new, strict=True)}
        for unused in ("intermediate_size", "num_key_value_heads"):
            del options[unused]
    config = getattr(transformers, f"{kind}Config")(**options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
    generator = seeded(0)
    for parameter in model.parameters():  # norms and sinks too: a forgotten one shows
        if parameter.ndim < 2:
            parameter.data = 0.5 * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained(folder, max_shard_size=shard)
    return model
