"""attention_lib.multi_head: reshapes cell by cell, masks of heads, weights moved.

That the kinds are equal, whatever the mask, is in test_mha_variants.py.
"""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.masks import padding_mask
from attention_lib.multi_head import (
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    add_head_axis,
    copy_weights,
    merge_heads,
    split_heads,
)
from attention_lib.reproducibility import seeded
from tests.tensors import assert_same, global_seed

# All of different size, so that a swapped axis shows.
BATCH, LENGTH, D_MODEL, HEADS, HEAD_DIM, D_OUT = 2, 5, 6, 3, 4, 7
KINDS = [MultiHeadAttentionWrapper, MultiHeadAttention]
each_kind = pytest.mark.parametrize("kind", KINDS)


def sequences(*shape, seed=1):
    shape = shape or (BATCH, LENGTH, D_MODEL)
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def layer(kind, d_model=D_MODEL, num_heads=HEADS, seed=0, **options):
    """A layer whose input, inner width and output all differ in width."""
    options = {"head_dim": HEAD_DIM, "d_out": D_OUT} | options
    with global_seed(seed):
        return kind(d_model, num_heads, **options).double()


def assert_close(result, wanted):
    torch.testing.assert_close(result, wanted, rtol=1e-10, atol=1e-12)


# Heads cut and joined.


@given(st.tuples(*[st.integers(1, 4)] * 4))
def test_split_heads_puts_every_number_where_merge_heads_finds_it(sizes):
    batch, length, num_heads, head_dim = sizes
    x = sequences(batch, length, num_heads * head_dim)
    heads = split_heads(x, num_heads)
    for head, own in enumerate(x.split(head_dim, dim=-1)):
        assert_same(heads[:, head], own)
    assert_same(merge_heads(heads), x)


# Masks: which head gets which.


def test_add_head_axis_to_a_mask_with_texts_alone():
    mask = padding_mask(torch.tensor([2, 5]), 5)
    assert add_head_axis(mask).shape == (2, 1, 1, 5)
    assert_same(add_head_axis(mask)[:, 0], mask)
    for shape in [(), (5,), (5, 5), (2, 3, 5, 5)]:
        mask = torch.ones(shape, dtype=torch.bool)
        assert add_head_axis(mask) is mask


@each_kind
def test_mask_of_texts_is_not_taken_for_one_of_heads(kind):
    # As many texts as heads: without a head axis the mask would broadcast, wrongly.
    x = sequences(HEADS, LENGTH, D_MODEL)
    mask = padding_mask(torch.tensor([2, 4, 5]), LENGTH)
    seen = (layer(kind).attention_weights(x, mask) > 0).sum(dim=-1)
    assert seen[:, :, 0].tolist() == [[2] * HEADS, [4] * HEADS, [5] * HEADS]


# Weights that move.


@each_kind
def test_weights_by_head_are_the_parameters_themselves(kind):
    attend = layer(kind, qkv_bias=True)
    parts = attend.weights_by_head()
    with torch.no_grad():
        for pieces in parts.values():
            for piece in pieces:
                piece.fill_(3.0)
    assert all((parameter == 3.0).all() for parameter in attend.parameters())
    shapes = {name: [tuple(p.shape) for p in pieces] for name, pieces in parts.items()}
    assert shapes == {
        **{f"{role}_proj.weight": [(HEAD_DIM, D_MODEL)] * HEADS for role in "qkv"},
        **{f"{role}_proj.bias": [(HEAD_DIM,)] * HEADS for role in "qkv"},
        "out_proj.weight": [(D_OUT, HEADS * HEAD_DIM)],
        "out_proj.bias": [(D_OUT,)],
    }


@each_kind
def test_copy_weights_leaves_two_layers_independent(kind):
    source, target = layer(kind), layer(MultiHeadAttention, seed=5)
    copy_weights(source, target)
    kept = target(sequences())
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.add_(1.0)
    assert_same(target(sequences()), kept)
    assert not torch.allclose(source(sequences()), kept)


def test_copy_weights_keeps_the_target_s_type_and_gradients():
    source, target = layer(MultiHeadAttention), layer(MultiHeadAttentionWrapper).float()
    copy_weights(source, target)
    assert all(p.dtype == torch.float32 for p in target.parameters())
    assert all(p.requires_grad and p.is_leaf for p in target.parameters())


@pytest.mark.parametrize(
    "options",
    [
        {"num_heads": 2, "head_dim": 6},  # as many numbers, cut otherwise
        {"num_heads": 6, "head_dim": 2},
        {"d_model": 5},
        {"d_out": 6},
        {"qkv_bias": True},
        {"head_dim": 3},
    ],
    ids=str,
)
def test_copy_weights_refuses_layers_built_otherwise(refused, options):
    for source, target in [KINDS, KINDS[::-1]]:
        other = layer(target, **options)
        before = copy.deepcopy(other.state_dict())
        with refused(ValueError, "source and target must be built the same way; got "):
            copy_weights(layer(source), other)
        assert_same(other.state_dict(), before)


@pytest.mark.parametrize(
    "options",
    [{"layout": "interleaved"}, {"scale": 2.0}, {"softcap": 5.0}, {"window": 2}],
    ids=str,
)
def test_copy_weights_refuses_layers_that_use_them_differently(refused, options):
    plain = layer(MultiHeadAttention)
    grouped, other = (
        GroupedQueryAttention(
            D_MODEL, HEADS, HEADS, head_dim=HEAD_DIM, d_out=D_OUT, out_bias=True, **each
        )
        for each in ({"scale": 1 / HEAD_DIM**0.5}, options)
    )
    copy_weights(plain, grouped)  # equal: they compute the same
    for source, target in [(plain, other), (other, plain), (grouped, other)]:
        with refused(ValueError, "source and target must be built the same way; got "):
            copy_weights(source, target)


def test_copy_weights_refuses_another_norm_of_the_same_weights(refused):
    first, other = (
        GroupedQueryAttention(D_MODEL, HEADS, 1, qk_norm=norm)
        for norm in ("rms", "rms_plus_one")
    )
    with refused(ValueError, "source and target must be built the same way"):
        copy_weights(first, other)
