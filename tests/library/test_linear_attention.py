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
