"""attention_lib.grouped_query: grouped heads against multi-head, and each option."""

import importlib

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attention_lib.grouped_query import GroupedQueryAttention, repeat_kv
from attention_lib.masks import causal_mask, padding_mask, sliding_window_mask
from attention_lib.multi_head import MultiHeadAttention, copy_weights
from attention_lib.norms import RMSNorm
from attention_lib.reproducibility import seeded
from attention_lib.rope import rope_angles
from tests.tensors import assert_same, values_and_gradients

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


def by_hand(made, x, mask):
    """One query, one head and one key at a time, from what the papers say."""
    query, key, value = made.q_proj(x), made.k_proj(x), made.v_proj(x)
    found = torch.zeros(BATCH, LENGTH, HEADS, HEAD_DIM, dtype=x.dtype)
    maps = torch.zeros(BATCH, HEADS, LENGTH, LENGTH, dtype=x.dtype)
    cut = [part.unflatten(-1, (-1, HEAD_DIM)) for part in (query, key, value)]
    query, key, value = cut
    for norm, part in ((made.q_norm, query), (made.k_norm, key)):
        if norm is not None:
            scale = norm.weight + 1 if norm.unit_offset else norm.weight
            part *= scale / (part.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    for b, head, t in torch.cartesian_prod(
        torch.arange(BATCH), torch.arange(HEADS), torch.arange(LENGTH)
    ).tolist():
        shared = head // (HEADS // SHARED)
        total = made.sinks[head].exp() if made.sinks is not None else 0.0
        seen = [s for s in range(LENGTH) if mask[t, s]]
        for s in seen:
            score = query[b, t, head] @ key[b, s, shared] * made.scale
            if made.softcap:
                score = made.softcap * torch.tanh(score / made.softcap)
            maps[b, head, t, s] = score.exp()
            total = total + score.exp()
        maps[b, head, t] = maps[b, head, t] / total
        found[b, t, head] = sum(maps[b, head, t, s] * value[b, s, shared] for s in seen)
    return made.out_proj(found.flatten(2)), maps


@each_option
def test_grouped_query_equals_loops_over_heads_and_keys(name):
    made, x = layer(**OPTIONS[name]), sequences()
    window = OPTIONS[name].get("window", LENGTH)
    with torch.no_grad():
        context, maps = by_hand(made, x, sliding_window_mask(LENGTH, window))
        assert_close(made(x, causal=True), context)
        assert_close(made.attention_weights(x, causal=True), maps)


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


@pytest.mark.usefixtures("shapes_unchecked")  # most of the time otherwise
@each_option
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_grouped_query_with_a_cache_equals_the_full_pass(name, data):
    made, x = layer(**OPTIONS[name]), sequences()
    mask = padding_mask(torch.tensor([LENGTH, 4]), LENGTH, side="left")
    if data.draw(st.booleans()):
        mask = torch.rand(BATCH, HEADS, LENGTH, LENGTH, generator=seeded(3)) < 0.7
    cuts = sorted(data.draw(st.sets(st.integers(1, LENGTH - 1))))
    cache, found = made.new_cache(BATCH, LENGTH), []
    for start, end in zip([0, *cuts], [*cuts, LENGTH], strict=True):
        own = mask[..., :end] if mask.ndim == 3 else mask[:, :, start:end, :end]
        piece = x[:, start:end]
        options = {"causal": True, "angles": ANGLES[start:end], "cache": cache}
        found.append(made(piece, own, **options))
    assert cache.keys.shape == (BATCH, SHARED, LENGTH, HEAD_DIM)
    assert_close(torch.cat(found, 1), made(x, mask, causal=True, angles=ANGLES))


def laid_out(data, x):
    """The texts with padding anywhere between their tokens, and where these are.

    Returns:
        The padded texts (B, K, M), which columns are real, and positions, both (B, K).
    """
    width = LENGTH + 4
    drawn = st.sets(st.integers(0, width - 1), min_size=LENGTH, max_size=LENGTH)
    real = torch.zeros(BATCH, width, dtype=torch.bool)
    for row in range(BATCH):
        real[row, sorted(data.draw(drawn))] = True
    padded = 9 * torch.ones(BATCH, width, D_MODEL, dtype=x.dtype)
    padded[real] = x.flatten(0, 1)
    return padded, real, (real.cumsum(dim=1) - 1).clamp(min=0)


def in_pieces(made, cache, laid, cuts, start=0):
    """The outputs of padded texts that are read piece by piece, from a column on."""
    padded, real, places = laid
    found = []
    for begin, end in zip([start, *cuts], [*cuts, padded.shape[1]], strict=True):
        angles = rope_angles(places[:, begin:end].double(), HEAD_DIM)
        options = {"causal": True, "angles": angles, "cache": cache}
        options["positions"] = places[:, begin:end]
        found.append(made(padded[:, begin:end], real[:, None, :end], **options))
    return torch.cat(found, dim=1)


@pytest.mark.usefixtures("shapes_unchecked")  # most of the time otherwise
@each_option
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_grouped_query_with_padding_anywhere_equals_each_text_alone(name, data):
    made, x = layer(**OPTIONS[name]), sequences()
    laid = laid_out(data, x)
    width = laid[0].shape[1]
    cuts = sorted(data.draw(st.sets(st.integers(1, width - 1), max_size=4)))
    wanted = made(x, causal=True, angles=ANGLES)
    at_once = made(
        laid[0],
        laid[1][:, None],
        causal=True,
        angles=rope_angles(laid[2].double(), HEAD_DIM),
        positions=laid[2],
    )
    assert_close(at_once[laid[1]], wanted.flatten(0, 1))
    cache = made.new_cache(BATCH, width)
    found = in_pieces(made, cache, laid, cuts)
    assert_close(found[laid[1]], wanted.flatten(0, 1))
    # And again behind a part of it, in a copy that leaves the first one alone.
    kept = data.draw(st.integers(1, width - 1))
    cache.crop(kept)
    copies = cache.repeat(2)
    twice = [torch.cat([part, part]) for part in laid]
    found = in_pieces(made, copies, twice, [], kept)
    wanted = in_pieces(made, cache, laid, [], kept)
    assert_close(found, torch.cat([wanted, wanted]))


def test_grouped_query_counts_positions_on_from_the_cache():
    """Positions that are left out are columns, before and after given ones."""
    made, x = layer(window=3), sequences()
    cache, places = made.new_cache(BATCH, LENGTH), torch.arange(LENGTH)
    found = []
    for begin, end, told in ((0, 2, False), (2, 4, True), (4, 5, False), (5, 7, True)):
        positions = places[begin:end] if told else None
        found.append(made(x[:, begin:end], cache=cache, positions=positions))
    assert_close(torch.cat(found, dim=1), made(x))
    # Cut back to where positions were columns, nothing is left of the others.
    assert cache.positions is not None
    cache.crop(2)
    assert cache.positions is None


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


def test_grouped_query_refuses_other_positions_in_words(refused):
    made, x = layer(window=3), sequences()
    with refused(ValueError, "positions must be (7,) or (2, 7), one per token; got (6"):
        made(x, positions=torch.arange(6))
    with refused(TypeError, "positions must be a tensor of int64; got torch.float"):
        made(x, positions=torch.arange(7.0))


def test_grouped_query_window_sees_its_own_place_and_those_before():
    made, x = layer(window=3), sequences()
    assert_same(
        made.attention_weights(x) > 0,
        sliding_window_mask(LENGTH, 3).expand(BATCH, HEADS, -1, -1),
    )
    changed = x.clone()
    changed[:, :2] += 1
    same = torch.isclose(made(changed), made(x)).all(dim=-1)
    assert same.tolist() == [[False] * 4 + [True] * 3] * BATCH


def test_grouped_query_sink_takes_its_share_of_a_row():
    made = layer(sinks=True)
    with torch.no_grad():
        made.k_proj.weight.zero_()  # every score is 0
        made.sinks.copy_(torch.tensor([0.0, 1.0, 3.0, 10.0, 1e9, 1e-9]).log())
    sums = made.attention_weights(sequences(), causal=True)[0, :, :2].sum(-1)
    # One key against e^sink, then two keys against it.
    wanted = [[1, 1], [1 / 2, 2 / 3], [1 / 4, 2 / 5], [1 / 11, 1 / 6], [0, 0], [1, 1]]
    torch.testing.assert_close(sums, torch.tensor(wanted).double())


def test_grouped_query_with_normed_queries_does_not_see_their_length():
    made, x = layer(qk_norm="rms", norm_eps=1e-20), sequences()
    before = made(x)
    with torch.no_grad():
        made.q_proj.weight *= 30
        made.k_proj.weight /= 30
    assert_close(made(x), before)


@each_option
def test_grouped_query_empty_rows_give_zeros(name):
    made, x = layer(**OPTIONS[name]), sequences()
    mask = causal_mask(LENGTH).clone()
    mask[3] = False
    found = values_and_gradients(lambda x: made(x, mask), x)
    empty = torch.zeros(HEADS * HEAD_DIM).double()
    assert_close(found[0][:, 3], made.out_proj(empty).expand(BATCH, -1))
    assert found[1].isfinite().all()


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


def test_rms_norm_hand_written():
    assert_close(
        RMSNorm(2, eps=1e-12).double()(torch.tensor([[3.0, 4.0]]).double()),
        torch.tensor([[3.0, 4.0]]).double() / 12.5**0.5,
    )
