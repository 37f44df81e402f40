"""attention_lib.sampling: what is picked, how often, and how a text goes on."""

import math
from collections import Counter

import pytest
import torch
from torch import nn

from attention_lib.model import ModelConfig, TinyLM
from attention_lib.reproducibility import seeded
from attention_lib.sampling import continue_text, pick_token
from tests.tensors import global_seed

VOCAB_SIZE, CONTEXT_LEN = 7, 9
DTYPES = [torch.float64, torch.bfloat16, torch.float16]
LOGITS = torch.tensor([0.5, 2.0, -1.0, 1.0, 0.0])


def shares(logits, draws=20_000, **options):
    """How often each token is picked."""
    options = {"temperature": 1.0, "generator": seeded(0)} | options
    picked = pick_token(logits.expand(draws, -1), **options)
    counts = Counter(picked.tolist())
    return [counts[i] / draws for i in range(logits.shape[-1])]


def assert_shares(found, wanted, draws=20_000):
    for share, p in zip(found, wanted.tolist(), strict=True):
        assert abs(share - p) <= 5 * (p * (1 - p) / draws) ** 0.5


def tiny(**options):
    with global_seed(0):
        model = TinyLM(ModelConfig(VOCAB_SIZE, CONTEXT_LEN, 4, 2, 1, **options))
    model.head.weight.data *= 30  # else all tokens are as likely
    return model.double()


def beginnings(batch=3, length=2):
    return torch.randint(VOCAB_SIZE, (batch, length), generator=seeded(0))


# One token.


def test_pick_token_is_greedy_by_default():
    logits = torch.stack([LOGITS, -LOGITS, LOGITS.roll(2)])
    picked = pick_token(logits)
    assert picked.tolist() == [1, 2, 3]
    assert picked.dtype == torch.int64


@pytest.mark.parametrize("temperature", [0.3, 2.5])
def test_pick_token_draws_by_the_softmax(temperature):
    wanted = (LOGITS / temperature).exp() / (LOGITS / temperature).exp().sum()
    assert_shares(shares(LOGITS, temperature=temperature), wanted)


@pytest.mark.parametrize("top_k", [1, 2, 100])
def test_pick_token_draws_from_the_best_only(top_k):
    best = set(sorted(range(5), key=lambda i: -LOGITS[i])[:top_k])
    exps = LOGITS.exp() * torch.tensor([i in best for i in range(5)])
    found = shares(LOGITS, top_k=top_k)
    assert_shares(found, exps / exps.sum())
    assert {i for i, share in enumerate(found) if share} == best


@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_pick_token_cuts_before_the_temperature(temperature):
    kept = torch.tensor([-math.inf, 2.0, -math.inf, 1.0, -math.inf])
    found = shares(LOGITS, temperature=temperature, top_k=2)
    assert_shares(found, (kept / temperature).softmax(-1))


def test_pick_token_keeps_what_ties_with_the_last():
    found = shares(torch.tensor([1.0, 3.0, 1.0, 0.0, 1.0]), top_k=2)
    exps = torch.tensor([1.0, 3.0, 1.0, -math.inf, 1.0]).exp()
    assert_shares(found, exps / exps.sum())


def by_nucleus(probabilities, top_p):
    """Which tokens the nucleus holds, by a loop over the sorted ones."""
    total, lowest, held = 0.0, 1.0, set()
    for i in sorted(range(len(probabilities)), key=lambda i: -probabilities[i]):
        if total >= top_p and probabilities[i] < lowest:
            break
        total, lowest = total + probabilities[i], probabilities[i]
        held.add(i)
    return held


@pytest.mark.parametrize("temperature", [0.7, 1.5])
@pytest.mark.parametrize("top_p", [1e-9, 0.5, 0.8, 0.95, 1.0])
def test_pick_token_draws_from_the_nucleus_only(top_p, temperature):
    probabilities = (LOGITS.double() / temperature).softmax(-1)
    held = by_nucleus(probabilities.tolist(), top_p)
    wanted = probabilities * torch.tensor([i in held for i in range(5)])
    found = shares(LOGITS, temperature=temperature, top_p=top_p)
    assert_shares(found, wanted / wanted.sum())
    assert {i for i, share in enumerate(found) if share} == held


def test_pick_token_nucleus_hand_worked():
    # Probabilities 1/2, 1/4, 1/8, 1/8: 0.5 needs one, 0.6 two, 0.8 the two that tie.
    logits = torch.tensor([4.0, 2.0, 1.0, 1.0]).log()
    for top_p, held in [(0.4, 1), (0.5, 1), (0.6, 2), (0.75, 2), (0.8, 4)]:
        assert sum(share > 0 for share in shares(logits, 500, top_p=top_p)) == held


def test_pick_token_nucleus_is_taken_of_the_best_k():
    logits = torch.tensor([4.0, 3.0, 2.0, 1.0]).log()
    # Of the best two the first has 4/7: enough for 0.5, where 4/10 of all is not.
    assert shares(logits, 500, top_k=2, top_p=0.5) == [1, 0, 0, 0]
    assert shares(logits, 500, top_p=0.5)[1] > 0


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 5e-324])
def test_pick_token_cold_is_greedy(temperature):
    logits = torch.randn(50, 6, generator=seeded(1))
    picked = pick_token(logits, temperature=temperature)
    assert picked.equal(pick_token(logits))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pick_token_takes_any_float(dtype):
    logits = torch.tensor([0.5, 2.0, -1.0, 1.0, 0.0], dtype=dtype)
    assert shares(logits, draws=500) == shares(LOGITS, draws=500)
    assert shares(5_000 * logits, draws=9)[1] == 1


def test_pick_token_picks_each_row_from_its_own_scores():
    logits = torch.full((4, 5), -math.inf)
    logits[torch.arange(4), torch.tensor([3, 0, 4, 1])] = 1.0
    assert pick_token(logits, temperature=1.0, top_k=2).tolist() == [3, 0, 4, 1]


def test_pick_token_uses_its_own_generator_only_and_none_if_greedy():
    generator = seeded(0)
    state, outer = generator.get_state(), torch.get_rng_state()
    pick_token(LOGITS[None], generator=generator, top_k=3)
    assert generator.get_state().equal(state)
    wanted = pick_token(torch.zeros(50, 6), temperature=1.0, generator=generator)
    assert torch.get_rng_state().equal(outer)
    with global_seed(0):  # without one, the global one
        assert pick_token(torch.zeros(50, 6), temperature=1.0).equal(wanted)


# A text.


def test_continue_text_greedy_equals_a_loop():
    model, token_ids = tiny(), beginnings()
    found = continue_text(model, token_ids, max_new_tokens=5)
    for row, text in enumerate(token_ids.tolist()):
        for _ in range(5):
            scores = model(torch.tensor([text]))[0, -1].tolist()
            text.append(scores.index(max(scores)))
        assert found[row].tolist() == text


def test_continue_text_draws_token_by_token():
    model, token_ids, generator = tiny(), beginnings(), seeded(4)
    options = {"temperature": 0.8, "top_k": 5, "top_p": 0.9}
    wanted = token_ids
    for _ in range(4):
        picked = pick_token(model(wanted)[:, -1], generator=generator, **options)
        wanted = torch.cat([wanted, picked[:, None]], 1)
    options |= {"max_new_tokens": 4, "generator": seeded(4)}
    assert continue_text(model, token_ids, **options).equal(wanted)


@pytest.mark.parametrize("mode", [True, False])
def test_continue_text_restores_the_mode_after_an_error(refused, mode):
    model = tiny().train(mode)
    model.blocks[0].eval()
    before = [part.training for part in model.modules()]
    continue_text(model, beginnings(), max_new_tokens=2)
    assert [part.training for part in model.modules()] == before
    model.head.weight.data[0, 0] = math.nan
    with refused(ValueError, "logits hold nan or inf"):
        continue_text(model, beginnings(), max_new_tokens=2)
    assert [part.training for part in model.modules()] == before


def test_continue_text_needs_no_gradient():
    class Watched(nn.Module):
        def forward(self, token_ids):
            assert not torch.is_grad_enabled()
            assert not self.training
            return nn.functional.one_hot((token_ids + 1) % 5, 5).double()

    found = continue_text(Watched(), torch.tensor([[3]]), max_new_tokens=4)
    assert found.tolist() == [[3, 4, 0, 1, 2]]


def test_continue_text_fills_the_context_and_no_more(refused):
    assert continue_text(tiny(), beginnings(), max_new_tokens=7).shape == (3, 9)
    assert continue_text(tiny(), beginnings(), max_new_tokens=8).shape == (3, 10)


@pytest.mark.parametrize(("length", "more", "most"), [(2, 9, 8), (9, 2, 1), (11, 1, 0)])
def test_continue_text_refuses_a_small_context_before_the_first_token(
    refused, monkeypatch, length, more, most
):
    monkeypatch.setattr(TinyLM, "forward", None)
    words = f"max_new_tokens must be at most {most} after {length} tokens in a context"
    with refused(ValueError, f"{words} of 9; got {more}"):
        continue_text(tiny(), beginnings(length=length), max_new_tokens=more)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "row", [[0, math.nan, 0], [0, math.inf, 0], [-math.inf] * 3], ids=str
)
def test_pick_token_refuses_scores_that_are_not_finite(refused, row, temperature):
    logits = torch.stack([torch.zeros(3), torch.tensor(row)])
    words = "logits hold nan or inf: no token can be picked from them"
    with refused(ValueError, words):
        pick_token(logits, temperature=temperature, generator=seeded(0))
