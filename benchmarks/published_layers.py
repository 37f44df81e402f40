"""Small attention layers of ``transformers``, called as their models call them.

All weights are random: those of norms, sinks and decays as well, so that none of them
can be forgotten unseen.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attention_lib.masks import causal_mask, sliding_window_mask
from attention_lib.reproducibility import seeded
from attention_lib.sparse_attention import chunk_mask

WINDOW, CHUNK, REACH = 4, 4, 3
TURNS = {"rope_type": "default", "rope_theta": 500.0}


class Sizes(NamedTuple):
    """Numbers of query and KV heads, width of a head, width of the model."""

    heads: int
    shared: int
    head_dim: int
    width: int


SIZES = Sizes(6, 2, 4, 18), Sizes(4, 4, 8, 12), Sizes(4, 1, 4, 16)


@dataclass
class Given:
    """What a model passes to its layers with a batch.

    Attributes:
        x: (B, T, M).
        real: (B, T), which tokens are no padding.
        rotation: the model's, or None.
        cache: the model's, or None.
        start: how many tokens the cache holds.
        positions: (T,), of the tokens; None where they follow those of the cache.
        memory: what a decoder's tokens look at, or None.
        global_tokens: (B, T), Longformer's.
        chosen: what an earlier layer chose, or None.
    """

    x: Tensor
    real: Tensor
    rotation: Any = None
    cache: Any = None
    start: int = 0
    positions: Tensor | None = None
    memory: Tensor | None = None
    global_tokens: Tensor | None = None
    chosen: Tensor | None = None

    def seen(self, rule: Callable[[int], Tensor]) -> Tensor:
        """Return the model's mask, (B, 1, T, K), of what queries see among all keys."""
        key_len = self.real.shape[1]
        return (rule(key_len)[self.start :] & self.real[:, None, :])[:, None]


def additive(seen: Tensor) -> Tensor:
    """Return a mask in most models' form: 0 where a query sees a key."""
    return torch.zeros(seen.shape).masked_fill(~seen, torch.finfo().min)


def everything(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool)


def rule(layer: Any) -> Callable[[int], Tensor]:
    """Return what a model lets its layer see, from the layer's config."""
    config, kind = layer.config, ""
    if getattr(config, "layer_types", None):
        kind = config.layer_types[layer.layer_idx]
    elif getattr(config, "sliding_window", None):
        kind = "sliding_attention"
    if type(layer).__name__ == "ModernBertAttention":
        if kind == "full_attention":
            return everything
        return lambda n: everything(n).tril(REACH).triu(-REACH)
    if kind == "sliding_attention":
        return lambda n: sliding_window_mask(n, WINDOW)
    if kind == "chunked_attention":
        return lambda n: chunk_mask(n, CHUNK)
    return causal_mask


def turning(layer: Any, given: Given, **options: Any) -> Tensor:
    """Call a layer that takes rotations and a mask."""
    positions = given.positions
    if positions is None:
        positions = torch.arange(given.start, given.start + given.x.shape[1])
    kind = type(layer).__name__
    kinds = []
    if kind.startswith(("Gemma3", "ModernBert")):
        kinds = [layer.config.layer_types[layer.layer_idx]]
    turns = given.rotation(given.x, positions[None], *kinds)
    if kind == "Llama4TextAttention":
        turns = turns.expand(len(given.x), -1, -1)
    mask = additive(given.seen(rule(layer)))
    if given.cache is not None:  # one of a window gives its last keys only
        own = given.cache.layers[layer.layer_idx]
        mask = mask[..., -own.get_mask_sizes(given.x.shape[1])[0] :]
        options["past_key_values"] = given.cache
    found = layer(given.x, position_embeddings=turns, attention_mask=mask, **options)
    return found[0]


def indexed(layer: Any, given: Given) -> Tensor:
    """Call a GLM layer without an index, which takes an earlier layer's choice."""
    options: dict[str, Any] = {}
    if given.chosen is not None:
        most = int(given.chosen.sum(-1).max())
        options = {"prev_topk_indices": given.chosen.float().topk(most).indices}
    return turning(layer, given, **options)


def masked(layer: Any, given: Given) -> Tensor:
    """Call a layer that takes a mask only."""
    options = {} if given.cache is None else {"past_key_values": given.cache}
    mask = additive(given.seen(causal_mask))
    return layer(given.x, attention_mask=mask, **options)[0]


def looking(layer: Any, given: Given) -> Tensor:
    """Call BERT's, BART's and T5's, of one text or with a memory."""
    kind = type(layer).__name__
    inner = layer.self if kind == "BertAttention" else layer
    text = given.x if given.memory is None else given.memory
    open_ = everything(max(given.x.shape[1], text.shape[1]))
    seen = open_[: given.x.shape[1], : text.shape[1]]
    if inner.is_causal:
        seen = causal_mask(given.x.shape[1])
    seen = seen & given.real[:, None, None, : text.shape[1]]
    name = "mask" if kind == "T5Attention" else "attention_mask"
    if kind == "BertAttention" and given.memory is not None:
        name = "encoder_attention_mask"
    words: dict[str, Any] = {name: additive(seen)}
    if given.memory is not None:
        word = "encoder_hidden" if kind.startswith("Bert") else "key_value"
        words[f"{word}_states"] = given.memory
    return layer(given.x, **words)[0]


def stated(layer: Any, given: Given) -> Tensor:
    """Call a layer with a state: its mask has no columns."""
    real = given.real[:, given.start :]
    return layer(given.x, cache_params=given.cache, attention_mask=real)


def lightning(layer: Any, given: Given) -> Tensor:
    return layer(given.x, None, given.real[:, given.start :], given.cache)[0]


def sloping(layer: Any, given: Given) -> Tensor:
    """Call BLOOM's, which adds a residual, here 0, or MPT's, whose mask hides."""
    seen, heads = given.seen(causal_mask), layer.config.num_attention_heads
    if type(layer).__name__ == "BloomAttention":
        modelling = importlib.import_module("transformers.models.bloom.modeling_bloom")
        real = given.real.long()
        bias = modelling.build_alibi_tensor(real, heads, torch.float32)
        nothing = torch.zeros_like(given.x)
        return layer(given.x, nothing, bias, additive(seen))[0]
    modelling = importlib.import_module("transformers.models.mpt.modeling_mpt")
    bias = modelling.build_mpt_alibi_tensor(heads, given.real.shape[1])
    return layer(given.x, bias, attention_mask=~seen)[0]


def longformer(layer: Any, given: Given) -> Tensor:
    """Call Longformer's: its mask has -1 for padding and +1 for global tokens."""
    chosen = given.global_tokens
    if chosen is None:
        chosen = torch.zeros_like(given.real)
    told = 10_000.0 * (chosen.float() - (~given.real).float())
    return layer(
        given.x,
        attention_mask=told,
        is_index_masked=~given.real,
        is_index_global_attn=chosen,
        is_global_attn=bool(chosen.any()),
    )[0]


@dataclass(frozen=True)
class Kind:
    """One class of layers: its module, its small config, and how to call it."""

    file: str
    config: str
    call: Callable[[Any, Given], Tensor]
    options: Callable[[Sizes], dict[str, Any]] = lambda sizes: {}
    arguments: dict[str, Any] = field(default_factory=dict)


def plain(sizes: Sizes) -> dict[str, Any]:
    heads, shared, head_dim, width = sizes
    found = dict(hidden_size=width, num_attention_heads=heads)
    return found | dict(num_key_value_heads=shared, head_dim=head_dim)


def both(sizes: Sizes) -> dict[str, Any]:
    types = ["sliding_attention", "full_attention"]
    return plain(sizes) | {"layer_types": types, "sliding_window": WINDOW}


def whole(sizes: Sizes) -> dict[str, Any]:
    heads, _, head_dim, _ = sizes
    return dict(hidden_size=heads * head_dim, num_attention_heads=heads)


def slim(sizes: Sizes) -> dict[str, Any]:
    heads, _, head_dim, width = sizes
    found = dict(hidden_size=width, num_attention_heads=heads)
    found |= dict(num_key_value_heads=heads, qk_rope_head_dim=head_dim, q_lora_rank=5)
    return found | dict(qk_nope_head_dim=6, v_head_dim=5, kv_lora_rank=10)


def dsa(sizes: Sizes) -> dict[str, Any]:
    found = slim(sizes) | dict(index_topk=5, index_n_heads=16)
    return found | dict(index_head_dim=sizes.head_dim + 2)


def glm(sizes: Sizes) -> dict[str, Any]:
    return dsa(sizes) | {"indexer_types": ["full", "shared"]}


def mixed(sizes: Sizes) -> dict[str, Any]:
    types = ["linear_attention", "full_attention"]
    part = TURNS | {"partial_rotary_factor": 0.5}
    found = plain(sizes) | {"layer_types": types, "rope_parameters": part}
    found |= dict(linear_num_key_heads=2, linear_num_value_heads=sizes.heads)
    return found | dict(linear_key_head_dim=sizes.head_dim, linear_value_head_dim=6)


def kimi(sizes: Sizes) -> dict[str, Any]:
    types = ["linear_attention", "full_attention"]
    found = slim(sizes) | {"layer_types": types, "linear_num_heads": sizes.shared}
    return found | {"linear_head_dim": sizes.head_dim}


KINDS = {
    "LlamaAttention": Kind("llama", "LlamaConfig", turning, plain),
    "MistralAttention": Kind(
        "mistral", "MistralConfig", turning,
        lambda sizes: plain(sizes) | {"sliding_window": WINDOW},
    ),
    "Qwen2Attention": Kind("qwen2", "Qwen2Config", turning, plain),
    "Qwen3Attention": Kind("qwen3", "Qwen3Config", turning, plain),
    "Gemma2Attention": Kind(
        "gemma2", "Gemma2Config", turning,
        lambda sizes: both(sizes) | {"attn_logit_softcapping": 0.7},
    ),
    "Gemma3Attention": Kind("gemma3", "Gemma3TextConfig", turning, both),
    "GptOssAttention": Kind("gpt_oss", "GptOssConfig", turning, both),
    "SmolLM3Attention": Kind(
        "smollm3", "SmolLM3Config", turning,
        lambda sizes: plain(sizes) | {"no_rope_layers": [1, 0]},
    ),
    "Llama4TextAttention": Kind(
        "llama4", "Llama4TextConfig", turning,
        lambda sizes: plain(sizes)
        | dict(no_rope_layers=[1, 0], attention_chunk_size=CHUNK, floor_scale=3),
    ),
    "DeepseekV2Attention": Kind("deepseek_v2", "DeepseekV2Config", turning, slim),
    "DeepseekV3Attention": Kind("deepseek_v3", "DeepseekV3Config", turning, slim),
    "DeepseekV32Attention": Kind("deepseek_v32", "DeepseekV32Config", indexed, dsa),
    "GlmMoeDsaAttention": Kind("glm_moe_dsa", "GlmMoeDsaConfig", indexed, glm),
    "KimiLinearAttention": Kind("kimi_linear", "KimiLinearConfig", masked, kimi),
    "KimiLinearDeltaAttention": Kind("kimi_linear", "KimiLinearConfig", stated, kimi),
    "Qwen3NextAttention": Kind("qwen3_next", "Qwen3NextConfig", turning, mixed),
    "Qwen3NextGatedDeltaNet": Kind("qwen3_next", "Qwen3NextConfig", stated, mixed),
    "MiniMaxAttention": Kind("minimax", "MiniMaxConfig", turning, plain),
    "MiniMaxLightningAttention": Kind(
        "minimax", "MiniMaxConfig", lightning,
        lambda sizes: plain(sizes)
        | dict(block_size=4, layer_types=["linear_attention", "full_attention"]),
    ),
    "ModernBertAttention": Kind(
        "modernbert", "ModernBertConfig", turning,
        lambda sizes: whole(sizes)
        | dict(local_attention=2 * REACH, global_attn_every_n_layers=2),
    ),
    "LongformerSelfAttention": Kind(
        "longformer", "LongformerConfig", longformer,
        lambda sizes: whole(sizes) | {"attention_window": [4, 6]},
    ),
    "BloomAttention": Kind("bloom", "BloomConfig", sloping, whole),
    "MptAttention": Kind(
        "mpt", "MptConfig", sloping,
        lambda sizes: dict(d_model=sizes.heads * sizes.head_dim, n_heads=sizes.heads),
    ),
    "GPT2Attention": Kind("gpt2", "GPT2Config", masked, whole),
    "BertAttention": Kind("bert", "BertConfig", looking, whole),
    "BartAttention": Kind(
        "bart", "BartConfig", looking,
        lambda sizes: dict(d_model=sizes.heads * sizes.head_dim),
    ),
    "T5Attention": Kind(
        "t5", "T5Config", looking,
        lambda sizes: dict(d_kv=sizes.head_dim, num_heads=sizes.heads, d_model=20)
        | dict(relative_attention_num_buckets=8, relative_attention_max_distance=7),
    ),
}  # fmt: skip


def build(name: str, number: int, sizes: Sizes, **options: Any) -> Any:
    """Build a small published layer with random weights.

    Args:
        name: its class, of ``KINDS``.
        number: which layer of the model it is.
        sizes: its heads and widths.
        options: of its config; ``causal`` and ``memory`` are passed to the layer.
    """
    kind = KINDS[name]
    importlib.import_module("transformers").logging.set_verbosity_error()
    modelling = module(name)
    causal, memory = options.pop("causal", False), options.pop("memory", False)
    made = kind.options(sizes) | {"num_hidden_layers": 2, "vocab_size": 9}
    made |= {"attn_implementation": "eager", "pad_token_id": 0} | options
    config_file = importlib.import_module(f"transformers.models.{kind.file}")
    config = getattr(config_file, kind.config)(**made)
    make = getattr(modelling, name)
    if name == "T5Attention":
        config.is_decoder = causal
        layer = make(config, not memory and number == 0, number, causal)
    elif name == "BartAttention":
        config.is_decoder = causal
        words = dict(is_causal=causal, config=config, layer_idx=number)
        layer = make(sizes.heads * sizes.head_dim, sizes.heads, **words)
    elif name == "BertAttention":
        config.is_decoder = causal
        words = dict(is_causal=causal, layer_idx=number, is_cross_attention=memory)
        layer = make(config, **words)
    elif name == "GPT2Attention":
        layer = make(config, layer_idx=number)
    else:
        layer = make(config, number)
    for place, weight in enumerate(layer.parameters()):
        nn.init.normal_(weight, std=0.2, generator=seeded(place))
    if not hasattr(layer, "config"):
        layer.config = config
    return layer.eval()


def module(name: str) -> Any:
    """Import the file of a published layer."""
    file = KINDS[name].file
    return importlib.import_module(f"transformers.models.{file}.modeling_{file}")


def rotation(layer: Any) -> Any:
    """Return the rotation of a layer's model; None if it has none."""
    name = type(layer).__name__
    if KINDS[name].call not in (turning, indexed):
        return None
    family = name.removesuffix("Attention")
    return getattr(module(name), f"{family}RotaryEmbedding")(layer.config)
