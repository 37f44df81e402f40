"""The checks of chapter 1: each usual mistake is made, and must be named."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from attention_lib.course.exercises.ch01 import check_attention, check_batched_attention
from attention_lib.toy import attention, softmax
from tests.answers import as_numbers

# What readers write: each solution, and below it with pieces of its text replaced.

attend, both = check_attention.made, check_batched_attention.made
attention_half_written = attend("return", "scores = ...\n    return scores @")
PRODUCT, PAIR = "query @ key.swapaxes(-2, -1)", "weights @ value, weights"


def shares(x):
    return x / x.sum(-1, keepdims=True)


def stable(x):
    return shares(np.exp(x - x.max(-1, keepdims=True)))


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
        (lambda x: stable(np.subtract(x, 1, out=x)), "Your code changes its input"),
        (lambda x: stable(x) if x.max() < 9 else None, "gives nothing back"),
        (lambda x: stable(x).tolist(), "returns a list; it must be a NumPy"),
        (lambda x: torch.tensor(x).softmax(-1), "returns a torch tensor"),
        (lambda x: x > 0, "must hold numbers; yours is of type bool"),
        (lambda x: x * np.nan, "NaN or infinity"),
        (lambda x: np.array(["a"]), "returns an array that does not hold plain"),
        (lambda x: stable(x)[0], "shape must be (3, 3) here; yours is (3,)"),
        (lambda x: stable(x) + np.eye(3)[2], "look at [0, 2] first"),
    ],
    "attention": [
        (attention, "returns 2 things"),
        (attend("scores =", "query *= 2\n    scores = 0.5 *"), "changes its input"),
        (lambda q, k, v: q @ k, "raised ValueError in `"),
        (lambda q, k: q @ k.T, "raised TypeError: "),
    ],
    "batched_attention": [
        (both(PAIR, "weights @ value"), "returns a ndarray: two things"),
        (both(PAIR, f"{PAIR}, scores"), "returns a tuple: two things"),
        (both(", weights", ", weights + 1"), "context is right. The weights:"),
        (both("=-1", "=(-1, 1)[query.ndim > 3]"), "For two axes in fr"),
        (both(", weights", ", 0"), "weights: Your function"),
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
}


# What is right, in the book's way and in others.


RIGHT = {
    "temperature": [
        *(3.7, 3.705, 3.71, 3.715, 3.72, np.float32(3.72), np.float64(3.71)),
        *(np.array(3.71), torch.tensor(3.71), 26 / 7),
    ],
    "head_width": [*as_numbers(1024), 32.0**2, 2**10, 32 * 32],
    "softmax": [
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
        lambda *qkv: F.scaled_dot_product_attention(*map(torch.tensor, qkv)).numpy(),
        lambda q, k, v: np.array([softmax(k @ one / 6**0.5) @ v for one in q]),
        lambda *qkv: attention(*qkv)[0].astype(np.float32),
        lambda *qkv: both()(*qkv)[0],
        lambda q, k, v: softmax(q / 6**0.5 @ k.T) @ v,
        lambda q, k, v: softmax(np.inner(q, k), temperature=6**0.5).dot(v),
        lambda q, k, v: (v.T @ softmax(k @ q.T / 6**0.5, axis=0)).T,
        lambda q, k, v: np.tensordot(stable(q @ k.T / np.sqrt(6)), v, axes=1),
        lambda q, k, v: softmax(np.einsum("qd,kd->qk", q, k) * 6**-0.5) @ v,
    ],
    "batched_attention": [
        attention,
        both(PAIR, f"[{PAIR}]"),
        both("value, w", "value.astype(np.float32), w"),
        both("math.sqrt", "np.sqrt"),
        lambda q, k, v: (both()(q, k, v)[0], both()(q, k, v)[1]),
        lambda q, k, v: attention(q, k, v, scale=6**-0.5),
        both(PRODUCT, "np.einsum('...qd,...kd->...qk', query, key)"),
        both(PRODUCT, "query @ np.moveaxis(key, -1, -2)"),
        both(PRODUCT, "(query[..., :, None, :] * key[..., None, :, :]).sum(-1)"),
    ],
}
