"""The checks of chapter 11: each usual mistake is made, and must be named."""

import torch
import torch.nn.functional as F

from attention_lib.course.exercises import ch11
from attention_lib.grouped_query import GroupedQueryAttention

groups, sink = ch11.check_to_groups.made, ch11.check_sink_weights.made
layer = ch11.check_grouped_query.made


def shifted(by):
    return sink(
        "return torch.cat([scores, column], dim=-1).softmax(dim=-1)",
        "whole = torch.cat([scores, column], dim=-1)\n"
        f"    parts = (whole - {by}).exp()\n"
        "    return (parts / parts.sum(-1, keepdim=True))",
    )


def by_loop(weight, heads, shared):
    head_dim, size = len(weight) // heads, heads // shared
    own = weight.split(head_dim)
    return torch.cat(
        [sum(own[g * size : (g + 1) * size]) / size for g in range(shared)]
    )


def by_matrix(weight, heads, shared):
    mean = torch.eye(shared).repeat_interleave(heads // shared, 1) * shared / heads
    return (mean @ weight.view(heads, -1)).view(-1, weight.shape[1])


def by_unfold(weight, heads, shared):
    own = weight.view(heads, -1).unfold(0, heads // shared, heads // shared)
    return own.mean(-1).view(-1, weight.shape[1])


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


ROWS = """query = query.unflatten(1, (self.num_kv_heads, -1))
        scores = query @ key[:, :, None].mT / query.shape[-1] ** 0.5
        seen = torch.ones(x.shape[1], x.shape[1]).tril() > 0
        scores = scores.masked_fill(~seen, -torch.inf)
        context = (scores.softmax(-1) @ value[:, :, None]).flatten(1, 2)
"""
LOOP = """found = []
        for head in range(self.num_heads):
            own = head * self.num_kv_heads // self.num_heads
            scores = query[:, head] @ key[:, own].mT / query.shape[-1] ** 0.5
            seen = torch.ones(x.shape[1], x.shape[1]).tril() > 0
            scores = scores.masked_fill(~seen, -torch.inf)
            found.append(scores.softmax(-1) @ value[:, own])
        context = torch.stack(found, 1)
"""
EINSUM = """query = query.unflatten(1, (self.num_kv_heads, -1))
        scores = torch.einsum("bgntd,bgsd->bgnts", query, key)
        scores = scores / query.shape[-1] ** 0.5
        scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
        found = torch.einsum("bgnts,bgsd->bgntd", scores.softmax(-1), value)
        context = found.flatten(1, 2)
"""
SHARED = "part.repeat_interleave(size, dim=1)"


def of_library(d_model, num_heads, num_kv_heads):
    layer = GroupedQueryAttention(d_model, num_heads, num_kv_heads)
    layer.forward = lambda x: type(layer).forward(layer, x, causal=True)
    return layer


RIGHT = {
    "shared_bytes": [
        12 * 1152 * ch11.ROW, 12 * (1024 + 128) * 1024, 14_155_776, 14_155_776.0,
        torch.tensor(14_155_776), 13.5 * 2**20,
        12 * 1024 * ch11.ROW + 12 * 128 * ch11.ROW,
        sum([1024, 128] * 12) * 1024, 24 * 576 * 1024,
    ],
    "to_groups": [
        by_loop, by_matrix, by_unfold,
        groups(ch11.MEAN, "(torch.einsum('gndm->gdm', heads) / heads.shape[1])"),
        groups(ch11.MEAN, "(heads.sum(1) / size)"),
        groups(ch11.MEAN, "heads.double().mean(1).float()"),
        groups(ch11.MEAN, "torch.stack([each.mean(0) for each in heads])"),
        groups(".flatten(0, 1)", ".reshape(-1, weight.shape[-1])"),
        groups(f"{ch11.MEAN}.flatten(0, 1)", f"torch.cat(list({ch11.MEAN}))"),
    ],
    "sink_weights": [
        by_share, by_log, by_top, by_pad, by_head,
        sink("[scores, column]", "[column, scores]", ch11.CUT, "[..., 1:]"),
        sink(ch11.CUT, " @ F.pad(torch.eye(scores.shape[-1]), (0, 0, 0, 1))"),
        sink("softmax(dim=-1)", "softmax(3)"),
        sink(ch11.CUT, ".narrow(-1, 0, scores.shape[-1])"),
    ],
    "grouped_query": [
        of_library, lambda *sizes: layer()(*sizes),
        *(layer(ch11.CALL, body) for body in (ch11.STEPS, ROWS, LOOP, EINSUM)),
        layer(ch11.CALL, ch11.STEPS, SHARED,
              "part[:, :, None].expand(-1, -1, size, -1, -1).flatten(1, 2)"),
        layer(ch11.CALL, ch11.STEPS, SHARED,
              "part[:, [head // size for head in range(self.num_heads)]]"),
        layer("merge_heads(context)", "torch.cat(context.unbind(1), -1)"),
    ],
}  # fmt: skip
MISTAKES = {
    "shared_bytes": [(5, "first the bytes of one token")],
    "to_groups": [
        (lambda weight, heads, shared: by_loop(weight, heads, 2)
         if heads == 6 else weight * 2, "For four that stay four"),
        (lambda weight, heads, shared: by_loop(weight, heads, shared)
         if shared > 1 else weight, "For a single one"),
    ],
    "sink_weights": [
        (lambda s, own: F.normalize(sink()(s, own), p=1, dim=-1), "The rows sum to 1"),
        (lambda s, own: (s + own[:, None, None]).softmax(-1), "The rows sum to 1"),
        (shifted("whole.amax()"), "Where one row is near 1,000 and another near -1"),
        (shifted("whole.mean(-1, keepdim=True)"), "one of them is near 1,000"),
        (shifted("column"), "Where one row is near 1,000 and another near -1"),
        (sink("column =", "scores += 1\n    column = 1 +"), "changes its input"),
    ],
    "grouped_query": [
        (layer("q_proj = nn.Linear(d_model, d_model, bias=False)",
               "q_proj = nn.Linear(d_model, d_model)"),
         "Too many parameters: q_proj.bias"),
        (layer("k_proj = nn.Linear(d_model, shared", "k_proj = nn.Linear(18, 18"),
         "k_proj.weight is (18, 18); it must be (6, 18)"),
        (layer("self.v_proj = ", "v_proj = "), "no parameter v_proj.weight"),
        (layer()(12, 6, 2), "Give the class itself"),
        (lambda *sizes: "text", "Your function returns a str"),
        (layer(ch11.GQA, ch11.SCALE.format(
            "1.0 if self.num_kv_heads == 2 == self.num_heads else None")),
         "For as many KV heads"),
        (layer("is_causal=True", "is_causal=self.num_kv_heads > 1"),
         "For a single one"),
    ],
}  # fmt: skip
