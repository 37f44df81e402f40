"""Exercises of chapter 13: scales carried over, a sink, a head of unknown rule."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_lib.course.exercises.exercise import Exercise, slip
from attention_lib.course.exercises.verdict import Verdict
from attention_lib.masks import sliding_window_mask
from attention_lib.reproducibility import seeded
from attention_lib.rope import apply_rope, rope_angles


def _by_qwen(answer: Any, g_q: Tensor, g_k: Tensor, scale: float) -> Any:
    """Return the scores of Qwen 3's code with the scales that the reader returns."""
    came = answer(g_q, g_k, scale)
    if came is None or came is ...:
        return None
    pair = came if isinstance(came, tuple | list | Tensor) else ()
    if [getattr(it, "shape", None) for it in pair] != [g_q.shape, g_k.shape]:
        return Verdict(
            False,
            f"Your function returns a {type(came).__name__}. Wanted are two tensors of "
            f"{len(g_q)} numbers here, first that of the queries.",
        )
    length, width = 5, len(g_q)
    angles = rope_angles(torch.arange(length), width)
    x = torch.randn(2, length, width, generator=seeded(1)).to(g_q)
    query, key = (
        apply_rope(F.rms_norm(own, (width,)) * g.to(own), angles)
        for own, g in zip(x, pair, strict=True)
    )
    return query @ key.mT / width**0.5


QUERIES, KEYS, ROOT = "(1 + g_q)", "1 + g_k", " * len(g_q) ** 0.5"
check_qwen_scales = Exercise(
    solution="""
def for_qwen(g_q, g_k, scale):
    return (1 + g_q) * scale * len(g_q) ** 0.5, 1 + g_k
""",
    cases=[((8, 0.25), ""), ((12, 0.1), "Right for width 8. For width 12:")],
    inputs=lambda width, scale: (
        *torch.randn(2, width, generator=seeded(0)).unbind(),
        scale,
    ),
    use=_by_qwen,
    slips=[
        slip("Gemma multiplies by 1 + g, Qwen by g: where is the 1?",
             QUERIES, "g_q", KEYS, "g_k"),
        slip("The keys are right. Gemma multiplies the queries by 1 + g: where is the "
             "1?", QUERIES, "g_q"),
        slip("The queries are right. Gemma multiplies the keys by 1 + g: where is the "
             "1?", KEYS, "g_k"),
        slip("That is the way from Qwen to Gemma: there 1 is subtracted.",
             QUERIES, "(g_q - 1)", KEYS, "g_k - 1"),
        slip("The 1 needs the factor, too: add it first.", QUERIES, "1 + g_q"),
        slip("Gemma's scale is missing.", " * scale", ""),
        slip("Qwen's code divides the scores by the root of D: make up for that.",
             ROOT, ""),
        slip("The norms are right, the factor is not: Gemma multiplies by its scale, "
             "and Qwen divides by the root of D.", f" * scale{ROOT}", ""),
        slip("Now the scores are divided by D: Qwen's code does half of it already.",
             " * len", " / len"),
        slip("Make up for the root of D, not for D itself.", " ** 0.5", ""),
        slip("Gemma multiplies its scores by its scale: you divide.",
             "* scale", "/ scale"),
        slip("Queries and keys both have the factor, so the scores have it twice.",
             KEYS, f"{QUERIES.replace('q', 'k')} * scale{ROOT}"),
        slip("Queries and keys have changed places.", "(g_q, g_k",
             "(g_k, g_q"),
    ],
    praise="Equal scores: the weights take in both differences.",
    otherwise=lambda *_: "The scores are not Gemma's: write down both formulas, and "
    "compare them factor by factor.",
)  # fmt: skip

JOINED, CUT = "torch.cat([scores, column], dim=-1)", "[..., :-1]"
WEIGHTS = f"{JOINED}.softmax(dim=-1){CUT}"
TOTAL = "scores.exp().sum(dim=-1, keepdim=True)"
TOP = "(scores - scores.amax(dim=-1, keepdim=True))"
check_sink_weights = Exercise(
    solution="""
def sink_weights(scores, sinks):
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.cat([scores, column], dim=-1).softmax(dim=-1)[..., :-1]
""",
    # Exponentials of 1,000 overflow in float64, too.
    cases=[
        ((3, 4, 5, 0.0, 0.0), ""),
        ((2, 2, 2, 1e3, 1e3), "Right for small scores. For scores near 1,000:"),
        ((2, 2, 3, [[1e3], [-1e3]], -1e3), "Right where all are large. Where one row "
         "is near 1,000 and another near -1,000:"),
        ((3, 2, 4, [0, 1e3, 0, 0], 0.0), "Right where a row's scores are the same "
         "size. Where one of them is near 1,000:"),
    ],
    inputs=lambda heads, queries, keys, level, low: (
        torch.randn(2, heads, queries, keys, generator=seeded(0)) + torch.tensor(level),
        torch.randn(heads, generator=seeded(1)) + low,
    ),
    slips=[
        slip("The rows sum to 1, as without a sink: its score takes part in the "
             "softmax, and its share is lost.", WEIGHTS, "scores.softmax(dim=-1)"),
        slip("The sink's own column is still there: it brings no value.", CUT, ""),
        slip("The last key is cut off, and the sink is kept.",
             "[scores, column]", "[column, scores]"),
        slip("This multiplies each row by a number that does not depend on the scores.",
             WEIGHTS, "scores.softmax(dim=-1) * column.sigmoid()"),
        slip("The exponentials overflow: shift scores and sink by the largest of them "
             "first.", WEIGHTS, f"scores.exp() / ({TOTAL} + column.exp())",
             overflows=True),
        slip("The sink itself is added to the sum: its exponential belongs there.",
             WEIGHTS, f"scores.exp() / ({TOTAL} + column)"),
        slip("A sink of 0 for all heads: use those given.",
             WEIGHTS, f"scores.exp() / ({TOTAL} + 1)"),
        slip("A sink of 0 for all heads: use those given.", "column]", "0 * column]"),
        slip("The sign of the sinks is inverted.", "column]", "-column]"),
        slip("The sinks are scores: the softmax takes their exponential itself.",
             "column]", "column.exp()]"),
        slip("The scores are shifted by their maximum, the sink is not: shift both.",
             WEIGHTS,
             f"{TOP}.exp() / ({TOP}.exp().sum(dim=-1, keepdim=True) + column.exp())"),
        slip("The heads get each other's sinks.", "sinks[:", "sinks.flip(0)[:"),
    ],
    praise="The rows sum to less than 1: the sink keeps the rest.",
)  # fmt: skip

# How each rule shows: what is said where a head is named wrongly.
SIGNS = {
    "llama": "Nothing was changed there: which of your tests does a plain head meet?",
    "window": "In a long text, what is far back gets exactly no weight.",
    "normed": "If all tokens are twice as long, its weights stay the same.",
    "soft cap": "If tokens are a thousand times as long, each key in sight still gets "
    "some weight.",
    "sink": "Its rows sum to less than 1.",
    "unrotated": "If all tokens are equal, each row is even.",
}


def _head(rule: str, seed: int) -> Callable[[Tensor], Tensor]:
    """Return the weights of a random causal head under one rule, (T, 16) to (T, T)."""
    rng = seeded(seed)
    w_q, w_k = (torch.randn(16, 8, generator=rng) / 3 for _ in range(2))

    def head(x: Tensor) -> Tensor:
        query, key = x @ w_q.to(x.dtype), x @ w_k.to(x.dtype)
        if rule == "normed":
            query, key = (
                it / (it.square().mean(dim=-1, keepdim=True) + 1e-12).sqrt()
                for it in (query, key)
            )
        if rule != "unrotated":
            angles = rope_angles(torch.arange(len(x)), 8)
            query, key = apply_rope(query, angles), apply_rope(key, angles)
        scores = query @ key.mT / 8**0.5
        if rule == "soft cap":
            cap = 1.5 + seed % 2
            scores = cap * (scores / cap).tanh()
        seen = sliding_window_mask(len(x), 4 + seed % 5 if rule == "window" else len(x))
        scores = scores.masked_fill(~seen, -torch.inf)
        sink = torch.full((len(x), int(rule == "sink")), seed % 3 - 0.5, dtype=x.dtype)
        return torch.cat([scores, sink], dim=-1).softmax(dim=-1)[:, : len(x)]

    return head


def _named(answer: Any, head: Callable[[Tensor], Tensor]) -> Any:
    """Return the number of the rule that the reader names, as a tensor."""
    came = answer(head)
    if came is None or came is ...:
        return None
    if isinstance(came, str) and came in SIGNS:
        return torch.tensor(list(SIGNS).index(came))
    words = f"“{came}”" if isinstance(came, str) else f"a {type(came).__name__}"
    return Verdict(
        False, f"Your function returns {words}; it must be one of the six names."
    )


def _misnamed(came: Tensor, right: Tensor, head: object) -> str:
    names = list(SIGNS)
    true, said = names[int(right)], names[int(came)]
    return f"You name a head “{said}” whose rule is “{true}”. {SIGNS[true]}"


check_family_rule = Exercise(
    solution="""
def my_rule(head):
    x = torch.randn(20, 16, generator=torch.Generator().manual_seed(0))
    weights, loud = head(x), head(1000 * x)
    if weights.sum(dim=-1).min() < 0.999:
        return "sink"
    if weights[-1, 0] == 0:
        return "window"
    if torch.allclose(head(2 * x), weights, atol=1e-4):
        return "normed"
    if loud[-1].min() > 0:  # without a cap, most weights are exactly 0
        return "soft cap"
    equal = head(x[:1].expand(20, -1))[-1]  # the same token 20 times
    return "unrotated" if equal.max() - equal.min() < 1e-4 else "llama"
""",
    cases=[
        (("llama", 0), ""),
        *(((rule, seed), "Some heads are named rightly.")
          for seed in range(3) for rule in list(SIGNS)[seed == 0:]),
    ],
    inputs=lambda rule, seed: (_head(rule, seed),),
    use=_named,
    otherwise=_misnamed,
    slips=[],
    praise="Each rule has an input on which it cannot hide.",
)  # fmt: skip
