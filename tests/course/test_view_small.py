"""Small views: what they send, what they say without a script, what they refuse."""

import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attention_lib.attention import attention_weights, scaled_dot_product_attention
from attention_lib.course.views import view_cache, view_mask, view_split, view_vectors
from attention_lib.course.views._strings import MASK
from attention_lib.course.views.mask import empty_row
from attention_lib.masks import causal_mask
from attention_lib.tiny_lm import ModelConfig, TinyLM
from attention_lib.toy import attention
from tests.samples.views import EMPTY, KEYS, NUMBERED, SCORES, WORDS, X
from tests.views import numbers, sent, tables_of

# explore_vectors


@pytest.mark.parametrize("query", [0, 1, 2])
def test_explore_vectors_says_its_numbers_without_a_script(query):
    context, weights = attention(X, X, X)
    view = view_vectors(X, WORDS, query=query)
    rows = [[row[0], *row[2:]] for row in tables_of(view)[0]]
    assert [row[0] for row in rows] == ["key", *WORDS]
    scores = X @ X[query]
    wanted = np.stack([scores, scores / math.sqrt(2), weights[query]], axis=-1)
    np.testing.assert_allclose(numbers(rows), wanted, atol=5.1e-4)
    mix = re.search(r"mix is \((.*?), (.*?)\)", view.static)
    shown = [float(number) for number in mix.groups()]
    np.testing.assert_allclose(shown, context[query], atol=5.1e-4)


def test_explore_vectors_shows_its_words_as_text():
    view = view_vectors(X, ["</script>", "<b>", "&"], axes=("<i>", "y"))
    text = view._repr_mimebundle_()["text/html"]
    assert sent(view)["words"] == ["</script>", "<b>", "&"]
    assert not re.search("<b>|<i>", text)
    assert repr(view) == view.text
    assert "the query is </script>" in view.text


# explore_mask


def test_explore_mask_says_its_weights_without_a_script():
    masks = {"causal": causal_mask(3, 4), "empty": EMPTY}
    view = view_mask(SCORES, WORDS, KEYS, masks=masks)
    for table, mask in zip(tables_of(view), masks.values(), strict=False):
        wanted = attention_weights(SCORES, torch.eye(4).double(), mask, scale=1.0)
        torch.testing.assert_close(numbers(table), wanted.float(), rtol=0, atol=5.1e-3)
    free = [f"{weight:.2f}" for weight in SCORES[1].softmax(dim=-1).tolist()]
    rows = [["0.00"] * 4, ["nan"] * 4, ["0.25"] * 4, free]
    said = [
        [name, *row] for name, row in zip(MASK["answers"].values(), rows, strict=True)
    ]
    assert [tables_of(view)[2][0][1:], *tables_of(view)[2][1:]] == [KEYS, *said]
    assert "Under “empty”, row 1 (“it”)" in view.static


def test_explore_mask_of_words_that_look_at_themselves_has_no_empty_row():
    view = view_mask(SCORES[:, :3], WORDS, masks={"causal": causal_mask(3)})
    assert "keys" not in sent(view)
    assert view.text == "<mask to click together: 3 queries × 3 keys; causal>"
    assert len(tables_of(view)) == 1


def test_empty_row_is_what_pytorch_gives():
    # Queries that are the scores, keys and values the identity: the mix is the weights.
    query, key, mask = SCORES[None], torch.eye(4, dtype=torch.float64)[None], EMPTY
    given = empty_row(SCORES[1].numpy())
    made = {kind: torch.tensor(row) for kind, row in given.items()}
    for attend in (scaled_dot_product_attention, F.scaled_dot_product_attention):
        mix = attend(query, key, key, mask[None], scale=1.0)
        torch.testing.assert_close(made["zeros"], mix[0, 1])
    for kind, low in [("inf", -math.inf), ("fill", -1e9)]:
        filled = SCORES.masked_fill(~mask, low).softmax(dim=-1)[1]
        torch.testing.assert_close(made[kind], filled, equal_nan=True)
    torch.testing.assert_close(made["add"], (SCORES - 1e9 * ~mask).softmax(dim=-1)[1])


@pytest.mark.parametrize(("asked", "kind"), [(True, "inf"), (False, "zeros")])
def test_empty_row_is_what_multihead_attention_gives(asked, kind):
    layer = nn.MultiheadAttention(4, 1, bias=False, batch_first=True).double().eval()
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(4).repeat(3, 1))
        layer.out_proj.weight.copy_(torch.eye(4))
    key = torch.eye(4, dtype=torch.float64)[None]
    given = 2 * SCORES[None], key, key  # it divides by √4
    mix, weights = layer(*given, attn_mask=~EMPTY, need_weights=asked)
    wanted = torch.tensor(empty_row(SCORES[1].numpy())[kind])
    torch.testing.assert_close(mix[0, 1], wanted, equal_nan=True)
    if asked:
        torch.testing.assert_close(weights[0, 1], wanted, equal_nan=True)
        ours = attention_weights(SCORES, key[0], EMPTY, scale=1.0)
        torch.testing.assert_close(weights[0, ::2], ours[::2])


# explore_split


def test_explore_split_says_its_steps_without_a_script():
    view = view_split(NUMBERED, 2)
    shown = [numbers(table).long() for table in tables_of(view)]
    steps = [NUMBERED, NUMBERED.view(6, 4), NUMBERED.view(3, 2, 4).transpose(0, 1)]
    steps += [steps[2], NUMBERED.view(2, 3, 4)]
    for table, wanted in zip(shown, steps, strict=True):
        assert torch.equal(table, wanted.reshape(table.shape))
    for words in ("(1, 3, 8)", "view to (1, 3, 2, 4)", "transpose to (1, 2, 3, 4)"):
        assert words in view.static
    names = [[row[0] for row in table[1:]] for table in tables_of(view)]
    assert names[0] == ["token 1", "token 2", "token 3"]
    assert names[1][:3] == ["token 1, head 0", "token 1, head 1", "token 2, head 0"]
    assert names[2] == names[3]
    assert names[2][2:4] == ["head 0, token 3", "head 1, token 1"]
    assert names[4][2:4] == ["head 0, row 2", "head 1, row 0"]


def test_explore_split_takes_arrays_and_leaves_them():
    x = NUMBERED.numpy()[:, ::-1]
    view = view_split(x, 4)
    assert sent(view)["cells"] == x.tolist()
    assert view.text == "<cells followed from (1, 3, 8) to (1, 4, 3, 2)>"


# explore_cache

CACHE = {"prompt": 2, "num_layers": 2, "num_heads": 3, "head_dim": 4}
CACHE |= {"vocab_size": 11, "bytes_per_number": 4}


def test_explore_cache_sends_what_a_model_computes_and_keeps():
    view = view_cache(["the", *KEYS], **CACHE)
    model = TinyLM(ModelConfig(11, 9, 12, 3, 2)).requires_grad_(False)
    ids = torch.ones(1, 5, dtype=torch.int64)
    cache, rows = model.new_cache(1, 9), tables_of(view)[0][1:]
    for step, row in zip(sent(view)["steps"], rows, strict=True):
        length, new = step["length"], step["length"] - cache.length
        for given, kept in [(ids[:, :new], cache), (ids[:, :length], None)]:
            with FlopCounterMode(display=False) as counter:
                model(given, cache=kept)
            assert counter.get_total_flops() == step["cached" if kept else "anew"]
        assert step["bytes"] == model.new_cache(1, length).nbytes
        shown = [int(cell.replace(",", "")) for cell in row[1:]]
        assert shown == [step[key] for key in ("new", "bytes", "cached", "anew")]
        assert step["new"] == new
    assert [row[0] for row in rows] == ["“cat”", "“slept”", "“pad”"]


# What they refuse: x and words and how, scores and masks, cells and heads.

THREE, HEADS = causal_mask(3), SCORES.expand(2, 3, 4)
VECTORS = [
    ((["a"], WORDS), {}, TypeError, "x must hold numbers; got <U1"),
    ((np.zeros((3, 3)), WORDS), {}, ValueError, "x must be (tokens, 2), for 2 to"),
    ((np.zeros((1, 2)), ["a"]), {}, ValueError, "x must be (tokens, 2), for 2 to"),
    ((np.full((3, 2), np.inf), WORDS), {}, ValueError, "x holds nan or inf"),
    ((X, "cat"), {}, TypeError, "words must be a list of words; got 'cat'"),
    ((X, ["a", "b"]), {}, ValueError, "words must name the 3 rows of x, all diff"),
    ((X, ["a", "b", "a"]), {}, ValueError, "words must name the 3 rows of x, all"),
    ((X, WORDS), {"query": "it"}, TypeError, "query must be an int; got str"),
    ((X, WORDS), {"query": 3}, ValueError, "query must be 0 to 2; got 3"),
    ((X, WORDS), {"axes": "xy"}, TypeError, "axes must be a list of words; got"),
    ((X, WORDS), {"axes": ("x",)}, ValueError, "axes must be two names; got ['x']"),
]
MASKS = [
    (SCORES, THREE, TypeError, "masks must map names to"),
    (SCORES, {}, ValueError, "masks must hold at least one mask"),
    (SCORES, {"a": SCORES}, TypeError, "masks['a']: mask must be boolean"),
    (SCORES, {"b": THREE}, ValueError, "masks['b']: mask (3, 3) does not broadcas"),
    (HEADS, {"a": None}, ValueError, "scores must be (query, key); got (2, 3"),
    (SCORES.T, {"a": None}, ValueError, "3 queries and 4 keys do not name"),
    (SCORES / 0, {"a": None}, ValueError, "scores hold nan or inf"),
]
SPLITS = [
    (NUMBERED.double(), 2, TypeError, "x must hold whole numbers; got float64"),
    (NUMBERED[0], 2, ValueError, "x must be (tokens, width), for 2 to 6 tokens"),
    (NUMBERED[:1], 2, ValueError, "x must be (tokens, width), for 2 to 6 tokens"),
    (NUMBERED // 20, 2, ValueError, "x must hold each number once"),
    (NUMBERED, 3, ValueError, ""),
    (NUMBERED, 1, ValueError, "num_heads must be 2 or more"),
    (NUMBERED, 2.0, TypeError, "num_heads"),
]
CACHES = [
    ((KEYS,), CACHE | {"prompt": 4}, ValueError, "prompt must leave a word to gene"),
    (("the cat",), CACHE, TypeError, "words must be a list of texts"),
    *(((KEYS,), CACHE | {name: 0}, ValueError, f"{name} must be at least 1; got 0")
      for name in CACHE),
]  # fmt: skip
REFUSED = [
    *((view_vectors, *case) for case in VECTORS),
    *((view_mask, (scores, WORDS, KEYS), {"masks": masks}, *said)
      for scores, masks, *said in MASKS),
    *((view_split, (x, num_heads), {}, *said) for x, num_heads, *said in SPLITS),
    *((view_cache, *case) for case in CACHES),
]  # fmt: skip


@pytest.mark.parametrize(("explore", "given", "options", "error", "words"), REFUSED)
def test_view_refuses(refused, explore, given, options, error, words):
    with refused(error, words):
        explore(*given, **options)
