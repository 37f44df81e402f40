"""attention_lib.toy, against hand-worked numbers, explicit loops and torch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from attention_lib.toy import attention, softmax

QUERY_LEN, KEY_LEN, HEAD_DIM, VALUE_DIM = 2, 3, 4, 5


def arrays(*leading, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    sizes = (QUERY_LEN, HEAD_DIM), (KEY_LEN, HEAD_DIM), (KEY_LEN, VALUE_DIM)
    return [rng.normal(size=(*leading, *size)).astype(dtype) for size in sizes]


def assert_close(result, wanted, **tolerance):
    torch.testing.assert_close(
        torch.from_numpy(np.asarray(result)),
        torch.from_numpy(np.asarray(wanted)),
        **tolerance,
    )


@pytest.mark.parametrize("size", [1e4, -1e4, 1e300])
def test_softmax_stable_at_large_scores(size):
    scores = np.array([size, size, -np.inf])
    assert_close(softmax(scores), np.array([0.5, 0.5, 0.0]))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 7.0])
def test_softmax_agrees_with_torch(temperature, axis):
    scores = np.random.default_rng(0).normal(size=(2, 3, 4))
    wanted = (torch.from_numpy(scores) / temperature).softmax(dim=axis)
    result = softmax(scores, axis=axis, temperature=temperature)
    assert_close(result, wanted.numpy())


@pytest.mark.parametrize(
    ("dtype", "temperature"),
    [(np.float16, 0.1), (np.float32, 1e-36), (np.float64, 1e-305)],
)
def test_softmax_tiny_temperature_picks_the_largest(dtype, temperature):
    scores = np.array([1e4, 0.0, -1e4], dtype=dtype)
    weights = softmax(scores, temperature=temperature)
    assert_close(weights, np.array([1, 0, 0], dtype=dtype))


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_empty_row_gives_zeros(axis):
    scores = np.array([[-np.inf, -np.inf], [2.0, 2.0], [-np.inf, 1.0]])
    wanted = np.array([[0.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    if axis == 0:
        scores, wanted = scores.T, wanted.T
    assert_close(softmax(scores, axis=axis), wanted)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_whole_numbers_are_computed_as_float64(dtype):
    # In whole numbers 0 - 200 wraps around, and so does 100 · 3.
    scores = np.array([100, 3, 0], dtype=dtype)
    assert_close(softmax(scores), softmax(scores.astype(float)))
    arrays = scores[:, None], scores[:2, None], scores[1:, None]
    wanted = attention(*[array.astype(float) for array in arrays])
    for result, reference in zip(attention(*arrays), wanted, strict=True):
        assert_close(result, reference)


def test_softmax_no_rows_gives_no_rows():
    assert softmax(np.zeros((0, 3))).shape == (0, 3)


@given(st.lists(st.integers(1, 3), max_size=3), st.integers(0, 99))
def test_attention_agrees_with_torch(leading, seed):
    query, key, value = arrays(*leading, seed=seed)
    full = (*leading, QUERY_LEN, KEY_LEN)
    mask = np.random.default_rng(seed).random(full) < 0.4
    context, weights = attention(query, key, value, mask=mask)
    wanted = F.scaled_dot_product_attention(
        *map(torch.from_numpy, (query, key, value)), attn_mask=torch.from_numpy(mask)
    )
    assert_close(context, wanted.numpy())
    assert (weights[~mask] == 0).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("mask", [None, np.array([[True], [False]])])
def test_types_are_kept_beside_numpy_s_own_numbers(dtype, mask):
    for scale in (None, np.float64(0.5)):
        context, weights = attention(*arrays(dtype=dtype), mask=mask, scale=scale)
        assert context.dtype == weights.dtype == dtype
    assert softmax(np.ones(2, dtype), temperature=np.float64(2)).dtype == dtype


def test_inputs_are_left_alone():
    inputs = [*arrays(6), np.array([[True, False, True]])]
    scores = np.array([[1.0, -np.inf, 3.0]])
    before = [array.copy() for array in (*inputs, scores)]
    query, key, value, mask = inputs
    attention(query, key, value, mask=mask)
    softmax(scores, temperature=2.0)
    for array, copy in zip((*inputs, scores), before, strict=True):
        assert_close(array, copy, rtol=0, atol=0)


@pytest.mark.usefixtures("shapes_unchecked")
def test_nested_lists_are_taken():
    query, key, value = arrays()
    context, _ = attention(query.tolist(), key.tolist(), value.tolist())
    assert_close(context, attention(query, key, value)[0])
    wanted = softmax(np.array([[5.0, 4.0], [2.0, 2.0]]), axis=0, temperature=3.0)
    assert_close(softmax([[5, 4], [2, 2]], axis=0, temperature=3), wanted)


def test_attention_ignores_nan_in_a_hidden_key():
    query, key, value = arrays()
    key[1, 2] = np.nan
    mask = np.array([True, False, True])
    context, _ = attention(query, key, value, mask=mask)
    assert_close(context, attention(query, key[mask], value[mask])[0])
