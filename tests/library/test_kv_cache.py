"""attention_lib.kv_cache: a protocol; what is refused, and leaves a cache as it was.

A table of every kind of cache, and of what makes and reads it. That a cache may be
repeated and cropped is tried in test_matrix.py.
"""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import benchmarks.published_layers as published
from attention_lib.cross_attention import CrossBlock
from attention_lib.decode_step import make_decode_step
from attention_lib.export.steps import _Growing, _Static
from attention_lib.generation import generate
from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.hf_layers import from_transformers
from attention_lib.kv_cache import CacheLike, KVCache, LayerCache
from attention_lib.serving import PagedCache
from attention_lib.tiny_llama import TinyLlama
from attention_lib.tiny_lm import ModelConfig, TinyLM
from tests.library.calls_of_layers import (
    D_MODEL,
    HEADS,
    LLAMA,
    SUBJECTS,
    VOCAB,
    drawn,
    numbers,
    words,
)
from tests.tensors import assert_same

BATCH, LENGTH = 2, 5
# With a state or an index, and others that have a way of their own with a cache.
PUBLISHED = {
    "DeepseekV32Attention": 0,
    "GlmMoeDsaAttention": 0,
    "DeepseekV3Attention": 0,
    "KimiLinearDeltaAttention": 0,
    "Qwen3NextGatedDeltaNet": 0,
    "Qwen3NextAttention": 1,
    "MiniMaxLightningAttention": 0,
    "Llama4TextAttention": 0,
    "BloomAttention": 0,
}
STATES = "KimiLinearDeltaAttention", "Qwen3NextGatedDeltaNet"
STATES += ("MiniMaxLightningAttention",)
LAYERS = [
    name
    for name, (make, groups) in SUBJECTS.items()
    if "in_pieces" in {getattr(call, "__name__", "") for call in groups[0]}
]
MODELS = [
    name
    for name, (make, groups) in SUBJECTS.items()
    if "read_on" in {getattr(call, "__name__", "") for call in groups[0]}
]


def of_layer(name):
    layer = drawn(SUBJECTS[name][0])
    return lambda x, **call: layer(x, causal=True, **call), layer.new_cache, numbers


def of_model(name):
    model = drawn(SUBJECTS[name][0])
    return model, model.new_cache, words


def of_published(name):
    pytest.importorskip("transformers")
    layer = published.build(name, PUBLISHED[name], published.SIZES[0])
    ours, width = from_transformers(layer), layer.config.hidden_size
    return ours, ours.new_cache, lambda *own: numbers(*own, width=width).float()


TABLE = [
    *((of_layer, name) for name in LAYERS),
    *((of_model, name) for name in MODELS),
    *((of_published, name) for name in PUBLISHED),
]
each_cache = pytest.mark.parametrize(
    ("read", "name"), TABLE, ids=[name for _, name in TABLE]
)


def held(thing):
    """All tensors in a cache, of whatever kind."""
    parts = thing.layers if isinstance(thing, KVCache) else [thing]
    return [own for part in parts for own in vars(part).values()
            if isinstance(own, torch.Tensor)]  # fmt: skip


@each_cache
@torch.no_grad()
def test_repeated_cache_holds_all_texts_in_turn_and_shares_no_memory(read, name):
    call, new_cache, draw = read(name)
    cache = new_cache(BATCH, LENGTH)
    call(draw(LENGTH), cache=cache)
    for times in (1, 3):
        twin = cache.repeat(times)
        for own, new in zip(held(cache), held(twin), strict=True):
            assert_same(new, own.repeat(times, *[1] * (own.ndim - 1)))
            assert new.data_ptr() != own.data_ptr()
    if name in STATES:  # what was written into a state cannot be taken out
        assert not hasattr(cache, "crop")
        return
    twin.crop(2)
    assert (twin.length, cache.length) == (2, LENGTH)
    assert twin.nbytes == sum(own.nbytes for own in held(twin))


@each_cache
def test_cache_of_inference_mode_works_outside_it(read, name):
    call, new_cache, draw = read(name)
    with torch.inference_mode():
        cache = new_cache(BATCH, LENGTH + 1)
        call(draw(LENGTH), cache=cache)
    with torch.no_grad():
        found, rest = call(draw(1, 1), cache=cache), draw(1, 1)
        wanted = call(torch.cat([draw(LENGTH), rest], dim=1))[:, LENGTH:]
    assert_close(found, wanted, rtol=1e-5, atol=1e-5)


class Listed:
    """A cache of one's own: it offers what ``CacheLike`` names, and no more."""

    max_len = 99

    def __init__(self):
        self.parts = []

    @property
    def length(self):
        return sum(key.shape[-2] for key, _ in self.parts)

    def append(self, key, value):
        self.parts.append((key, value))
        keys, values = zip(*self.parts, strict=True)
        return torch.cat(keys, dim=-2), torch.cat(values, dim=-2)


@torch.no_grad()
def test_cache_of_ones_own_serves_every_layer_and_model():
    for name in (*LAYERS, "TinyLM, sdpa, rotary", "TinyLlama", "DeepSeek"):
        model = drawn(SUBJECTS[name][0])
        if hasattr(model, "blocks"):
            cache = KVCache([Listed() for _ in model.blocks])
            pieces = [model(x, cache=cache) for x in words().split(1, dim=1)]
            wanted = model(words())
        else:
            cache = Listed()
            pieces = [
                model(x, causal=True, cache=cache) for x in numbers().split(1, dim=1)
            ]
            wanted = model(numbers(), causal=True)
        assert cache.length == LENGTH
        assert_close(torch.cat(pieces, dim=1), wanted)


@pytest.mark.parametrize("name", ["TinyLM, sdpa, rotary", "TinyLlama"])
@torch.no_grad()
def test_only_the_first_reading_of_an_empty_cache_does_without_a_mask(
    name, monkeypatch
):
    model, kernel, calls = drawn(SUBJECTS[name][0]), F.scaled_dot_product_attention, []

    def noted(*tensors, attn_mask, is_causal, **options):
        calls.append((attn_mask is None, is_causal))
        return kernel(*tensors, attn_mask=attn_mask, is_causal=is_causal, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", noted)
    wanted = model(words())
    for make, firsts in (
        (lambda: model.new_cache(BATCH, LENGTH), [(True, True), (False, False)]),
        (lambda: KVCache([Listed() for _ in model.blocks]), [(False, False)] * 2),
    ):
        cache = make()
        calls.clear()
        first, second = (
            model(ids, cache=cache) for ids in words().tensor_split([3], dim=1)
        )
        assert calls == [firsts[0]] * 2 + [firsts[1]] * 2
        assert_close(torch.cat([first, second], dim=1), wanted)
        if hasattr(cache.layers[0], "crop"):
            cache.crop(0)
            calls.clear()
            assert_close(model(words(), cache=cache), wanted)
            assert calls == [(True, True)] * 2


def test_cache_that_cannot_be_copied_or_cut_is_refused(refused):
    model = TinyLM(ModelConfig(VOCAB, LENGTH, 12, 3, 2))
    one = model.new_cache(1, 2).layers[0]
    tensors = one.keys, one.values
    for cache, kind in (
        (PagedCache(model, 3, 2).prepare([[0]], [0], [[1]])["cache"], "PagedLayer"),
        (KVCache([Listed()]), "Listed"),
        (KVCache([_Growing(*tensors)]), "_Growing"),
        (KVCache([_Static(*tensors, torch.arange(1))]), "_Static"),
    ):
        for layer in cache.layers:
            assert isinstance(layer, CacheLike)
            assert not isinstance(layer, LayerCache)
        for asked, name in (
            (lambda cache=cache: cache.repeat(2), "repeat"),
            (lambda cache=cache: cache.crop(0), "crop"),
        ):
            with pytest.raises(TypeError, match=f"a cache of {kind} has no {name}"):
                asked()
    with refused(TypeError, "each of layers must be a CacheLike; got Linear"):
        KVCache([nn.Linear(1, 1)])


SEEN = torch.ones(1, LENGTH, dtype=torch.bool)
NO_MASKS = [SEEN[:, 2:], SEEN.float(), SEEN.repeat(3, 1), SEEN.repeat(3, 1, 1), "x"]
NOT_FOR_LAYERS = [{"mask": mask} for mask in NO_MASKS] + [
    {"causal": "yes"}, {"angles": "x"}, {"angles": torch.zeros(3, 2)}
]  # fmt: skip
NOT_FOR_MODELS = [{"mask": mask} for mask in NO_MASKS] + [
    {"positions": torch.arange(3)}, {"positions": "x"}, {"last_only": 1}
]  # fmt: skip
NOT_FOR_BLOCKS = [
    {"memory": None}, {"memory": numbers(4)[:1]}, {"memory": numbers(4, width=3)}
] + [{"memory_mask": mask} for mask in NO_MASKS]  # fmt: skip


def reads_block(block, x, **call):
    return block(x, **{"memory": numbers(4, seed=1)} | call)


def reads_target(model, x, memory_mask=None, **call):
    memory, _ = model.encode(words(4, seed=1))
    return model.decode(x, [memory] * 2, memory_mask, **call)


def reads_causal(layer, x, **call):
    return layer(x, **{"causal": True} | call)


# How to make, call and feed a layer or a model, and arguments that it refuses.
REFUSING = {
    **{
        name: (SUBJECTS[name][0], reads_causal, numbers, NOT_FOR_LAYERS)
        for name in LAYERS
    },
    "window": (
        lambda: GroupedQueryAttention(D_MODEL, HEADS, 1, window=2),
        reads_causal,
        numbers,
        [*NOT_FOR_LAYERS, {"positions": torch.arange(3)}, {"positions": [1, 2]}],
    ),
    "distances": (
        SUBJECTS["relative"][0],
        reads_causal,
        numbers,
        [{"key_positions": torch.arange(2)}, {"key_positions": [1, 2]}],
    ),
    **{
        name: (SUBJECTS[name][0], nn.Module.__call__, words, NOT_FOR_MODELS)
        for name in MODELS
    },
    "windows": (
        lambda: TinyLlama(replace(LLAMA, window=2)),
        nn.Module.__call__,
        words,
        NOT_FOR_MODELS,
    ),
    "cross block": (
        lambda: CrossBlock(D_MODEL, HEADS), reads_block, numbers, NOT_FOR_BLOCKS
    ),
    "translator": (
        SUBJECTS["translator"][0],
        reads_target,
        words,
        [{"memory_mask": mask} for mask in NO_MASKS],
    ),
}  # fmt: skip


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", REFUSING)
@torch.no_grad()
def test_refused_call_leaves_a_cache_as_it_was(name):
    make, call, draw, wrong = REFUSING[name]
    model, x = drawn(make), draw()
    cache = model.new_cache(BATCH, LENGTH)
    found = [call(model, x[:, :2], cache=cache)]
    for piece in (x[:, 2:4], x[:, 4:]):
        for each in wrong:
            with pytest.raises((TypeError, ValueError)):
                call(model, piece, cache=cache, **each)
            assert {it.length for it in getattr(cache, "layers", [cache])} == {
                sum(part.shape[1] for part in found)
            }, each
        found.append(call(model, piece, cache=cache))
    assert_close(torch.cat(found, dim=1), call(model, x))


class Bare:
    """As short as the caches of the chapters: a layer only calls ``append``."""

    def append(self, key, value):
        return key, value


@pytest.mark.usefixtures("shapes_unchecked")  # which ask for a ``CacheLike``
@pytest.mark.parametrize("name", LAYERS)
@torch.no_grad()
def test_layer_needs_only_append_of_a_cache(name):
    layer = drawn(SUBJECTS[name][0])
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    found = layer(numbers(), mask, causal=True, cache=Bare())
    assert_close(found, layer(numbers(), causal=True))


@torch.no_grad()
def test_cache_whose_layers_hold_unequal_lengths_is_refused(refused):
    model = drawn(SUBJECTS["TinyLlama"][0])
    cache = model.new_cache(BATCH, LENGTH)
    model(words(), cache=cache)
    cache.layers[0].crop(1)
    with refused(ValueError, "cache must hold equally many tokens in each layer"):
        model(words(1), cache=cache)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (numbers(3)[:, None], numbers(3, width=1)[:, None], ValueError),
        (numbers(3)[:, None], numbers(3, width=13)[:, None], ValueError),
        (numbers(3)[:, None], numbers(3)[:, None].float(), TypeError),
        (numbers(3)[:, None], numbers(3)[:, None].to("meta"), TypeError),
        (*[numbers(3)[:, None] + 0j] * 2, TypeError),
        (numbers(3), numbers(3), ValueError),
        (*[torch.tensor(1.0).double()] * 2, ValueError),
        ([1], [2], TypeError),
    ],
)
def test_cache_refuses_what_is_not_of_its_kind(key, value, error, refused):
    cache = LayerCache(BATCH, 1, LENGTH, D_MODEL, dtype=torch.float64)
    with refused(error, "the cache holds" if key != [1] else "keys must be"):
        cache.append(key, value)
    assert cache.length == 0


def test_cache_refuses_another_number_of_values(refused):
    cache, key = LayerCache(2, 1, 5, 4), torch.zeros(2, 1, 3, 4)
    with refused(ValueError, "there must be one value for each key; got keys (2"):
        cache.append(key, key[:, :, :1])
    assert cache.length == 0


class Whole(LayerCache):
    """It returns all of its memory, also what is still empty."""

    def append(self, key, value):
        super().append(key, value)
        return self.keys, self.values


class Small(LayerCache):
    """It keeps half precision, and returns the layer's."""

    def append(self, key, value):
        kept = super().append(key, value)
        return tuple(part.to(key.dtype) for part in kept)


class Listing(list):
    """A list, and also a cache."""

    length, max_len = 0, 9

    def append(self, key, value):
        return key, value


@pytest.mark.parametrize(
    ("make", "width"),
    [
        (lambda: Whole(BATCH, HEADS, LENGTH, 4, dtype=torch.float64), LENGTH),
        (lambda: Small(BATCH, HEADS, LENGTH, 4, dtype=torch.bfloat16), 2),
        (Listing, 2),
    ],
)
@torch.no_grad()
def test_cache_of_ones_own_may_return_what_it_likes(make, width):
    layer = drawn(SUBJECTS["split"][0])
    mask = torch.ones(2, width, dtype=torch.bool).tril()
    assert layer(numbers(2), mask, cache=make()).shape == (BATCH, 2, D_MODEL)


@torch.no_grad()
def test_block_may_be_skipped_and_layers_come_in_any_iterable():
    model = drawn(SUBJECTS["TinyLlama"][0])
    cache = KVCache(layer for layer in model.new_cache(BATCH, LENGTH).layers)
    model.blocks[1].forward = lambda x, *given, **named: x
    found = [model(part, cache=cache) for part in words().split([LENGTH - 1, 1], dim=1)]
    assert_close(torch.cat(found, dim=1), model(words()))


@pytest.mark.parametrize("name", ["GPT-2", "TinyLlama"])
@torch.no_grad()
def test_padding_in_a_cache_is_refused_until_it_is_hidden_or_gone(name, refused):
    model, ids = drawn(SUBJECTS[name][0]), words()
    lengths = torch.tensor([LENGTH - 1] + [2] * (BATCH - 1))
    cache = model.new_cache(BATCH, LENGTH)
    model(ids[:, :-1], lengths.clamp(max=LENGTH - 1), cache=cache)
    for held in (cache, cache.repeat(1)):
        with refused(ValueError, "the cache holds padding after token 2 of a text"):
            model(ids[:, -1:], cache=held)
        assert held.length == LENGTH - 1
    mask = (torch.arange(LENGTH) < 2) | (torch.arange(LENGTH) == LENGTH - 1)
    found = model(ids[:, -1:], mask=mask, positions=torch.tensor([2]), cache=cache)
    short = torch.cat([ids[:, :2], ids[:, -1:]], dim=1)
    assert_close(found[1:], model(short)[1:, -1:])
    cache.crop(3)
    with refused(ValueError, "the cache holds padding after token 2 of a text"):
        model(ids[:, :1], cache=cache)
    for layer in cache.layers:
        layer.crop(2)
    assert_close(model(ids[:, 2:3], cache=cache), model(ids[:, :3])[:, -1:])


@torch.no_grad()
def test_padding_in_a_cache_is_refused_however_the_text_goes_on(refused):
    model, ids = drawn(lambda: TinyLM(ModelConfig(VOCAB, 9, 8, 2, 1))), words()
    cache = model.new_cache(BATCH)
    lengths = torch.tensor([3] + [2] * (BATCH - 1))
    model(ids[:, :3], lengths, cache=cache)
    step, more = make_decode_step(model, cache), {"max_new_tokens": 1, "cache": cache}
    for call in (
        lambda: step(ids[:, :1]),
        lambda: generate(model, ids[:, :2], **more),
        lambda: generate(model, ids[:, :3], lengths=lengths, **more),
    ):
        with refused(ValueError, "the cache holds padding after token 2 of a text"):
            call()
    seen = torch.tensor([[True, True, False, True, True]])
    later = {"mask": seen, "positions": torch.tensor([2, 3])}
    model(ids[:, :2], lengths.clamp(max=1), cache=cache, **later)
    cache.crop(4)  # what was between is still there
    with refused(ValueError, "the cache holds padding after token 2 of a text"):
        model(ids[:, :1], cache=cache)


@torch.no_grad()
def test_call_that_failed_leaves_no_note_of_padding():
    model, ids = drawn(lambda: TinyLM(ModelConfig(VOCAB, 9, 8, 2, 1))), words()
    cache = model.new_cache(BATCH, 3)
    with pytest.raises(ValueError, match="room"):
        model(ids, torch.full((BATCH,), 2), cache=cache)
    assert_close(model(ids[:, :3], cache=cache), model(ids[:, :3]))


@torch.no_grad()
def test_window_counts_columns_in_a_cache_of_ones_own_or_refuses(refused):
    layer = drawn(lambda: GroupedQueryAttention(D_MODEL, HEADS, 1, window=3))
    x = numbers(LENGTH)
    wanted = layer(x)
    cache, counted = Listed(), torch.arange(LENGTH)
    parts = zip(x.split(2, dim=1), counted.split(2), strict=True)
    found = [layer(part, positions=each, cache=cache) for part, each in parts]
    assert_close(torch.cat(found, dim=1), wanted)
    for cache in (
        Listed(),
        LayerCache(BATCH, 1, LENGTH, D_MODEL // HEADS, dtype=x.dtype),
    ):
        with refused(ValueError, "positions must go up by 1 in a layer with a window"):
            layer(x, positions=counted * 3, cache=cache)
