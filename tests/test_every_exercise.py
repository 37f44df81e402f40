"""What holds for every check of the reader's code, whatever it checks.

The mistakes and right answers of each check stand in the files named like its module.
"""

import pytest
import torch
import torch.nn.functional as F

from attention_lib import exercises, softmax
from attention_lib.exercises.verdict import NOT_YET

NUMBERS = [
    *("temperature", "head_width", "parameter_count", "visible_pairs"),
    "multi_head_count",
    *("place_with_itself", "trained_positions", "block_parameters"),
    *("model_parameters", "entropy"),
]
CHECKS = [name.removeprefix("check_") for name in exercises.__all__ if "check_" in name]
FUNCTIONS = sorted(set(CHECKS) - set(NUMBERS))


def check(name, answer):
    return getattr(exercises, f"check_{name}")(answer)


def broken(*inputs, **options):
    raise ValueError


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("stub", [..., None])
def test_check_waits_for_an_answer(name, stub):
    assert check(name, stub) is NOT_YET


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("stub", [..., None])
def test_check_waits_for_a_function_to_be_written(name, stub):
    assert check(name, lambda *inputs: stub) is NOT_YET


@pytest.mark.parametrize("name", FUNCTIONS)
def test_check_catches_an_exception(name):
    message = check(name, broken).message
    assert message == "Your code raised ValueError in `raise ValueError`."


@pytest.mark.parametrize("name", FUNCTIONS)
def test_check_wants_the_function_itself(name):
    assert "Give the function itself, not a result (int)" in check(name, 3).message


# The mistakes that are made most, each as it is made, and what must be said of it: the
# name of the mistake, and where to look.


def flipped_triangle(query_len, key_len):
    return torch.ones(query_len, key_len, dtype=torch.bool).triu()


def softmax_over_queries(query, key, value):
    return softmax(query @ key.T / query.shape[-1] ** 0.5, axis=0) @ value


def softmax_over_rows_of_torch(x, w_q, w_k, w_v):
    query, key, value = x @ w_q, x @ w_k, x @ w_v
    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=1) @ value


def not_scaled(query, key, value):
    return softmax(query @ key.T) @ value


def scaled_by_the_width(query, key, value):
    return softmax(query @ key.T / query.shape[-1]) @ value


def scaled_by_the_model(x, w_q, w_k, w_v):
    query, key, value = x @ w_q, x @ w_k, x @ w_v
    return (query @ key.mT / x.shape[-1] ** 0.5).softmax(dim=-1) @ value


def view_without_transpose(x, num_heads):
    return x.view(x.shape[0], num_heads, x.shape[1], -1)


def rows_instead_of_columns(lengths, max_len):
    real = torch.arange(max_len) < lengths[:, None]
    return real[:, :, None]


def mask_after_softmax(logits, k):
    weights = logits.softmax(dim=-1)
    return weights.masked_fill(logits < logits.topk(k).values[:, -1:], 0)


def double_shift(logits, token_ids, lengths):
    shifted = token_ids.roll(-1, dims=1)  # as a data loader may have done already
    return F.cross_entropy(logits[:, :-2].mT, shifted[:, 1:-1])


def padding_in_the_loss(logits, token_ids, lengths):
    return F.cross_entropy(logits[:, :-1].mT, token_ids[:, 1:])


USUAL = [
    ("causal_mask", flipped_triangle, "Row 0 sees the future: is the triangle"),
    ("attention", softmax_over_queries, "softmax runs over the queries"),
    ("head", softmax_over_rows_of_torch, "softmax runs over the queries"),
    ("attention", not_scaled, "not scaled: see √D in the formula"),
    ("attention", scaled_by_the_width, "divided by D: it is its root"),
    ("head", scaled_by_the_model, "the scale takes the input's width"),
    ("split_heads", view_without_transpose, "a view alone moves nothing"),
    ("padding_mask", rows_instead_of_columns, "The queries are masked: padding is"),
    ("top_k", mask_after_softmax, "cut the scores first, then take the softmax"),
    ("next_token_loss", double_shift, "The targets are shifted twice"),
    ("next_token_loss", padding_in_the_loss, "padding is counted: use the lengths"),
]


@pytest.mark.parametrize(("name", "mistake", "words"), USUAL)
def test_check_names_the_usual_mistake(name, mistake, words):
    verdict = check(name, mistake)
    assert verdict.passed is False
    assert words in verdict.message
