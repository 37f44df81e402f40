"""attention_lib.rope: the offset alone, both layouts, and speeds as published."""

import functools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from attention_lib.generation import generate
from attention_lib.reproducibility import seeded
from attention_lib.rope import (
    apply_rope,
    convert_layout,
    rope_angles,
    rope_attention_factor,
)
from attention_lib.serving import Server, speculative_generate
from attention_lib.tiny_llama import LlamaConfig, TinyLlama
from tests.tensors import assert_same, values_and_gradients

LAYOUTS = ["half", "interleaved"]
each_layout = pytest.mark.parametrize("layout", LAYOUTS)
LENGTH = "original_max_position_embeddings"
SHORT = {"factor": 4.0, LENGTH: 16}
LLAMA = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
SCALED = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 3.7},
    "dynamic": {"rope_type": "dynamic", **SHORT},
    "dynamic, long": {"rope_type": "dynamic", "factor": 3.7, LENGTH: 4096},
    "yarn": {"rope_type": "yarn", **SHORT},
    "yarn, its own": {
        **{"rope_type": "yarn", "factor": 3.7, LENGTH: 4096, "truncate": False},
        **{"beta_fast": 8, "beta_slow": 2.5, "mscale": 0.7, "mscale_all_dim": 0.4},
    },
    "yarn, long": {"rope_type": "yarn", "factor": 32.0, LENGTH: 4096},
    "yarn, one bound": {"rope_type": "yarn", **SHORT, "beta_fast": 1, "beta_slow": 1},
    "yarn, a factor": {"rope_type": "yarn", **SHORT, "attention_factor": 1.3},
    "llama3": {"rope_type": "llama3", **SHORT, **LLAMA},
    "llama3, one bound": {
        **{"rope_type": "llama3", "factor": 16.0, LENGTH: 8192},
        **{"low_freq_factor": 1.0, "high_freq_factor": 1.0},  # Llama 4 Scout
    },
    "llama3, long": {"rope_type": "llama3", "factor": 3.7, LENGTH: 8192, **LLAMA},
}


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def turned(x, position, **options):
    angles = rope_angles(torch.tensor([position]).double(), x.shape[-1], **options)
    return apply_rope(x, angles)


def test_rope_angles_hand_worked():
    angles = rope_angles(torch.tensor([0, 1, 50]), 6, base=1000.0)
    assert_close(angles, torch.tensor([[0, 0, 0], [1, 0.1, 0.01], [50, 5, 0.5]]))


@pytest.mark.parametrize(
    ("layout", "wanted"),
    [("half", [-3.0, 2.0, 1.0, 4.0]), ("interleaved", [-2.0, 1.0, 3.0, 4.0])],
)
def test_apply_rope_turns_its_pair_hand_worked(layout, wanted):
    quarter = torch.tensor([[math.pi / 2, 0.0]])  # the first pair, by a right angle
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    assert_close(apply_rope(x, quarter, layout=layout), torch.tensor([wanted]))


@given(
    st.integers(0, 5000),
    st.integers(0, 5000),
    st.integers(0, 5000),
    st.sampled_from([2, 6, 64]),
    st.sampled_from([None, *SCALED.values()]),
)
def test_score_depends_on_the_offset_only(query, key, shift, head_dim, scaling):
    if scaling and scaling["rope_type"] == "dynamic":
        scaling = None  # its speeds depend on the length
    q, k = torch.nn.functional.normalize(randn(2, 1, head_dim), dim=-1)
    first = turned(q, query, scaling=scaling) @ turned(k, key, scaling=scaling).mT
    q, k = (
        turned(q, query + shift, scaling=scaling),
        turned(k, key + shift, scaling=scaling),
    )
    assert_close(q @ k.mT, first, rtol=0, atol=1e-12)


def test_apply_rope_equals_complex_numbers():
    x, angles = randn(2, 3, 5, 8), rope_angles(torch.arange(5.0).double(), 8)
    numbers = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    wanted = numbers * torch.polar(torch.ones_like(angles), angles)
    found = apply_rope(x, angles, layout="interleaved")
    assert_close(found, torch.view_as_real(wanted).flatten(-2))


@each_layout
def test_apply_rope_turns_back_and_so_do_its_gradients(layout):
    x, angles = randn(2, 3, 5, 8), rope_angles(torch.arange(5.0).double(), 8)
    found, gradient = values_and_gradients(
        lambda x: apply_rope(x, angles, layout=layout), x
    )
    assert_close(found.norm(dim=-1), x.norm(dim=-1))
    assert_close(apply_rope(found, -angles, layout=layout), x)
    direction = torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view_as(x)
    assert_close(gradient, apply_rope(direction, -angles, layout=layout))


def test_apply_rope_takes_angles_of_each_text_and_keeps_the_type():
    places = torch.tensor([[0, 1, 2], [5, 6, 7]])
    angles = rope_angles(places, 4)
    x = randn(2, 1, 3, 4)
    found = apply_rope(x, angles[:, None])
    assert_same(found[1], apply_rope(x[1], angles[1]))
    assert apply_rope(x.bfloat16(), angles[:, None]).dtype == torch.bfloat16
    assert rope_angles(places.double(), 4).dtype == torch.float64


@pytest.mark.parametrize(("layout", "old"), [LAYOUTS, LAYOUTS[::-1]])
def test_convert_layout_keeps_scores_and_comes_back(layout, old):
    heads, head_dim, x = 2, 6, randn(5, 7)
    w_q, w_k = randn(2, heads * head_dim, 7, seed=1)
    angles = rope_angles(torch.arange(5.0).double(), head_dim)

    def scores(w_q, w_k, layout):
        q, k = (
            (x @ w.T).unflatten(-1, (heads, -1)).transpose(0, 1) for w in (w_q, w_k)
        )
        q, k = (apply_rope(each, angles, layout=layout) for each in (q, k))
        return q @ k.mT

    converted = [convert_layout(w, heads, layout=layout) for w in (w_q, w_k)]
    wanted = scores(w_q, w_k, old)
    assert_close(scores(*converted, layout), wanted)
    # Mixed up, nothing fails, but the scores are others.
    assert (scores(w_q, w_k, layout) - wanted).abs().max() > 0.1
    assert_same(convert_layout(converted[0], heads, layout=old), w_q)
    assert_same(convert_layout(w_q[:, 0], heads, layout=layout), converted[0][:, 0])


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("head_dim", [4, 64])
@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_rope_angles_equal_transformers_bit_for_bit(name, head_dim, base):
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    scaling = SCALED[name]
    parameters = {**scaling, "rope_theta": base}
    longest = 131_072
    if scaling["rope_type"] == "dynamic":
        longest = parameters.pop(LENGTH)
    config = llama.LlamaConfig(
        head_dim=head_dim, max_position_embeddings=longest, rope_parameters=parameters
    )
    for last in [7, 40, 5000, 100_000]:
        positions = torch.arange(last - 5, last)
        # A new one each time: `dynamic` remembers the longest text.
        published = llama.LlamaRotaryEmbedding(config)
        cos, sin = published(torch.zeros(1), positions[None])
        angles = rope_angles(positions, head_dim, base=base, scaling=scaling)
        factor = rope_attention_factor(scaling)
        assert_same(angles.cos() * factor, cos[0, :, : head_dim // 2])
        assert_same(angles.sin() * factor, sin[0, :, : head_dim // 2])


@pytest.mark.parametrize("name", SCALED)
def test_scaling_leaves_the_fast_and_slows_the_slow(name):
    near, far = torch.arange(3.0).double(), torch.arange(70.0).double()
    plain, scaled = (rope_angles(far, 64, scaling=s)[-1] for s in (None, SCALED[name]))
    assert (scaled <= plain * (1 + 1e-12)).all()
    if "dynamic" in name:  # within the trained length, nothing changes
        assert_same(rope_angles(near, 64, scaling=SCALED[name]), rope_angles(near, 64))


@pytest.mark.parametrize("name", SCALED)
def test_rope_angles_of_a_text_do_not_depend_on_its_neighbours(name):
    places = torch.stack([torch.arange(6), torch.arange(60, 66), torch.arange(15, 21)])
    angles = rope_angles(places, 8, scaling=SCALED[name])
    for row, own in zip(angles, places, strict=True):
        assert_same(row, rope_angles(own, 8, scaling=SCALED[name]))


GROWS = {"rope_type": "dynamic", "factor": 4.0, LENGTH: 6}


def growing(**options):
    torch.manual_seed(0)
    sizes = 30, 40, 32, 4, 2, 2, 48
    options |= {"rope_base": 100.0}  # so that a larger one shows
    model = TinyLlama(LlamaConfig(*sizes, rope_scaling=GROWS, **options)).double()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return model.eval()


@torch.no_grad()
@pytest.mark.parametrize("start", [0, 4])
def test_lengths_keep_padding_from_stretching_a_text(start):
    model, lengths = growing(), torch.tensor([3, 9, 6])
    begin = torch.randint(30, (3, 4), generator=seeded(1))
    texts = torch.randint(30, (3, 9), generator=seeded(0))
    for row, length in enumerate(lengths.tolist()):
        caches = [model.new_cache(count) for count in (3, 1)]
        if start:
            model(begin, cache=caches[0])
            model(begin[row : row + 1], cache=caches[1])
        found = model(texts, lengths, cache=caches[0])[row, :length]
        alone = model(texts[row : row + 1, :length], cache=caches[1])[0]
        assert_close(found, alone)


@pytest.mark.parametrize("ways", [{"use_cache": False}, {}, {"prefix": True}])
def test_generate_stretches_each_text_by_its_own_length(ways):
    model, lengths = growing(), torch.tensor([3, 9, 6])
    texts = torch.randint(30, (3, 9), generator=seeded(0))

    def options(rows):
        if "prefix" not in ways:
            return ways
        cache = model.new_cache(rows)
        with torch.no_grad():
            model(torch.tensor([[1, 2, 3, 4]]).expand(rows, -1), cache=cache)
        return {"cache": cache}

    found = generate(model, texts, max_new_tokens=9, lengths=lengths, **options(3))
    for row, length in enumerate(lengths.tolist()):
        own = texts[row : row + 1, :length]
        alone = generate(model, own, max_new_tokens=9, **options(1))[0]
        assert_same(found[row, : length + 9], alone)


def test_what_pieces_and_guesses_would_stretch_is_refused(refused):
    """Up to the trained length nothing grows, so there both write the model's text."""
    model, text = growing(), [1, 2, 3]
    alone = generate(model, torch.tensor([text]), max_new_tokens=4)
    server = Server(model, num_pages=9, page_len=2, max_batch=2)
    request = server.submit(text, max_new_tokens=4)
    server.run()
    assert request.text == alone[0].tolist()
    ahead = functools.partial(speculative_generate, model, lambda _, count: [7] * count)
    assert_same(ahead(torch.tensor([text]), max_new_tokens=4), alone)
    words = (
        "with rope_type 'dynamic', a text may have at most 6 tokens here; this one "
        "grows to 7: its angles would depend"
    )
    with refused(ValueError, words):
        server.submit(text, max_new_tokens=5)
    with refused(ValueError, words):
        ahead(torch.tensor([text]), max_new_tokens=5)


def test_rope_attention_factor_hand_worked():
    yarn = {"rope_type": "yarn", "factor": math.e**2, LENGTH: 16}
    assert rope_attention_factor(yarn) == pytest.approx(1.2)
    both = {**yarn, "mscale": 5.0, "mscale_all_dim": 2.5}
    assert rope_attention_factor(both) == pytest.approx(2 / 1.5)
    assert rope_attention_factor({**both, "attention_factor": 3}) == 3.0
    assert rope_attention_factor(None) == rope_attention_factor(SCALED["llama3"]) == 1.0


ONE_OF = "rope_type, in scaling, must be one of default, linear, dynamic, yarn, llama3"


@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        ({"factor": 2.0}, f"{ONE_OF}; got None"),
        ({"rope_type": "ntk"}, f"{ONE_OF}; got 'ntk'"),
        (
            {**SCALED["linear"], "low": 1},
            "each key of scaling for 'linear' must be one of rope_type, rope_theta, "
            "factor; got 'low'",
        ),
        ({"rope_type": "linear"}, "scaling for 'linear' needs factor"),
        (
            {"rope_type": "yarn", "factor": None},
            f"scaling for 'yarn' needs factor, {LENGTH}",
        ),
        (
            {**SCALED["linear"], "factor": 0.5},
            "factor, in scaling, must be at least 1 and at most 1e6; got 0.5",
        ),
        (
            {**SCALED["yarn"], "beta_fast": 0.5},
            "beta_slow, in scaling, must not be above beta_fast; got 1 and 0.5",
        ),
        (
            {**SCALED["linear"], "rope_theta": 5e5},
            "scaling has rope_theta 500000.0, base is 10000.0: pass base=",
        ),
    ],
)
def test_rope_angles_refuse_a_scaling_in_words(refused, scaling, words):
    with refused(ValueError, words):
        rope_angles(torch.arange(3), 4, scaling=scaling)


@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        ("yarn", "scaling must be a mapping; got str"),
        ({**SCALED["linear"], "factor": "2"}, "factor, in scaling, must be a number;"),
        ({**SCALED["yarn"], LENGTH: 16.0}, f"{LENGTH}, in scaling, must be an int;"),
        ({**SCALED["yarn"], "truncate": 1}, "truncate, in scaling, must be True or "),
    ],
)
def test_rope_angles_refuse_another_kind_in_words(refused, scaling, words):
    with refused(TypeError, words):
        rope_angles(torch.arange(3), 4, scaling=scaling)


def test_scaling_may_say_the_base_and_none_for_what_is_left_out(refused):
    yarn, places = SCALED["yarn"], torch.arange(3)
    scaling = {**yarn, "attention_factor": None, "rope_theta": 500.0}
    found = rope_angles(places, 8, base=500.0, scaling=scaling)
    assert_same(found, rope_angles(places, 8, base=500.0, scaling=yarn))
    with refused(ValueError, "base must be above 1 with 'yarn'; got 1.0"):
        rope_angles(places, 8, base=1.0, scaling=yarn)
    with refused(ValueError, "head_dim must be at least 4 with 'dynamic'; got 2"):
        rope_angles(places, 2, scaling=SCALED["dynamic"])


@pytest.mark.parametrize("rows", [(10, 7), (), (0, 7)])
def test_convert_layout_refuses_half_pairs(refused, rows):
    with refused(ValueError, "weight must have num_heads · head_dim rows"):
        convert_layout(torch.zeros(rows), 2, layout="half")


@pytest.mark.parametrize("heads", [2, 8, 16])
def test_slopes_of_chapter_10_are_those_of_bloom(heads):
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    mask = torch.ones(1, 5)
    published = bloom.build_alibi_tensor(mask, heads, torch.float32)[:, 0]  # (H, K)
    slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
    assert_close(published, slopes[:, None] * torch.arange(5.0))
