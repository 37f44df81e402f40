"""The checks of chapter 3: each usual mistake is made, and must be named."""

import math

import numpy as np
import torch

from attention_lib.masks import causal_mask, padding_mask
from tests.answers import solution

# What readers write: each solution, and below it with pieces of its text replaced.

# Each position is changed in turn, and the outputs before it are compared.
finder = solution("""
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
    """Look for leaks by gradients alone: of each feature, or of their sum."""

    def answer(function, x):
        slopes = torch.autograd.functional.jacobian(lambda x: of(function(x)[0]), x)
        past = [slopes[t, ..., t + 1 :, :].any() for t in range(3)]
        return leaks in past

    return answer


apart = finder("+= 1", "+= torch.tensor([1.0, -2.0, 4.0])")  # by other numbers


def finder_by(change, *pieces):
    """From a position on, the content differs."""
    return finder("nudged[:, t] += 1", f"nudged[:, t:] = {change}", *pieces)


def finder_by_prefixes(function, x):
    whole = function(x)
    same = [(function(x[:, :t]) - whole[:, :t]).abs().max() < 1e-6 for t in (1, 2, 3)]
    return np.bool_(not all(same))


def triangle(diagonal):
    return lambda q, k: torch.ones(q, k, dtype=torch.bool).tril(diagonal(q, k))


def real(lengths, max_len, dtype=torch.bool):
    return (torch.arange(max_len) < lengths[:, None])[:, None].to(dtype)


MISTAKES = {
    "causal_mask": [
        (lambda q, k: causal_mask(q), "5 keys: The shape must be (2, 5)"),
        (lambda q, k: causal_mask(q, k).float(), "must hold True and False"),
        (lambda q, k: causal_mask(q, k).numpy(), "returns a NumPy array"),
    ],
    "padding_mask": [
        (lambda n, k: real(n, k, torch.int), "must hold True and False"),
        (lambda n, k: real(n.add_(1) - 1, k), "changes its input"),
        (lambda n, k: real(n, k) & (n < k)[:, None, None], "4, 1 and 0 in 4 columns:"),
    ],
    "visible_pairs": [
        (torch.tensor(26), "That is not the number: count"),
    ],
    "from_additive": [
        (lambda m: m > -math.inf, "right for -inf. For -1e9, -10,000"),
        (lambda m: m > -1e5, "lowest finite number: The shape is right"),
        (lambda m: m > -10, "right without biases. With them:"),
        (lambda m: m.exp(), "must hold True and False"),
        (lambda m: m.exp_().bool(), "changes its input"),
        (lambda m: m > m.min(), "right for -inf"),
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

# What is right in other ways.

RIGHT = {
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
