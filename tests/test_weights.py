"""attention_lib.weights: published models from their folders, equal to transformers."""

import json

import pytest
import torch
from torch.testing import assert_close

from attention_lib.kv_cache import generate
from attention_lib.reproducibility import seeded
from attention_lib.weights import Checkpoint, load_pretrained

transformers = pytest.importorskip("transformers")
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
    "gpt_oss": (
        "GptOss",
        {**WINDOW, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
}


def saved(name, folder, **changes):
    """A tiny random checkpoint of a family, as transformers writes it, and its model."""
    kind, options = FAMILIES[name]
    options = SIZES | options | changes
    if kind == "GPT2":
        old = ("n_embd", "n_layer", "n_head", "n_positions")
        new = "hidden_size num_hidden_layers num_attention_heads max_position_embeddings"
        options |= {o: options.pop(n) for o, n in zip(old, new.split(), strict=True)}
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
    model.save_pretrained(folder, **({"max_shard_size": "20KB"} if changes else {}))
    return model


def ids(batch=2, length=20):
    return torch.randint(61, (batch, length), generator=seeded(1))


@pytest.mark.parametrize("name", FAMILIES)
def test_family_equals_transformers(name, tmp_path):
    theirs, ours = saved(name, tmp_path), load_pretrained(tmp_path)
    with torch.no_grad():
        assert_close(ours(ids()), theirs(ids()).logits, rtol=0, atol=1e-4)
    wanted = theirs.generate(
        ids(),
        attention_mask=torch.ones_like(ids()),  # else it hides what equals the padding
        max_new_tokens=12,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    for use_cache in (True, False):
        found = generate(ours, ids(), max_new_tokens=12, use_cache=use_cache)
        assert found.equal(wanted)


def edited(folder, name="config.json", **changes):
    path = folder / name
    fields = json.loads(path.read_text()) | changes
    kept = {key: value for key, value in fields.items() if value != "drop"}
    path.write_text(json.dumps(kept))
