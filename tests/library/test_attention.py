"""attention_lib.attention, against torch's own, loops and finite differences."""

import itertools
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradgradcheck
from torch.testing import assert_close

from attention_lib.attention import (
    SelfAttention,
    attention_weights,
    scaled_dot_product_attention,
)
from attention_lib.masks import causal_mask
from attention_lib.reproducibility import seeded
from tests.tensors import (
    assert_same,
    global_seed,
    values_and_gradients,
)

# All of different size, so that a swapped axis shows.
BATCH, QUERY_LEN, KEY_LEN, HEAD_DIM, VALUE_DIM = 6, 2, 3, 4, 5
ROW_EMPTY = torch.tensor([[True, False, True], [False, False, False]])


def tensors(*leading, dtype=torch.float64, seed=0):
    generator = seeded(seed)
    sizes = (QUERY_LEN, HEAD_DIM), (KEY_LEN, HEAD_DIM), (KEY_LEN, VALUE_DIM)
    shapes = [(*leading, *size) for size in sizes]
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


def layer(d_model=7, head_dim=4, seed=0, **options):
    with global_seed(seed):
        return SelfAttention(d_model, head_dim, **options).double()


def sequences(batch=2, length=5, d_model=7, seed=1):
    shape = batch, length, d_model
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def broadcasting(draw, shape):
    """Draw a shape that broadcasts to this one: axes of 1, the first ones left out."""
    sizes = [size if draw(st.booleans()) else 1 for size in shape]
    return sizes[draw(st.integers(0, len(sizes))) :]


@st.composite
def cases(draw, dtype):
    """Draw query, key, value and a mask, whose rows may be empty, that broadcast."""
    leading = draw(st.lists(st.integers(1, 3), max_size=3))
    query_len, key_len, head_dim, value_dim = draw(st.tuples(*[st.integers(1, 5)] * 4))
    generator = seeded(draw(st.integers(0, 999)))
    shapes = (
        (*leading, query_len, head_dim),
        (*broadcasting(draw, leading), key_len, head_dim),
        (*broadcasting(draw, leading), key_len, value_dim),
    )
    inputs = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    mask_shape = broadcasting(draw, (*leading, query_len, key_len))
    mask = torch.rand(mask_shape, generator=generator) < 0.5
    return *inputs, draw(st.sampled_from([mask, None]))


def torch_attention(query, key, value, mask, **options):
    """torch's own; as it broadcasts less than ours, every axis is spelled out."""
    leading = query.shape[:-2]
    key, value = (x.expand(*leading, *x.shape[-2:]) for x in (key, value))
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
    return F.scaled_dot_product_attention(query, key, value, mask, **options)


TOLERANCES = {
    torch.float64: {"rtol": 1e-9, "atol": 1e-11},
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.bfloat16: {"rtol": 0.05, "atol": 0.05},  # 8 bits: steps of 1/256
    torch.float16: {"rtol": 0.01, "atol": 0.01},
}


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@given(data=st.data(), scale=st.sampled_from([None, -1.5, 0.0, 0.7]))
def test_scaled_dot_product_attention_agrees_with_torch(dtype, data, scale):
    *inputs, mask = data.draw(cases(dtype))
    how = {"mask": mask, "scale": scale}
    own = partial(scaled_dot_product_attention, **how)
    results = values_and_gradients(own, *inputs)
    wanted = values_and_gradients(partial(torch_attention, **how), *inputs)
    for result, reference in zip(results, wanted, strict=True):
        assert_close(result, reference, **TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_scaled_dot_product_attention_empty_row_gives_zeros_and_no_anomaly(dtype):
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        attend = partial(scaled_dot_product_attention, mask=ROW_EMPTY)
        results = values_and_gradients(attend, *tensors(BATCH, dtype=dtype))
    assert all(result.isfinite().all() for result in results)
    assert (results[0][:, 1] == 0).all()


@pytest.mark.parametrize("mask", [None, ROW_EMPTY])
def test_scaled_dot_product_attention_second_gradient_is_the_derivative(mask):
    inputs = [tensor.requires_grad_() for tensor in tensors()]
    assert gradgradcheck(lambda *qkv: scaled_dot_product_attention(*qkv, mask), inputs)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_attention_weights_large_scores_stay_finite(dtype):
    query, key = torch.eye(2, dtype=dtype), torch.eye(2, dtype=dtype)[[0, 1, 1]]
    weights = attention_weights(query, key, causal_mask(2, 3), scale=1e4)
    wanted = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], dtype=dtype)
    assert_close(weights, wanted)


def test_attention_weights_hide_the_future_where_half_precision_overflows():
    # The scores are -80,000, below what float16 holds; the kernel sees them in float32.
    query = torch.full((4, 64), 100.0, dtype=torch.float16)
    mask, value = causal_mask(4), torch.eye(4, dtype=torch.float16)
    weights = attention_weights(query, -query, mask)
    assert_close(weights, F.scaled_dot_product_attention(query, -query, value, mask))
    assert_close(weights.float(), mask / mask.sum(-1, keepdim=True), atol=1e-3, rtol=0)
    attend = partial(scaled_dot_product_attention, mask=mask)
    results = values_and_gradients(attend, query, -query, value)
    assert all(result.isfinite().all() for result in results)


@pytest.mark.parametrize(
    ("others", "row"),
    [(-3e19, [0.0, 0.0, 0.0]), (0.0, [0.0, 1.0, 0.0]), (3e19, [torch.nan] * 3)],
)
def test_attention_weights_agree_with_torch_where_float32_overflows(others, row):
    # Scores beyond 3.4e38. The first key is hidden, the last one's score is -inf.
    query, value = torch.full((2, 4), 3e19), torch.eye(3)
    key = torch.tensor([[1.0], [others], [-3e19]]).expand(3, 4)
    mask = torch.tensor([False, True, True]).expand(2, 3)
    weights = attention_weights(query, key, mask)
    for wanted in (
        torch.tensor([row, row]),
        F.scaled_dot_product_attention(query, key, value, mask),
    ):
        assert_close(weights, wanted, rtol=0, atol=0, equal_nan=True)


def test_attention_weights_tell_overflow_where_nothing_is_hidden():
    # torch's own gives zeros here; to do so without a mask costs a tenth of a layer.
    query = torch.full((2, 4), 3e19)
    for mask in (None, torch.tensor(True)):
        assert attention_weights(query, -query, mask).isnan().all()


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("visible", [-1.0, 0.0])
def test_attention_weights_a_hidden_score_takes_nothing(dtype, visible):
    # The fill must lie below all that is seen, and replace what lies far above.
    size = torch.finfo(dtype).max / 2
    key = torch.tensor([[visible * size], [size], [visible * size]], dtype=dtype)
    mask = torch.tensor([True, False, True])
    weights = attention_weights(torch.ones(1, 1, dtype=dtype), key, mask)
    assert_same(weights, torch.tensor([[0.5, 0.0, 0.5]], dtype=dtype))


def test_attention_weights_of_many_masks_by_vmap():
    query, key, _ = tensors()
    masks = torch.rand(6, QUERY_LEN, KEY_LEN, generator=seeded(0)) < 0.5
    found = torch.vmap(lambda mask: attention_weights(query, key, mask))(masks)
    assert_close(found, torch.stack([attention_weights(query, key, m) for m in masks]))


def test_attention_weights_nan_in_a_hidden_key_does_no_harm():
    query, key, _ = tensors(BATCH)
    mask = torch.tensor([True, False, True])
    wanted = attention_weights(query, key, mask)
    key[:, 1] = torch.nan
    assert_same(attention_weights(query, key, mask), wanted)


def test_scaled_dot_product_attention_drops_weights_and_not_the_mix():
    # Values that are no identity: the mix of what is left tells which keys were left.
    query, key, value = tensors(500, seed=3)
    with global_seed(0):
        dropped = scaled_dot_product_attention(query, key, value, dropout=0.5)
    weights = attention_weights(query, key) / 0.5
    kept = torch.tensor(list(itertools.product([0.0, 1.0], repeat=KEY_LEN))).double()
    possible = torch.einsum("sk, bqk, bkv -> bqsv", kept, weights, value)
    distance = (possible - dropped[:, :, None]).abs().amax(-1)  # (B, Q, subsets)
    assert_close(distance.amin(-1), torch.zeros(500, QUERY_LEN).double())
    # Each subset of three keys is left equally often.
    shares = distance.argmin(-1).flatten().bincount(minlength=8) / (500 * QUERY_LEN)
    assert ((shares - 1 / 8).abs() < 0.04).all()


@given(key_len=st.integers(1, 7), causal=st.booleans(), seed=st.integers(0, 99))
def test_self_attention_takes_keys_and_values_from_a_memory(key_len, causal, seed):
    head, x = layer(), sequences()
    memory = sequences(length=key_len, seed=seed)
    mask = torch.rand(2, 5, key_len, generator=seeded(seed)) < 0.7
    query, key, value = head.q_proj(x), head.k_proj(memory), head.v_proj(memory)
    both = mask & causal_mask(5, key_len) if causal else mask
    wanted = F.scaled_dot_product_attention(query, key, value, both)
    assert_close(head(x, mask, causal=causal, memory=memory), wanted)
    weights = head.attention_weights(x, mask, causal=causal, memory=memory)
    assert_close(weights @ value, wanted)
