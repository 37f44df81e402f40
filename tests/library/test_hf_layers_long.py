"""attention_lib.hf_layers: layers for long texts, piece by piece, with their caches."""

import importlib

import pytest
import torch

from attention_lib.hf_layers import from_transformers
from attention_lib.hf_layers.delta import CHUNK
from attention_lib.masks import padding_mask
from attention_lib.reproducibility import seeded
from benchmarks.published import LOOSE
from benchmarks.published_layers import (
    KINDS,
    SIZES,
    Given,
    build,
    lightning,
    rotation,
    stated,
)

pytestmark = pytest.mark.long

LENGTH, PIECES = 12, (5, 4, 1, 1, 1)
CACHED = {
    "MistralAttention": (0,),
    "Gemma3Attention": (0, 1),
    "GptOssAttention": (0, 1),
    "Qwen3NextAttention": (1,),
    "Qwen3NextGatedDeltaNet": (0,),
    "KimiLinearAttention": (1,),
    "KimiLinearDeltaAttention": (0,),
    "MiniMaxLightningAttention": (0,),
    "DeepseekV3Attention": (0,),
    "DeepseekV32Attention": (0,),
    "GlmMoeDsaAttention": (0,),
    "Llama4TextAttention": (1,),
}


def texts(layer):
    """Two texts, the second with padding at its beginning."""
    x = torch.randn(2, LENGTH, layer.config.hidden_size, generator=seeded(1))
    real = padding_mask(torch.tensor([LENGTH, 9]), LENGTH, side="left")[:, 0]
    return x, real


def ours_mask(name, real):
    return real if KINDS[name].call in (stated, lightning) else real[:, None]


def their_cache(layer):
    if type(layer).__name__ == "MiniMaxLightningAttention":
        return importlib.import_module(type(layer).__module__).MiniMaxCache()
    return importlib.import_module("transformers").DynamicCache(config=layer.config)


@pytest.mark.parametrize(
    ("name", "number"), [(name, n) for name, each in CACHED.items() for n in each]
)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@torch.no_grad()
def test_layer_with_a_cache_equals_the_published_one_piece_by_piece(
    name, number, sizes
):
    layer = build(name, number, sizes)
    ours, (x, real) = from_transformers(layer), texts(layer)
    theirs, mine = their_cache(layer), ours.new_cache(2, LENGTH)
    bound, start, found = LOOSE.get(name, 1e-6), 0, []
    for size in PIECES:
        end = start + size
        given = Given(x[:, start:end], real[:, :end], rotation(layer), theirs, start)
        wanted = KINDS[name].call(layer, given)
        flat = KINDS[name].call in (stated, lightning)
        seen = real[:, start:end] if flat else real[:, None, :end]
        found.append(ours(x[:, start:end], seen, cache=mine))
        shown = real[:, start:end, None]
        torch.testing.assert_close(
            found[-1] * shown, wanted * shown, rtol=bound, atol=bound
        )
        start = end
    at_once = ours(x, ours_mask(name, real)) * real[..., None]
    in_pieces = torch.cat(found, dim=1) * real[..., None]
    torch.testing.assert_close(in_pieces, at_once, rtol=bound, atol=bound)


STATED = [it for it in CACHED if KINDS[it].call in (stated, lightning)]


@torch.no_grad()
def test_short_convolution_may_be_of_one_token():
    ours = from_transformers(build("Qwen3NextGatedDeltaNet", 0, SIZES[0])).double()
    ours.conv = torch.nn.Parameter(ours.conv[..., :1].clone())
    x = torch.randn(2, 5, ours.out_proj.out_features, generator=seeded(1)).double()
    cache = ours.new_cache(2, 5)
    steps = [ours(token, cache=cache) for token in x.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), ours(x))


@pytest.mark.parametrize("name", STATED)
@torch.no_grad()
def test_layer_with_a_state_equals_the_published_one_over_many_chunks(name):
    layer, length = build(name, 0, SIZES[1]), 2 * CHUNK + 22
    ours, real = from_transformers(layer), torch.ones(2, length, dtype=torch.bool)
    x = torch.randn(2, length, layer.config.hidden_size, generator=seeded(1))
    wanted = KINDS[name].call(layer, Given(x, real))
    torch.testing.assert_close(ours(x), wanted, rtol=1e-5, atol=1e-5)
    cache = ours.new_cache(2, length)
    found = [ours(piece, cache=cache) for piece in x.split(CHUNK + 9, dim=1)]
    torch.testing.assert_close(torch.cat(found, 1), wanted, rtol=1e-5, atol=1e-5)
