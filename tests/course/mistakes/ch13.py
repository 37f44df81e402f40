"""The checks of chapter 13: each usual mistake is made, and must be named."""

import torch
import torch.nn.functional as F

from attention_lib.course.exercises import ch13

sink, rule = ch13.check_sink_weights.made, ch13.check_family_rule.made
for_qwen = ch13.check_qwen_scales.made


def factor_on_keys(g_q, g_k, scale):
    return g_q + 1, (g_k + 1) * (scale * len(g_k) ** 0.5)


def factor_shared(g_q, g_k, scale):
    root = (scale * len(g_q) ** 0.5) ** 0.5
    return [root * (1 + g) for g in (g_q, g_k)]


def turned_round(g_q, g_k, scale):
    return -(1 + g_q) * scale * len(g_q) ** 0.5, -1 - g_k


def by_ones(g_q, g_k, scale):
    ones = torch.ones_like(g_q)
    return scale * len(g_q) / len(g_q) ** 0.5 * (ones + g_q), ones + g_k


def in_double(g_q, g_k, scale):
    return (1 + g_q.double()) * scale * torch.tensor(len(g_q)).sqrt(), 1 + g_k


def shifted(by):
    return sink(
        "return torch.cat([scores, column], dim=-1).softmax(dim=-1)",
        "whole = torch.cat([scores, column], dim=-1)\n"
        f"    parts = (whole - {by}).exp()\n"
        "    return (parts / parts.sum(-1, keepdim=True))",
    )


def by_share(scores, sinks):
    total = scores.logsumexp(-1, keepdim=True)
    return scores.softmax(-1) * torch.sigmoid(total - sinks[:, None, None])


def by_log(scores, sinks):
    total = scores.logsumexp(-1, keepdim=True)
    return (scores - torch.logaddexp(total, sinks[:, None, None])).exp()


def by_top(scores, sinks):
    column = sinks[:, None, None]
    top = torch.maximum(scores.amax(-1, keepdim=True), column)
    parts = (scores - top).exp()
    return parts / (parts.sum(-1, keepdim=True) + (column - top).exp())


def by_pad(scores, sinks):
    wide = F.pad(scores, (0, 1))
    wide[..., -1] = sinks[:, None]
    return wide.softmax(-1)[..., :-1]


def by_head(scores, sinks):
    found = []
    for head, own in enumerate(sinks):
        column = own.expand(*scores[:, head].shape[:-1], 1)
        found.append(torch.cat((scores[:, head], column), -1).softmax(-1)[..., :-1])
    return torch.stack(found, 1)


# The tests of the solution, one for each rule, and others as good.
SUM, FAR = "weights.sum(dim=-1).min() < 0.999", "weights[-1, 0] == 0"
LONGER, LOUD = "torch.allclose(head(2 * x), weights, atol=1e-4)", "loud[-1].min() > 0"
EVEN = "equal.max() - equal.min() < 1e-4"


def by_order(head):
    found = rule(EVEN, "False")(head)
    x = torch.randn(6, 16, generator=torch.Generator().manual_seed(1))
    order = [2, 0, 4, 1, 3, 5]
    moved = head(x[order])[-1]
    if found == "llama" and torch.allclose(moved, head(x)[-1][order], atol=1e-4):
        return "unrotated"
    return found


def by_table(head):
    x = torch.randn(12, 16, generator=torch.Generator().manual_seed(2))
    weights, seen = head(x), torch.ones(12, 12).tril() > 0
    signs = {
        "sink": head(torch.zeros(1, 16)).item() < 0.99,
        "window": bool((weights[seen] == 0).any()),
        "normed": torch.allclose(head(x / 3), weights, atol=1e-4),
        "soft cap": bool((head(1e5 * x)[seen] > 0).all()),
        "unrotated": bool(head(torch.ones(12, 16))[-1].std() < 1e-5),
    }
    return next((name for name, sign in signs.items() if sign), "llama")


RIGHT = {
    "qwen_scales": [
        for_qwen("return (1", "return torch.stack([(1", "1 + g_k", "1 + g_k])"),
        for_qwen("len(g_q)", "g_q.numel()"),
        for_qwen("len(g_q) ** 0.5", "math.sqrt(len(g_q))"),
        for_qwen("scale * len(g_q)", "(scale * scale * len(g_q))"),
        for_qwen("return (1", "return [(1", "1 + g_k", "1 + g_k]"),
        factor_on_keys, factor_shared, turned_round, by_ones, in_double,
    ],
    "sink_weights": [
        by_share, by_log, by_top, by_pad, by_head,
        sink("[scores, column]", "[column, scores]", ch13.CUT, "[..., 1:]"),
        sink(ch13.CUT, " @ F.pad(torch.eye(scores.shape[-1]), (0, 0, 0, 1))"),
        sink("softmax(dim=-1)", "softmax(3)"),
        sink(ch13.CUT, ".narrow(-1, 0, scores.shape[-1])"),
    ],
    "family_rule": [
        by_order, by_table,
        rule(SUM, "head(0 * x)[0, 0] < 0.999"),
        rule(FAR, "weights[:, 0].min() == 0"),
        rule(LONGER, "(head(x / 2) - weights).abs().max() < 1e-4"),
        rule(LOUD, "(loud[-1] > 0).all()"),
        rule(EVEN, "equal.std() < 1e-4"),
        rule("20, 16", "12, 16", "20, -1", "12, -1"),
        rule("manual_seed(0)", "manual_seed(5)"),
        rule("(20, 16, ", "(20, 16, dtype=torch.float32, "),
    ],
}  # fmt: skip
MISTAKES = {
    "qwen_scales": [
        (lambda g_q, g_k, scale: g_q, "returns a Tensor. Wanted are two tensors"),
        (lambda g_q, g_k, scale: (g_q[1:], g_k), "of 8 numbers here"),
        (for_qwen("len(g_q)", "8"), "For width 12: The scores are not Gemma's"),
        (for_qwen("return", "g_q += 1; return"), "changes its input"),
    ],
    "sink_weights": [
        (shifted("whole.amax()"), "Where one row is near 1,000 and another near -1"),
        (shifted("whole.mean(-1, keepdim=True)"), "one of them is near 1,000"),
    ],
    "family_rule": [
        (lambda head: "llama", "gets exactly no weight"),
        (lambda head: "Mistral", "Your function returns “Mistral”"),
        (lambda head: 3, "returns a int; it must be one of the six names"),
        (rule(SUM, "False"), "Its rows sum to less than 1"),
        (rule(FAR, "(weights == 0).any()"), "which of your tests does a plain head"),
        (rule("20, 16", "3, 16", "20, -1", "3, -1"), "gets exactly no weight"),
        (rule(LONGER, "False"), "its weights stay the same"),
        (rule(LOUD, "False"), "each key in sight still gets"),
        (rule("1000 * x", "x"), "which of your tests does a plain head meet"),
        (rule(EVEN, "False"), "If all tokens are equal"),
        (rule(EVEN, "True"), "You name a head “unrotated” whose rule is “llama”"),
        (rule(LONGER, "torch.allclose(head(2 * x), weights, atol=1)"),
         "You name a head “normed” whose rule is “llama”"),
    ],
}  # fmt: skip
