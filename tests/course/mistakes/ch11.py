"""The checks of chapter 11: each usual mistake is made, and must be named."""

from functools import partial

import torch
import torch.nn.functional as F

from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.masks import causal_mask
from tests.answers import solution

TOKENS, ROW = 1024, 1024

# What readers write: each solution, and below it with pieces of its text replaced.

groups = solution("""
def to_groups(weight, heads, shared):
    own = weight.view(shared, heads // shared, -1, weight.shape[1])
    mean = own.mean(1)
    return mean.flatten(0, 1)
""")
MEAN, BACK = "own.mean(1)", "mean.flatten(0, 1)"
FAR = "(shared, heads // shared, -1, weight.shape[1])"
FAR = FAR, "(heads // shared, shared, -1, weight.shape[1]).transpose(0, 1)"
sink = solution("""
def sink_weights(scores, sinks):
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    joined = torch.cat((scores, column), -1)
    return joined.softmax(-1)[..., :-1]
""")
shifted = partial(
    sink,
    "joined = torch.cat((scores, column), -1)\n",
    "whole = torch.cat((scores, column), -1)\n    joined = (whole - BY).exp()\n",
    "joined.softmax(-1)",
    "(joined / joined.sum(-1, keepdim=True))",
    "BY",
)
BODY = """size = self.heads // self.shared
        key, value = (part.repeat_interleave(size, dim=1) for part in (key, value))
        scores = query @ key.mT / self.head_dim**0.5
        seen = torch.ones(x.shape[1], x.shape[1]).tril() > 0
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        context = weights @ value
"""
layer = partial(solution, causal_mask=causal_mask)(f"""
class Layer(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__()
        self.heads, self.shared = num_heads, num_kv_heads
        self.head_dim = d_model // num_heads
        width = self.head_dim * num_kv_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, width, bias=False)
        self.v_proj = nn.Linear(d_model, width, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        query, key, value = (
            p(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        {BODY}
        return self.out_proj(context.transpose(1, 2).flatten(2))
""")
SHARED = "part.repeat_interleave(size, dim=1)"
PAIR = f"({SHARED} for part in (key, value))"
SCALE, WEIGHTS = (
    "self.head_dim**0.5",
    "scores.masked_fill(~seen, -torch.inf).softmax(-1)",
)
JOINED = "context.transpose(1, 2).flatten(2)"


# What is right in other ways.


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


def half_shifted(scores, sinks):
    parts = (scores - scores.amax(-1, keepdim=True)).exp()
    return parts / (parts.sum(-1, keepdim=True) + sinks[:, None, None].exp())


KERNEL = """context = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True)
"""
ROWS = """query = query.unflatten(1, (self.shared, -1))
        scores = query @ key[:, :, None].mT / self.head_dim**0.5
        scores = scores.masked_fill(~causal_mask(x.shape[1]), -torch.inf)
        context = (scores.softmax(-1) @ value[:, :, None]).flatten(1, 2)
"""
LOOP = """found = []
        for head in range(self.heads):
            own = head * self.shared // self.heads
            scores = query[:, head] @ key[:, own].mT / self.head_dim**0.5
            scores = scores.masked_fill(~causal_mask(x.shape[1]), -torch.inf)
            found.append(scores.softmax(-1) @ value[:, own])
        context = torch.stack(found, 1)
"""
EINSUM = """query = query.unflatten(1, (self.shared, -1))
        scores = torch.einsum("bgntd,bgsd->bgnts", query, key) / self.head_dim**0.5
        scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
        found = torch.einsum("bgnts,bgsd->bgntd", scores.softmax(-1), value)
        context = found.flatten(1, 2)
"""


def of_library(d_model, num_heads, num_kv_heads):
    layer = GroupedQueryAttention(d_model, num_heads, num_kv_heads)
    layer.forward = lambda x: type(layer).forward(layer, x, causal=True)
    return layer


RIGHT = {
    "shared_bytes": [
        12 * 1152 * ROW, 12 * (1024 + 128) * 1024, 14_155_776, 14_155_776.0,
        torch.tensor(14_155_776), 13.5 * 2**20, 12 * TOKENS * ROW + 12 * 128 * ROW,
        2 * 2 * 4 * 64 * 12 * 1152, sum([1024, 128] * 12) * 1024, 24 * 576 * 1024,
    ],
    "to_groups": [
        groups(), by_loop, by_matrix, by_unfold,
        groups(MEAN, "torch.einsum('gndm->gdm', own) / own.shape[1]"),
        groups(MEAN, "own.sum(1) / own.shape[1]"),
        groups(MEAN, "own.double().mean(1).float()"),
        groups(MEAN, "torch.stack([each.mean(0) for each in own])"),
        groups(BACK, "mean.reshape(-1, mean.shape[-1])"),
        groups(BACK, "torch.cat(list(mean))"),
    ],
    "sink_weights": [
        sink(), by_share, by_log, by_top, by_pad, by_head,
        sink("(scores, column)", "(column, scores)", "[..., :-1]", "[..., 1:]"),
        sink("[..., :-1]", " @ F.pad(torch.eye(scores.shape[-1]), (0, 0, 0, 1))"),
        sink("joined.softmax(-1)", "F.softmax(joined, 3)"),
        sink("[..., :-1]", ".narrow(-1, 0, scores.shape[-1])"),
    ],
    "grouped_query": [
        layer(), of_library, lambda *sizes: layer()(*sizes),
        *(layer(BODY, body) for body in (KERNEL, ROWS, LOOP, EINSUM)),
        layer(SHARED, "part[:, :, None].expand(-1, -1, size, -1, -1).flatten(1, 2)"),
        layer(SHARED, "part[:, [head // size for head in range(self.heads)]]"),
        layer(JOINED, "torch.cat(context.unbind(1), -1)"),
    ],
}  # fmt: skip
MISTAKES = {
    "shared_bytes": [
        (24 * TOKENS * ROW, "keep 128 tokens only"),
        (24 * 128 * ROW, "every other layer"),
        (6 * 1152 * ROW, "takes 2 bytes"),
        (3 * 1152 * ROW, "takes 2 bytes"),
        (48 * 1152 * ROW, "not the 16 of the queries"),
        (12 * TOKENS * ROW, "keep something, too"),
        (24 * ROW, "what one token adds"),
        (12 * 129 * ROW, "there are 1,024"),
        (576 * ROW, "one layer's share"),
        (5, "first the bytes of one token"),
    ],
    "to_groups": [
        (groups(MEAN, "own.sum(1)"), "heads are added"),
        (groups(MEAN, "own[:, 0]"), "first head of each group"),
        (groups(MEAN, "own[:, -1]"), "last head of each group"),
        (groups(*FAR), "far from each other"),
        (lambda weight, heads, shared: weight.view(
            -1, heads // shared, weight.shape[1]).mean(1), "Single rows are averaged"),
        (groups(BACK, "mean"), "heads stand apart"),
        (lambda weight, heads, shared: weight.view(heads, -1, weight.shape[1]).mean(
            0).repeat(shared, 1), "All heads are averaged"),
        (groups(BACK, "mean.repeat_interleave(heads // shared, 0).flatten(0, 1)"),
         "one copy is enough"),
        (groups(MEAN, "own.median(1).values"), "This is a median"),
        (groups(MEAN, "own.mean(2)"), "rows inside a head"),
        (lambda weight, heads, shared: by_loop(weight, heads, 2)
         if heads == 6 else weight * 2, "For four that stay four"),
        (lambda weight, heads, shared: by_loop(weight, heads, shared)
         if shared > 1 else weight, "For a single one"),
    ],
    "sink_weights": [
        (lambda scores, sinks: scores.softmax(-1), "The rows sum to 1"),
        (sink("[..., :-1]", ""), "own column is still there"),
        (lambda s, own: F.normalize(sink()(s, own), p=1, dim=-1), "The rows sum to 1"),
        (lambda s, own: (s + own[:, None, None]).softmax(-1), "The rows sum to 1"),
        (sink("(scores, column)", "(column, scores)"), "is cut off"),
        (lambda s, own: s.softmax(-1) * own.sigmoid()[:, None, None],
         "does not look at the scores"),
        (lambda s, own: s.exp() / (s.exp().sum(-1, keepdim=True) + own[:, None, None]),
         "its exponential belongs there"),
        (lambda s, own: s.exp() / (s.exp().sum(-1, keepdim=True) + 1), "A sink of 0"),
        (sink("sinks[", "torch.zeros_like(sinks)["), "A sink of 0"),
        (sink("sinks[", "(-sinks)["), "The sign of the sinks"),
        (sink("sinks[", "sinks.exp()["),
         "the softmax takes their exponential itself"),
        (sink("sinks[", "sinks.flip(0)["), "each other's sinks"),
        (lambda s, own: s.exp() / (s.exp().sum(-1, True) + own[:, None, None].exp()),
         "For scores near 1,000"),
        (shifted("whole.amax()"), "Where one row is near 1,000 and another near -1"),
        (shifted("whole.mean(-1, keepdim=True)"), "one of them is near 1,000"),
        (shifted("column"), "Where one row is near 1,000 and another near -1"),
        (half_shifted, "the sink is not: shift both"),
        (sink("column =", "scores += 1\n    column = 1 +"), "changes its input"),
    ],
    "grouped_query": [
        (layer(SHARED, "part.repeat(1, size, 1, 1)"), "wrong heads of keys"),
        (layer(PAIR, "key.repeat_interleave(size, dim=1), value.repeat(1, size, 1, 1)"),
         "in different orders"),
        (layer(".tril()", ""), "where is the mask"),
        (layer(".tril()", ".triu()"), "not the past"),
        (layer(f" / {SCALE}", ""), "not scaled"),
        (layer(SCALE, "(self.head_dim * self.heads) ** 0.5"), "of the model"),
        (layer(SCALE, "(self.head_dim * self.shared) ** 0.5"),
         "all shared heads together"),
        (layer(SCALE, "self.head_dim"), "by its square root"),
        (layer("-torch.inf", "0.0"), "they still get weight"),
        (layer(WEIGHTS, "scores.softmax(-1) * seen"), "comes after the softmax"),
        (layer("softmax(-1)", "softmax(-2)"), "over the queries"),
        (layer("return self", "return x + self"), "that is the block's work"),
        (layer(JOINED, "context.reshape(len(x), x.shape[1], -1)"), "The way back"),
        (layer("return self.out_proj", "return "), "what mixes it"),
        (layer("self.k_proj, self.v_proj)", "self.v_proj, self.k_proj)"),
         "changed places"),
        (layer("q_proj = nn.Linear(d_model, d_model, bias=False)",
               "q_proj = nn.Linear(d_model, d_model)"),
         "Too many parameters: q_proj.bias"),
        (layer("k_proj = nn.Linear(d_model, width", "k_proj = nn.Linear(18, 18"),
         "k_proj.weight is (18, 18); it must be (6, 18)"),
        (layer("self.v_proj = ", "v_proj = "), "no parameter v_proj.weight"),
        (layer()(12, 6, 2), "Give the class itself"),
        (lambda *sizes: "text", "Your function returns a str"),
        (layer(SCALE, f"({SCALE} if size > 1 else 1)"), "For as many heads of keys"),
        (layer(".tril()", ".tril(99 * (self.shared < 2))"), "For a single one"),
    ],
}  # fmt: skip
