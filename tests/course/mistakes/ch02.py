"""The checks of chapter 2: each usual mistake is made, and must be named."""

import numpy as np
import torch
import torch.nn.functional as F

from attention_lib import SelfAttention, attention_weights, scaled_dot_product_attention
from attention_lib.course.exercises import ch02

# What readers write: each solution with pieces of its text replaced.

head, module = ch02.check_head.made, ch02.check_self_attention.made
finder = ch02.check_step_finder.made
SCALE, WEIGHTS = " / query.shape[-1] ** 0.5", "scores.softmax(dim=-1)"
DROPPED = f"F.dropout({WEIGHTS}, self.dropout, self.training)"
MIXED = "weights @ value"
OWN_DRAW = "w * (torch.rand_like(w) > self.dropout) / (1 - self.dropout)"
# What drops another share than it is told: in training, where it is told one.
OTHER_SHARES = [
    "0.5 * bool(self.dropout), self",
    "(1 - self.dropout) * bool(self.dropout), self",
]
# One draw for all texts, all queries or all keys.
TOGETHER = {"texts": "[:1]", "queries": "[:, :1]", "keys": "[..., :1]"}


def dropping(what):
    """What is dropped, in the way of the solution."""
    return DROPPED.replace(WEIGHTS, what)


def by_diagonals(q_weight, k_weight):
    """The step whose diagonal has the largest sum."""
    table = (q_weight.T @ k_weight)[:8, :8]
    sums = [sum(table[i, (i + step) % 8] for i in range(8)) for step in range(8)]
    return sums.index(max(sums))


HeadBySDPA = module(
    f"return {MIXED}",
    """p = self.dropout * self.training
        return F.scaled_dot_product_attention(query, key, value, dropout_p=p)""",
)

MISTAKES = {
    "linear": [
        (lambda x, w, b: (x @ w.T + b).reshape(2, 3, 3), "For one of shape (2, 3)"),
        (lambda x, w, b: torch.einsum("bti,oi->bto", x, w) + b, "x of shape (3, 3)"),
        (lambda x, w, b: (x @ w.T + b)[:2], "For x of shape (3, 3): The shape"),
        (lambda x, w, b: F.linear(x, w, b).view(x.shape[:2] + b.shape), "3): Your cod"),
        (lambda x, w, b: F.linear(x, w, b) * (x.ndim < 4), "For x of shape (1, 2, 3,"),
        (lambda x, w, b: F.linear(x, w, b).numpy(), "must be a torch tensor"),
        (lambda x, w, b: x.to("meta"), "does not hold plain numbers"),
    ],
    "step_finder": [
        (lambda q, k: "b", "Your function returns a str: give a number."),
        (lambda q, k: True, "Your function returns a bool: give a number."),
        (lambda q, k: finder()(q, k) + 0.5, "3.5 is not the step"),
        (finder(ch02.MATCH, "q_weight.T @ q_weight"), "0 is not the step"),
    ],
    "head": [
        (head("@ value", "@ value, x"), "returns 2 things"),
    ],
    "self_attention": [
        (module("False", "True"), "Too many parameters: q_proj.bias. Three weights"),
        (module("q_proj", "query"), "has no parameter q_proj.weight"),
        (lambda d, h, p: 3, "returns a int: a layer is wanted"),
        (module()(6, 5, 0.0), "Give the class itself"),
        (module("self.v_proj(x)", "self.v_proj(x).detach()"), "no gradient reaches v"),
        (module(MIXED, f"{MIXED}, weights"), "returns 2 things"),
        (module(", self.training", ""), "In evaluation it still"),
        (module(DROPPED, WEIGHTS), "each row of weights still sums to 1"),
        (
            module(DROPPED, dropping("scores") + ".softmax(dim=-1)"),
            "each row of weights still sums to 1",
        ),
        (module(DROPPED, WEIGHTS, MIXED, dropping(MIXED)), "or of the mix"),
        (
            module(DROPPED, WEIGHTS, MIXED, f"weights @ {dropping('value')}"),
            "of the values",
        ),
        (module(DROPPED, f"{WEIGHTS} * ({DROPPED} > 0)"), "on average, not to 1"),
        *(
            (
                module("self.dropout, self", other),
                "another share of the weights is lost",
            )
            for other in OTHER_SHARES
        ),
        *(
            (
                module(
                    DROPPED, f"{WEIGHTS} * {dropping(f'torch.ones_like(scores{one})')}"
                ),
                f"all {all_of} lose their",
            )
            for all_of, one in TOGETHER.items()
        ),
    ],
}

# What is right in other ways.

RIGHT = {
    "linear": [
        F.linear,
        lambda x, w, b: torch.addmm(b, x.flatten(0, -2), w.T).view(*x.shape[:-1], -1),
        lambda x, w, b: torch.einsum("...i,io->...o", x, w.T).add(b),
        lambda x, w, b: (x[..., None, :] * w).sum(-1) + b,
        lambda x, w, b: x.matmul(w.t()) + b,
        lambda x, w, b: b + (w @ x[..., None])[..., 0],
        lambda x, w, b: torch.tensordot(x, w, ([-1], [1])) + b,
        lambda x, w, b: torch.inner(x, w) + b,
        lambda x, w, b: torch.stack([x @ row for row in w], dim=-1) + b,
    ],
    "step_finder": [
        by_diagonals,
        lambda q, k: torch.tensor([finder()(q, k)]),
        lambda q, k: np.int64(finder()(q, k)),
        finder(".item()", ""),
        finder(ch02.STEPS, "(best + LETTERS - torch.arange(LETTERS)).fmod(LETTERS)"),
        finder(ch02.MODE, "steps.median()"),
        finder(ch02.MODE, "steps.bincount().argmax()"),
        finder(ch02.MATCH, "torch.einsum('di,dj->ij', q_weight, k_weight) / 12**0.5"),
        finder(ch02.LETTER, "match[:8, :8].softmax(dim=-1)"),
    ],
    "head": [
        lambda x, q, k, v: F.scaled_dot_product_attention(x @ q, x @ k, x @ v),
        lambda x, *weights: torch.stack([head()(text, *weights) for text in x]),
        lambda *given: torch.nn.Parameter(head()(*given)),
        lambda x, q, k, v: head()(x, q, k, torch.eye(6)) @ v,
        lambda x, q, k, v: head(SCALE, "")(x, q * 5**-0.5, k, v),
        lambda x, q, k, v: head("0.5", "0.25")(x, q, k * 5**-0.25, v),
        lambda x, q, k, v: scaled_dot_product_attention(x @ q, x @ k, x @ v),
        lambda x, q, k, v: attention_weights(x @ q, x @ k) @ x @ v,
        lambda x, q, k, v: (x @ q @ k.T @ x.mT / 5**0.5).softmax(2) @ (x @ v),
    ],
    "self_attention": [
        HeadBySDPA,
        lambda d, h, p=0.0: SelfAttention(d, h, dropout=p),
        module(WEIGHTS, "(scores - scores.logsumexp(-1, True)).exp()"),
        module(
            *("self.dropout = dropout", "self.drop = nn.Dropout(dropout)"),
            *(DROPPED, f"self.drop({WEIGHTS})"),
        ),
        module("softmax(dim=-1)", "softmax(2)"),
        module("query.shape[-1]", "float(query.size(2))"),
        module(WEIGHTS, "F.softmax(scores, dim=-1)"),
        lambda *sizes: HeadBySDPA(*sizes),
        module(
            *(f"weights = {DROPPED}", f"w = {WEIGHTS}"),
            *(MIXED, f"({OWN_DRAW} if self.training else w) @ value"),
        ),
    ],
}
