"""The checks of chapter 4: each usual mistake is made, and must be named."""

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attention_lib.course.exercises.ch04 import check_multi_head, check_multi_head_layer
from attention_lib.masks import sliding_window_mask
from attention_lib.multi_head import merge_heads, split_heads
from tests.answers import as_numbers, solution

# What readers write: each solution, and below it with pieces of its text replaced.

written = partial(solution, split_heads=split_heads, merge_heads=merge_heads)
layer = written("""
def attend(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    query, key, value = (split_heads(x @ w, num_heads) for w in (w_q, w_k, w_v))
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if mask is not None:
        mask = mask[:, None] if mask.ndim == 3 else mask
        scores = scores.masked_fill(~mask, -math.inf)
    found = scores.softmax(-1) @ value
    return merge_heads(found) @ w_o
""")
CUT = "split_heads(x @ w, num_heads)"
module = check_multi_head_layer.made
LINEAR = "nn.Linear(d_model, d_model, bias=False)"
OWN_CUT = "projected.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)"
APART = "projected.unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)"


def built(answer):
    """A class of multi-head attention, which computes as a function of the above."""

    class Built(module()):
        def forward(self, x, mask=None):
            layers = (self.q_proj, self.k_proj, self.v_proj, self.out_proj)
            weights = (own.weight.T for own in layers)
            return answer(x, *weights, self.num_heads, mask) + self.out_proj.bias

    return Built


def pruned(found, w_o, keep, join=merge_heads):
    return join(found * torch.tensor(keep)[:, None, None]) @ w_o


def windows(length, widths, of=sliding_window_mask):
    return torch.stack([of(length, width) for width in widths])[None]


# What a message of these checks must not hold, for it would give a solution away.
CODE = "transpose|reshape|permute"

MISTAKES = {
    "most_heads": [(11, "That is not the number: it is one of those")],
    "multi_head_layer": [
        (module("False", "True"), "Too many parameters: q_proj.bias"),
        (module(LINEAR, LINEAR.replace(", d_model", ", 12")), "it must be (6, 6)"),
        (module(OWN_CUT, APART), "The shape is right, the content is not"),
        (
            module("mask.ndim == 3", "mask.ndim == 3 and mask.shape[1] == 1"),
            "(B, Q, K): The texts are on the axis of the heads",
        ),
        (module("query.shape[-1]", "2"), "For two of width 4: The shape is right"),
        (module("dim=-1", "dim=-2"), "the content is not"),
        (module("(self.num_heads, -1)", "(3, -1)"), "4: Your code raised Runtime"),
        (
            module("return self", "with torch.no_grad(): return self"),
            "no gradient reaches",
        ),
    ],
    "multi_head": [
        (
            check_multi_head.made(
                "w_q.shape[-1] // num_heads", "x.shape[-1] // num_heads"
            ),
            "input. For wider ones: Your code raised Runtime",
        ),
        (
            check_multi_head.made("    return", "    print(0)\n    return"),
            "but your function prints",
        ),
    ],
    "pruned": [
        (lambda f, w, keep: pruned(f, w, [True, False, True]), "With one kept: "),
        (lambda f, w, keep: merge_heads(f[:, keep]) @ w[: 4 * sum(keep)], "content"),
        (lambda f, w, keep: merge_heads(f[:, keep]) @ w, "Your code raised Runtime"),
        (lambda f, w, keep: f if all(keep) else pruned(f, w, keep), "With all kept: "),
    ],
    "head_windows": [
        (lambda n, w: windows(6, [1, 4, 2]), "For two and five: The shape must be"),
        (lambda n, w: windows(n, w[:1] * len(w)), "the content is not"),
    ],
}


# What is right, in the book's way and in others.


def by_loops(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    heads = zip(*(w.chunk(num_heads, dim=-1) for w in (w_q, w_k, w_v)), strict=True)
    found = [
        F.scaled_dot_product_attention(x @ q, x @ k, x @ v, attn_mask=mask)
        for q, k, v in heads
    ]
    return torch.cat(found, dim=-1) @ w_o


MIXES = "merge_heads(found) @ w_o"
WAYS = [
    layer(),
    by_loops,
    layer(CUT, "(x @ w).reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)"),
    layer(CUT, "torch.stack((x @ w).chunk(num_heads, dim=-1), dim=1)"),
    layer(CUT, "(x @ w).unflatten(-1, (num_heads, -1)).permute(0, 2, 1, 3)"),
    layer("merge_heads(found)", "torch.cat(found.unbind(dim=1), dim=-1)"),
    layer("scores.softmax(-1)", "scores.exp() / scores.exp().sum(-1, keepdim=True)"),
    layer(MIXES, "sum(h @ w for h, w in zip(found.unbind(1), w_o.chunk(num_heads)))"),
    layer(
        f"{CUT} for w in (w_q, w_k, w_v)",
        "split_heads(each, num_heads) for each in joined.chunk(3, -1)",
        *("    query,", "    joined = x @ torch.cat([w_q, w_k, w_v], -1)\n    query,"),
    ),
    layer(
        *("query @ key.mT", "torch.einsum('bhqd,bhkd->bhqk', query, key)"),
        *(MIXES, "torch.einsum('bhtd,hdm->btm', found, own)"),
        *("    return", "    own = w_o.unflatten(0, (num_heads, -1))\n    return"),
    ),
]


class WithDropoutAndBuffer(module()):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("scale", torch.tensor((d_model // num_heads) ** -0.5))

    def forward(self, x, mask=None):
        return self.dropout(super().forward(x, mask))


def pruned_by_einsum(found, w_o, keep):
    blocks = w_o.unflatten(0, (found.shape[1], -1))
    chosen = torch.tensor(keep, dtype=found.dtype)
    return torch.einsum("bhtd,hdm,h->btm", found, blocks, chosen)


def pruned_by_filter(found, w_o, keep):
    d = found.shape[-1]
    heads = [head for head in range(len(keep)) if keep[head]]
    return sum(found[:, h] @ w_o[h * d : h * d + d] for h in heads)


by_rows = written("""
def pruned(found, w_o, keep):
    keep = torch.tensor(keep)
    rows = keep.repeat_interleave(found.shape[-1])
    return merge_heads(found[:, keep]) @ w_o[rows]
""")


def window(length, width):
    ones = torch.ones(length, length, dtype=torch.bool)
    return ones.tril() & ones.triu(1 - width)


def by_distance(length, widths):
    back = torch.arange(length)[:, None] - torch.arange(length)
    return (back >= 0) & (back < torch.tensor(widths)[None, :, None, None])


def by_lists(length, widths):
    n = range(length)
    return torch.tensor([[[[0 <= i - j < k for j in n] for i in n] for k in widths]])


def by_numpy(n, w):
    tables = [np.tri(n, dtype=bool) & ~np.tri(n, k=-k, dtype=bool) for k in w]
    return torch.from_numpy(np.stack(tables)[None])


RIGHT = {
    "most_heads": [*as_numbers(6), 24 // 4, [1, 2, 3, 4, 6, 8, 12][4]],
    "multi_head_layer": [
        *map(built, WAYS),
        built(layer("-math.inf", "-1e9")),
        WithDropoutAndBuffer,
    ],
    "multi_head": WAYS,
    "pruned": [
        pruned,
        pruned_by_einsum,
        pruned_by_filter,
        by_rows(
            "merge_heads(found[:, keep])",
            "found[:, keep].permute(0, 2, 1, 3).flatten(2)",
        ),
        by_rows(),
        by_rows("[:, keep]", "", "w_o[rows]", "torch.where(rows[:, None], w_o, 0.0)"),
        by_rows("found[:, keep]", "(found * keep[:, None, None])", "[rows]", ""),
        lambda f, w, keep: (f @ w.unflatten(0, (len(keep), -1)))[:, keep].sum(dim=1),
        lambda f, w, keep: merge_heads(f) @ w - pruned(f, w, [not k for k in keep]),
        by_rows("(found[:, keep])", "(found) * rows", "[rows]", ""),
    ],
    "head_windows": [
        *(windows, by_distance, by_lists, by_numpy),
        lambda n, w: windows(n, w, window),
        lambda n, w: windows(n, w, lambda n, k: window(n, n) ^ window(n, n).tril(-k)),
        lambda n, w: torch.cat([window(n, k)[None, None] for k in w], dim=1),
        lambda n, w: windows(n, w, lambda n, k: window(n, n) & ~window(n, n).tril(-k)),
        lambda n, w: torch.stack([window(n, k).int() for k in w]).unsqueeze(0) == 1,
        lambda n, w: windows(n, w).expand(1, -1, n, n).clone(),
    ],
}
