"""attention_lib.sampling: what is picked, and how often."""

import math
from collections import Counter

import pytest
import torch

from attention_lib.reproducibility import seeded
from attention_lib.sampling import sample_token
from tests.tensors import global_seed

DTYPES = [torch.float64, torch.bfloat16, torch.float16]
LOGITS = torch.tensor([0.5, 2.0, -1.0, 1.0, 0.0])


def shares(logits, draws=20_000, **options):
    """How often each token is picked."""
    options = {"temperature": 1.0, "generator": seeded(0)} | options
    picked = sample_token(logits.expand(draws, -1), **options)
    counts = Counter(picked.tolist())
    return [counts[i] / draws for i in range(logits.shape[-1])]


def assert_shares(found, wanted, draws=20_000):
    for share, p in zip(found, wanted.tolist(), strict=True):
        assert abs(share - p) <= 5 * (p * (1 - p) / draws) ** 0.5


def test_pick_token_is_greedy_by_default():
    logits = torch.stack([LOGITS, -LOGITS, LOGITS.roll(2)])
    picked = sample_token(logits)
    assert picked.tolist() == [1, 2, 3]
    assert picked.dtype == torch.int64


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
    picked = sample_token(logits, temperature=temperature)
    assert picked.equal(sample_token(logits))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pick_token_takes_any_float(dtype):
    logits = torch.tensor([0.5, 2.0, -1.0, 1.0, 0.0], dtype=dtype)
    assert shares(logits, draws=500) == shares(LOGITS, draws=500)
    assert shares(5_000 * logits, draws=9)[1] == 1


def test_pick_token_picks_each_row_from_its_own_scores():
    logits = torch.full((4, 5), -math.inf)
    logits[torch.arange(4), torch.tensor([3, 0, 4, 1])] = 1.0
    assert sample_token(logits, temperature=1.0, top_k=2).tolist() == [3, 0, 4, 1]


def test_pick_token_uses_its_own_generator_only_and_none_if_greedy():
    generator = seeded(0)
    state, outer = generator.get_state(), torch.get_rng_state()
    sample_token(LOGITS[None], generator=generator, top_k=3)
    assert generator.get_state().equal(state)
    wanted = sample_token(torch.zeros(50, 6), temperature=1.0, generator=generator)
    assert torch.get_rng_state().equal(outer)
    with global_seed(0):  # without one, the global one
        assert sample_token(torch.zeros(50, 6), temperature=1.0).equal(wanted)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "row", [[0, math.nan, 0], [0, math.inf, 0], [-math.inf] * 3], ids=str
)
def test_pick_token_refuses_scores_that_are_not_finite(refused, row, temperature):
    logits = torch.stack([torch.zeros(3), torch.tensor(row)])
    words = "logits hold nan or inf: no token can be sampled from them"
    with refused(ValueError, words):
        sample_token(logits, temperature=temperature, generator=seeded(0))
