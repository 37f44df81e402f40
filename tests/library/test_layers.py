"""What holds for every layer that attends: a head, heads of each kind, a block.

Masks, caches and angles are tried in test_matrix.py.
"""

import pytest
import torch
from torch.testing import assert_close

from attention_lib.masks import causal_mask, padding_mask
from attention_lib.reproducibility import seeded
from tests.library.layers_table import D_MODEL, LAYERS, made
from tests.tensors import (
    assert_leaves_alone,
    assert_same,
    global_seed,
    values_and_gradients,
)

# All of different size, so that a swapped axis shows.
BATCH, LENGTH = 2, 5
each_layer = pytest.mark.parametrize("name", LAYERS)
PADDING = padding_mask(torch.tensor([3, 5]), LENGTH)
DTYPES = torch.float64, torch.float32, torch.bfloat16, torch.float16


def sequences(seed=1, dtype=torch.float64):
    shape = BATCH, LENGTH, D_MODEL
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64).to(dtype)


def dropped(layer, x):
    with global_seed(0):
        return layer(x)


@each_layer
@pytest.mark.parametrize("mask", [None, PADDING], ids=["alone", "padding"])
def test_layer_told_causal_equals_the_mask_and_keeps_the_past(name, mask):
    layer, x = made(name), sequences()
    both = causal_mask(LENGTH) if mask is None else mask & causal_mask(LENGTH)
    before = layer(x, mask, causal=True)
    assert_close(before, layer(x, both))
    weights = layer.attention_weights(x, mask, causal=True)
    assert_same(weights, layer.attention_weights(x, both))
    seen = both.unsqueeze(1) if weights.ndim > both.ndim == 3 else both
    assert_same(weights > 0, seen.expand_as(weights))
    changed = x.clone()
    changed[:, 3:] = sequences(seed=2)[:, 3:]
    after = layer(changed, mask, causal=True)
    assert_close(after[:, :3], before[:, :3])
    assert not torch.isclose(after[1, 3:], before[1, 3:]).any()


@each_layer
@pytest.mark.parametrize("gradients", [True, False])
def test_layer_drops_while_training_only(name, gradients):
    layer, without, x = made(name, dropout=0.5), made(name), sequences()
    with torch.set_grad_enabled(gradients):
        assert not dropped(layer, x).allclose(without(x))
        assert_same(layer.attention_weights(x), without.attention_weights(x))
        assert_close(layer.eval()(x), without(x))


@each_layer
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layer_has_its_type_and_stays_finite_where_nothing_is_seen(name, dtype):
    layer, mask = made(name).to(dtype), causal_mask(LENGTH)
    x = sequences(dtype=dtype)
    mask[2] = False
    for seen in (mask, torch.tensor(False)):
        layer.zero_grad()
        found = values_and_gradients(lambda x, seen=seen: layer(x, seen), x)
        assert found[0].dtype == dtype
        layer(x, seen).square().sum().backward()
        found += tuple(weight.grad for weight in layer.parameters())
        assert all(each.isfinite().all() for each in found)


@each_layer
def test_layer_trains_every_weight_and_leaves_its_inputs_alone(name):
    layer = made(name)
    layer(sequences()).square().sum().backward()
    assert all(weight.grad.abs().max() > 1e-6 for weight in layer.parameters())
    assert_leaves_alone(layer, sequences(), PADDING.clone())
