"""attention_lib.multi_head: reshapes cell by cell, two kinds against a third way."""

import copy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_lib.masks import causal_mask, padding_mask
from attention_lib.multi_head import (
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    add_head_axis,
    copy_weights,
    merge_heads,
    split_heads,
    split_mask,
)
from attention_lib.reproducibility import seeded
from tests.tensors import assert_leaves_alone, assert_same

# All of different size, so that a swapped axis shows.
BATCH, LENGTH, D_MODEL, HEADS, HEAD_DIM, D_OUT = 2, 5, 6, 3, 4, 7
KINDS = [MultiHeadAttentionWrapper, MultiHeadAttention]
few = settings(max_examples=10)
each_kind = pytest.mark.parametrize("kind", KINDS)
ROW_EMPTY = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
ROW_EMPTY[1] = False


def sequences(*shape, seed=1):
    shape = shape or (BATCH, LENGTH, D_MODEL)
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def layer(kind, d_model=D_MODEL, num_heads=HEADS, seed=0, **options):
    """A layer whose input, inner width and output all differ in width."""
    options = {"head_dim": HEAD_DIM, "d_out": D_OUT} | options
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(d_model, num_heads, **options).double()


def assert_close(result, wanted):
    torch.testing.assert_close(result, wanted, rtol=1e-10, atol=1e-12)


def one_head_after_the_other(layer, x, mask=None, *, causal=False, memory=None):
    """The formula, from weights cut into heads, in torch's own parts."""
    parts = layer.weights_by_head()
    source = x if memory is None else memory
    batch, (length, key_len) = x.shape[0], (x.shape[1], source.shape[1])
    full = (batch, layer.num_heads, length, key_len)
    if mask is not None and mask.ndim == 3:
        mask = mask.unsqueeze(1)
    mask = torch.ones(full, dtype=torch.bool) if mask is None else mask.expand(full)
    if causal:
        mask = mask & causal_mask(length, key_len)
    found = []
    for head in range(layer.num_heads):
        query, key, value = (
            F.linear(x if role == "q" else source, parts[f"{role}_proj.weight"][head],
                     parts[f"{role}_proj.bias"][head]
                     if f"{role}_proj.bias" in parts else None)
            for role in "qkv"
        )  # fmt: skip
        found.append(F.scaled_dot_product_attention(query, key, value, mask[:, head]))
    (weight,), (bias,) = parts["out_proj.weight"], parts["out_proj.bias"]
    return F.linear(torch.cat(found, dim=-1), weight, bias)


# Heads cut and joined.


def test_split_heads_hand_written():
    x = torch.tensor([[[10, 11, 12, 13], [20, 21, 22, 23], [30, 31, 32, 33]]]).float()
    heads = [[[10, 11], [20, 21], [30, 31]], [[12, 13], [22, 23], [32, 33]]]
    assert split_heads(x, 2).tolist() == [heads]


def test_merge_heads_hand_written():
    heads = [[[10, 11], [20, 21], [30, 31]], [[12, 13], [22, 23], [32, 33]]]
    wanted = [[[10, 11, 12, 13], [20, 21, 22, 23], [30, 31, 32, 33]]]
    assert merge_heads(torch.tensor([heads]).float()).tolist() == wanted


@given(st.tuples(*[st.integers(1, 4)] * 4))
def test_split_heads_puts_every_number_where_merge_heads_finds_it(sizes):
    batch, length, num_heads, head_dim = sizes
    x = sequences(batch, length, num_heads * head_dim)
    heads = split_heads(x, num_heads)
    for head, own in enumerate(x.split(head_dim, dim=-1)):
        assert_same(heads[:, head], own)
    assert_same(merge_heads(heads), x)


def test_split_heads_refuses_a_width_that_heads_do_not_divide(refused):
    words = "num_heads must divide d_model; got 4 heads for a width of 10"
    with refused(ValueError, words):
        split_heads(sequences(2, 5, 10), 4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: merge_heads(sequences(2, 3, 4)),
            ValueError,
            "x must be (batch, heads, length, head_dim); got (2, 3, 4)",
        ),
        (
            lambda: merge_heads(sequences(1, 2, 3, 4, 5)),
            ValueError,
            "x must be (batch, heads, length, head_dim); got (1, 2, 3, 4, 5)",
        ),
        (lambda: merge_heads([[]]), TypeError, "x must be a torch.Tensor; got list"),
        (
            lambda: split_heads(sequences(3, 4), 2),
            ValueError,
            "x must be (batch, length, width); got (3, 4)",
        ),
        (
            lambda: split_heads(sequences(), None),
            TypeError,
            "num_heads must be an int; got None",
        ),
        (
            lambda: copy_weights(layer(MultiHeadAttention), torch.nn.Linear(2, 2)),
            TypeError,
            "target must be a multi-head layer; got Linear",
        ),
        (
            lambda: split_mask(None, sequences(), -1),
            ValueError,
            "num_heads must be at least 1; got -1",
        ),
    ],
)
def test_heads_of_other_axes_or_numbers_are_refused(refused, call, error, words):
    with refused(error, words):
        call()


# Masks: which head gets which.


def test_add_head_axis_to_a_mask_with_texts():
    mask = padding_mask(torch.tensor([2, 5]), 5)
    assert add_head_axis(mask).shape == (2, 1, 1, 5)
    assert_same(add_head_axis(mask)[:, 0], mask)


@pytest.mark.parametrize("shape", [(), (5,), (5, 5), (2, 3, 5, 5)])
def test_add_head_axis_leaves_other_masks_alone(shape):
    mask = torch.ones(shape, dtype=torch.bool)
    assert add_head_axis(mask) is mask


@pytest.mark.parametrize("shape", [(), (5,), (5, 5), (2, 1, 5), (2, 5, 5)])
def test_split_mask_gives_every_head_the_same(shape):
    mask = torch.ones(shape, dtype=torch.bool)
    masks = split_mask(mask, sequences(), HEADS)
    assert len(masks) == HEADS
    assert all(given is mask for given in masks)


@pytest.mark.parametrize("batch", [1, BATCH])
def test_split_mask_gives_each_head_its_own(batch):
    mask = sequences(batch, HEADS, LENGTH, LENGTH) > 0
    masks = split_mask(mask, sequences(), HEADS)
    assert len(masks) == HEADS
    for head, own in enumerate(masks):
        assert_same(own, mask[:, head])


@pytest.mark.parametrize("shape", [(2, 2, 5, 5), (3, 3, 5, 5), (2, 3, 4, 5)])
def test_split_mask_refuses_other_heads_texts_or_queries(refused, shape):
    words = f"mask {shape} does not broadcast to the scores (2, 3, 5, 5)"
    with refused(ValueError, words):
        split_mask(torch.ones(shape, dtype=torch.bool), sequences(), HEADS)


# Both kinds against a third way, for any shape and mask.


@st.composite
def calls(draw, batch, num_heads, length, d_model):
    """Draws a mask of any shape that broadcasts, and the options of a call."""
    options = {"causal": draw(st.booleans())}
    key_len, generator = length, seeded(draw(st.integers(0, 999)))
    if draw(st.booleans()):
        key_len = draw(st.integers(1, 4))
        options["memory"] = sequences(batch, key_len, d_model, seed=key_len)
    axes = draw(st.integers(0, 4))
    full = (batch, num_heads, length, key_len)
    full = full if axes == 4 else (batch, length, key_len)
    sizes = full[len(full) - axes :]
    shape = [size if draw(st.booleans()) else 1 for size in sizes]
    mask = torch.rand(shape, generator=generator) < 0.6  # some rows are empty
    return {"mask": draw(st.sampled_from([None, mask]))} | options


@st.composite
def cases(draw):
    """Draws a wrapper and a split of the same widths, an input and a call."""
    batch, length, d_model, num_heads, head_dim = draw(
        st.tuples(*[st.integers(1, 4)] * 5)
    )
    options = {
        "head_dim": head_dim,
        "d_out": draw(st.one_of(st.none(), st.integers(1, 4))),
        "qkv_bias": draw(st.booleans()),
    }
    if draw(st.booleans()):
        d_model = num_heads * head_dim
        options.pop("head_dim")
    seed = draw(st.integers(0, 999))
    pair = [layer(kind, d_model, num_heads, seed, **options) for kind in KINDS]
    x = sequences(batch, length, d_model, seed=seed)
    return *pair, x, draw(calls(batch, num_heads, length, d_model))


def outputs_and_gradients(layer, x, call, forward=None):
    """The output, and the gradients of x and of each head's weights."""
    x = x.clone().requires_grad_()
    output = (forward or layer)(x, **call)
    parts = layer.weights_by_head()
    direction = torch.linspace(-1, 1, output.numel(), dtype=output.dtype)
    parameters = list(layer.parameters())
    gradients = torch.autograd.grad(
        output, [x, *parameters], direction.view_as(output), retain_graph=True
    )
    # The gradients, cut into heads as the weights are.
    twin = copy.deepcopy(layer)
    for own, gradient in zip(twin.parameters(), gradients[1:], strict=True):
        own.data = gradient
    cut = {name: list(pieces) for name, pieces in twin.weights_by_head().items()}
    assert cut.keys() == parts.keys()
    return {"output": [output], "x": [gradients[0]]} | cut


def assert_all_close(results, wanted):
    assert results.keys() == wanted.keys()
    for name, parts in wanted.items():
        assert len(results[name]) == len(parts)
        for result, part in zip(results[name], parts, strict=True):
            assert_close(result, part)


@few
@given(cases())
def test_wrapper_equals_split_in_outputs_and_gradients(case):
    wrapper, split, x, call = case
    copy_weights(wrapper, split)
    assert_all_close(
        outputs_and_gradients(split, x, call), outputs_and_gradients(wrapper, x, call)
    )


@few
@given(cases())
def test_split_equals_one_head_after_the_other(case):
    _, split, x, call = case
    assert_all_close(
        outputs_and_gradients(split, x, call),
        outputs_and_gradients(split, x, call, partial(one_head_after_the_other, split)),
    )


@few
@given(cases())
def test_attention_weights_reproduce_forward(case):
    _, split, x, call = case
    weights = split.attention_weights(x, **call)
    value = split.v_proj(call.get("memory", x))
    context = weights @ split_heads(value, split.num_heads)
    assert_close(split.out_proj(merge_heads(context)), split(x, **call))


def test_split_hand_worked():
    # One text of two tokens, two heads of width 1. Every score is 0, so both heads
    # average: head 0 the first feature, head 1 the second; then they are exchanged.
    split = layer(MultiHeadAttention, 2, 2, head_dim=1, d_out=2)
    with torch.no_grad():
        split.q_proj.weight.zero_()
        split.v_proj.weight.copy_(torch.eye(2))
        split.out_proj.weight.copy_(torch.tensor([[0.0, 1.0], [10.0, 0.0]]))
        split.out_proj.bias.copy_(torch.tensor([100.0, 0.0]))
    x = torch.tensor([[[1.0, 6.0], [3.0, 2.0]]], dtype=torch.float64)
    assert_close(split(x), torch.tensor([[[104.0, 20.0]] * 2], dtype=torch.float64))


# What masks promise, in every head.


@each_kind
def test_causal_mask_keeps_the_past(kind):
    attend, x = layer(kind), sequences()
    changed = x.clone()
    changed[:, 3:] = sequences(seed=9)[:, 3:]
    before, after = attend(x, causal_mask(5)), attend(changed, causal_mask(5))
    assert_same(after[:, :3], before[:, :3])
    assert (after[:, 3:] != before[:, 3:]).all()


@each_kind
def test_padding_reaches_no_head(kind):
    attend, x = layer(kind), sequences()
    mask = padding_mask(torch.tensor([3, 5]), LENGTH)
    weights = attend.attention_weights(x, mask)
    assert (weights[0, :, :, 3:] == 0).all()
    assert (weights[0, :, :, :3] > 0).all()
    assert (weights[1] > 0).all()
    assert_close(attend(x, mask)[0, :3], attend(x[:1, :3])[0])


@each_kind
@pytest.mark.parametrize("batch", [1, BATCH])
def test_mask_with_heads_is_taken_as_it_is(kind, batch):
    mask = sequences(batch, HEADS, LENGTH, LENGTH) > 0
    weights = layer(kind).attention_weights(sequences(), mask)
    assert_same(weights > 0, mask.expand_as(weights))


@each_kind
def test_mask_of_texts_is_not_taken_for_one_of_heads(kind):
    # As many texts as heads: without a head axis the mask would broadcast, wrongly.
    x = sequences(HEADS, LENGTH, D_MODEL)
    mask = padding_mask(torch.tensor([2, 4, 5]), LENGTH)
    seen = (layer(kind).attention_weights(x, mask) > 0).sum(dim=-1)
    assert seen[:, :, 0].tolist() == [[2] * HEADS, [4] * HEADS, [5] * HEADS]


@each_kind
def test_empty_row_gives_the_output_s_bias(kind):
    attend = layer(kind)
    output = attend(sequences(), ROW_EMPTY)
    assert_same(output[:, 1], attend.out_proj.bias.expand(BATCH, -1))
    assert (output[:, 0] != attend.out_proj.bias).all()


@each_kind
def test_empty_rows_have_finite_gradients(kind):
    attend, x = layer(kind, qkv_bias=True), sequences()
    for mask in (ROW_EMPTY, torch.tensor(False)):
        for parts in outputs_and_gradients(attend, x, {"mask": mask}).values():
            assert all(part.isfinite().all() for part in parts)


@each_kind
def test_inputs_are_left_alone(kind):
    mask = sequences(BATCH, HEADS, LENGTH, LENGTH) > 0
    assert_leaves_alone(layer(kind), sequences(), mask)


# Types, devices, dropout.


@each_kind
def test_dropout_acts_while_training_only(kind):
    attend, x = layer(kind, dropout=0.5), sequences()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        assert not torch.allclose(attend(x), attend.eval()(x))
    assert_same(attend.eval()(x), layer(kind)(x))


# Widths and parameters.


@each_kind
def test_widths_left_out_follow_from_d_model(kind):
    attend = layer(kind, 6, 3, head_dim=None, d_out=None)
    assert attend.weights_by_head()["v_proj.weight"][2].shape == (2, 6)
    assert attend(sequences()).shape == (BATCH, LENGTH, 6)


@each_kind
@pytest.mark.parametrize("name", ["d_model", "num_heads", "head_dim", "d_out"])
def test_sizes_below_one_are_refused(refused, kind, name):
    sizes = {"d_model": 6, "num_heads": 3, "head_dim": 4, "d_out": 7}
    with refused(ValueError, f"{name} must be at least 1; got 0"):
        kind(**sizes | {name: 0})
    with refused(TypeError, f"{name} must be an int; got 2.0"):
        kind(**sizes | {name: 2.0})


@each_kind
@pytest.mark.parametrize("method", ["forward", "attention_weights"])
def test_input_of_another_width_is_refused(refused, kind, method):
    words = "x must be (batch, length, 6); got (2, 5, 4): this layer was built for"
    with refused(ValueError, words):
        getattr(layer(kind), method)(sequences(2, 5, 4))


@each_kind
@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 5, 4), (1, 2, 3, 5, 5)])
def test_masks_that_do_not_broadcast_are_refused(refused, kind, shape):
    with refused(ValueError, f"mask ({shape[0]}, "):
        layer(kind)(sequences(), torch.ones(shape, dtype=torch.bool))


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
        with refused(ValueError, "source and target must be built alike; got source"):
            copy_weights(layer(source), other)
        assert_same(other.state_dict(), before)
