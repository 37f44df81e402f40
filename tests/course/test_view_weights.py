"""What explore_weights makes of its arguments, and what it refuses."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lib.attention import attention_weights
from attention_lib.course.views import view_weights
from attention_lib.course.views._packing import pack
from attention_lib.masks import causal_mask
from attention_lib.reproducibility import seeded

WORDS = ["a", "b", "c"]
KEYS = ["p", "q", "r", "s"]


def weights_like(*shape):
    return torch.randn(*shape, generator=seeded(0)).softmax(dim=-1)


def first(view):
    return view.data["sentences"][0]


def unpacked(text, *shape):
    return np.array([float(number) for number in text.split(" ")]).reshape(shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (5, 2, 3, 4)])
def test_weights_reach_the_page_to_three_decimals(shape, dtype):
    weights = weights_like(*shape).to(dtype).requires_grad_()
    data = first(view_weights(weights, WORDS, KEYS))
    assert (data["layers"], data["heads"]) == ((1, 1, *shape)[-4:-2])
    assert (data["queries"], data["keys"]) == (WORDS, KEYS)
    shown = unpacked(data["weights"], *shape)
    np.testing.assert_allclose(shown, weights.detach().double(), atol=5.1e-4)


def test_numpy_arrays_and_nested_lists_are_taken():
    weights = weights_like(3, 3).double().numpy()
    one, two = view_weights(weights, WORDS), view_weights(weights.tolist(), WORDS)
    assert one.data == two.data
    assert "keys" not in first(one)  # the same words


def test_scores_give_the_weights_of_the_table():
    scores = 3 * torch.randn(3, 3, generator=seeded(0))
    mask = causal_mask(3).clone()
    mask[1] = False  # an empty row
    view = view_weights(None, WORDS, scores=scores, mask=mask)
    sent = unpacked(first(view)["scores"], 3, 3)
    np.testing.assert_allclose(sent, scores, atol=5.1e-5)
    cells = [float(cell) for cell in re.findall(r"<td[^>]*>([^<]*)", view.static)]
    wanted = attention_weights(scores, torch.eye(3), mask, scale=1.0)
    np.testing.assert_allclose(cells, wanted.flatten(), atol=0.0051)


def test_weights_and_scores_that_agree_are_sent_as_scores():
    scores = torch.randn(3, 3, generator=seeded(0)).bfloat16()
    weights = scores.float().softmax(dim=-1).bfloat16()
    data = first(view_weights(weights, WORDS, scores=scores))
    assert "scores" in data
    assert "weights" not in data


def test_sentences_share_what_is_no_mapping():
    maps = {"one": weights_like(3, 3), "two": weights_like(2, 3, 3)}
    view = view_weights(maps, WORDS, mask=torch.ones(3, 3, dtype=torch.bool))
    found = [(each["name"], each["queries"]) for each in view.data["sentences"]]
    assert found == [("one", WORDS), ("two", WORDS)]
    assert "“one”, the first of 2" in view.static
    words = "2 sentences, 1 × 1 heads, 3 queries × 3 keys"
    assert repr(view) == f"<attention weights: {words}>"


def test_table_is_cut_at_sixteen_and_says_so():
    words = [f"w{i}" for i in range(20)]
    table = view_weights(weights_like(2, 17, 20), words[:17], words).static
    assert "head 1 of 2" in table
    assert "Shown: the first 16 of 17 queries. Shown: the first 16 of 20 keys." in table
    assert table.count("<td") == 256
    assert "w15" in table
    assert "w16" not in table


def test_view_and_table_begin_with_the_map_that_is_named():
    weights = weights_like(2, 5, 3, 3)
    view = view_weights(weights, WORDS, layer=1, head=3, query=2)
    assert view.data["first"] == [8, 2]  # all heads in one list
    assert "layer 2, head 4 of 2 × 5" in view.static
    assert f"{weights[1, 3, 2, 0]:.2f}</td>" in view.static
    assert "first" not in view_weights(weights, WORDS).data


@given(st.lists(st.floats(-1000, 1000), min_size=1), st.sampled_from([2, 3, 4]))
def test_packed_numbers_keep_their_point_and_their_value(numbers, decimals):
    words = pack(np.array(numbers), decimals).split(" ")
    assert all(re.fullmatch(r"-?\d*\.\d*", word) and word != "." for word in words)
    shown, rounding = [float(word) for word in words], 0.51 * 10.0**-decimals
    np.testing.assert_allclose(shown, numbers, atol=rounding)
    packed = pack(np.array([0.5, 1, 0, -0.0001, -0.25, 12.3456, 10]), 3)
    assert packed == ".5 1. .0 .0 -.25 12.346 10."


EYE = torch.eye(3)
SHORT = torch.ones(2, 3, dtype=torch.bool)
REFUSED = [
    ((None, WORDS), {}, TypeError, "view_weights needs weights or scores; got None"),
    (("abc", WORDS), {}, TypeError, "weights must be a tensor or array of numbers;"),
    ((EYE.bool(), WORDS), {}, TypeError, "weights must be a tensor or array of num"),
    ((EYE[0], WORDS), {}, ValueError, "weights must be (query, key), (heads, query, k"),
    ((EYE[:, :0], WORDS), {}, ValueError, "weights must be (query, key), (heads,"),
    (([EYE[None], EYE], WORDS), {}, ValueError, "weights as a list must hold one"),
    ((EYE / 0, WORDS), {}, ValueError, "weights hold nan or inf"),
    ((EYE - 1, WORDS), {}, ValueError, "weights hold -1, below 0: are they scores?"),
    ((EYE, WORDS, KEYS), {}, ValueError, "3 queries and 4 keys do not name the rows"),
    ((EYE, "abc"), {}, TypeError, "queries must be a list of words; got 'abc'"),
    ((EYE, WORDS, 3), {}, TypeError, "keys must be a list of words; got int"),
    ((EYE, [1, 2, 3]), {}, TypeError, "queries must be words; got [1, 2, 3]"),
    ((EYE, WORDS), {"mask": EYE}, TypeError, "mask must be boolean"),
    ((EYE, WORDS), {"mask": SHORT}, ValueError, "mask (2, 3) does not broadcast to th"),
    ((EYE, WORDS), {"scores": EYE[:2]}, ValueError, "weights and scores must have the"),
    ((EYE, WORDS), {"scores": EYE}, ValueError, "softmax(scores) differs from"),
    ((None, WORDS), {"scores": EYE.log()}, ValueError, "scores hold nan or inf: give"),
    (({}, WORDS), {}, ValueError, "weights must hold at least one sentence"),
    (({"one": EYE}, {"two": WORDS}), {}, ValueError, "queries must have the sentence"),
    ((EYE, WORDS), {"layer": 1}, ValueError, "layer must be 0 to 0; got 1"),
    ((EYE, WORDS), {"head": -1}, ValueError, "head must be 0 to 0; got -1"),
    ((EYE, WORDS), {"query": 3}, ValueError, "query must be 0 to 2; got 3"),
    ((EYE, WORDS), {"goal": ("?", 3, 0, 1)}, ValueError, "goal[1] must be 0 to 2"),
    ((EYE, WORDS), {"goal": ("?", 0, 3, 1)}, ValueError, "goal[2] must be 0 to 2"),
    ((EYE, WORDS), {"head": True}, TypeError, "head must be an int; got bool"),
]


@pytest.mark.parametrize(("arguments", "named", "error", "words"), REFUSED)
def test_explore_weights_refuses(refused, arguments, named, error, words):
    with refused(error, words):
        view_weights(*arguments, **named)
