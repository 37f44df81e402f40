"""The checks of the reader's code: each usual mistake is made, and must be named."""

import math

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

# What readers write. Each function is named in MISTAKES with the words it must meet.


def shares(x):
    return x / x.sum(-1, keepdims=True)


def stable(x):
    return shares(np.exp(x - x.max(-1, keepdims=True)))


def softmax_in_place(x):
    x -= x.max(-1, keepdims=True)
    return stable(x)


def naive(x):
    return shares(np.exp(x))


def attend(by=6**-0.5, then=softmax, mixed="value"):
    """Attention in NumPy, with one step another."""

    def answer(query, key, value):
        return then(query @ key.T * by) @ {"value": value, "key": key}[mixed]

    return answer


def attention_in_place(query, key, value):
    query /= math.sqrt(query.shape[-1])
    return softmax(query @ key.T) @ value


def attention_half_written(query, key, value):
    scores = ...
    return softmax(scores) @ value


def head(by=5**-0.5, dim=-1, scores="qk", mixed="value"):
    """A head in torch, with one step another."""

    def answer(x, w_q, w_k, w_v):
        named = {"q": x @ w_q, "k": x @ w_k, "x": x}
        raw = named[scores[0]] @ named[scores[1]].mT * by
        weights = raw if dim is None else raw.softmax(dim)
        return weights @ (x @ w_v if mixed == "value" else named[mixed])

    return answer


def triangle(diagonal):
    return lambda q, k: torch.ones(q, k, dtype=torch.bool).tril(diagonal(q, k))


def real(lengths, max_len, dtype=torch.bool):
    return (torch.arange(max_len) < lengths[:, None])[:, None].to(dtype)


def real_by_slices(lengths, max_len):
    """Hides the last columns, and where there are none of them, all."""
    mask = torch.ones(len(lengths), 1, max_len, dtype=torch.bool)
    for row, length in zip(mask, lengths.tolist(), strict=True):
        row[:, length - max_len :] = False
    return mask


def finder(changed, compared, leaks=True, by=1):
    """Looks for leaks: which positions are changed, which outputs then compared."""

    def answer(function, x):
        for t in range(4):
            nudged = x.clone()
            nudged[:, t] += by
            moved = (function(nudged) - function(x)).abs()[0].amax(-1) > 1e-6
            if t in changed and moved[compared(t)].any():
                return leaks
        return not leaks

    return answer


def before(t):
    return slice(0, t)


def finder_in_place(function, x):
    old = function(x)
    x[:, 2] += 1
    return not torch.allclose(function(x)[:, :2], old[:, :2])


def finder_by_slopes(of, leaks):
    """Looks for leaks by gradients alone: of each feature, or of their sum."""

    def answer(function, x):
        slopes = torch.autograd.functional.jacobian(lambda x: of(function(x)[0]), x)
        past = [slopes[t, ..., t + 1 :, :].any() for t in range(3)]
        return leaks in past

    return answer


def finder_without_return(function, x):
    if finder(range(4), before)(function, x):
        return True
    return None


def finder_silent_at(place):
    """Says nothing of one of the functions that it is asked about."""
    asked = iter(range(10))
    return lambda function, x: None if next(asked) == place else True


def both(by=6**-0.5, axis=-1, mixed=None, give=lambda c, w, s: (c, w)):
    """Attention for a batch in NumPy, with one step another."""

    def answer(query, key, value):
        scores = query @ key.swapaxes(-2, -1) * (by(query) if callable(by) else by)
        weights = softmax(scores, axis=axis)
        return give(weights @ (value if mixed is None else key), weights, scores)

    return answer


def module(by=lambda x, q, v: q.shape[-1], drop="weights", bias=False, **options):
    """A class of a head in torch, with one step another."""
    names = options.get("names", ["q_proj", "k_proj", "v_proj"])

    class Head(nn.Module):
        def __init__(self, d_model, head_dim, dropout=0.0):
            super().__init__()
            for name in names:
                setattr(self, name, nn.Linear(d_model, head_dim, bias=bias))
            self.drop = nn.Dropout(dropout)

        def forward(self, x):
            query, key, value = (getattr(self, name)(x) for name in names)
            scores = query @ key.mT / by(x, query, value) ** 0.5
            if drop == "scores":
                scores = self.drop(scores)
            weights = scores.softmax(options.get("dim", -1))
            if drop == "weights":
                weights = self.drop(weights)
            if drop == "function":
                weights = F.dropout(weights, self.drop.p, self.training)
            if drop == "always":
                weights = F.dropout(weights, self.drop.p)
            if drop == "kept":  # what is kept is not enlarged
                weights = weights * (self.drop(torch.ones_like(weights)) > 0)
            if drop in TOGETHER:
                weights = weights * self.drop(torch.ones_like(TOGETHER[drop](weights)))
            if drop == "values":
                value = self.drop(value)
            context = weights @ (x if options.get("mixed") else value)
            if options.get("cut"):
                context = context.detach() + 0 * context.sum()
            context = self.drop(context) if drop == "mix" else context
            return (context, weights) if options.get("two") else context

    return Head


# One draw for all texts, all queries or all keys.
TOGETHER = {
    "texts": lambda w: w[:1],
    "queries": lambda w: w[:, :1],
    "keys": lambda w: w[..., :1],
}


class HalfWritten(nn.Module):
    def __init__(self, d_model, head_dim, dropout=0.0):
        super().__init__()
        ...

    def forward(self, x): ...


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
        (softmax_in_place, "your code changes its input"),
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
        (attend(1 / 6, lambda s: softmax(s, axis=0)), "Two bugs are left."),
        (attend(by=1), "not scaled: see"),
        (attend(by=1 / 6), "divided by D"),
        (attend(by=6), "multiplied by D"),
        (attend(by=6**0.5), "multiplied by √D"),
        (attend(by=3**-0.5), "number of queries"),
        (attend(by=5**-0.5), "number of keys"),
        (attend(by=7**-0.5), "width of the values, not D"),
        (attend(1, lambda s: softmax(s) / 6**0.5), "weights are scaled"),
        (attend(then=lambda s: softmax(s, axis=0)), "over the queries"),
        (attend(then=lambda s: np.exp(s) / np.exp(s).sum()), "All weights"),
        (attend(then=np.exp), "not divided by their sum"),
        (attend(then=lambda s: s), "never turned into weights"),
        (attend(then=lambda s: softmax(softmax(s))), "one softmax too many"),
        (attend(mixed="key"), "keys are mixed"),
        (lambda q, k, v: softmax(q @ k.T / 6**0.5), "These are the weights"),
        (lambda q, k, v: q @ k.T / 6**0.5, "These are the scores"),
        (attention, "returns 2 things"),
        (attention_in_place, "changes its input"),
        (lambda q, k, v: q @ k, "raised ValueError in `"),
        (lambda q, k: q @ k.T, "raised TypeError: "),
    ],
    "batched_attention": [
        (both(give=lambda c, w, s: (w, c)), "The weights come first"),
        (both(give=lambda c, w, s: c), "returns a ndarray: two things"),
        (both(give=lambda c, w, s: (c, w, s)), "returns a tuple: two things"),
        (both(give=lambda c, w, s: (c, s * 6**0.5)), "The second result is the raw"),
        (both(give=lambda c, w, s: (c, s)), "The second result is the sco"),
        (both(give=lambda c, w, s: (c, w.swapaxes(-2, -1))), "weights are transposed"),
        (both(give=lambda c, w, s: (c, w + 1)), "The context is right. The weights:"),
        (both(axis=0), "The softmax runs over the queries"),
        (both(axis=1), "For a batch of two: The softmax runs over the queries"),
        (
            lambda *qkv: both(axis=1 if qkv[0].ndim > 3 else -1)(*qkv),
            "For two axes in front: The softmax runs over",
        ),
        (both(by=lambda q: len(q) ** -0.5), "The scale takes the length"),
        (both(by=lambda q: q.shape[1] ** -0.5), "a batch of two: The scale takes the "),
        (both(by=1), "not scaled: see"),
        (both(by=1 / 6), "divided by D"),
        (both(mixed="key"), "keys are mixed"),
        (lambda q, k, v: (softmax(q @ k.T / 6**0.5) @ v, 0), "weights: Your function"),
        (
            lambda q, k, v: (
                both()(q, k.T.swapaxes(0, -1), v) if q.ndim < 3 else q @ k.T
            ),
            "For a batch of two: Your code raised ValueError",
        ),
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
        (
            lambda x, w, b: F.linear(x, w, b).reshape(x.shape[:2] + b.shape),
            "(3, 3): Your code raised RuntimeError",
        ),
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
        (head(by=6**-0.5, mixed="x"), "Two bugs are left"),
        (head(by=6**-0.5), "One bug is left: the scale"),
        (head(mixed="x"), "One bug is left: the input is mixed"),
        (head(by=1, mixed="x"), "not scaled, and the input"),
        (head(by=1), "not scaled at all"),
        (head(by=1 / 5), "The scale is the width"),
        (head(by=5**0.5), "multiplied by the root"),
        (head(by=7**-0.5), "takes the width of the values"),
        (head(by=3**-0.5), "takes the length"),
        (head(mixed="q"), "queries are mixed"),
        (head(mixed="k"), "keys are mixed"),
        (head(scores="kq"), "changed places"),
        (head(scores="qq"), "queries are compared with themselves"),
        (head(scores="kk"), "keys are compared with themselves"),
        (head(scores="xx", by=6**-0.5), "inputs are compared"),
        (head(dim=-2), "over the queries"),
        (head(dim=0), "over the batch"),
        (head(dim=None), "never turned into weights"),
        (lambda x, q, k, v: (x @ q @ (x @ k).mT / 5**0.5).softmax(-1), "the weights"),
        (lambda x, q, k, v: (head()(x, q, k, v), x), "returns 2 things"),
    ],
    "self_attention": [
        (module(by=lambda x, q, v: 1), "not scaled at all"),
        (module(by=lambda x, q, v: x.shape[-1]), "the scale takes the input's width"),
        (module(by=lambda x, q, v: q.shape[-1] ** 2), "take its root"),
        (module(by=lambda x, q, v: x.shape[1]), "takes the length"),
        (module(dim=1), "over the queries"),
        (module(mixed=True), "the input is mixed"),
        (module(names=["k_proj", "q_proj", "v_proj"]), "changed places"),
        (module(bias=True), "without biases. It owns: q_proj.weight (5, 6), q_proj.b"),
        (module(names=["query", "key", "value"]), "It owns: query.weight (5, 6)"),
        (lambda d, h, p: nn.Identity(), "It owns: nothing"),
        (lambda d, h, p: 3, "returns a int: give the class itself"),
        (module(cut=True), "no gradient reaches"),
        (module(two=True), "returns 2 things"),
        (module(drop="always"), "In evaluation it still drops"),
        (module(drop=None), "each row of weights still sums to 1"),
        (module(drop="scores"), "each row of weights still sums to 1"),
        (module(drop="mix"), "numbers of the values or of the mix"),
        (module(drop="values"), "numbers of the values or of the mix"),
        (module(drop="kept"), "rows sum to 0.5 on average"),
        *((module(drop=all_of), f"all {all_of} lose their") for all_of in TOGETHER),
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
        (real_by_slices, "For lengths of 4, 1 and 0 in 4 columns:"),
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
        (finder(range(4), before, leaks=False), "wrong way round"),
        (finder(range(4), lambda t: slice(t + 1)), "depend on itself"),
        (finder(range(4), lambda t: slice(t + 1, None)), "after a change"),
        (finder([3], before), "change more than the last"),
        (finder([1, 2, 3], lambda t: t - 1), "compare more than the nei"),
        (finder([1, 2, 3], lambda t: 0), "compare more than position 0"),
        (finder([1], before), "change more than position 1"),
        (finder([2], before), "wrong: a function in which"),
        (lambda f, x: not torch.equal(f(x)[:, 0], x[:, 0]), "does not leak."),
        (finder_in_place, "changes x itself"),
        (finder_without_return, "is a return missing"),
        (lambda f, x: 0.5, "attention without a mask came a float"),
        (lambda f, x: f(x) > 0, "came a Tensor"),
        (finder(range(4), before), "do not change all features alike"),
        (finder_by_slopes(lambda y: y, True), "passes no gradient"),
        (finder_by_slopes(lambda y: y.sum(-1), True), "a gradient alone"),
    ],
}


# What is right, in the book's way and in others.


def softmax_by_rows(x):
    return np.array([[math.exp(a - max(row)) for a in row] for row in x.tolist()]) / [
        [sum(math.exp(a - max(row)) for a in row)] for row in x.tolist()
    ]


def attention_by_torch(query, key, value):
    arrays = [torch.from_numpy(array) for array in (query, key, value)]
    return F.scaled_dot_product_attention(*arrays).numpy()


def head_by_torch(x, w_q, w_k, w_v):
    return F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)


APART = torch.tensor([1.0, -2.0, 4.0])  # a change of each feature by another number


def finder_by_both(function, x):
    if finder_by_slopes(lambda y: y, True)(function, x):
        return True
    return finder(range(4), before)(function, x)


def finder_by(change, at=range(1, 4)):
    """Looks for leaks: gives some positions other content, and compares the past."""

    def answer(function, x):
        old = function(x)
        for t in at:
            new = x.clone()
            new[:, t:] = change(x[:, t:])
            if (function(new)[:, :t] - old[:, :t]).abs().max() > 1e-6:
                return True
        return False

    return answer


def finder_by_prefixes(function, x):
    whole = function(x)
    same = [
        torch.allclose(function(x[:, :t]), whole[:, :t], atol=1e-6) for t in (1, 2, 3)
    ]
    return np.bool_(not all(same))


def finder_as_tensor(function, x):
    return torch.tensor(finder(range(4), before, by=APART)(function, x))


def attention_by_rows(query, key, value):
    rows = [softmax(key @ one / math.sqrt(len(one))) @ value for one in query]
    return np.array(rows)


def linear_by_module(x, w, b):
    layer = nn.Linear(*w.shape[::-1], dtype=x.dtype)
    layer.load_state_dict({"weight": w, "bias": b})
    return layer(x)


def head_by_texts(x, w_q, w_k, w_v):
    by = 1 / math.sqrt(w_q.shape[1])
    return torch.stack([((t @ w_q @ w_k.T @ t.T) * by).softmax(1) @ t @ w_v for t in x])


class HeadBySDPA(module()):
    def forward(self, x):
        named = [getattr(self, f"{name}_proj")(x) for name in "qkv"]
        p = self.drop.p if self.training else 0.0
        return F.scaled_dot_product_attention(*named, dropout_p=p)


class HeadByLibrary(nn.Module):
    def __new__(cls, d_model, head_dim, dropout=0.0):
        return SelfAttention(d_model, head_dim, dropout=dropout)


class HeadByHand(module()):
    def forward(self, x):
        scores = torch.einsum("btd,bsd->bts", self.q_proj(x), self.k_proj(x))
        e = (scores / self.q_proj.out_features**0.5).exp()
        weights = e / e.sum(-1, keepdim=True)
        if self.training and self.drop.p:
            keep = 1 - self.drop.p
            weights = weights * torch.bernoulli(torch.full_like(weights, keep)) / keep
        return torch.einsum("bts,bsd->btd", weights, self.v_proj(x))


def as_numbers(right):
    kinds = [int, float, np.int64, np.float32, np.float64, np.array, torch.tensor]
    return [kind(right) for kind in kinds]


RIGHT = {
    "temperature": [
        *(3.7, 3.705, 3.71, 3.715, 3.72, np.float32(3.72), np.float64(3.71)),
        *(np.array(3.71), torch.tensor(3.71), 26 / 7),
    ],
    "head_width": [*as_numbers(1024), 32.0**2, 2**10, 32 * 32],
    "softmax": [
        stable,
        softmax,
        softmax_by_rows,
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
        attention_by_torch,
        attention_by_rows,
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
        both(give=lambda c, w, s: [c, w]),
        both(give=lambda c, w, s: (c.astype(np.float32), w)),
        both(by=lambda q: 1 / np.sqrt(q.shape[-1])),
        lambda q, k, v: (both()(q, k, v)[0], both()(q, k, v)[1]),
        lambda q, k, v: attention(q, k, v, scale=6**-0.5),
        lambda q, k, v: (lambda w: (w @ v, w))(
            naive(np.einsum("...qd,...kd->...qk", q, k) / 6**0.5)
        ),
        lambda q, k, v: (lambda w: (np.einsum("...qk,...kv->...qv", w, v), w))(
            stable(q @ np.moveaxis(k, -1, -2) / math.sqrt(q.shape[-1]))
        ),
        lambda q, k, v: (lambda w: (w @ v, w))(
            softmax((q[..., :, None, :] * k[..., None, :, :]).sum(-1) / 6**0.5)
        ),
    ],
    "linear": [
        F.linear,
        linear_by_module,
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
        head_by_torch,
        head_by_texts,
        lambda *given: torch.nn.Parameter(head()(*given)),
        lambda x, q, k, v: head()(x, q, k, torch.eye(6)) @ v,
        lambda x, q, k, v: head(by=1)(x, q * 5**-0.5, k, v),
        lambda x, q, k, v: head(by=5**-0.25)(x, q, k * 5**-0.25, v),
        lambda x, q, k, v: scaled_dot_product_attention(x @ q, x @ k, x @ v),
        lambda x, q, k, v: attention_weights(x @ q, x @ k) @ x @ v,
        lambda x, q, k, v: (x @ q @ k.T @ x.mT / 5**0.5).softmax(2) @ (x @ v),
    ],
    "self_attention": [
        module(),
        HeadBySDPA,
        HeadByLibrary,
        HeadByHand,
        module(drop="function"),
        module(dim=2),
        module(by=lambda x, q, v: float(q.size(2))),
        module(drop="function", dim=2),
        lambda *sizes: HeadBySDPA(*sizes),
        lambda d_model, head_dim, dropout=0.0: HeadByHand(d_model, head_dim, dropout),
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
            [[j <= i + k - q for j in range(k)] for i in range(q)]
        ),
        lambda q, k: torch.from_numpy(np.tri(q, k, k - q, dtype=bool)),
        lambda q, k: (
            torch.ones(max(q, k), k).tril()[-q:].bool()
            if q <= k
            else torch.cat([torch.zeros(q - k, k), torch.ones(k, k).tril()]).bool()
        ),
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
        lambda n, k: torch.tensor(
            [[[j < one for j in range(k)]] for one in n.tolist()]
        ),
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
        finder(range(4), before, by=APART),
        finder_by_both,
        finder_by_prefixes,
        finder_as_tensor,
        finder_by(lambda x: -x),
        finder_by(lambda x: 0 * x),
        finder_by(lambda x: 2 * x),
        finder_by(lambda x: x.flip(-1)),
        finder_by(lambda x: 9 * x.cos(), at=[3, 2, 1]),
        finder_by(lambda x: torch.linspace(-1, 1, 3).to(x).expand_as(x)),
    ],
}
