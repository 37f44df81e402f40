"""attention_lib.generation: what is read and scored, drawn, refused.

That each text goes on as it would alone is in test_matrix_generation.py.
"""

import math

import pytest
import torch
import torch.nn.functional as F

from attention_lib.generation import generate
from attention_lib.kv_cache import KVCache, LayerCache
from attention_lib.reproducibility import seeded
from attention_lib.sampling import sample_token
from attention_lib.tiny_llama import LlamaConfig, TinyLlama
from attention_lib.tiny_lm import TinyLM
from attention_lib.training import next_token_loss
from tests.library.tiny_models import VOCAB_SIZE, Counts, beginnings, tiny

LENGTHS = torch.tensor([2, 5, 3])


def by_hand(model, text, count):
    """Go on with one text, reading all of it for each token."""
    text = list(text)
    for _ in range(count):
        scores = model(torch.tensor([text]))[0, -1].tolist()
        text.append(scores.index(max(scores)))
    return text


@pytest.mark.parametrize("use_cache", [True, False])
def test_generate_draws_token_by_token(use_cache):
    model, token_ids, generator = tiny(), beginnings(), seeded(4)
    options = {"temperature": 0.8, "top_k": 5, "top_p": 0.9}
    wanted = token_ids
    for _ in range(4):
        picked = sample_token(model(wanted)[:, -1], generator=generator, **options)
        wanted = torch.cat([wanted, picked[:, None]], 1)
    options |= {"use_cache": use_cache, "generator": seeded(4)}
    assert generate(model, token_ids, max_new_tokens=4, **options).equal(wanted)


def test_generate_fills_a_text_that_met_the_stop_and_ends_with_the_last():
    model, token_ids = Counts(), torch.tensor([[1, 2, 3], [4, 0, 0]])
    lengths = torch.tensor([3, 1])
    found = generate(model, token_ids, max_new_tokens=6, lengths=lengths, stop=6)
    assert found.tolist() == [[1, 2, 3, 4, 5, 6, 6, 6, 6], [4, 5, 6, 6, 6, 6, 6, 0, 0]]
    assert model.calls == 3


def test_generate_passes_on_each_token_and_ends_when_told():
    model, token_ids, seen = Counts(), torch.tensor([[1, 2], [4, 5]]), []
    found = generate(
        model,
        token_ids,
        max_new_tokens=4,
        stop=7,
        on_token=lambda new: seen.append((new.tolist(), model.calls)),
    )
    assert seen == [([3, 6], 1), ([4, 7], 2), ([5, 7], 3), ([6, 7], 4)]
    assert found[:, 2:].T.tolist() == [new for new, _ in seen]

    def has_four(new):
        return 4 in new

    told = generate(model, token_ids, max_new_tokens=4, on_token=has_four)
    assert told.tolist() == [[1, 2, 3, 4, 0, 0], [4, 5, 6, 7, 0, 0]]
    assert model.calls == 6


def test_generate_takes_any_model_and_a_model_may_learn_from_it():
    assert generate(Counts(), torch.tensor([[3]]), max_new_tokens=2).tolist() == [
        [3, 4, 5]
    ]
    model = tiny().train()
    texts = generate(model, beginnings(), max_new_tokens=2)
    next_token_loss(model(texts), texts).backward()


def test_generate_reads_each_token_once():
    model, read = tiny(), []
    model.token_embedding.register_forward_hook(lambda part, ids, _: read.append(ids))
    generate(model, beginnings(), max_new_tokens=4)
    assert [ids[0].shape[1] for ids in read] == [5, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "scored"),
    [
        ({}, [1, 1]),
        ({"use_cache": False}, [1, 1]),
        ({"lengths": LENGTHS}, [1, 1]),
        ({"lengths": LENGTHS, "use_cache": False}, [5, 6]),  # they end in many columns
    ],
)
def test_generate_scores_only_what_it_reads_of(options, scored):
    model, found = tiny(), []
    model.head.register_forward_hook(lambda _, inputs, out: found.append(out.shape[1]))
    generate(model, beginnings(), max_new_tokens=2, **options)
    assert found == scored


@pytest.mark.parametrize("lengths", [None, torch.tensor([3, 5, 1])])
def test_generate_goes_on_after_a_cache(lengths):
    model, beginning, rest = tiny(), beginnings(3, 3), beginnings(3, 5)
    cache = model.new_cache(3, 10)
    with torch.no_grad():
        model(beginning, cache=cache)
    found = generate(model, rest, max_new_tokens=3, lengths=lengths, cache=cache)
    for row, length in enumerate([5] * 3 if lengths is None else lengths.tolist()):
        text = [*beginning[row].tolist(), *rest[row, :length].tolist()]
        assert found[row, : length + 3].tolist() == by_hand(model, text, 3)[3:]
    assert cache.length == (10 if lengths is None else 3)
    if lengths is None:  # and again, after the token that was not read yet
        assert cache.layers[0].keys.requires_grad is False
        cache.crop(3)
        assert generate(model, rest, max_new_tokens=3, cache=cache).equal(found)


def test_generate_refuses_a_cache_it_could_not_crop_before_it_reads(refused):
    class Uncropped(LayerCache):
        crop = property()

    model, tokens = tiny(), []
    cache = KVCache(
        [Uncropped(3, *each.keys.shape[1:]) for each in model.new_cache(3).layers]
    )
    with refused(TypeError, "a cache of Uncropped has no crop"):
        generate(
            model,
            beginnings(3, 5),
            max_new_tokens=3,
            lengths=LENGTHS,
            cache=cache,
            on_token=tokens.append,
        )
    assert tokens == []
    assert cache.length == 0


def test_generate_reads_no_more_keys_of_a_window_than_padding_asks_for():
    config = LlamaConfig(VOCAB_SIZE, 40, 16, 4, 2, 2, 12, window=2)
    model, most = TinyLlama(config).double(), []
    cache = model.new_cache(2, 40)
    with torch.no_grad():
        model(beginnings(2, 20), cache=cache)
    attend = F.scaled_dot_product_attention

    def noted(query, key, *rest, **options):
        most.append(key.shape[-2] - query.shape[-2])
        return attend(query, key, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", noted)
        options = {"max_new_tokens": 6, "lengths": torch.tensor([2, 5])}
        generate(model, beginnings(2, 5), cache=cache, **options)
        with_padding = max(most)
        most.clear()
        options = {"max_new_tokens": 6, "cache": cache}
        generate(model, beginnings(2, 5), **options)
    # The keys of one token besides its own; a group's queries are rows of one matrix.
    assert (with_padding, max(most)) == (1 + 3, 1)


@pytest.mark.parametrize("lengths", [None, torch.tensor([3, 5, 1])])
def test_generate_that_failed_leaves_no_padding_in_a_cache(refused, lengths):
    model, cache = tiny(), tiny().new_cache(3, 12)
    with torch.no_grad():
        model(beginnings(3, 2), cache=cache)
    model.head.weight.data[0, 0] = math.nan
    with refused(ValueError, "logits hold nan or inf"):
        generate(model, beginnings(), max_new_tokens=2, lengths=lengths, cache=cache)
    assert cache.length == (7 if lengths is None else 2)


@pytest.mark.parametrize("mode", [True, False])
def test_generate_restores_the_mode_after_an_error(refused, mode):
    model = tiny().train(mode)
    model.blocks[0].eval()
    before = [part.training for part in model.modules()]
    generate(model, beginnings(), max_new_tokens=2)
    assert [part.training for part in model.modules()] == before
    model.head.weight.data[0, 0] = math.nan
    with refused(ValueError, "logits hold nan or inf"):
        generate(model, beginnings(), max_new_tokens=2)
    assert [part.training for part in model.modules()] == before


@pytest.mark.parametrize(
    ("length", "more", "words"),
    [
        (2, 12, "max_new_tokens must be at most 11 after 2 tokens in a context of 12;"),
        (12, 2, "max_new_tokens must be at most 1 after 12 tokens in a context of 12;"),
        (14, 1, "token_ids hold 14 tokens; the context has 12: cut the text, or"),
    ],
)
def test_generate_fills_the_context_and_no_more(
    refused, monkeypatch, length, more, words
):
    assert generate(tiny(), beginnings(), max_new_tokens=8).shape == (3, 13)
    monkeypatch.setattr(TinyLM, "forward", None)
    with refused(ValueError, words):
        generate(tiny(), beginnings(length=length), max_new_tokens=more)
    cache = tiny().new_cache(3, 5)
    with refused(ValueError, "the cache has room for 5 tokens; this needs 6: make it"):
        generate(tiny(), beginnings(), max_new_tokens=2, cache=cache)
