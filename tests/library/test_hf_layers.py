"""attention_lib.hf_layers: families of transformers, equal in our layers."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from attention_lib.hf_layers import from_transformers
from attention_lib.masks import padding_mask
from attention_lib.reproducibility import seeded
from attention_lib.tiny_llama import LlamaConfig, TinyLlama
from benchmarks.published import LOOSE
from benchmarks.published_layers import (
    KINDS,
    SIZES,
    WINDOW,
    Given,
    build,
    lightning,
    looking,
    rotation,
    stated,
    turning,
)
from tests.library.published_models import OF_TWO_KINDS
from tests.tensors import values_and_gradients

pytestmark = pytest.mark.long

LENGTH = 12
TRAINED = {"original_max_position_embeddings": 6}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def rope(kind="default", base=500.0, **options):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": base, **options}}


STRETCHED = {
    "yarn": rope("yarn", factor=4.0, **TRAINED),
    "llama3": rope("llama3", **LLAMA3, **TRAINED),
    "linear": rope("linear", factor=3.0),
    "dynamic": rope("dynamic", factor=3.0) | {"max_position_embeddings": 6},
}
MSCALED = rope("yarn", factor=4.0, mscale=1.0, mscale_all_dim=0.8, **TRAINED)
NEAR = {"sliding_window": WINDOW, "use_sliding_window": True}
BOTH = {"layer_types": ["sliding_attention", "full_attention"]}
# A layer's class, its number in the model, and options of the config.
CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    **{name: (name, 0, {}) for name in KINDS},
    **{f"{name}, second": (name, 1, {}) for name in OF_TWO_KINDS},
    "llama, biases": ("LlamaAttention", 0, {"attention_bias": True} | rope()),
    **{f"llama, {kind}": ("LlamaAttention", 1, own) for kind, own in STRETCHED.items()},
    "qwen2, base": ("Qwen2Attention", 0, rope(base=1e6)),
    "qwen2, window": ("Qwen2Attention", 1, NEAR | {"max_window_layers": 1}),
    "qwen3, eps": ("Qwen3Attention", 0, {"rms_norm_eps": 0.1}),
    "qwen3, window": ("Qwen3Attention", 0, NEAR | BOTH | {"attention_bias": True}),
    "mistral, full": ("MistralAttention", 0, {"sliding_window": None}),
    "gemma2, scale": ("Gemma2Attention", 1, {"query_pre_attn_scalar": 9}),
    "gemma2, no cap": ("Gemma2Attention", 1, {"attn_logit_softcapping": None}),
    "gemma3, eps": ("Gemma3Attention", 0, {"rms_norm_eps": 0.2}),
    "gemma3, scale": ("Gemma3Attention", 1, {"query_pre_attn_scalar": 5}),
    "gpt-oss, yarn": ("GptOssAttention", 1, STRETCHED["yarn"]),
    "deepseek v2": ("DeepseekV2Attention", 0, {"q_lora_rank": None} | rope()),
    "deepseek v2, yarn": ("DeepseekV2Attention", 1, STRETCHED["yarn"]),
    "deepseek v3, biases": (
        "DeepseekV3Attention", 0, {"q_lora_rank": None, "attention_bias": True}
    ),
    "deepseek v3, yarn": ("DeepseekV3Attention", 1, MSCALED),
    "deepseek v3, halves": (
        "DeepseekV3Attention", 0, {"rope_interleave": False} | rope()
    ),
    "gpt2, scale": ("GPT2Attention", 1, {"scale_attn_by_inverse_layer_idx": True}),
    "gpt2, no scale": ("GPT2Attention", 1, {"scale_attn_weights": False}),
    "bert, decoder": ("BertAttention", 0, {"causal": True}),
    "bart, decoder": ("BartAttention", 0, {"causal": True}),
    "t5, decoder": ("T5Attention", 0, {"causal": True}),
    "t5, no distances": ("T5Attention", 1, {}),
    "t5, decoder, no distances": ("T5Attention", 1, {"causal": True}),
}  # fmt: skip
each_case = pytest.mark.parametrize("name", CASES)
each_size = pytest.mark.parametrize("sizes", SIZES, ids=str)


def texts(layer, side="left", length=LENGTH):
    """Two texts, the second with padding."""
    width = getattr(layer.config, "d_model", layer.config.hidden_size)
    x = torch.randn(2, length, width, generator=seeded(1))
    return x, padding_mask(torch.tensor([length, length - 3]), length, side=side)[:, 0]


def ours_mask(kind, real):
    return real if KINDS[kind].call in (stated, lightning) else real[:, None]


def assert_equal(ours, theirs, *given, bound=1e-6):
    found, wanted = (values_and_gradients(call, *given) for call in (ours, theirs))
    torch.testing.assert_close(found[0], wanted[0], rtol=bound, atol=bound)
    torch.testing.assert_close(found[1:], wanted[1:], rtol=1e-5, atol=1e-5)


@each_size
@each_case
def test_rebuilt_layer_equals_the_published_one(name, sizes):
    kind, number, options = CASES[name]
    layer = build(kind, number, sizes, **options)
    ours, turns = from_transformers(layer), rotation(layer)
    # Without a scale, scores are large.
    bound = 2e-6 if name == "gpt2, no scale" else LOOSE.get(kind, 1e-6)
    for side in ("left", "right"):
        x, real = texts(layer, side)
        given, shown = Given(x, real, turns), real[..., None]  # padding is nobody's
        mask = ours_mask(kind, real)

        def theirs(x, given=given, shown=shown):
            return KINDS[kind].call(layer, replace(given, x=x)) * shown

        def mine(x, mask=mask, shown=shown):
            return ours(x, mask) * shown

        assert_equal(mine, theirs, x, bound=bound)
    # Its weights are copies: the published layer stays as it is.
    with torch.no_grad():
        for weight in ours.parameters():
            weight.zero_()
    assert all(weight.any() for weight in layer.parameters())


# Llama 4 cuts its chunks where positions say, and transformers by columns.
MOVED = [
    it
    for it, (kind, *_) in CASES.items()
    if KINDS[kind].call is turning and not kind.startswith("Llama4")
]


@each_size
@pytest.mark.parametrize("name", MOVED)
@torch.no_grad()
def test_rebuilt_layer_turns_by_the_positions_that_it_is_told(name, sizes):
    kind, number, options = CASES[name]
    layer = build(kind, number, sizes, **options)
    ours, turns, (x, real) = from_transformers(layer), rotation(layer), texts(layer)
    for start in (0, 5):  # "dynamic" keeps the longest text: so this grows
        positions = torch.arange(start, start + LENGTH)
        wanted = turning(layer, Given(x, real, turns, positions=positions))
        found = ours(x, real[:, None], positions=positions)
        shown = real[..., None]
        torch.testing.assert_close(found * shown, wanted * shown, rtol=1e-6, atol=1e-6)


@each_size
@pytest.mark.parametrize("kind", ["BertAttention", "BartAttention", "T5Attention"])
def test_rebuilt_layer_with_a_memory_equals_the_published_one(kind, sizes):
    layer = build(kind, int(kind == "T5Attention"), sizes, memory=True)
    (x, _), (memory, real) = texts(layer), texts(layer, "right", 6)
    for part in (layer, layer.self) if kind == "BertAttention" else (layer,):
        ours = from_transformers(part)
        assert_equal(
            lambda x, memory, ours=ours: ours(x, real[:, None], memory=memory),
            lambda x, memory, part=part: looking(part, Given(x, real, memory=memory)),
            x,
            memory,
        )


@each_size
def test_rebuilt_part_of_a_layer_or_one_without_biases_equals_it(sizes):
    bart = build("BartAttention", 0, sizes)
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        getattr(bart, name).bias = None
    parts = [
        build("BertAttention", 0, sizes, causal=causal).self for causal in (False, True)
    ]
    for layer in (bart, *parts):
        ours, (x, real) = from_transformers(layer), texts(layer, "right")
        assert_equal(
            lambda x, ours=ours, real=real: ours(x, real[:, None]),
            lambda x, layer=layer, real=real: looking(layer, Given(x, real)),
            x,
        )


@pytest.mark.parametrize("kind", ["BertAttention", "BartAttention", "T5Attention"])
def test_rebuilt_layer_that_sees_both_sides_refuses_a_cache(kind, refused):
    layer = build(kind, 0, SIZES[0])
    ours, (x, _) = from_transformers(layer), texts(layer)
    cache = ours.new_cache(2, LENGTH)
    with refused(ValueError, "cache must be None: this layer attends to later tokens"):
        ours(x, cache=cache)
    assert cache.length == 0


@pytest.mark.parametrize("kind", KINDS)
def test_rebuilt_layer_keeps_type_and_device(kind):
    layer = build(kind, 0, SIZES[0]).to(torch.bfloat16)
    ours, (x, real) = from_transformers(layer), texts(layer)
    assert {weight.dtype for weight in ours.parameters()} == {torch.bfloat16}
    assert ours(x.bfloat16(), ours_mask(kind, real)).dtype is torch.bfloat16
    assert all(
        weight.is_meta for weight in from_transformers(layer.to("meta")).parameters()
    )


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
    both = {"use_bidirectional_attention": True}
    with pytest.raises(ValueError, match="Gemma3Attention attends to the future"):
        from_transformers(build("Gemma3Attention", 0, SIZES[0], **both))
    partly = rope(partial_rotary_factor=0.5)
    with pytest.raises(ValueError, match="partial_rotary_factor"):
        from_transformers(build("LlamaAttention", 0, SIZES[0], **partly))


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
