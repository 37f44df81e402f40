"""Layers and models, each with lists of calls; calls of one list return the same."""

from functools import partial

import torch
from torch import nn

from attention_lib.attention import SelfAttention
from attention_lib.block import FeedForward, TinyBlock
from attention_lib.cross_attention import (
    CrossBlock,
    TinyTranslator,
    TranslatorConfig,
    cache_memory,
)
from attention_lib.decode_step import make_decode_step
from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.interpret import AttentionOnlyLM
from attention_lib.latent_attention import MultiHeadLatentAttention
from attention_lib.mha_variants import MHA_VARIANTS, make_mha
from attention_lib.pretrained import Decoder, DecoderConfig, LatentConfig, LayerConfig
from attention_lib.relative_attention import RelativeAttention
from attention_lib.reproducibility import seeded
from attention_lib.rope import rope_angles
from attention_lib.tiny_llama import LlamaConfig, SwiGLU, TinyLlama
from attention_lib.tiny_lm import ModelConfig, TinyLM
from tests.tensors import global_seed

BATCH, LENGTH, D_MODEL, HEADS, VOCAB = 2, 5, 12, 3, 11
PIECES = [3, 1, 1]


def drawn(make):
    """A layer in float64 whose weights are all far from where they start."""
    with global_seed(0):
        made = make()
    for number, own in enumerate(made.parameters()):
        nn.init.normal_(own, std=0.4, generator=seeded(number))
    return made.double().eval()


def numbers(length=LENGTH, seed=0, width=D_MODEL):
    shape = BATCH, length, width
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def words(length=LENGTH, seed=0):
    return torch.randint(VOCAB, (BATCH, length), generator=seeded(seed))


# How layers and models are called. Those of one object all give the same.


def at_once(layer, **call):
    return layer(numbers(), causal=True, **call)


def in_pieces(layer, rope_dim=None):
    cache, found = layer.new_cache(BATCH, LENGTH), []
    for places in torch.arange(LENGTH).split(PIECES):
        turns = None if rope_dim is None else rope_angles(places.double(), rope_dim)
        piece = numbers()[:, places]
        found.append(layer(piece, causal=True, angles=turns, cache=cache))
    return torch.cat(found, dim=1)


def turned(layer, rope_dim):
    return at_once(layer, angles=rope_angles(torch.arange(LENGTH).double(), rope_dim))


def across(layer):
    return layer(numbers(), memory=numbers(4, seed=1))


def alone(layer):
    return layer(numbers())


def read(model):
    return model(words())


def read_on(model):
    cache = model.new_cache(BATCH, LENGTH)
    pieces = words().split(PIECES, dim=1)
    return torch.cat([model(piece, cache=cache) for piece in pieces], dim=1)


def told_positions(model):
    return model(words(), positions=torch.arange(LENGTH))


def stepped(model):
    cache = model.new_cache(BATCH, LENGTH)
    step = make_decode_step(model, cache)
    return torch.stack([step(word) for word in words().split(1, dim=1)], dim=1)


def crossed(block):
    return block(numbers(), numbers(4, seed=1))


def crossed_on(block):
    cache, found, memory = block.new_cache(BATCH, LENGTH), [], numbers(4, seed=1)
    for piece in numbers().split(PIECES, dim=1):
        kept = cache_memory(block.cross_attention, memory)
        found.append(block(piece, kept, cache=cache))
    return torch.cat(found, dim=1)


def written(model):
    return model(words(4, seed=1), words())


def written_on(model):
    cache = model.new_cache(BATCH)
    memory, mask = model.encode(words(4, seed=1))
    kept = model.cache_memory(memory)
    pieces = words().split(PIECES, dim=1)
    return torch.cat([model.decode(p, kept, mask, cache=cache) for p in pieces], dim=1)


def language_model(kind=TinyLM, **options):
    sizes = VOCAB, LENGTH + 9, D_MODEL, HEADS, 2
    return lambda: kind(ModelConfig(*sizes, **options))


def decoder(**options):
    layers = LayerConfig(), LayerConfig(rope_base=None)
    sizes = VOCAB, LENGTH + 9, D_MODEL, 4, 2, 6, 10, layers
    return lambda: Decoder(DecoderConfig(*sizes, **options))


def latent(absorb, q_latent_dim=6):
    widths = dict(kv_latent_dim=8, nope_dim=3, rope_dim=4, value_dim=5)
    widths |= dict(q_latent_dim=q_latent_dim, absorb=absorb)
    return lambda: MultiHeadLatentAttention(D_MODEL, HEADS, **widths)


CACHED = [at_once, in_pieces]
TURNED = [partial(turned, rope_dim=4), partial(in_pieces, rope_dim=4)]
READING = [read, read_on, told_positions, stepped]
LLAMA = LlamaConfig(VOCAB, LENGTH + 9, D_MODEL, 6, 2, 2, 10, qk_norm="rms")
TRANSLATOR = TranslatorConfig(VOCAB, LENGTH + 9, D_MODEL, HEADS, 2)
# What is made, and lists of calls; those of one list give the same.
SUBJECTS = {
    "head": (lambda: SelfAttention(D_MODEL, 5, qkv_bias=True), [[at_once], [across]]),
    **{
        kind: (
            partial(make_mha, kind, D_MODEL, HEADS, qkv_bias=True),
            [CACHED, [across], TURNED],
        )
        for kind in MHA_VARIANTS
    },
    "grouped": (
        partial(GroupedQueryAttention, D_MODEL, 6, 2, qk_norm="rms_plus_one"),
        [CACHED, [across]],
    ),
    "grouped, softcap": (
        partial(GroupedQueryAttention, D_MODEL, 6, 2, softcap=3.0, sinks=True),
        [CACHED],
    ),
    "relative": (
        partial(RelativeAttention, D_MODEL, HEADS, num_buckets=8, max_distance=9),
        [CACHED, [across]],
    ),
    **{
        f"latent, {absorb=}, {wide=}": (
            latent(absorb, wide),
            [CACHED, [across], TURNED],
        )
        for absorb in (False, True)
        for wide in (None, 6)
    },
    "feed-forward": (partial(FeedForward, D_MODEL), [[alone]]),
    "SwiGLU": (partial(SwiGLU, D_MODEL, 7), [[alone]]),
    "post-norm block": (partial(TinyBlock, D_MODEL, HEADS, norm="post"), [CACHED]),
    "cross block": (partial(CrossBlock, D_MODEL, HEADS), [[crossed, crossed_on]]),
    "post-norm cross block": (
        partial(CrossBlock, D_MODEL, HEADS, norm="post"),
        [[crossed, crossed_on]],
    ),
    **{
        f"TinyLM, {kind}, {positions}": (
            language_model(mha=kind, positions=positions),
            [READING],
        )
        for kind, positions in zip(
            MHA_VARIANTS, ("learned", "none", "rotary", "sinusoidal"), strict=True
        )
    },
    "TinyLM, sdpa, learned, tied": (
        language_model(mha="sdpa", tie_weights=True),
        [READING],
    ),
    "attention only": (language_model(AttentionOnlyLM), [READING]),
    "TinyLlama": (lambda: TinyLlama(LLAMA), [READING]),
    "Gemma": (
        decoder(norm_outputs=True, norm="rms_plus_one", tie_weights=True),
        [READING],
    ),
    "GPT-2": (
        decoder(
            **{"mlp": "plain", "activation": "gelu", "norm": "layer"},
            **{"learned_positions": True, "out_bias": True},
        ),
        [READING],
    ),
    "gpt-oss": (
        decoder(mlp="experts", num_experts=3, experts_per_token=2, sinks=True),
        [READING],
    ),
    "DeepSeek": (decoder(latent=LatentConfig(7, 8, 5, 6, 4)), [READING]),
    "translator": (lambda: TinyTranslator(TRANSLATOR), [[written, written_on]]),
}  # fmt: skip
