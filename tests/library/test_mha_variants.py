"""attention_lib.mha_variants: all kinds agree, forward and backward.

That they agree with PyTorch and with a slow formula is in test_cross_attention.py and
test_matrix.py.
"""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_lib.masks import causal_mask
from attention_lib.mha_variants import MHA_VARIANTS, TorchMultiHeadAttention, make_mha
from attention_lib.multi_head import copy_weights, merge_heads, split_heads
from attention_lib.reproducibility import seeded
from tests.tensors import assert_same, global_seed

# All of different size, so that a swapped axis shows; 3 heads of width 4.
BATCH, LENGTH, D_MODEL, HEADS = 2, 5, 12, 3
each_kind = pytest.mark.parametrize("kind", MHA_VARIANTS)
few = settings(max_examples=10)
biases = pytest.mark.parametrize("qkv_bias", [False, True])


def sequences(*shape, seed=1):
    shape = shape or (BATCH, LENGTH, D_MODEL)
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def layer(kind, d_model=D_MODEL, num_heads=HEADS, seed=0, **options):
    with global_seed(seed):
        made = make_mha(kind, d_model, num_heads, **options).double()
    with torch.no_grad():  # nn.MultiheadAttention starts with biases of zero
        for name, parts in made.weights_by_head().items():
            if name.endswith("bias"):
                generator = seeded(seed)
                for part in parts:
                    part.copy_(torch.randn(part.shape, generator=generator))
    return made


def alike(*kinds, **options):
    """Layers of these kinds with the same weights."""
    layers = [layer(kind, **options) for kind in kinds]
    for other in layers[1:]:
        copy_weights(layers[0], other)
    return layers


def assert_close(result, wanted, tolerance=1e-10):
    torch.testing.assert_close(result, wanted, rtol=tolerance, atol=tolerance)


def outputs_and_gradients(layer, x, mask, **options):
    """The output, and the gradients of x and of each head's weights."""
    x = x.clone().requires_grad_()
    output = layer(x, mask, **options)
    direction = torch.linspace(-1, 1, output.numel(), dtype=output.dtype)
    weights = [x, *layer.parameters()]
    gradients = torch.autograd.grad(output, weights, direction.view_as(output))
    twin = copy.deepcopy(layer)  # holds gradients where the layer holds weights
    for own, gradient in zip(twin.parameters(), gradients[1:], strict=True):
        own.data = gradient
    named = {"output": output, "x": gradients[0]}
    for name, parts in twin.weights_by_head().items():
        named |= {f"{name}, head {head}": part for head, part in enumerate(parts)}
    return named


@st.composite
def cases(draw, *, free_widths):
    """Draw the arguments of a layer, an input, a mask of any shape and a call."""
    sizes = draw(st.tuples(*[st.integers(1, 4)] * 5))
    batch, length, num_heads, head_dim, d_model = sizes
    options = {"qkv_bias": draw(st.booleans()), "num_heads": num_heads}
    if free_widths and draw(st.booleans()):
        d_out = draw(st.one_of(st.none(), st.integers(1, 4)))
        options |= {"head_dim": head_dim, "d_out": d_out}
    else:
        d_model = num_heads * head_dim
    seed = draw(st.integers(0, 999))
    call = {"causal": draw(st.booleans())}
    key_len = length
    if draw(st.booleans()):
        key_len = draw(st.integers(1, 4))
        call["memory"] = sequences(batch, key_len, d_model, seed=seed + 1)
    axes = draw(st.integers(0, 4))
    full = (batch, num_heads, length, key_len)
    full = full if axes == 4 else (batch, length, key_len)
    shape = [size if draw(st.booleans()) else 1 for size in full[len(full) - axes :]]
    mask = torch.rand(shape, generator=seeded(seed)) < 0.6  # some rows are empty
    x = sequences(batch, length, d_model, seed=seed)
    mask = draw(st.sampled_from([mask, mask, None]))
    return options | {"d_model": d_model}, x, mask, call


@each_kind
@few
@given(data=st.data())
def test_every_kind_is_equal_in_outputs_and_gradients(kind, data):
    # Equal to one, each is equal to all others.
    source = "split" if kind != "split" else "wrapper"
    options, x, mask, call = data.draw(cases(free_widths=kind != "torch"))
    given, other = alike(source, kind, **options)
    results = outputs_and_gradients(other, x, mask, **call)
    wanted = outputs_and_gradients(given, x, mask, **call)
    assert results.keys() == wanted.keys()
    for name, result in results.items():
        assert_close(result, wanted[name])


@each_kind
@few
@given(data=st.data())
def test_every_kind_is_equal_in_attention_weights(kind, data):
    options, x, mask, call = data.draw(cases(free_widths=kind != "torch"))
    split, other = alike("split", kind, **options)
    wanted = split.attention_weights(x, mask, **call)
    assert_close(other.attention_weights(x, mask, **call), wanted)
    value = split_heads(split.v_proj(call.get("memory", x)), split.num_heads)
    assert_close(split.out_proj(merge_heads(wanted @ value)), split(x, mask, **call))


@each_kind
@few
@given(data=st.data())
def test_evaluation_without_gradients_is_equal(kind, data):
    # nn.MultiheadAttention takes another path then, its fast one.
    options, x, mask, call = data.draw(cases(free_widths=kind != "torch"))
    split, other = alike("split", kind, **options)
    with torch.no_grad():
        assert_close(other.eval()(x, mask, **call), split(x, mask, **call))
    with torch.inference_mode():
        assert_close(other(x, mask, **call), split(x, mask, **call))


# Empty rows.


@each_kind
@biases
@pytest.mark.parametrize("num_heads", [2, 3])  # torch's fast path takes even numbers
@pytest.mark.parametrize("training", [True, False])
def test_empty_row_gives_the_output_s_bias(kind, qkv_bias, num_heads, training):
    made = layer(kind, num_heads=num_heads, qkv_bias=qkv_bias).train(training)
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    mask[1] = False
    with torch.set_grad_enabled(training):
        output = made(sequences(), mask)
    (bias,) = made.weights_by_head()["out_proj.bias"]
    assert_close(output[:, 1], bias.expand(BATCH, -1))
    assert (output[:, 0] - bias).abs().min() > 1e-6


# Types, devices, dropout.


@each_kind
def test_dropout_drops_the_share_asked_for(kind):
    # Each head's values are one-hot of the token, so the output shows the weights.
    made = layer(kind, d_model=4, num_heads=1, dropout=0.3)
    with torch.no_grad():
        for name, parts in made.weights_by_head().items():
            for part in parts:
                if part.ndim == 1 or name[0] == "q":
                    part.zero_()
                else:
                    part.copy_(torch.eye(4))
    x = torch.eye(4, dtype=torch.float64).expand(2000, -1, -1)
    with global_seed(0):
        weights = made(x)
    dropped = weights == 0
    assert dropped.double().mean().item() == pytest.approx(0.3, abs=0.015)
    kept = weights[~dropped]
    assert_close(kept, torch.full_like(kept, 0.25 / 0.7))


# Weights that move.


@each_kind
@biases
def test_weights_move_there_and_back(kind, qkv_bias):
    made = layer(kind, qkv_bias=qkv_bias)
    other = layer("split", seed=5, qkv_bias=qkv_bias)
    before = copy.deepcopy(made.state_dict())
    copy_weights(made, other)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
    copy_weights(other, made)
    assert_same(made.state_dict(), before)


# What is made.


def test_make_mha_gives_the_kind_that_is_named():
    assert {kind: type(layer(kind)) for kind in MHA_VARIANTS} == MHA_VARIANTS


@pytest.mark.parametrize("kind", ["wrapper", "split", "sdpa"])
def test_make_mha_passes_widths_on(kind):
    made = layer(kind, 5, 2, head_dim=3, d_out=7)
    assert made(sequences(2, 4, 5)).shape == (2, 4, 7)
    assert made.weights_by_head()["k_proj.weight"][1].shape == (3, 5)


@pytest.mark.parametrize(
    ("options", "came"),
    [({"head_dim": 5}, "got 3 · 5, 12 and 12"), ({"d_out": 7}, "got 3 · 4, 7 and 12")],
)
def test_torch_kind_refuses_other_widths(refused, options, came):
    words = f'the kind "torch" needs num_heads · head_dim = d_out = d_model; {came}'
    with refused(ValueError, words):
        TorchMultiHeadAttention(D_MODEL, HEADS, **options)


def test_sdpa_kind_calls_torch_s_kernel_once_and_tells_what_it_can(monkeypatch):
    calls = []
    kernel = torch.nn.functional.scaled_dot_product_attention

    def noted(*given, attn_mask, is_causal, dropout_p):
        calls.append((attn_mask is None, is_causal, dropout_p))
        return kernel(*given, attn_mask, dropout_p, is_causal)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", noted)
    made, x = layer("sdpa", dropout=0.25), sequences()
    made(x)
    made.eval()(x)
    made(x, causal=True)
    made(x, causal_mask(LENGTH), causal=True)
    made(x, causal=True, memory=x)
    alone, told, hidden = (True, False, 0.0), (True, True, 0.0), (False, False, 0.0)
    assert calls == [(True, False, 0.25), alone, told, hidden, hidden]
