"""attention_lib.hf_layers: distance is one of positions, wherever padding stands."""

from functools import cache

import pytest
import torch
from torch.testing import assert_close

from attention_lib.hf_layers import from_transformers
from attention_lib.hf_layers.local import both_sides, chunks
from attention_lib.reproducibility import seeded
from benchmarks.published_layers import CHUNK, SIZES, build
from tests.tensors import assert_same

pytestmark = pytest.mark.long

# Chunks, slopes, distances in pieces, and rotations, the last in several ways.
NAMES = "Llama4TextAttention", "MptAttention", "BloomAttention", "T5Attention"
NAMES += "LlamaAttention", "DeepseekV3Attention", "Qwen3NextAttention"
each_layer = pytest.mark.parametrize("name", NAMES)
PREFIX, LENGTHS = 3, (9, 6, 2)  # of what all texts begin with, and of the rest
LONGEST = max(LENGTHS)
START = PREFIX + LONGEST


@cache
def layer(name):
    causal = {"causal": True} if name == "T5Attention" else {}
    number = int(name == "Qwen3NextAttention")
    return from_transformers(build(name, number, SIZES[1], **causal)).double()


def tokens(name, length, seed=0):
    published = layer(name).attention
    width = published.q_proj
    while not hasattr(width, "in_features"):
        width = width[0]
    shape = length, width.in_features
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def texts(name):
    """All begin alike, and go on for as long as ``LENGTHS`` says."""
    prefix = tokens(name, PREFIX)
    return [
        torch.cat((prefix, tokens(name, length, seed=length))) for length in LENGTHS
    ]


def padded(rows, length):
    """The ends of texts, with padding in front; their positions; which are real."""
    counts = torch.tensor([len(row) for row in rows])[:, None]
    places = torch.arange(length) - length + counts
    x = torch.stack(
        [torch.cat((7 + row.new_zeros(length - len(row), row.shape[1]), row))
         for row in rows]
    )  # fmt: skip
    return x, places.clamp(min=0), places >= 0


def assert_each_as_alone(name, found, lengths):
    for own, text, length in zip(found, texts(name), lengths, strict=True):
        assert_close(own[-length:], layer(name)(text[None])[0, -length:])


@each_layer
@torch.no_grad()
def test_each_text_behind_padding_is_as_alone(name):
    x, positions, real = padded(texts(name), START)
    found = layer(name)(x, real[:, None], positions=positions)
    assert_each_as_alone(name, found, [PREFIX + it for it in LENGTHS])


@each_layer
@pytest.mark.parametrize("pieces", [(START,), (1,) * START, (5, 1, 1, START - 7)])
@torch.no_grad()
def test_each_text_read_in_pieces_is_as_alone(name, pieces):
    x, positions, real = padded(texts(name), START)
    own, found, end = layer(name).new_cache(len(x), START), [], 0
    for size in pieces:
        now, end = slice(end, end + size), end + size
        seen = real[:, None, :end]
        found.append(
            layer(name)(x[:, now], seen, positions=positions[:, now], cache=own)
        )
    lengths = [PREFIX + it for it in LENGTHS]
    assert_each_as_alone(name, torch.cat(found, dim=1), lengths)


@each_layer
@pytest.mark.parametrize("pieces", [(LONGEST,), (4, 3, 1, 1)])
@torch.no_grad()
def test_each_text_behind_a_cached_prefix_and_padding_is_as_alone(name, pieces):
    once = layer(name).new_cache(1, START)
    layer(name)(texts(name)[0][None, :PREFIX], cache=once)
    x, positions, real = padded([it[PREFIX:] for it in texts(name)], LONGEST)
    own, found, end = once.repeat(len(x)), [], 0
    for size in pieces:
        now, end = slice(end, end + size), end + size
        seen = torch.cat((real.new_ones(len(x), PREFIX), real[:, :end]), dim=1)
        places = PREFIX + positions[:, now]
        found.append(layer(name)(x[:, now], seen[:, None], positions=places, cache=own))
    assert_each_as_alone(name, torch.cat(found, dim=1), LENGTHS)


@each_layer
@torch.no_grad()
def test_cropped_and_repeated_cache_reads_another_end(name):
    x, positions, real = padded(texts(name), START)
    own = layer(name).new_cache(len(x), START + 2)
    layer(name)(x, real[:, None], positions=positions, cache=own)
    own.crop(START - 2)
    own = own.repeat(2)
    x, positions, real = (torch.cat((it, it)) for it in (x, positions, real))
    found = layer(name)(
        x[:, -2:], real[:, None], positions=positions[:, -2:], cache=own
    )
    for rows in found.chunk(2):
        assert_each_as_alone(name, rows, [2] * len(LENGTHS))


@torch.no_grad()
def test_window_to_both_sides_is_one_of_positions():
    text = tokens_of_width("ModernBertAttention", 11)
    for name in ("ModernBertAttention", "LongformerSelfAttention"):
        ours = from_transformers(build(name, 0, SIZES[1])).double()
        # Padding in the middle of the columns, as behind a cached beginning.
        apart = torch.cat((text[:4], 0 * text[:5] + 7, text[4:]))
        places = torch.tensor([0, 1, 2, 3, *[0] * 5, *range(4, 11)])
        real = torch.tensor([True] * 4 + [False] * 5 + [True] * 7)
        found = ours(apart[None], real[None, None], positions=places)[0, real]
        assert_close(found, ours(text[None])[0])


def tokens_of_width(name, length):
    width = build(name, 0, SIZES[1]).config.hidden_size
    return torch.randn(length, width, generator=seeded(0), dtype=torch.float64)


def test_what_is_near_by_hand():
    query, key = torch.tensor([5, 8]), torch.tensor([2, 4, 5, 8])
    near = [[False, True, True, False], [False, False, False, True]]
    assert both_sides(2, query, key).tolist() == near
    assert chunks(CHUNK, query, key).tolist() == near
    assert_same(chunks(CHUNK, query[None], key), torch.tensor([near]))


@torch.no_grad()
def test_one_new_token_costs_as_much_as_there_are_keys():
    ours, shapes = from_transformers(build("Llama4TextAttention", 0, SIZES[1])), []
    near = ours.near
    ours.near = lambda *places: shapes.append(near(*places).shape) or near(*places)
    own = ours.new_cache(1, 40_001)
    own.length = 40_000
    ours(torch.randn(1, 1, SIZES[1].width), cache=own)
    assert shapes == [(1, 40_001)]


@pytest.mark.usefixtures("shapes_unchecked")
def test_positions_that_do_not_fit_are_refused(refused):
    ours, x = (
        from_transformers(build("MptAttention", 0, SIZES[1])),
        torch.zeros(2, 3, 32),
    )
    for wrong in (torch.arange(2), torch.arange(4), torch.zeros(3, 3).long()):
        words = (
            f"positions must be (3,) or (2, 3), one per token; got {tuple(wrong.shape)}"
        )
        with refused(ValueError, words):
            ours(x, positions=wrong)
    with refused(TypeError, "positions must be a tensor of int64; got torch.float32"):
        ours(x, positions=torch.zeros(3))
    with refused(ValueError, "key_positions must have one position for each of 3 keys"):
        ours.attention(x, key_positions=torch.arange(2))
