"""attention_lib.flash_attention: any tiles, the same result, forward and backward."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.flash_attention import (
    TilePlan,
    flash_attention,
    flash_forward,
)
from attention_lib.flash_kernel import _distinct_masks, flash_kernel
from attention_lib.masks import with_causal
from attention_lib.reproducibility import seeded
from attention_lib.validation import require_power_of_two
from tests.kernels import (
    DEVICE,
    INTERPRETED,
    TRITON,
    compile_for_a_gpu,
    needs_kernel,
    needs_triton,
)

SDPA = torch.nn.functional.scaled_dot_product_attention
KINDS = [flash_attention, pytest.param(flash_kernel, marks=needs_kernel)]


def inputs(query_len=7, key_len=10, head_dim=4, value_dim=5, dtype=torch.float64):
    generator = seeded(0)
    sizes = (query_len, head_dim), (key_len, head_dim), (key_len, value_dim)
    return [
        torch.randn(2, 3, *size, generator=generator, dtype=dtype, requires_grad=True)
        for size in sizes
    ]


def outcome(attention, tensors, **options):
    """The result and the gradients of all inputs under one fixed random loss."""
    context = attention(*tensors, **options)
    torch.manual_seed(1)
    return context, *torch.autograd.grad(
        (context * torch.randn_like(context)).sum(), tensors
    )


def plain(query, key, value, mask=None, *, causal=False, scale=None):
    mask = with_causal(mask, causal, query, key)
    return scaled_dot_product_attention(query, key, value, mask, scale=scale)


@settings(deadline=None, max_examples=60)
@given(
    query_len=st.integers(1, 9),
    key_len=st.integers(1, 9),
    tile=st.tuples(st.integers(1, 10), st.integers(1, 10)),
    causal=st.booleans(),
    scale=st.sampled_from([None, 0.3]),
    seed=st.none() | st.integers(0, 99),
)
def test_tiles_equal_plain_attention(query_len, key_len, tile, causal, scale, seed):
    tensors = inputs(query_len, key_len)
    shape = 2, 1, query_len, key_len
    mask = None if seed is None else torch.rand(shape, generator=seeded(seed)) < 0.4
    options = {"mask": mask, "causal": causal, "scale": scale}
    ours = outcome(flash_attention, tensors, tile=tile, **options)
    assert_close(ours, outcome(plain, tensors, **options), rtol=1e-12, atol=1e-12)
    table = with_causal(mask, causal, *tensors[:2])
    theirs = outcome(SDPA, tensors, attn_mask=table, scale=scale)
    assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    query, key, value = (x.detach() for x in tensors)
    scores = query @ key.mT * (scale or 0.5)  # 1/√D, with D = 4
    if table is not None:
        scores = scores.masked_fill(~table, -torch.inf)
    plan = TilePlan(mask, causal, scale or 0.5, tile)
    _, log_sum = flash_forward(query, key, value, plan)
    assert_close(log_sum, scores.logsumexp(-1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("query_len", "key_len", "causal", "masked"),
    [(37, 50, True, True), (50, 37, True, False), (20, 40, False, True), (3, 1, 0, 0)],
)
def test_both_kinds_equal_pytorchs_own(kind, dtype, query_len, key_len, causal, masked):
    tensors = inputs(query_len, key_len, 20, 5, dtype=dtype)
    tensors = [x.detach().to(DEVICE).requires_grad_() for x in tensors]
    mask = torch.rand(2, 1, query_len, key_len, generator=seeded(3)).to(DEVICE) < 0.3
    mask[0, 0, 1] = False  # an empty row
    options = {"mask": mask if masked else None, "causal": bool(causal)}
    ours = outcome(kind, tensors, tile=(16, 32), **options)
    mask = with_causal(options["mask"], bool(causal), *tensors[:2])
    theirs = outcome(SDPA, tensors, attn_mask=mask)
    bound = 2e-6 if dtype is torch.float32 else 0.06
    assert_close(ours, theirs, rtol=bound, atol=bound)


def test_kernel_gets_masks_that_heads_share_once():
    mask = torch.rand(2, 1, 3, 4, generator=seeded(0)) > 0.5
    wide = mask.expand(2, 5, 3, 4)
    distinct, number = _distinct_masks(wide, [2, 5], wide)
    assert distinct.shape == (2, 1, 3, 4)
    assert torch.equal(distinct.bool().flatten(0, 1)[number], wide)
    none, number = _distinct_masks(None, [2, 5], wide)
    assert (none.numel(), number.numel()) == (1, 1)


def test_kernel_without_what_it_needs_says_so():
    inputs = [torch.zeros(4, 4)] * 3
    if not TRITON:
        with pytest.raises(ModuleNotFoundError, match="pip install triton"):
            flash_kernel(*inputs)
    elif not INTERPRETED:
        with pytest.raises(ValueError, match="TRITON_INTERPRET=1"):
            flash_kernel(*inputs)
    else:
        with pytest.raises(TypeError, match="got float64"):
            flash_kernel(*[x.double() for x in inputs])
    with pytest.raises(ValueError, match=r"powers of 2, at least 16; got \(16, 24\)"):
        require_power_of_two(tile=(16, 24))


@needs_triton
def test_kernel_compiles_for_a_gpu_that_is_not_here():
    types = "*bf16 *bf16 *bf16 *u8 *i64 *bf16 *fp32 i32 i32 i32 i32 fp32"
    place = "attention_lib.flash_kernel", "attend_kernel"
    known = {"MASKED": 1, "CAUSAL": 1, "ROWS": 64, "COLUMNS": 32}
    compile_for_a_gpu(*place, types, **known, HEAD=64, VALUE=16)


def test_keys_shared_by_all_heads_get_the_gradient_of_all():
    query, key, value = inputs()
    shared = [x[:1, :1].detach().requires_grad_() for x in (key, value)]
    ours = outcome(flash_attention, (query, *shared), tile=3)
    assert_close(ours, outcome(plain, (query, *shared)))


def test_what_backward_keeps_grows_with_the_length():
    def kept(attention, length):
        seen = {}

        def pack(x):
            seen[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
            return x

        with saved_tensors_hooks(pack, lambda x: x):
            context = attention(*inputs(length, length, 16, 16), causal=True)
        return context, sum(seen.values())

    assert kept(flash_attention, 1024)[1] / kept(flash_attention, 256)[1] <= 4.5
    assert kept(plain, 1024)[1] / kept(plain, 256)[1] > 10


def test_tiles_in_the_future_are_not_computed(monkeypatch):
    computed = []
    scores = TilePlan.scores
    monkeypatch.setattr(
        TilePlan, "scores", lambda *a: computed.append(a[-2:]) or scores(*a)
    )
    query, key, value = (x.detach() for x in inputs(8, 8))
    flash_attention(query, key, value, causal=True, tile=2)
    assert len(computed) == 4 + 3 + 2 + 1


def test_transforms_of_functions_are_refused_as_documented():
    tensors = [tensor.detach() for tensor in inputs()]
    assert "torch.vmap" in flash_attention.__doc__
    for transform in (torch.vmap, torch.func.grad, torch.func.jacrev):
        with pytest.raises(RuntimeError, match="functorch transforms"):
            transform(flash_attention)(*tensors)


def test_second_derivative_is_refused_instead_of_being_zero():
    query, key, value = inputs()
    with pytest.raises(NotImplementedError, match="no second derivative"):
        torch.autograd.functional.hessian(
            lambda x: (flash_attention(x, key, value) ** 2).sum(), query
        )


def test_first_derivative_is_right_where_a_graph_of_it_is_kept():
    query, key, value = inputs()
    wanted, found = (
        torch.autograd.grad(
            attention(query, key, value).sum(), query, create_graph=kept
        )
        for attention, kept in ((plain, False), (flash_attention, True))
    )
    assert_close(found[0].detach(), wanted[0])
