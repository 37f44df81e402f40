"""The checks of the twelve parts. A part that is not begun is skipped."""

import math
import re
from pathlib import Path

import model as m
import numpy as np
import pytest
import torch
import torch.nn.functional as F


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def judge(found, right, slips=None):
    """Compare an answer with the right one; name a mistake that is known."""
    if found is None or found is ...:
        pytest.skip("not written yet")
    found, right = torch.as_tensor(found), torch.as_tensor(right)
    if found.shape != right.shape:
        came, wanted = tuple(found.shape), tuple(right.shape)
        pytest.fail(f"The shape is {came}; it should be {wanted}.", pytrace=False)
    if is_close(found, right):
        return
    for words, wrong in (slips or {}).items():
        if is_close(found, wrong):
            pytest.fail(words, pytrace=False)
    if found.isnan().any():
        pytest.fail("There are NaNs in the result.", pytrace=False)
    off = (found.double() - right.double()).abs().max()
    pytest.fail(f"The numbers are wrong, by up to {off:.3g}.", pytrace=False)


def is_close(one, other):
    one, other = torch.as_tensor(one).double(), torch.as_tensor(other).double()
    near = 1e-4 * other.abs().max().clamp(min=1)
    return one.shape == other.shape and bool(((one - other).abs() <= near).all())


# Part 1


def test_part_1_softmax():
    scores = drawn(2, 3)
    slips = {
        "Each column sums to 1: normalise along the last axis.": scores.softmax(0),
        "All weights together sum to 1: each row should.": scores.flatten()
        .softmax(0)
        .view(2, 3),
        "The scores were divided by their sum: take exponentials first.": scores
        / scores.sum(-1, keepdim=True),
    }
    judge(m.softmax(scores), scores.softmax(-1), slips)
    judge(m.softmax(torch.tensor([0.0, -math.inf])), [1.0, 0.0])
    large = m.softmax(torch.tensor([1000.0, 1001.0]))
    if large.isnan().any():
        words = "Scores of 1,000 overflow: first subtract the largest of each row."
        pytest.fail(words, pytrace=False)
    judge(large, torch.tensor([0.0, 1.0]).softmax(-1))


# Part 2


def test_part_2_causal_mask():
    slips = {
        "True must mean that a query may attend.": ~torch.ones(3, 3).tril().bool(),
        "A token may attend to itself.": torch.ones(3, 3).tril(-1).bool(),
        "A token sees the future: row i is the query.": torch.ones(3, 3).triu().bool(),
    }
    judge(m.causal_mask(3, 3), torch.ones(3, 3).tril().bool(), slips)
    words = "The queries are the last of the keys: the last one sees all of them."
    slips = {words: torch.ones(2, 5).tril().bool()}
    judge(m.causal_mask(2, 5), torch.ones(2, 5).tril(3).bool(), slips)


# Part 3


def test_part_3_rms_norm():
    x, weight = drawn(2, 4), drawn(4, seed=1)
    mean_square = x.pow(2).mean(-1, keepdim=True)
    root = (mean_square + 0.1).sqrt()
    slips = {
        "`weight` is not used.": x / root,
        "This divides by the mean square: take its root.": x / root**2 * weight,
        "eps belongs under the root.": x / (mean_square.sqrt() + 0.1) * weight,
        "eps is not used.": x / mean_square.sqrt() * weight,
        "The mean is subtracted: that is LayerNorm.": F.layer_norm(
            x, (4,), weight, eps=0.1
        ),
        "This takes the mean over all rows: each row has its own.": x
        / (x.pow(2).mean() + 0.1).sqrt()
        * weight,
        "This takes the sum of the squares: take their mean.": x
        / (x.pow(2).sum(-1, keepdim=True) + 0.1).sqrt()
        * weight,
    }
    judge(m.rms_norm(x, weight, eps=0.1), x / root * weight, slips)


# Part 4


def rotated(x, positions, theta=100_000.0, sign=1, divide=True):
    """The rotation by complex numbers."""
    half = x.shape[-1] // 2
    powers = torch.arange(half) / (half if divide else 2 * half)
    angles = sign * positions[:, None] * theta**-powers
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones(()), angles)).flatten(-2)


def test_part_4_rotation():
    x, places = drawn(2, 3, 6), torch.tensor([0, 1, 5])
    halves = [*range(0, 6, 2), *range(1, 6, 2)]  # number i with number i + 3
    back = torch.tensor(halves).argsort()
    slips = {
        "This rotates the other way: watch the signs.": rotated(x, places, sign=-1),
        "The exponent is -2i / D, so -i / (D/2).": rotated(x, places, divide=False),
        "Number i is paired with i + D/2 here; the pairs are 2i and 2i + 1.": rotated(
            x[..., back], places
        )[..., halves],
        "The results of a pair belong side by side, at 2i and 2i + 1.": rotated(
            x, places
        )[..., halves],
        "All pairs rotate at the same frequency.": rotated(x, places, theta=1.0),
    }
    judge(m.rotate(x, places), rotated(x, places), slips)
    quarter = torch.tensor([math.pi / 2])
    judge(m.rotate(torch.tensor([[[1.0, 0.0]]]), quarter), [[[0.0, 1.0]]])
    one, ten = rotated(x, places, 10.0), m.rotate(x, places, theta=10.0)
    judge(ten, one, {"`theta` is not used.": rotated(x, places)})


# Part 5


def attended(query, key, value, scale=None, causal=True, repeat=None):
    """Attention by PyTorch's own function."""
    repeat = repeat or (lambda x: x.repeat_interleave(len(query) // len(x), dim=0))
    last = key.shape[1] - query.shape[1]
    mask = torch.ones(query.shape[1], key.shape[1]).tril(last).bool()
    mask = mask if causal else torch.ones_like(mask)
    return F.scaled_dot_product_attention(
        query, repeat(key), repeat(value), mask, scale=scale
    )


def test_part_5_grouped_attention():
    query, key, value = drawn(4, 3, 8), drawn(2, 3, 8, seed=1), drawn(2, 3, 8, seed=2)
    turns = attended(query, key, value, repeat=lambda x: x.repeat(2, 1, 1))
    slips = {
        "Divide the scores by the root of the head's width.": attended(
            query, key, value, scale=1.0
        ),
        "Divide by the root of the width, not by the width.": attended(
            query, key, value, scale=1 / 8
        ),
        "The future is visible: use the causal mask.": attended(
            query, key, value, causal=False
        ),
        "Query heads 0 and 1 share KV head 0: repeat each one.": turns,
    }
    judge(m.attention(query, key, value), attended(query, key, value), slips)
    judge(
        m.attention(query[:, 1:], key, value), attended(query[:, 1:], key, value)
    )  # with a cache


# Part 6


def test_part_6_swiglu():
    x, gate, up = drawn(2, 3), drawn(4, 3, seed=1), drawn(4, 3, seed=2)
    down = drawn(3, 4, seed=3)
    a, b = x @ gate.T, x @ up.T
    slips = {
        "silu belongs on the gate, not on up.": (a * F.silu(b)) @ down.T,
        "silu(z) is z · sigmoid(z); this is sigmoid(z) alone.": (a.sigmoid() * b)
        @ down.T,
        "This adds the two; multiply them.": (F.silu(a) + b) @ down.T,
        "silu is missing.": (a * b) @ down.T,
    }
    judge(m.swiglu(x, gate, up, down), (F.silu(a) * b) @ down.T, slips)


# Parts 7 and 8, by the parts before them


def weights_of_a_block(seed=0):
    sizes = {"attn_q": (128, 8), "attn_k": (64, 8), "attn_v": (64, 8)}
    sizes |= {"attn_output": (8, 128), "ffn_gate": (16, 8), "ffn_up": (16, 8)}
    sizes |= {"ffn_down": (8, 16), "attn_norm": (8,), "ffn_norm": (8,)}
    return {
        name: drawn(*size, seed=seed + i)
        for i, (name, size) in enumerate(sizes.items())
    }


def block(x, w, positions, *, turned="qk", normed=True, added=True, keep=None):
    """A block by PyTorch's functions, with a mistake where it is asked for."""
    norm = (
        (lambda x, weight: F.rms_norm(x, (8,), weight, 1e-5))
        if normed
        else lambda x, _: x
    )
    inner = norm(x, w["attn_norm"])
    query, key, value = (
        (inner @ w[f"attn_{it}"].T).unflatten(-1, (-1, 64)).transpose(0, 1)
        for it in "qkv"
    )
    query = rotated(query, positions) if "q" in turned else query
    key = rotated(key, positions) if "k" in turned else key
    key, value = keep(key, value) if keep else (key, value)
    heads = attended(query, key, value).transpose(0, 1).flatten(1) @ w["attn_output"].T
    x = x + heads if added else heads
    inner = norm(x, w["ffn_norm"])
    out = (F.silu(inner @ w["ffn_gate"].T) * (inner @ w["ffn_up"].T)) @ w["ffn_down"].T
    return x + out if added else out


def test_part_7_the_block():
    x, w, places = drawn(3, 8, seed=9), weights_of_a_block(), torch.arange(3)
    slips = {
        "Queries and keys are not rotated.": block(x, w, places, turned=""),
        "Keys are not rotated.": block(x, w, places, turned="q"),
        "Queries are not rotated.": block(x, w, places, turned="k"),
        "The norms are missing.": block(x, w, places, normed=False),
        "Attention and SwiGLU are each added to x.": block(x, w, places, added=False),
    }
    judge(m.block(x, w, places), block(x, w, places), slips)
    kept = drawn(1, 2, 64, seed=10), drawn(1, 2, 64, seed=11)
    shapes = []

    def keep(key, value):
        shapes.append((tuple(key.shape), tuple(value.shape)))
        return [torch.cat(pair, dim=1) for pair in zip(kept, (key, value), strict=True)]

    right = block(x, w, places + 2, keep=keep)
    found = m.block(x, w, places + 2, keep)
    words = "What `keep` returns is not used: with a cache, it is all keys and values."
    judge(found, right, {words: block(x, w, places + 2)})
    if shapes[-1] != ((1, 3, 64), (1, 3, 64)):
        pytest.fail(f"`keep` got {shapes[-1]}; wanted (G, T, D) twice.", pytrace=False)


class SimpleCache:
    """What part 8 needs of a cache."""

    def __init__(self):
        self.held, self.length = {}, 0

    def add(self, layer, key, value):
        pairs = zip(
            self.held.get(layer, (key[:, :0], value[:, :0])), (key, value), strict=True
        )
        self.held[layer] = [torch.cat(pair, dim=1) for pair in pairs]
        return self.held[layer]


def test_part_8_the_model():
    ids = torch.tensor([3, 1, 4, 1])
    weights = {"token_embd": drawn(5, 8, seed=20), "output_norm": drawn(8, seed=21)}
    weights["blocks"] = [weights_of_a_block(), weights_of_a_block(40)]
    x = weights["token_embd"][ids]
    for w in weights["blocks"]:
        x = block(x, w, torch.arange(4))
    normed = F.rms_norm(x, (8,), weights["output_norm"], 1e-5)
    right, embedding = normed @ weights["token_embd"].T, weights["token_embd"]
    slips = {
        "The last norm is missing.": x @ embedding.T,
        "This returns the last token only: return all rows.": right[-1],
        "The blocks are not used.": F.rms_norm(
            embedding[ids], (8,), weights["output_norm"], 1e-5
        )
        @ embedding.T,
    }
    judge(m.model(ids, weights), right, slips)
    cache, restarted = SimpleCache(), SimpleCache()
    m.model(ids[:3], weights, cache)
    m.model(ids[:3], weights, restarted)
    again = m.model(ids[3:], weights, restarted)  # its length is still 0
    cache.length = 3
    words = "With a cache, positions go on after those that it holds."
    judge(m.model(ids[3:], weights, cache), right[3:], {words: again})


# Part 9


def halves(*numbers):
    return np.array(numbers, np.float16).view(np.uint8)


def test_part_9_blocks_of_a_file():
    codes = np.arange(16, dtype=np.uint8) * 7 % 16
    upper = (codes + 5) % 16
    raw = np.concatenate([halves(0.5, -3), codes | upper << 4])[None].repeat(2, 0)
    raw[1, :4] = halves(0.25, 1)
    both = np.concatenate([codes, upper]).astype(np.float32)
    mixed = np.stack([codes, upper], 1).ravel().astype(np.float32)
    swapped = np.concatenate([upper, codes]).astype(np.float32)

    def numbers(values):
        return np.stack([0.5 * values - 3, 0.25 * values + 1])

    slips = {
        "The codes of one byte are 16 numbers apart, not side by side.": numbers(mixed),
        "The lower halves come first.": numbers(swapped),
    }
    judge(m.q4_1(raw), numbers(both), slips)
    codes = np.arange(-16, 16, dtype=np.int8)
    raw = np.concatenate([halves(0.5), codes.view(np.uint8)])[None]
    words = "The codes have a sign: read the bytes as int8."
    judge(m.q8_0(raw), 0.5 * codes[None], {words: 0.5 * codes.view(np.uint8)[None]})


# Part 10


def test_part_10_merges():
    cases = [
        (["a", "b", "a", "b"], ["ba", "ab"], ["a", "ba", "b"]),
        (["a", "b", "a", "b"], ["ab"], ["ab", "ab"]),
        (["a", "a", "a"], ["aa"], ["aa", "a"]),
        (["x"], ["ab"], ["x"]),
        (["t", "h", "e"], ["th", "the"], ["the"]),
    ]
    for parts, merges, right in cases:
        ranks = {(it[:-1], it[-1]): rank for rank, it in enumerate(merges)}
        found = m.merge(list(parts), ranks)
        if found is None or found is ...:
            pytest.skip("not written yet")
        if found != right:
            words = f"With merges {merges}, {parts} becomes {right}; yours is {found}."
            pytest.fail(words, pytrace=False)


# Part 11


def test_part_11_the_cache():
    cache = m.Cache()
    if cache.length is None or cache.length is ...:
        pytest.skip("not written yet")
    assert cache.length == 0, "A new cache holds no token."
    key, value = drawn(2, 5, 4), drawn(2, 5, 4, seed=1)
    for layer in (0, 1):
        found = cache.add(layer, (layer + 1) * key[:, :3], value[:, :3])
        if found is None or found is ...:
            pytest.skip("not written yet")
        judge(found[0], (layer + 1) * key[:, :3])
    assert cache.length == 3, f"After 3 tokens, `length` is {cache.length}."
    for layer in (0, 1):
        keys, values = cache.add(layer, (layer + 1) * key[:, 3:], value[:, 3:])
        first = (layer + 1) * key
        words = "The new keys come after the old ones."
        judge(keys, first, {words: torch.cat([first[:, 3:], first[:, :3]], dim=1)})
        judge(values, value, {"Keys and values are mixed up.": keys})
    assert cache.length == 5, f"After 5 tokens, `length` is {cache.length}."


# Part 12


def shares(count=2000, **options):
    """How often each of three tokens is drawn, of probabilities 0.3, 0.5 and 0.2."""
    logits = torch.tensor([0.3, 0.5, 0.2]).log()
    generator = torch.Generator().manual_seed(0)
    drawn = [m.sample(logits, generator=generator, **options) for _ in range(count)]
    return [drawn.count(token) / count for token in range(3)]


def test_part_12_sampling():
    found = m.sample(torch.tensor([1.0, 3.0, 2.0]), 0, 1.0)
    if found is None or found is ...:
        pytest.skip("not written yet")
    assert type(found) is int, f"Return an int, not a {type(found).__name__}."
    assert found == 1, "At temperature 0, take the largest logit."
    for options, right, words in [
        ((1.0, 1.0), (0.3, 0.5, 0.2), "At temperature 1, draw by the probabilities."),
        (
            (0.5, 1.0),
            (9 / 38, 25 / 38, 4 / 38),
            "Divide the logits by the temperature.",
        ),
        ((1.0, 0.4), (0, 1, 0), "top_p 0.4: the first token reaches it alone."),
        (
            (1.0, 0.7),
            (3 / 8, 5 / 8, 0),
            "top_p 0.7: two tokens are needed to reach it.",
        ),
    ]:
        found = shares(temperature=options[0], top_p=options[1])
        if max(abs(a - b) for a, b in zip(found, right, strict=True)) > 0.05:
            pytest.fail(f"{words} Drawn: {found}.", pytrace=False)


# All together


def test_your_model_speaks(request):
    unwritten = re.search(r"(?m)^ +\.\.\.$", Path(m.__file__).read_text("utf-8"))
    if unwritten or request.session.testsfailed or not m.find_model().is_file():
        pytest.skip("first the twelve parts, and the model's file")
    weights, fields = m.load(m.find_model())
    tokenizer = m.Tokenizer(fields)
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    turns = [("system", system), ("user", "What is the capital of France?")]
    text = "".join(f"<|im_start|>{who}\n{what}<|im_end|>\n" for who, what in turns)
    ids = tokenizer.encode(f"{text}<|im_start|>assistant\n")
    found = list(m.reply(ids, weights, tokenizer.ids["<|im_end|>"], m.Cache()))
    assert tokenizer.decode(found) == "The capital of France is Paris."
