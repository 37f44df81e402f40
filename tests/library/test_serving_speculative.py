"""attention_lib.serving.speculative: what is guessed, read and forgotten.

That any draft yields the model's own text is in test_matrix_generation.py.
"""

from functools import partial

import pytest
import torch
from torch import nn

from attention_lib.generation import generate
from attention_lib.kv_cache import KVCache
from attention_lib.serving import model_draft, ngram_draft, speculative_generate
from tests.library import tiny_models
from tests.tensors import global_seed

VOCAB_SIZE, CONTEXT_LEN = 5, 16
tiny = partial(tiny_models.tiny, VOCAB_SIZE, CONTEXT_LEN)


def perfect(model):
    def guess(tokens, count):
        text = generate(model, torch.tensor([tokens]), max_new_tokens=count)
        return text[0, len(tokens) :]

    return guess


def test_each_confirmed_token_is_read_once_and_a_right_guess_saves_a_pass():
    model, read, passes = tiny(mha="sdpa"), [], []
    ids = torch.tensor([[0, 1, 2, 3]])
    options = {"max_new_tokens": 9, "draft_len": 3, "on_pass": passes.append}
    draft = perfect(tiny())
    hook = model.token_embedding.register_forward_hook(
        lambda part, given, _: read.append(given[0].shape[1])
    )
    speculative_generate(model, draft, ids, **options)
    # 4 and 3 guesses; one confirmed at last pass and 3 more; then the last token alone.
    assert (read, passes) == ([7, 4, 1], [(3, 3), (3, 3), (0, 0)])
    read.clear()
    speculative_generate(model, lambda tokens, count: [], ids, **options)
    assert read == [4] + [1] * 8
    hook.remove()


def test_model_without_a_cache_may_guess_and_be_guessed_for():
    model, prompt = tiny_models.Counts(), torch.tensor([[1, 2, 3]])
    passes = []
    found = speculative_generate(
        model, tiny_models.Counts(), prompt, max_new_tokens=5, on_pass=passes.append
    )
    assert found.equal(generate(model, prompt, max_new_tokens=5))
    assert passes == [(4, 4)]


def test_guesses_beyond_the_stop_are_not_written():
    passes = []
    found = speculative_generate(
        tiny_models.Counts(),
        lambda tokens, count: range(tokens[-1] + 1, tokens[-1] + 1 + count),
        torch.tensor([[1, 2, 3]]),
        max_new_tokens=7,
        stop=6,
        on_pass=passes.append,
    )
    assert found.tolist() == [[1, 2, 3, 4, 5, 6, 6, 6, 6, 6]]
    assert passes == [(4, 3)]


def test_cache_forgets_wrong_guesses(monkeypatch):
    kept, model = [], tiny(mha="sdpa")
    own = KVCache.crop

    def crop(cache, length):
        kept.append(cache.length - length)
        own(cache, length)

    monkeypatch.setattr(KVCache, "crop", crop)
    right = perfect(tiny())

    def guess(tokens, count):
        first, *rest = right(tokens, count).tolist()
        return [first, *((token + 1) % VOCAB_SIZE for token in rest)]

    ids = torch.tensor([[0, 1, 2, 3]])
    speculative_generate(model, guess, ids, max_new_tokens=9, draft_len=3)
    assert kept == [2, 2, 2, 1]  # all guesses but the first; fewer at the end


@pytest.mark.parametrize(
    ("text", "count", "wanted"),
    [
        ([1, 2, 3, 4, 1, 2, 3], 2, [4, 1]),
        ([1, 2, 3, 9, 2, 3, 8, 1, 2, 3], 1, [9]),  # three tokens before two
        ([5, 1, 2, 6, 1, 2, 7, 1, 2], 2, [7, 1]),  # the last of the places
        ([4, 7, 7], 2, []),  # one token is no ending
        ([7, 7, 7], 4, [7, 7, 7, 7]),
        ([0, 8, 9, 8, 9], 5, [8, 9, 8, 9, 8]),  # what followed, over again
        ([1, 2, 3], 2, []),
        ([1], 2, []),
    ],
)
def test_ngram_draft_goes_on_as_the_text_did(text, count, wanted):
    assert ngram_draft(text, count) == wanted


def test_model_draft_guesses_what_the_model_would_write():
    model = tiny()
    draft = model_draft(model)
    for text in ([0, 1, 2], [0, 1, 2, 4], [0, 3], [0, 3, 3, 1, 1, 1, 2]):
        wanted = perfect(model)(text, 4).tolist()
        assert draft(text, 4) == wanted == draft(text, 4)
    text = [*text, *wanted]  # it takes its own guesses for read, all but the last
    assert draft([*text, 0], 3) == perfect(model)([*text, 0], 3).tolist()
    full = [0, 1] * (CONTEXT_LEN // 2)
    assert len(draft(full, 4)) == 1
    assert draft([*full, 0], 4) == []


@pytest.mark.parametrize("change", ["half", "load_state_dict"])
def test_draft_begins_anew_when_its_weights_change(change):
    """Its cache holds keys of the old weights, and of their type."""
    model, draft = tiny().float(), tiny().float()
    with global_seed(8):
        for weight in (*model.parameters(), *draft.parameters()):
            nn.init.normal_(weight, std=0.7)
    options = {"max_new_tokens": 8, "draft_len": 3}
    guess, passes = model_draft(draft), []
    prompt = torch.tensor([[1, 2, 3]])
    speculative_generate(model, guess, prompt, **options)
    if change == "half":
        draft.half()
    else:
        draft.load_state_dict(model.state_dict())
    options["on_pass"] = passes.append
    found = speculative_generate(model, guess, prompt, **options)
    assert found.equal(generate(model, prompt, max_new_tokens=8))
    if change != "half":  # the draft is the model: each guess is right
        assert all(each.guessed == each.accepted for each in passes)
