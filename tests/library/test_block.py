"""attention_lib.block, against torch's own layers and formulas written out."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attention_lib.block import FeedForward, TinyBlock, layer_norm
from attention_lib.masks import causal_mask
from attention_lib.reproducibility import seeded
from tests.tensors import (
    assert_leaves_alone,
    global_seed,
    values_and_gradients,
)

# All of different size, so that a swapped axis shows.
BATCH, LENGTH, D_MODEL, HEADS = 2, 5, 6, 3
MASKS = {"none": None, "causal": causal_mask(LENGTH)}
TOLERANCES = {
    torch.float64: {"rtol": 1e-9, "atol": 1e-11},
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.bfloat16: {"rtol": 0.1, "atol": 0.5},  # 8 bits, and sums of rounded numbers
    torch.float16: {"rtol": 0.02, "atol": 0.05},
}


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64).to(dtype)


def tokens(seed=1, dtype=torch.float64):
    return normal(BATCH, LENGTH, D_MODEL, seed=seed, dtype=dtype)


def make(layer, *sizes, seed=0, **options):
    """Makes a layer whose every parameter, norms included, is drawn at random."""
    made = layer(*sizes, **options).double()
    generator = seeded(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            drawn = torch.randn(parameter.shape, generator=generator).double()
            parameter.copy_(0.4 * drawn)
    return made


def block(**options):
    return make(TinyBlock, D_MODEL, HEADS, **options)


# layer_norm


def test_layer_norm_hand_worked():
    x = torch.tensor([[2.0, 4.0, 4.0, 10.0]])  # mean 5, deviation 3
    weight = torch.tensor([3.0, 3.0, 6.0, 3.0])
    bias = torch.tensor([0.0, 1.0, 0.0, -5.0])
    wanted = torch.tensor([[-3.0, 0.0, -2.0, 0.0]])
    assert_close(layer_norm(x, weight, bias), wanted)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@given(data=st.data())
def test_layer_norm_agrees_with_torch(dtype, data):
    # A gradient is a sum over tokens: its rounding grows with them. One number
    # per token is always normalised to zero; that has a test of its own.
    axes = 3 if torch.finfo(dtype).eps < 1e-4 else 2
    shape = [*data.draw(st.lists(st.integers(1, 4), max_size=axes)), data.draw(
        st.integers(2, 7)
    )]  # fmt: skip
    seed = data.draw(st.integers(0, 999))
    x, weight, bias = (
        normal(*sizes, seed=seed + i, dtype=dtype)
        for i, sizes in enumerate([shape, shape[-1:], shape[-1:]])
    )

    # Large enough an eps that no token, as alike as chance makes it, magnifies noise.
    def theirs(x, weight, bias):
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps=0.1)

    results = values_and_gradients(partial(layer_norm, eps=0.1), x, weight, bias)
    wanted = values_and_gradients(theirs, x, weight, bias)
    for result, reference in zip(results, wanted, strict=True):
        assert result.dtype == dtype
        assert_close(result, reference, **TOLERANCES[dtype])


def test_layer_norm_has_torch_s_eps_by_default():
    x, ones = normal(3, 4) / 1000, torch.ones(4, dtype=torch.float64)
    norm = nn.LayerNorm(4).double()
    assert_close(layer_norm(x, ones, 0 * ones), norm(x))
    assert not layer_norm(x, ones, 0 * ones, eps=0.0).allclose(norm(x), rtol=0.01)


@given(width=st.integers(1, 9), seed=st.integers(0, 99), scale=st.floats(-1e3, 1e3))
def test_layer_norm_of_a_constant_token_is_the_bias(width, seed, scale):
    x = torch.full((2, width), scale, dtype=torch.float64)
    bias = normal(width, seed=seed)
    given = x, normal(width, seed=seed + 1), bias
    result, *gradients = values_and_gradients(layer_norm, *given)
    assert_close(result, bias.expand(2, width))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_layer_norm_leaves_its_inputs_alone():
    inputs = tokens(), normal(D_MODEL), normal(D_MODEL, seed=2)
    assert_leaves_alone(layer_norm, *inputs)


# FeedForward


def test_feed_forward_equals_bare_matrices():
    layer, x = make(FeedForward, D_MODEL, 7), tokens()
    hidden = x @ layer.up_proj.weight.T + layer.up_proj.bias
    bent = hidden / 2 * (1 + torch.erf(hidden / math.sqrt(2)))
    wanted = bent @ layer.down_proj.weight.T + layer.down_proj.bias
    assert_close(layer(x), wanted)


# TinyBlock


def pre(block, x, mask):
    x = x + block.attention(block.attention_norm(x), mask)
    return x + block.feed_forward(block.feed_forward_norm(x))


def post(block, x, mask):
    x = block.attention_norm(x + block.attention(x, mask))
    return block.feed_forward_norm(x + block.feed_forward(x))


def none(block, x, mask):
    x = x + block.attention(x, mask)
    return x + block.feed_forward(x)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("formula", [pre, post, none])
def test_tiny_block_equals_the_formula(formula, mask):
    made, x = block(norm=formula.__name__), tokens()
    assert_close(made(x, mask), formula(made, x, mask))


def test_tiny_block_drops_attention_weights_too():
    made, x = block(dropout=0.5), tokens()
    made.dropout.p = 0.0
    with global_seed(0):
        assert not made(x).allclose(made.eval()(x))
