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
from tests.tensors import assert_same

LAYOUTS = ["half", "interleaved"]
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


def test_rope_angles_refuse_a_scaling_of_unknown_words_and_another_base(refused):
    for scaling, words in (
        ({"factor": 2.0}, "rope_type, in scaling, must be one of default, linear, "),
        (
            {**SCALED["linear"], "low": 1},
            "each key of scaling for 'linear' must be one of rope_type, rope_theta, "
            "factor; got 'low'",
        ),
        ({"rope_type": "yarn", "factor": None}, "scaling for 'yarn' needs factor, "),
        (
            {**SCALED["linear"], "rope_theta": 5e5},
            "scaling has rope_theta 500000.0, but the base is 10000.0: they ",
        ),
    ):
        with refused(ValueError, words):
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
