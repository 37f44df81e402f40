"""attention_lib.block: the norm against torch's own; dropout.

The formulas of blocks are checked in test_cross_attention.py and test_matrix.py.
"""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attention_lib.block import TinyBlock, layer_norm
from attention_lib.reproducibility import seeded
from tests.tensors import global_seed, values_and_gradients

# All of different size, so that a swapped axis shows.
BATCH, LENGTH, D_MODEL, HEADS = 2, 5, 6, 3
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
    """Make a layer whose every parameter, norms included, is drawn at random."""
    made = layer(*sizes, **options).double()
    generator = seeded(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            drawn = torch.randn(parameter.shape, generator=generator).double()
            parameter.copy_(0.4 * drawn)
    return made


def block(**options):
    return make(TinyBlock, D_MODEL, HEADS, **options)


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


def test_tiny_block_drops_attention_weights_too():
    made, x = block(dropout=0.5), tokens()
    made.dropout.p = 0.0
    with global_seed(0):
        assert not made(x).allclose(made.eval()(x))
