"""The checks of the reader's code: each usual mistake is made, and must be named."""

import math
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attention_lib import (
    SelfAttention,
    attention_weights,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
)
from attention_lib.toy import attention, softmax
from tests.answers import as_numbers, solution

# What readers write: each solution, and below it with pieces of its text replaced.


def shares(x):
    return x / x.sum(-1, keepdims=True)


def stable(x):
    return shares(np.exp(x - x.max(-1, keepdims=True)))


def naive(x):
    return shares(np.exp(x))


written = partial(solution, softmax=softmax)
attend = written("""
def attend(query, key, value):
    return softmax(query @ key.T / 6**0.5) @ value
""")
attention_half_written = attend("return", "scores = ...\n    return scores @")
both = written("""
def attend(query, key, value):
    scores = query @ key.swapaxes(-2, -1) / 6**0.5
    weights = softmax(scores, axis=-1)
    mix = weights @ value
    return mix, weights
""")
PRODUCT = "query @ key.swapaxes(-2, -1)"
head = written("""
def head(x, w_q, w_k, w_v):
    query, key, value = x @ w_q, x @ w_k, x @ w_v
    scores = query @ key.mT / 5**0.5
    return scores.softmax(-1) @ value
""")
# Each position is changed in turn, and the outputs before it are compared.
finder = written("""
def finds(function, x):
    for t in 1, 2, 3:
        nudged = x.clone()
        nudged[:, t] += 1
        moved = (function(nudged) - function(x)).abs()[0].amax(-1) > 1e-6
        if moved[:t].any():
            return True
    return False
""")


def finder_by_slopes(of, leaks):
    """Looks for leaks by gradients alone: of each feature, or of their sum."""

    def answer(function, x):
        slopes = torch.autograd.functional.jacobian(lambda x: of(function(x)[0]), x)
        past = [slopes[t, ..., t + 1 :, :].any() for t in range(3)]
        return leaks in past

    return answer


def triangle(diagonal):
    return lambda q, k: torch.ones(q, k, dtype=torch.bool).tril(diagonal(q, k))


def real(lengths, max_len, dtype=torch.bool):
    return (torch.arange(max_len) < lengths[:, None])[:, None].to(dtype)


module = written("""
class Head(nn.Module):
    def __init__(self, d_model, head_dim, dropout=0.0):
        super().__init__()
        self.q_proj = nn.Linear(d_model, head_dim, bias=False)
        self.k_proj = nn.Linear(d_model, head_dim, bias=False)
        self.v_proj = nn.Linear(d_model, head_dim, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        query, key, value = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        scores = query @ key.mT / query.shape[-1] ** 0.5
        weights = scores.softmax(-1)
        return self.drop(weights) @ value
""")
DROPPED = "self.drop(weights)"
OWN_DRAW = "weights * (torch.rand_like(weights) > self.drop.p) / (1 - self.drop.p)"
# What drops another share than it is told: in training, where it is told one.
OTHER_SHARES = [
    "F.dropout(weights, 0.5 * bool(self.drop.p), self.training)",
    "F.dropout(weights, (1 - self.drop.p) * bool(self.drop.p), self.training)",
]
# One draw for all texts, all queries or all keys.
TOGETHER = {"texts": "[:1]", "queries": "[:, :1]", "keys": "[..., :1]"}


MISTAKES = {
    "temperature": [
        (0, "above 0, not 0"),
        (-2.0, "above 0, not -2.0"),
        (math.inf, "above 0, not inf"),
        (math.nan, "above 0, not nan"),
        (True, "one number, not a bool"),
        ("4", "one number, not a str"),
        ((4, 2), "one number, not a tuple. Is there a comma"),
        (np.ones(2), "one number, not a ndarray"),
        (1, "is 0.975: the weights are too sharp"),
        (1e-310, "is 1.000: the weights are too"),
        (3.6, "Take a higher"),
        (3.8, "too flat. Take a lower"),
        (16.0, "too flat. Take a lower"),
        (0.27, "yours would multiply them"),
    ],
    "softmax": [
        (lambda x: softmax(x, axis=0), "Each column sums to 1"),
        (lambda x: np.exp(x) / np.exp(x).sum(), "The whole array sums to 1"),
        (np.exp, "not divided by their sum"),
        (shares, "exponential is missing"),
        (lambda x: np.log(stable(x)), "logarithms"),
        (lambda x: stable(-x), "largest score gets the smallest weight"),
        (lambda x: shares(2**x), "powers of 2"),
        (lambda x: shares(np.exp(x - x.max(0))), "different amounts"),
        (lambda x: np.exp(x) / np.exp(x).sum(-1), "axis lost on the way"),
        (naive, "1,000 overflow: what could"),
        (lambda x: naive(x - x.mean(-1, keepdims=True)), "more than the mean"),
        (lambda x: naive(x - x.max()), "low scores becomes 0/0"),
        (lambda x: stable(x.clip(-700, 700)), "Clipping"),
        (lambda x: stable(np.subtract(x, 1, out=x)), "your code changes its input"),
        (lambda x: stable(x) if x.max() < 9 else None, "gives nothing back"),
        (lambda x: stable(x).tolist(), "returns a list; it must be a NumPy"),
        (lambda x: torch.tensor(x).softmax(-1), "returns a torch tensor"),
        (lambda x: x > 0, "must hold numbers; yours is of type bool"),
        (lambda x: x * np.nan, "NaN or infinity"),
        (lambda x: np.array(["a"]), "returns an array that does not hold plain"),
        (lambda x: stable(x)[0], "shape must be (2, 3) here; yours is (3,)"),
        (lambda x: stable(x) + np.eye(3)[2], "look at [0, 2] first"),
    ],
    "attention": [
        (attend("**0.5", ", axis=0"), "Two bugs are left."),
        (attend(" / 6**0.5", ""), "not scaled: see"),
        (attend("**0.5", ""), "divided by D"),
        (attend("/ 6**0.5", "* 6"), "multiplied by D"),
        (attend("/", "*"), "multiplied by √D"),
        (attend("6", "3"), "number of queries"),
        (attend("6", "5"), "number of keys"),
        (attend("6", "7"), "width of the values, not D"),
        (attend(" / 6**0.5)", ") / 6**0.5"), "weights are scaled"),
        (attend("0.5", "0.5, axis=0"), "over the queries"),
        (attend("softmax", "(lambda s: np.exp(s) / np.exp(s).sum())"), "All weights"),
        (attend("softmax", "np.exp"), "not divided by their sum"),
        (attend("softmax", ""), "never turned into weights"),
        (attend("softmax", "(lambda s: softmax(softmax(s)))"), "one softmax too many"),
        (attend("@ value", "@ key"), "keys are mixed"),
        (attend(" @ value", ""), "These are the weights"),
        (lambda q, k, v: q @ k.T / 6**0.5, "These are the scores"),
        (attention, "returns 2 things"),
        (
            attend("return", "query /= 6**0.5\n    return", " / 6**0.5)", ")"),
            "changes its input",
        ),
        (lambda q, k, v: q @ k, "raised ValueError in `"),
        (lambda q, k: q @ k.T, "raised TypeError: "),
    ],
    "batched_attention": [
        (both("mix, weights", "weights, mix"), "The weights come first"),
        (both("mix, weights", "mix"), "returns a ndarray: two things"),
        (both("mix, weights", "mix, weights, scores"), "returns a tuple: two things"),
        (both("mix, weights", "mix, scores * 6**0.5"), "The second result is the raw"),
        (both("mix, weights", "mix, scores"), "The second result is the sco"),
        (both("mix, weights", "mix, weights.swapaxes(-2, -1)"), "are transposed"),
        (both("mix, weights", "mix, weights + 1"), "context is right. The weights:"),
        (both("=-1", "=0"), "The softmax runs over the queries"),
        (both("=-1", "=1"), "For a batch of two: The softmax runs over the queries"),
        (both("=-1", "=(-1, 1)[query.ndim > 3]"), "For two axes in fr"),
        (both("6", "len(query)"), "The scale takes the length"),
        (both("6", "query.shape[1]"), "a batch of two: The scale takes the "),
        (both(" / 6**0.5", ""), "not scaled: see"),
        (both("**0.5", ""), "divided by D"),
        (both("@ value", "@ key"), "keys are mixed"),
        (both("mix, weights", "mix, 0"), "weights: Your function"),
        (lambda q, k, v: both()(q, k, v) if q.ndim < 3 else q @ k.T, "of two: Your co"),
    ],
    "head_width": [
        (1000, "At width 1000"),
        (512, "At width 512"),
        (5.66, "wrong way"),
        (32, "standard deviation. A head"),
        (32**0.5, "wrong way"),
        (16, "Half of 32"),
        (64, "Twice 32"),
        (32**4, "once too often"),
        (100, "At width 100 the standard deviation is 10.0"),
        (-4, "above 0, not -4"),
    ],
    "linear": [
        (lambda x, w, b: x @ w + b, "not transposed: it is stored"),
        (lambda x, w, b: x @ w, "not transposed, and the bias"),
        (lambda x, w, b: x @ w.T, "The bias is missing"),
        (lambda x, w, b: x @ w.T - b, "subtracted"),
        (lambda x, w, b: (x + b) @ w.T, "before the product"),
        (lambda x, w, b: x @ w.T + b[:, None], "by position, not by feature"),
        (lambda x, w, b: w @ x + b, "on the left"),
        (lambda x, w, b: x * w + b, "number by number"),
        (lambda x, w, b: (x @ w.T + b).reshape(2, 3, 3), "For one of shape (2, 3)"),
        (lambda x, w, b: torch.einsum("bti,oi->bto", x, w) + b, "x of shape (3, 3)"),
        (lambda x, w, b: (x @ w.T + b)[:2], "For x of shape (3, 3): The shape"),
        (lambda x, w, b: F.linear(x, w, b).view(x.shape[:2] + b.shape), "3): Your cod"),
        (lambda x, w, b: F.linear(x, w, b) * (x.ndim < 4), "For x of shape (1, 2, 3,"),
        (lambda x, w, b: F.linear(x, w, b).numpy(), "must be a torch tensor"),
        (lambda x, w, b: x.to("meta"), "does not hold plain numbers"),
    ],
    "parameter_count": [
        (147456, "three biases are missing"),
        (147520, "only one bias"),
        (192, "Only biases"),
        (49216, "one projection"),
        (49152, "one weight"),
        (98432, "two projections"),
        (149760, "as long as its projection's output"),
        (196864, "no output projection"),
        (12 * 147648, "all twelve heads"),
        (12480, "not square"),
        (2496, "A weight is a matrix"),
        (7, "That is not the number: list"),
    ],
    "head": [
        (head("/ 5", "/ 6", "@ value", "@ x"), "Two bugs are left"),
        (head("/ 5", "/ 6"), "One bug is left: the scale"),
        (head("@ value", "@ x"), "One bug is left: the input is mixed"),
        (head(" / 5**0.5", "", "@ value", "@ x"), "not scaled, and the input"),
        (head(" / 5**0.5", ""), "not scaled at all"),
        (head("**0.5", ""), "The scale is the width"),
        (head("/ 5", "* 5"), "multiplied by the root"),
        (head("/ 5", "/ 7"), "takes the width of the values"),
        (head("/ 5", "/ 3"), "takes the length"),
        (head("@ value", "@ query"), "queries are mixed"),
        (head("@ value", "@ key"), "keys are mixed"),
        (head("query @ key", "key @ query"), "changed places"),
        (head("@ key", "@ query"), "queries are compared with themselves"),
        (head("query @ key", "key @ key"), "keys are compared with themselves"),
        (head("query @ key", "x @ x", "/ 5", "/ 6"), "inputs are compared"),
        (head("-1", "-2"), "over the queries"),
        (head("-1", "0"), "over the batch"),
        (head(".softmax(-1)", ""), "never turned into weights"),
        (head(" @ value", ""), "the weights"),
        (head("@ value", "@ value, x"), "returns 2 things"),
    ],
    "self_attention": [
        (module(" / query.shape[-1] ** 0.5", ""), "not scaled at all"),
        (module("query.shape[-1]", "x.shape[-1]"), "the scale takes the input's width"),
        (module("** 0.5", ""), "take its root"),
        (module("query.shape[-1]", "x.shape[1]"), "takes the length"),
        (module("softmax(-1)", "softmax(1)"), "over the queries"),
        (module("@ value", "@ x"), "the input is mixed"),
        (module("query, key, value =", "key, query, value ="), "changed places"),
        (module("False", "True"), "without biases. It owns: q_proj.weight (5, 6), q_p"),
        (module("q_proj", "query"), "It owns: query.weight (5, 6)"),
        (lambda d, h, p: nn.Identity(), "It owns: nothing"),
        (lambda d, h, p: 3, "returns a int: a layer is wanted"),
        (module()(6, 5, 0.0), "Give the class itself"),
        (module("self.v_proj(x)", "self.v_proj(x).detach()"), "no gradient reaches"),
        (module("@ value", "@ value, weights"), "returns 2 things"),
        (module(DROPPED, "F.dropout(weights, self.drop.p)"), "In evaluation it still"),
        (module(DROPPED, "weights"), "each row of weights still sums to 1"),
        (module(DROPPED, "weights", "scores.", "self.drop(scores)."), "each row of we"),
        (module(f"{DROPPED} @ value", "self.drop(weights @ value)"), "or of the mix"),
        (module(DROPPED, "weights", "@ value", "@ self.drop(value)"), "of the values"),
        (module(DROPPED, f"weights * ({DROPPED} > 0)"), "on average, not to 1"),
        *(
            (module(DROPPED, other), "another share of the weights is lost")
            for other in OTHER_SHARES
        ),
        *(
            (
                module(DROPPED, f"weights * self.drop(torch.ones_like(weights{one}))"),
                f"all {all_of} lose their",
            )
            for all_of, one in TOGETHER.items()
        ),
    ],
    "causal_mask": [
        (lambda q, k: causal_mask(q, k).T, "triangle flipped"),
        (lambda q, k: ~causal_mask(q, k), "True means blocked"),
        (triangle(lambda q, k: k - q - 1), "No query sees itself"),
        (triangle(lambda q, k: k - q + 1), "one token of the future"),
        (triangle(lambda q, k: k), "nothing is hidden"),
        (triangle(lambda q, k: -q), "all is hidden"),
        (lambda q, k: torch.eye(q, dtype=torch.bool), "itself only"),
        (triangle(lambda q, k: 0), "2 queries, 5 keys: the first query"),
        (triangle(lambda q, k: k - q - (k > q)), "one key too few"),
        (triangle(lambda q, k: k - q + (k > q)), "one key too many"),
        (triangle(lambda q, k: max(k - q, 0)), "5 queries, 2 keys: the fir"),
        (triangle(lambda q, k: abs(k - q)), "moved the wrong way"),
        (lambda q, k: causal_mask(q), "5 keys: The shape must be (2, 5)"),
        (lambda q, k: causal_mask(q, k).float(), "must hold True and False"),
        (lambda q, k: causal_mask(q, k).numpy(), "returns a NumPy array"),
    ],
    "padding_mask": [
        (lambda n, k: real(n, k).mT, "queries are masked"),
        (lambda n, k: real(n, k)[:, 0], "batch along the queries"),
        (lambda n, k: real(n, k)[:, 0][None], "stands before the batch"),
        (lambda n, k: real(n, k)[:, None], "an axis too many"),
        (lambda n, k: real(n, k) & real(n, k).mT, "own rows see nothing"),
        (lambda n, k: ~real(n, k), "True marks the padding"),
        (lambda n, k: padding_mask(n, k, side="left"), "on the left here"),
        (lambda n, k: real(k - n, k), "marks the last tokens"),
        (lambda n, k: real(n - 1, k), "real token too few"),
        (lambda n, k: real(n + 1, k), "padding token too many"),
        (lambda n, k: real(n, int(n.max())), "as the longest sequence"),
        (lambda n, k: real(n, k) | True, "Nothing is hidden"),
        (lambda n, k: real(n, k, torch.int), "must hold True and False"),
        (lambda n, k: real(n.add_(1) - 1, k), "changes its input"),
        (lambda n, k: real(n, k) & (n < k)[:, None, None], "4, 1 and 0 in 4 columns:"),
    ],
    "visible_pairs": [
        (21, "real queries only"),
        (30, "causal mask alone"),
        (40, "padding mask alone"),
        (34, "the future is not hidden"),
        (50, "counts every pair"),
        (23, "hidden pairs"),
        (12, "shorter text alone"),
        (15, "longer text alone"),
        (19, "diagonal is missing"),
        (torch.tensor(26), "That is not the number: count"),
    ],
    "from_additive": [
        (lambda m: m != 0, "True marks what is blocked"),
        (lambda m: m, "still the additive mask"),
        (lambda m: m > -math.inf, "right for -inf. For -1e9, -10,000"),
        (lambda m: m > -1e5, "lowest finite number: The shape is right"),
        (lambda m: m == 0, "A small bias is no ban"),
        (lambda m: m > -10, "right without biases. With them:"),
        (lambda m: m.exp(), "must hold True and False"),
        (lambda m: m.exp_().bool(), "changes its input"),
        (lambda m: m.softmax(-1) > 0, "forbidden as a whole"),
        (lambda m: m - m.amax(-1, keepdim=True) > -1000, "right for -inf"),
        (lambda m: m > m.min(), "right for -inf"),
        (lambda m: m > -1e-6, "A small bias is no ban"),
    ],
    "leak_finder": [
        (lambda f, x: True, "everything leaks"),
        (lambda f, x: False, "nothing leaks"),
        (finder("True", "No", "False", "True", "No", "False"), "wrong way round"),
        (finder("[:t]", "[: t + 1]"), "depend on itself"),
        (finder("[:t]", "[t + 1 :]"), "after a change"),
        (finder("1, 2, 3", "[3]"), "change more than the last"),
        (finder("[:t]", "[t - 1]"), "compare more than the nei"),
        (finder("[:t]", "[0]"), "compare more than position 0"),
        (finder("1, 2, 3", "[1]"), "change more than position 1"),
        (finder("1, 2, 3", "[2]"), "wrong: a function in which"),
        (
            finder("t] +=", "t, 0] +=", "[:t]", "[[0, t - 1]]"),
            "position 1 sees 3 leaks",
        ),
        (lambda f, x: not torch.equal(f(x)[:, 0], x[:, 0]), "does not leak."),
        (finder("for t", "x += 1\n    for t"), "changes x itself"),
        (finder("    return False", ""), "is a return missing"),
        (lambda f, x: 0.5, "attention without a mask came a float"),
        (lambda f, x: f(x) > 0, "came a Tensor"),
        (finder(), "do not change all features alike"),
        (finder_by_slopes(lambda y: y, True), "passes no gradient"),
        (finder_by_slopes(lambda y: y.sum(-1), True), "a gradient alone"),
    ],
}


# What is right, in the book's way and in others.


apart = finder("+= 1", "+= torch.tensor([1.0, -2.0, 4.0])")  # by other numbers


def finder_by(change, *pieces):
    """From a position on, another content stands there."""
    return finder("nudged[:, t] += 1", f"nudged[:, t:] = {change}", *pieces)


def finder_by_prefixes(function, x):
    whole = function(x)
    same = [(function(x[:, :t]) - whole[:, :t]).abs().max() < 1e-6 for t in (1, 2, 3)]
    return np.bool_(not all(same))


HeadBySDPA = module(
    f"return {DROPPED} @ value",
    """p = self.drop.p * self.training
        return F.scaled_dot_product_attention(query, key, value, dropout_p=p)""",
)


RIGHT = {
    "temperature": [
        *(3.7, 3.705, 3.71, 3.715, 3.72, np.float32(3.72), np.float64(3.71)),
        *(np.array(3.71), torch.tensor(3.71), 26 / 7),
    ],
    "head_width": [*as_numbers(1024), 32.0**2, 2**10, 32 * 32],
    "softmax": [
        stable,
        softmax,
        lambda x: shares(np.vectorize(math.exp)(x - x.max(1, keepdims=True))),
        lambda x: np.exp(x - np.logaddexp.reduce(x, 1)[:, None]),
        lambda x: np.apply_along_axis(softmax, -1, x),
        lambda x: np.stack([stable(row) for row in x]),
        lambda x: torch.from_numpy(x).softmax(-1).numpy(),
        lambda x: shares(np.exp2(np.log2(np.e) * (x - x.max(1, keepdims=True)))),
        lambda x: 1 / np.exp(x[:, None, :] - x[:, :, None]).sum(-1),
        lambda x: (lambda e: (e / e.sum(0)).T)(np.exp(x.T - x.max(1))),
    ],
    "attention": [
        attend(),
        lambda *qkv: F.scaled_dot_product_attention(*map(torch.tensor, qkv)).numpy(),
        lambda q, k, v: np.array([softmax(k @ one / 6**0.5) @ v for one in q]),
        lambda *qkv: attention(*qkv)[0].astype(np.float32),
        lambda *qkv: both()(*qkv)[0],
        lambda q, k, v: softmax(q / 6**0.5 @ k.T) @ v,
        lambda q, k, v: softmax(np.inner(q, k), temperature=6**0.5).dot(v),
        lambda q, k, v: (v.T @ softmax(k @ q.T / 6**0.5, axis=0)).T,
        lambda q, k, v: np.tensordot(stable(q @ k.T / np.sqrt(6)), v, axes=1),
        lambda q, k, v: naive(np.einsum("qd,kd->qk", q, k) * 6**-0.5) @ v,
    ],
    "batched_attention": [
        attention,
        both(),
        both("mix, weights", "[mix, weights]"),
        both("mix, weights", "mix.astype(np.float32), weights"),
        both("6**0.5", "np.sqrt(query.shape[-1])"),
        lambda q, k, v: (both()(q, k, v)[0], both()(q, k, v)[1]),
        lambda q, k, v: attention(q, k, v, scale=6**-0.5),
        both(PRODUCT, "np.einsum('...qd,...kd->...qk', query, key)"),
        both(PRODUCT, "query @ np.moveaxis(key, -1, -2)"),
        both(PRODUCT, "(query[..., :, None, :] * key[..., None, :, :]).sum(-1)"),
    ],
    "linear": [
        F.linear,
        lambda x, w, b: torch.addmm(b, x.flatten(0, -2), w.T).view(*x.shape[:-1], -1),
        lambda x, w, b: torch.einsum("...i,oi->...o", x, w) + b,
        lambda x, w, b: torch.einsum("...i,io->...o", x, w.T).add(b),
        lambda x, w, b: (x[..., None, :] * w).sum(-1) + b,
        lambda x, w, b: x.matmul(w.t()) + b,
        lambda x, w, b: b + (w @ x[..., None])[..., 0],
        lambda x, w, b: torch.tensordot(x, w, ([-1], [1])) + b,
        lambda x, w, b: torch.inner(x, w) + b,
        lambda x, w, b: torch.stack([x @ row for row in w], dim=-1) + b,
    ],
    "parameter_count": [
        *as_numbers(147648),
        3 * (768 * 64 + 64),
        3 * 769 * 64,
        sum(p.numel() for p in SelfAttention(768, 64, qkv_bias=True).parameters()),
    ],
    "head": [
        head(),
        lambda x, q, k, v: F.scaled_dot_product_attention(x @ q, x @ k, x @ v),
        lambda x, *weights: torch.stack([head()(text, *weights) for text in x]),
        lambda *given: torch.nn.Parameter(head()(*given)),
        lambda x, q, k, v: head()(x, q, k, torch.eye(6)) @ v,
        lambda x, q, k, v: head(" / 5**0.5", "")(x, q * 5**-0.5, k, v),
        lambda x, q, k, v: head("0.5", "0.25")(x, q, k * 5**-0.25, v),
        lambda x, q, k, v: scaled_dot_product_attention(x @ q, x @ k, x @ v),
        lambda x, q, k, v: attention_weights(x @ q, x @ k) @ x @ v,
        lambda x, q, k, v: (x @ q @ k.T @ x.mT / 5**0.5).softmax(2) @ (x @ v),
    ],
    "self_attention": [
        module(),
        HeadBySDPA,
        lambda d, h, p=0.0: SelfAttention(d, h, dropout=p),
        module("scores.softmax(-1)", "(scores - scores.logsumexp(-1, True)).exp()"),
        module(DROPPED, "F.dropout(weights, self.drop.p, self.training)"),
        module("softmax(-1)", "softmax(2)"),
        module("query.shape[-1]", "float(query.size(2))"),
        module("scores.softmax(-1)", "F.softmax(scores, dim=-1)"),
        lambda *sizes: HeadBySDPA(*sizes),
        module(DROPPED, f"({OWN_DRAW} if self.training else weights)"),
    ],
    "causal_mask": [
        causal_mask,
        triangle(lambda q, k: k - q),
        lambda q, k: ~torch.ones(q, k, dtype=torch.bool).triu(k - q + 1),
        lambda q, k: torch.ones(q, k).tril(k - q) == 1,
        lambda q, k: torch.ones(q, k).tril(k - q).bool(),
        lambda q, k: torch.arange(k) <= torch.arange(q)[:, None] + k - q,
        lambda q, k: torch.arange(q)[:, None] - q >= torch.arange(k)[None] - k,
        lambda q, k: torch.tensor(
            [[j <= i for j in range(k)] for i in range(k - q, k)]
        ),
        lambda q, k: torch.from_numpy(np.tri(q, k, k - q, dtype=bool)),
        lambda q, k: torch.full((q, k), -math.inf).triu(k - q + 1) == 0,
    ],
    "padding_mask": [
        padding_mask,
        real,
        lambda n, k: real(n, k).expand(-1, k, -1),
        lambda n, k: real(n, k).repeat(1, k, 1),
        lambda n, k: torch.arange(k)[None, None] < n[:, None, None],
        lambda n, k: torch.arange(k).expand(len(n), 1, k) < n.view(-1, 1, 1),
        lambda n, k: ~(torch.arange(k) >= n[:, None]).unsqueeze(1),
        lambda n, k: torch.stack([torch.arange(k)[None] < one for one in n]),
        lambda n, k: torch.tensor([[[j < one for j in range(k)]] for one in n]),
        lambda n, k: torch.ones(k + 1, k).tril(-1).bool()[n][:, None],
        lambda n, k: torch.einsum("bk->bk", real(n, k)[:, 0].int()).bool()[:, None],
    ],
    "visible_pairs": [
        *(27, 27.0, 12 + 15, np.int64(27), np.float32(27), np.array(27)),
        *(torch.tensor(27), torch.tensor(27.0), 50 - 23, 30 - 3),
    ],
    "from_additive": [
        lambda mask: mask > -1000,
        lambda mask: mask.exp().bool(),
        lambda mask: mask.exp() > 0,
        lambda mask: mask >= -20,
        lambda mask: ~(mask < -100),
        lambda mask: mask.abs() < 1000,
        lambda mask: mask.clamp(min=-50) > -50,
        lambda mask: torch.where(mask > -1e3, 1, 0).bool(),
        lambda mask: torch.tensor([[x > -99 for x in row] for row in mask.tolist()]),
        lambda mask: torch.from_numpy(mask.numpy() > -500),
        lambda mask: mask.masked_fill(mask < -999, -math.inf).isfinite(),
    ],
    "leak_finder": [
        apart,
        lambda f, x: finder_by_slopes(lambda y: y, True)(f, x) or finder()(f, x),
        finder_by_prefixes,
        lambda f, x: torch.tensor(apart(f, x)),
        finder_by("-x[:, t:]"),
        finder_by("0"),
        finder_by("2 * x[:, t:]"),
        finder_by("x[:, t:].flip(-1)"),
        finder_by("9 * x[:, t:].cos()", "1, 2, 3", "[3, 2, 1]"),
        finder_by("torch.linspace(-1, 1, 3)"),
    ],
}
