"""attention_lib.grouped_query: grouped heads against multi-head, and each option.

Masks, caches and empty rows are tried in test_matrix.py.
"""

import importlib

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from attention_lib.grouped_query import GroupedQueryAttention, repeat_kv
from attention_lib.masks import sliding_window_mask
from attention_lib.multi_head import (
    MultiHeadAttention,
    copy_weights,
    merge_heads,
    split_heads,
)
from attention_lib.norms import RMSNorm
from attention_lib.reproducibility import seeded
from attention_lib.rope import rope_angles
from tests import reference
from tests.tensors import values_and_gradients

# All of different size, so that a swapped axis shows.
BATCH, LENGTH, D_MODEL, HEADS, SHARED, HEAD_DIM = 2, 7, 10, 6, 3, 4
OPTIONS = {
    "plain": {},
    "biases": {"qkv_bias": True, "out_bias": True, "d_out": 5},
    "normed": {"qk_norm": "rms"},
    "normed, plus one": {"qk_norm": "rms_plus_one", "scale": 0.3},
    "capped": {"softcap": 0.5},
    "window": {"window": 3},
    "sinks": {"sinks": True},
    "pairs": {"layout": "interleaved"},
    "all": {"qk_norm": "rms", "softcap": 2.0, "window": 2, "sinks": True},
}
each_option = pytest.mark.parametrize("name", OPTIONS)
ANGLES = rope_angles(torch.arange(LENGTH).double(), HEAD_DIM)


def layer(num_kv_heads=SHARED, **options):
    """A layer whose norms, sinks and biases are moved away from where they start."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        own = {"head_dim": HEAD_DIM} | options
        made = GroupedQueryAttention(D_MODEL, HEADS, num_kv_heads, **own).double()
        for parameter in made.parameters():
            if parameter.ndim < 2:
                parameter.data += torch.randn(parameter.shape)
    return made


def sequences(seed=1):
    shape = BATCH, LENGTH, D_MODEL
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def assert_close(result, wanted):
    torch.testing.assert_close(result, wanted, rtol=1e-9, atol=1e-11)


@each_option
def test_grouped_query_equals_loops_over_heads_and_keys(name):
    made, x = layer(**OPTIONS[name]), sequences()
    window = OPTIONS[name].get("window", LENGTH)
    with torch.no_grad():
        found = made(x, causal=True)
        value = repeat_kv(split_heads(made.v_proj(x), SHARED), HEADS // SHARED)
        maps = made.attention_weights(x, causal=True)
        assert_close(made.out_proj(merge_heads(maps @ value)), found)
    seen = sliding_window_mask(LENGTH, window)
    for text, own in zip(x, found, strict=True):
        wanted = reference.grouped(made, text.numpy(), seen.numpy())
        assert_close(own, torch.from_numpy(wanted))


@given(st.sampled_from([(1, 6), (6, 1), (2, 3)]))
def test_grouped_query_with_all_heads_equals_multi_head(sizes):
    """With fewer heads, it equals multi-head attention whose heads of keys repeat."""
    shared, groups = sizes
    ours = layer(shared, out_bias=True)
    full = MultiHeadAttention(D_MODEL, HEADS, head_dim=HEAD_DIM).double()
    if groups == 1:
        copy_weights(full, ours)
    else:
        own = ours.state_dict()
        for name in ("k_proj.weight", "v_proj.weight"):
            heads = own[name].view(shared, HEAD_DIM, D_MODEL)
            own[name] = heads.repeat_interleave(groups, dim=0).flatten(0, 1)
        full.load_state_dict(own)
    results = [
        values_and_gradients(
            lambda x, one=one: one(x, causal=True, angles=ANGLES), sequences()
        )
        for one in (ours, full)
    ]
    for mine, wanted in zip(*results, strict=True):
        assert_close(mine, wanted)


def test_grouped_query_counts_positions_on_from_the_cache():
    """Positions that are left out are columns, before and after given ones."""
    made, x = layer(window=3), sequences()
    cache, places = made.new_cache(BATCH, LENGTH), torch.arange(LENGTH)
    found = []
    for begin, end, told in ((0, 2, False), (2, 4, True), (4, 5, False), (5, 7, True)):
        positions = places[begin:end] if told else None
        found.append(made(x[:, begin:end], cache=cache, positions=positions))
    assert_close(torch.cat(found, dim=1), made(x))
    assert cache.keys.shape == (BATCH, SHARED, LENGTH, HEAD_DIM)
    # Cut back to where positions were columns, nothing is left of the others.
    assert cache.positions is not None
    cache.crop(2)
    assert cache.positions is None


def test_grouped_query_window_looks_past_padding_in_a_cache_that_was_cut():
    made, x = layer(window=3), sequences()
    real = torch.tensor([True, True, False, False, True, True, True, True, True])
    places, padded = real.cumsum(0) - 1, x.new_full((BATCH, 9, D_MODEL), 9.0)
    padded[:, real] = x
    cache = made.new_cache(BATCH, 9)
    made(padded[:, :7], real[None, None, :7], cache=cache, positions=places[:7])
    cache.crop(6)
    for times in (2, 1):
        own, rest = cache.repeat(times), padded[:, 6:].repeat(times, 1, 1)
        found = made(rest, real[None, None], cache=own, positions=places[6:])
        assert_close(found, made(x)[:, 4:].repeat(times, 1, 1))


@pytest.mark.parametrize(("padding", "keys"), [(None, 9), (0, 3), (2, 5)])
def test_grouped_query_window_reads_as_far_back_as_padding_asks(padding, keys):
    made, x, seen = layer(window=3), sequences(), []
    cache = made.new_cache(BATCH, 9)
    made(torch.cat([x, x[:, :1]], 1), cache=cache)
    cache.padding = padding
    attend = F.scaled_dot_product_attention

    def noted(query, key, *rest, **options):
        seen.append(key.shape[-2])
        return attend(query, key, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", noted)
        made(x[:, :1], cache=cache, positions=torch.full((BATCH, 1), 6))
    assert seen == [keys]


def test_repeat_kv_hand_written():
    x = torch.tensor([[[[1.0, 2.0]], [[3.0, 4.0]]]])
    assert repeat_kv(x, 2).tolist() == [[[[1, 2]], [[1, 2]], [[3, 4]], [[3, 4]]]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_rms_norm_equals_torch(dtype):
    x = 3 * sequences().to(dtype)
    norm = RMSNorm(D_MODEL, eps=1e-5).to(dtype)
    plus_one = RMSNorm(D_MODEL, eps=1e-5, unit_offset=True).to(dtype)
    norm.weight.data.normal_(generator=seeded(0))
    plus_one.weight.data.copy_(norm.weight.data - 1)
    wanted = F.rms_norm(x, (D_MODEL,), norm.weight, eps=1e-5)
    torch.testing.assert_close(norm(x), wanted)
    if dtype != torch.bfloat16:  # there weight - 1 is rounded
        torch.testing.assert_close(plus_one(x), wanted)
    else:  # 1 is added in float32, as in Gemma
        theirs = importlib.import_module("transformers.models.gemma3.modeling_gemma3")
        gemma = theirs.Gemma3RMSNorm(D_MODEL, eps=1e-5).to(dtype)
        for part in (plus_one, gemma):
            part.weight.data.normal_(std=0.3, generator=seeded(0))
        assert plus_one(x).equal(gemma(x))
