"""attention_lib.hf_layers: fourteen families of transformers, equal in our layers."""

import importlib
from typing import Any

import pytest
import torch
from torch import nn

from attention_lib.hf_layers import from_transformers
from attention_lib.masks import causal_mask, padding_mask, sliding_window_mask
from attention_lib.reproducibility import seeded
from attention_lib.tiny_llama import LlamaConfig, TinyLlama
from tests.tensors import values_and_gradients

pytestmark = pytest.mark.long

BATCH, LENGTH = 2, 11
# Heads of queries, heads of keys, width of a head, width of the model.
SIZES = {"grouped": (6, 2, 4, 18), "all heads": (3, 3, 8, 12), "one": (4, 1, 4, 12)}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
# A layer's family, its number in the model, and options of the config.
WINDOW = {"sliding_window": 4, "use_sliding_window": True}
BOTH = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 3}


def rope(kind="default", base=500.0, **options):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": base, **options}}


TRAINED = {"original_max_position_embeddings": 6}
STRETCHED = {
    "yarn": rope("yarn", factor=4.0, **TRAINED),
    "llama3": rope("llama3", **LLAMA3, **TRAINED),
    "linear": rope("linear", factor=3.0),
    "dynamic": rope("dynamic", factor=3.0) | {"max_position_embeddings": 6},
}
MSCALED = rope("yarn", factor=4.0, mscale=1.0, mscale_all_dim=0.8, **TRAINED)
CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "llama": ("Llama", 0, {}),
    "llama, biases": ("Llama", 0, {"attention_bias": True} | rope()),
    **{f"llama, {kind}": ("Llama", 1, own) for kind, own in STRETCHED.items()},
    "qwen2": ("Qwen2", 0, rope(base=1e6)),
    "qwen2, window": ("Qwen2", 1, WINDOW | {"max_window_layers": 1}),
    "qwen3": ("Qwen3", 0, {"rms_norm_eps": 0.1}),
    "qwen3, window, biases": ("Qwen3", 0, WINDOW | BOTH | {"attention_bias": True}),
    "mistral": ("Mistral", 0, {"sliding_window": 4}),
    "mistral, full": ("Mistral", 0, {"sliding_window": None}),
    "gemma2, window": ("Gemma2", 0, BOTH | {"attn_logit_softcapping": 0.7}),
    "gemma2, full": ("Gemma2", 1, BOTH | {"query_pre_attn_scalar": 9}),
    "gemma2, no cap": ("Gemma2", 1, BOTH | {"attn_logit_softcapping": None}),
    "gemma3, window": ("Gemma3", 0, BOTH | {"rms_norm_eps": 0.2}),
    "gemma3, full": ("Gemma3", 1, BOTH | {"query_pre_attn_scalar": 5}),
    "gpt-oss, window": ("GptOss", 0, BOTH),
    "gpt-oss, full": ("GptOss", 1, BOTH | STRETCHED["yarn"]),
    "smollm3": ("SmolLM3", 0, {"no_rope_layers": [1, 0]}),
    "smollm3, no positions": ("SmolLM3", 1, {"no_rope_layers": [1, 0]}),
    "deepseek v2": ("DeepseekV2", 0, {"q_lora_rank": None} | rope()),
    "deepseek v2, yarn": ("DeepseekV2", 1, {"q_lora_rank": 5} | STRETCHED["yarn"]),
    "deepseek v3": ("DeepseekV3", 0, {"q_lora_rank": None, "attention_bias": True}),
    "deepseek v3, yarn": ("DeepseekV3", 1, {"q_lora_rank": 5} | MSCALED),
    "deepseek v3, halves": ("DeepseekV3", 0, {"rope_interleave": False} | rope()),
    "gpt2": ("GPT2", 0, {}),
    "gpt2, other scale": ("GPT2", 1, {"scale_attn_by_inverse_layer_idx": True}),
    "gpt2, no scale": ("GPT2", 1, {"scale_attn_weights": False}),
}
FILES = {"GptOss": "gpt_oss", "DeepseekV2": "deepseek_v2", "DeepseekV3": "deepseek_v3"}


def published(family, number, options, sizes):
    """A layer with random weights, its positions, and how many keys it sees."""
    heads, shared, head_dim, width = sizes
    file = FILES.get(family, family.lower())
    package = importlib.import_module(f"transformers.models.{file}")
    modelling = importlib.import_module(f"transformers.models.{file}.modeling_{file}")
    kind = "Gemma3TextConfig" if family == "Gemma3" else f"{family}Config"
    sizes = dict(hidden_size=width, num_attention_heads=heads)
    if family == "GPT2":
        sizes["hidden_size"] = heads * head_dim
    elif family.startswith("Deepseek"):
        sizes |= dict(num_key_value_heads=heads, qk_rope_head_dim=head_dim)
        sizes |= dict(qk_nope_head_dim=6, v_head_dim=5, kv_lora_rank=10)
    else:
        sizes |= dict(num_key_value_heads=shared, head_dim=head_dim)
    sizes |= dict(num_hidden_layers=2, vocab_size=9, attn_implementation="eager")
    if family == "GPT2":
        sizes |= dict(n_layer=2)
    config = getattr(package, kind)(**sizes | options)
    layer = getattr(modelling, f"{family}Attention")(config, layer_idx=number)
    generator = seeded(0)
    for weight in layer.parameters():  # norms and sinks too
        nn.init.normal_(weight, std=0.2, generator=generator)
    if family == "GPT2":
        return layer.eval(), None, LENGTH
    rotation = getattr(modelling, f"{family}RotaryEmbedding")(config)
    window = getattr(layer, "sliding_window", config.to_dict().get("sliding_window"))
    return layer.eval(), rotation, window or LENGTH


def theirs(layer, rotation, mask, positions):
    """Calls a layer with its additive mask and what its model gives it."""
    kinds = [layer.layer_type] if "Gemma3" in type(layer).__name__ else []
    hidden = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo().min)[:, None]

    def call(x):
        if rotation is None:
            return layer(x, attention_mask=hidden)[0]
        turns = rotation(x, positions[None], *kinds)
        return layer(x, position_embeddings=turns, attention_mask=hidden)[0]

    return call


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_rebuilt_layer_equals_the_published_one(name, sizes):
    family, number, options = CASES[name]
    layer, rotation, window = published(family, number, options, sizes)
    ours = from_transformers(layer)
    x = torch.randn(BATCH, LENGTH, layer.config.hidden_size, generator=seeded(1))
    padding = padding_mask(torch.tensor([LENGTH, 7]), LENGTH)
    real = padding.mT  # what the model says at padding is nobody's
    near = sliding_window_mask(LENGTH, window)
    alone = theirs(layer, rotation, near.expand(BATCH, -1, -1), torch.arange(LENGTH))
    torch.testing.assert_close(ours(x), alone(x), rtol=1e-6, atol=1e-6)
    for start in (0, 5):  # "dynamic" keeps the longest text: so this grows
        positions = torch.arange(start, start + LENGTH)
        call = theirs(layer, rotation, near & padding, positions)
        wanted = values_and_gradients(lambda x, call=call: call(x) * real, x)
        found = values_and_gradients(
            lambda x, places=positions: ours(x, padding, positions=places) * real, x
        )
        torch.testing.assert_close(found[0], wanted[0], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(found[1], wanted[1], rtol=1e-5, atol=1e-5)


def either_way(name, heads, head_dim):
    """A layer of BERT, BART or T5 with random weights, and how it is called."""
    family, *how = name.split(", ")
    folder = family.lower()
    package = importlib.import_module(f"transformers.models.{folder}")
    modelling = importlib.import_module(
        f"transformers.models.{folder}.modeling_{folder}"
    )
    width = 20 if family == "T5" else heads * head_dim
    writes = {"is_decoder": "decoder" in how, "attn_implementation": "eager"}
    if family == "T5":
        sizes = dict(d_kv=head_dim, num_heads=heads, d_model=width)
        sizes |= dict(relative_attention_num_buckets=8)
        config = package.T5Config(**sizes, relative_attention_max_distance=7, **writes)
        layer = modelling.T5Attention(config, "near" in how, 0, "decoder" in how)
    elif family == "BART":
        config = package.BartConfig(d_model=width, **writes)
        options = dict(is_causal="decoder" in how, config=config, layer_idx=0)
        bias = "no bias" not in how
        layer = modelling.BartAttention(width, heads, bias=bias, **options)
    else:
        config = package.BertConfig(
            hidden_size=width, num_attention_heads=heads, layer_norm_eps=0.1, **writes
        )
        options = {"is_causal": "decoder" in how, "layer_idx": 0}
        if "whole" in how:
            options["is_cross_attention"] = "memory" in how
            layer = modelling.BertAttention(config, **options)
        else:
            kind = "BertCrossAttention" if "memory" in how else "BertSelfAttention"
            layer = getattr(modelling, kind)(config, **options)
    for number, weight in enumerate(layer.parameters()):
        nn.init.normal_(weight, std=0.2, generator=seeded(number))
    words = {"BERT": "encoder_hidden_states"}
    words |= dict.fromkeys(["BART", "T5"], "key_value_states")
    hides = "mask" if family == "T5" else "attention_mask"
    if "whole" in how and "memory" in how:
        hides = "encoder_attention_mask"

    def call(x, memory, mask):
        given = {} if memory is None else {words[family]: memory}
        hidden = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo().min)
        return layer(x, **given, **{hides: hidden[:, None]})[0]

    return layer.eval(), call, width


@pytest.mark.parametrize(
    "name",
    [
        *("BERT", "BERT, memory", "BERT, whole", "BERT, whole, memory"),
        *("BERT, decoder", "BART", "BART, no bias", "BART, decoder", "BART, memory"),
        *("T5", "T5, near", "T5, decoder, near", "T5, decoder", "T5, memory"),
    ],
)
@pytest.mark.parametrize(("heads", "head_dim"), [(3, 4), (1, 8), (4, 5)])
def test_rebuilt_layer_that_sees_both_sides_or_a_memory_equals_it(
    name, heads, head_dim
):
    layer, call, width = either_way(name, heads, head_dim)
    ours, length = from_transformers(layer), 6 if "memory" in name else LENGTH
    x = torch.randn(BATCH, LENGTH, width, generator=seeded(1))
    memory = torch.randn(BATCH, length, width, generator=seeded(2))
    memory = memory if "memory" in name else None
    padding = padding_mask(torch.tensor([length, 4]), length)
    seen = padding.expand(-1, LENGTH, -1)
    if "decoder" in name:
        seen = seen & causal_mask(LENGTH)
    given = (x,) if memory is None else (x, memory)
    wanted = values_and_gradients(lambda x, m=None: call(x, m, seen), *given)
    found = values_and_gradients(lambda x, m=None: ours(x, padding, memory=m), *given)
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found[1:], wanted[1:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["BERT", "BART", "T5"])
def test_rebuilt_layer_that_sees_both_sides_refuses_a_cache(name, refused):
    layer, _, width = either_way(name, 3, 4)
    ours, x = from_transformers(layer), torch.randn(BATCH, 2, width)
    cache = ours.new_cache(BATCH, 4)
    with refused(ValueError, "cache must be None: this layer attends to later tokens"):
        ours(x, cache=cache)
    assert cache.length == 0


@pytest.mark.usefixtures("shapes_unchecked")
def test_rebuild_refuses_what_it_does_not_know():
    known = r"LlamaAttention, Qwen2Attention, .*GPT2Attention; got torch\.nn"
    with pytest.raises(ValueError, match=known):
        from_transformers(nn.Linear(2, 2))
    fake = type("LlamaAttention", (nn.Module,), {"__module__": "mine"})()
    with pytest.raises(ValueError, match=r"got mine\.LlamaAttention"):
        from_transformers(fake)
    with pytest.raises(TypeError, match="layer must be a Module; got str"):
        from_transformers("LlamaAttention")
    both = BOTH | {"use_bidirectional_attention": True}
    with pytest.raises(ValueError, match="Gemma3Attention attends to the future"):
        from_transformers(published("Gemma3", 0, both, SIZES["grouped"])[0])
    partly = rope(partial_rotary_factor=0.5)
    with pytest.raises(ValueError, match="partial_rotary_factor"):
        from_transformers(published("Llama", 0, partly, SIZES["grouped"])[0])


def test_tiny_llama_equals_the_published_model():
    from transformers import LlamaConfig as TheirConfig
    from transformers import LlamaForCausalLM

    scaling = STRETCHED["yarn"]["rope_parameters"]
    sizes = dict(hidden_size=18, intermediate_size=12, vocab_size=13)
    heads = dict(num_attention_heads=6, num_key_value_heads=2, head_dim=4)
    eps = dict(num_hidden_layers=2, rms_norm_eps=1e-3, rope_parameters=dict(scaling))
    model = LlamaForCausalLM(TheirConfig(**sizes, **heads, **eps)).eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.4, generator=seeded(weight.numel()))
    ours = TinyLlama(
        LlamaConfig(
            13,
            30,
            18,
            6,
            2,
            2,
            12,
            head_dim=4,
            rope_base=scaling["rope_theta"],
            rope_scaling=scaling,
            norm_eps=1e-3,
        )
    )
    names = {
        "model.layers": "blocks",
        "model.embed_tokens": "token_embedding",
        "model.norm": "last_norm",
        "lm_head": "head",
        "self_attn": "attention",
        "o_proj": "out_proj",
        "mlp": "feed_forward",
        "input_layernorm": "attention_norm",
        "post_attention_layernorm": "feed_forward_norm",
    }
    weights = model.state_dict()
    for theirs_, mine in names.items():
        weights = {name.replace(theirs_, mine): own for name, own in weights.items()}
    ours.load_state_dict(weights)
    ids = torch.randint(13, (3, 10), generator=seeded(0))
    torch.testing.assert_close(ours(ids), model(ids).logits, rtol=1e-4, atol=1e-5)
