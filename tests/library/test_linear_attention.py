"""attention_lib.linear_attention: three forms of each, equal; read after write."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from attention_lib.linear_attention import (
    FORMS,
    delta_step,
    gated_delta_rule,
    linear_attention,
)
from attention_lib.reproducibility import seeded
from attention_lib.validation import require_sequence

OTHERS = [form for form in FORMS if form != "recurrent"]


def inputs(length=11, head_dim=4, value_dim=5):
    generator = seeded(0)
    sizes = (length, head_dim), (length, head_dim), (length, value_dim)
    query, key, value = (
        torch.randn(2, 3, *size, generator=generator, dtype=torch.float64)
        for size in sizes
    )
    return query, key, value


def delta_inputs(length=11):
    query, key, value = inputs(length)
    gates = torch.rand(2, 2, 3, length, generator=seeded(1), dtype=torch.float64)
    return query, F.normalize(key, dim=-1), value, gates[0].log(), gates[1]


def signed_inputs(length=11):
    """Inputs where most of what was stored changes its sign."""
    *others, beta = delta_inputs(length)
    return *others, 2 * beta


def outcome(function, tensors, **options):
    tensors = [x.clone().requires_grad_() for x in tensors]
    context = function(*tensors, **options)
    loss = (context * torch.arange(context.numel()).view_as(context)).sum()
    return context, *torch.autograd.grad(loss / context.numel(), tensors)


@pytest.mark.parametrize("form", FORMS)
def test_linear_attention_by_hand(form):
    one = torch.tensor([[0.0], [1.0]], dtype=torch.float64)  # φ: 1 and 2
    value = torch.tensor([[3.0], [6.0]], dtype=torch.float64)
    context = linear_attention(one, one, value, form=form)
    assert_close(context, torch.tensor([[3.0], [5.0]], dtype=torch.float64))


@settings(deadline=None, max_examples=30)
@given(length=st.integers(1, 20), chunk_len=st.integers(1, 21))
@pytest.mark.parametrize(
    ("function", "make"),
    [
        (linear_attention, inputs),
        (gated_delta_rule, delta_inputs),
        (gated_delta_rule, signed_inputs),
    ],
)
def test_forms_are_equal_forward_and_backward(function, make, length, chunk_len):
    tensors = make(length)
    recurrent = outcome(function, tensors, form="recurrent")
    for form in OTHERS:
        other = outcome(function, tensors, form=form, chunk_len=chunk_len)
        assert_close(other, recurrent, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("function", "make"), [(linear_attention, inputs), (gated_delta_rule, delta_inputs)]
)
def test_future_does_not_change_the_past(form, function, make):
    tensors = make()
    changed = [x.clone() for x in tensors]
    for x in changed:
        x.select(-1 if x.ndim == 3 else -2, 7).mul_(0.5)
    before, after = (function(*x, form=form, chunk_len=4) for x in (tensors, changed))
    assert_close(after[..., :7, :], before[..., :7, :])
    assert not torch.allclose(after[..., 7:, :], before[..., 7:, :])


@pytest.mark.parametrize("form", FORMS)
def test_delta_rule_replaces_and_linear_attention_adds(form):
    key = F.normalize(torch.ones(2, 4, dtype=torch.float64), dim=-1)  # one key twice
    value = torch.tensor([[1.0, 2.0], [5.0, 7.0]], dtype=torch.float64)
    stay, whole = (
        torch.zeros(2, dtype=torch.float64),
        torch.ones(2, dtype=torch.float64),
    )
    read = gated_delta_rule(key, key, value, stay, whole, form=form)
    assert_close(read, value)
    assert_close(linear_attention(key, key, value, form=form)[1], value.mean(dim=0))


def test_state_goes_on_where_a_text_was_cut():
    query, key, value, log_decay, beta = delta_inputs()
    whole = gated_delta_rule(query, key, value, log_decay, beta)
    state, out = torch.zeros(2, 3, 4, 5, dtype=torch.float64), []
    columns = log_decay[..., None], beta[..., None]
    tokens = (x.split(1, dim=-2) for x in (query, key, value, *columns))
    for piece in zip(*tokens, strict=True):
        context, state = delta_step(*piece, state)
        out.append(context)
    assert_close(torch.cat(out, dim=-2), whole)


@pytest.mark.parametrize("form", FORMS)
def test_full_decay_forgets_all_that_was_before(form):
    query, key, value, log_decay, beta = delta_inputs(70)
    log_decay[..., 40] = -torch.inf
    tensors = query, key, value, log_decay, beta
    whole, *gradients = outcome(gated_delta_rule, tensors, form=form, chunk_len=16)
    rest = (x[..., 40:] if x.ndim == 3 else x[..., 40:, :] for x in tensors)
    assert_close(whole[..., 40:, :], gated_delta_rule(*rest), rtol=1e-9, atol=1e-9)
    assert all(x.isfinite().all() for x in gradients)


def test_decay_that_came_long_ago_costs_no_digits():
    query, key, value, log_decay, beta = (x.float() for x in delta_inputs(60))
    log_decay[..., 2] = -1e6  # summed up, later decays would drown beside it
    tensors = query, key, value, log_decay, beta
    found = gated_delta_rule(*tensors)
    assert_close(found, gated_delta_rule(*tensors, form="recurrent"))


def test_numbers_far_below_zero_keep_their_share():
    low = torch.tensor([[-30.0], [-31.0]])  # elu(x) + 1 would round both to 0
    value = torch.tensor([[0.0], [1.0]])
    share = linear_attention(low, low, value)[1]
    assert_close(share, torch.tensor([1 / (1 + torch.e)]))
    assert not linear_attention(10 * low, low, value).any()  # nothing found, not nan


def test_wrong_call_is_refused():
    query, key, value, log_decay, _ = delta_inputs()
    with pytest.raises(ValueError, match="form must be one of parallel, chunked"):
        linear_attention(query, key, value, form="fast")
    with pytest.raises(ValueError, match="chunk_len must be at least 1"):
        linear_attention(query, key, value, chunk_len=0)
    with pytest.raises(ValueError, match="must have the same length"):
        require_sequence(query[..., :3, :], key, value)
    with pytest.raises(ValueError, match="log_decay must hold one number per token"):
        require_sequence(query, key, value, log_decay=log_decay[..., None])
