"""The checks of chapter 11: each usual mistake is made, and must be named."""

import torch
import torch.nn.functional as F
from torch import nn

from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.masks import causal_mask

TOKENS, ROW = 1024, 1024

# Heads averaged.


def groups(
    pick=lambda own: own.mean(1), there=None, back=lambda own: own.flatten(0, 1)
):
    """A projection's heads made fewer, with one step another."""

    def answer(weight, heads, shared):
        shape = (shared, heads // shared, -1, weight.shape[1])
        own = weight.view(*shape) if there is None else there(weight, heads, shared)
        return back(pick(own))

    return answer


def strided(weight, heads, shared):
    return weight.view(heads // shared, shared, -1, weight.shape[1]).transpose(0, 1)


def by_rows(weight, heads, shared):
    return weight.view(-1, heads // shared, weight.shape[1]).mean(1)


def one_mean(weight, heads, shared):
    return weight.view(heads, -1, weight.shape[1]).mean(0).repeat(shared, 1)


def repeated(weight, heads, shared):
    means = groups(back=lambda own: own)(weight, heads, shared)
    return means.repeat_interleave(heads // shared, 0).flatten(0, 1)


def inside(weight, heads, shared):
    own = weight.view(shared, heads // shared, -1, weight.shape[1])
    return own.mean(2).flatten(0, 1)


def by_loop(weight, heads, shared):
    head_dim, size = len(weight) // heads, heads // shared
    own = weight.split(head_dim)
    return torch.cat(
        [sum(own[g * size : (g + 1) * size]) / size for g in range(shared)]
    )


def by_einsum(weight, heads, shared):
    own = weight.reshape(shared, heads // shared, -1, weight.shape[1])
    return torch.einsum("gndm->gdm", own).flatten(0, 1) / (heads // shared)


def by_matrix(weight, heads, shared):
    mean = torch.eye(shared).repeat_interleave(heads // shared, 1) * shared / heads
    return (mean @ weight.view(heads, -1)).view(-1, weight.shape[1])


def by_unfold(weight, heads, shared):
    own = weight.view(heads, -1).unfold(0, heads // shared, heads // shared)
    return own.mean(-1).view(-1, weight.shape[1])


# A sink.


def sink(join=None, cut=slice(None, -1), own=lambda sinks: sinks):
    def answer(scores, sinks):
        column = own(sinks)[:, None, None].expand(*scores.shape[:-1], 1)
        joined = join(scores, column) if join else torch.cat((scores, column), -1)
        return joined.softmax(-1)[..., cut]

    return answer


def by_sum(scores, sinks):
    total = scores.exp().sum(-1, keepdim=True)
    return scores.exp() / (total + sinks[:, None, None].exp())


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


def sink_first(scores, sinks):
    column = sinks.view(1, -1, 1, 1).expand(len(scores), -1, scores.shape[2], 1)
    return torch.cat((column, scores), -1).softmax(-1)[..., 1:]


def by_head(scores, sinks):
    found = []
    for head, own in enumerate(sinks):
        column = own.expand(*scores[:, head].shape[:-1], 1)
        found.append(torch.cat((scores[:, head], column), -1).softmax(-1)[..., :-1])
    return torch.stack(found, 1)


def by_value(scores, sinks):
    one = torch.eye(scores.shape[-1])
    value = F.pad(one, (0, 0, 0, 1))
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.cat((scores, column), -1).softmax(-1) @ value


def renormalised(scores, sinks):
    found = sink()(scores, sinks)
    return found / found.sum(-1, keepdim=True)


def gated(scores, sinks):
    return scores.softmax(-1) * sinks.sigmoid()[:, None, None]


def half_shifted(scores, sinks):
    parts = (scores - scores.amax(-1, keepdim=True)).exp()
    return parts / (parts.sum(-1, keepdim=True) + sinks[:, None, None].exp())


def in_place(scores, sinks):
    scores += 1
    return sink()(scores, sinks + 1)


def raw_sum(scores, sinks):
    total = scores.exp().sum(-1, keepdim=True)
    return scores.exp() / (total + sinks[:, None, None])


# A layer.


class Layer(nn.Module):
    """Grouped queries, right where nothing is changed."""

    order, values = "repeat_interleave", "repeat_interleave"
    bias, mask, names = False, "tril", ("k_proj", "v_proj")
    hidden = -torch.inf

    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__()
        self.heads, self.shared = num_heads, num_kv_heads
        self.head_dim = d_model // num_heads
        width = self.head_dim * num_kv_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=self.bias)
        self.k_proj = nn.Linear(d_model, width, bias=False)
        self.v_proj = nn.Linear(d_model, width, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def cut(self, x):
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def all(self, x):
        return [self.cut(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj)]

    def share(self, x, order):
        size = self.heads // self.shared
        if order == "repeat":
            return x.repeat(1, size, 1, 1)
        return x.repeat_interleave(size, dim=1)

    def scale(self):
        return self.head_dim**-0.5

    def join(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, x):
        query = self.cut(self.q_proj(x))
        key, value = (self.cut(getattr(self, name)(x)) for name in self.names)
        key, value = self.share(key, self.order), self.share(value, self.values)
        scores = query @ key.mT * self.scale()
        seen = torch.ones(x.shape[1], x.shape[1])
        seen = (getattr(seen, self.mask)() if self.mask else seen) > 0
        return self.out_proj(self.join(self.weigh(scores, seen) @ value))

    def weigh(self, scores, seen):
        return scores.masked_fill(~seen, self.hidden).softmax(-1)


def but(**changes):
    return type("Changed", (Layer,), changes)


class NoOutput(Layer):
    def forward(self, x):
        self.out_proj, kept = nn.Identity(), self.out_proj
        found = super().forward(x)
        self.out_proj = kept
        return found


class Residual(Layer):
    def forward(self, x):
        return x + super().forward(x)


class Kernel(Layer):
    def forward(self, x):
        query, key, value = (
            self.cut(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        found = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )
        return self.out_proj(self.join(found))


class Rows(Layer):
    def forward(self, x):
        batch, length, _ = x.shape
        query = self.cut(self.q_proj(x)).view(
            batch, self.shared, -1, length, self.head_dim
        )
        key, value = (
            self.cut(self.k_proj(x))[:, :, None],
            self.cut(self.v_proj(x))[:, :, None],
        )
        scores = query @ key.mT * self.scale()
        scores = scores.masked_fill(~causal_mask(length), -torch.inf)
        return self.out_proj(self.join((scores.softmax(-1) @ value).flatten(1, 2)))


class Loop(Layer):
    def forward(self, x):
        query, key, value = (
            self.cut(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        found = []
        for head in range(self.heads):
            own = head * self.shared // self.heads
            scores = query[:, head] @ key[:, own].mT * self.scale()
            scores = scores.masked_fill(~causal_mask(x.shape[1]), -torch.inf)
            found.append(scores.softmax(-1) @ value[:, own])
        return self.out_proj(torch.cat(found, -1))


class Einsum(Layer):
    def forward(self, x):
        batch, length, _ = x.shape
        query = self.q_proj(x).view(batch, length, self.shared, -1, self.head_dim)
        key = self.k_proj(x).view(batch, length, self.shared, self.head_dim)
        value = self.v_proj(x).view(batch, length, self.shared, self.head_dim)
        scores = torch.einsum("btgnd,bsgd->bgnts", query, key) * self.scale()
        scores = scores + torch.full((length, length), -torch.inf).triu(1)
        found = torch.einsum("bgnts,bsgd->btgnd", scores.softmax(-1), value)
        return self.out_proj(found.flatten(2))


class TwoMeans(Layer):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.k_proj = nn.Linear(
            self.q_proj.in_features, self.q_proj.in_features, bias=False
        )


class NoValues(Layer):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.v_proj


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
        groups(), by_loop, by_einsum, by_matrix, by_unfold,
        groups(lambda own: own.sum(1) / own.shape[1]),
        groups(lambda own: own.double().mean(1).float()),
        groups(lambda own: torch.stack([each.mean(0) for each in own])),
        groups(back=lambda own: own.reshape(-1, own.shape[-1])),
        groups(back=lambda own: torch.cat(list(own))),
    ],
    "sink_weights": [
        sink(), by_share, by_log, by_top, by_pad, sink_first, by_head, by_value,
        lambda s, own: F.softmax(torch.cat((s, own.view(1, -1, 1, 1).expand(
            len(s), -1, s.shape[2], 1)), 3), 3)[..., : s.shape[-1]],
        lambda s, own: torch.cat((s, own[None, :, None, None].repeat(
            len(s), 1, s.shape[2], 1)), -1).softmax(-1).narrow(-1, 0, s.shape[-1]),
    ],
    "grouped_query": [
        Layer, Kernel, Rows, Loop, Einsum, of_library, lambda *sizes: Layer(*sizes),
        but(share=lambda self, x, order: x[:, :, None].expand(
            -1, -1, self.heads // self.shared, -1, -1).flatten(1, 2)),
        but(share=lambda self, x, order: x[:, [
            head * self.shared // self.heads for head in range(self.heads)]]),
        but(join=lambda self, context: torch.cat(context.unbind(1), -1)),
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
        (groups(lambda own: own.sum(1)), "heads are added"),
        (groups(lambda own: own[:, 0]), "first head of each group"),
        (groups(lambda own: own[:, -1]), "last head of each group"),
        (groups(there=strided), "far from each other"),
        (by_rows, "Single rows are averaged"),
        (groups(back=lambda own: own), "heads stand apart"),
        (one_mean, "All heads are averaged"),
        (repeated, "one copy is enough"),
        (groups(lambda own: own.median(1).values), "This is a median"),
        (inside, "rows inside a head"),
        (lambda weight, heads, shared: by_loop(weight, heads, 2)
         if heads == 6 else weight * 2, "For four that stay four"),
        (lambda weight, heads, shared: by_loop(weight, heads, shared)
         if shared > 1 else weight, "For a single one"),
    ],
    "sink_weights": [
        (lambda scores, sinks: scores.softmax(-1), "The rows sum to 1"),
        (sink(cut=slice(None)), "own column is still there"),
        (renormalised, "The rows sum to 1"),
        (lambda s, own: (s + own[:, None, None]).softmax(-1), "The rows sum to 1"),
        (sink(lambda scores, column: torch.cat((column, scores), -1)), "is cut off"),
        (gated, "does not look at the scores"),
        (raw_sum, "its exponential belongs there"),
        (lambda s, own: s.exp() / (s.exp().sum(-1, keepdim=True) + 1), "A sink of 0"),
        (sink(own=torch.zeros_like), "A sink of 0"),
        (sink(own=torch.neg), "The sign of the sinks"),
        (sink(own=torch.exp), "the softmax takes their exponential itself"),
        (sink(own=lambda sinks: sinks.flip(0)), "each other's sinks"),
        (by_sum, "For scores of several hundred"),
        (half_shifted, "the sink is not: shift both"),
        (in_place, "changes its input"),
    ],
    "grouped_query": [
        (but(order="repeat", values="repeat"), "wrong heads of keys"),
        (but(values="repeat"), "in different orders"),
        (but(mask=""), "where is the mask"),
        (but(mask="triu"), "not the past"),
        (but(scale=lambda self: 1), "not scaled"),
        (but(scale=lambda self: (self.head_dim * self.heads) ** -0.5), "of the model"),
        (but(scale=lambda self: (self.head_dim * self.shared) ** -0.5),
         "all shared heads together"),
        (but(scale=lambda self: 1 / self.head_dim), "by its square root"),
        (but(hidden=0.0), "they still get weight"),
        (but(weigh=lambda self, scores, seen: scores.softmax(-1) * seen),
         "comes after the softmax"),
        (but(weigh=lambda self, scores, seen:
             scores.masked_fill(~seen, -torch.inf).softmax(-2)), "over the queries"),
        (Residual, "that is the block's work"),
        (but(join=lambda self, c: c.reshape(len(c), c.shape[2], -1)), "The way back"),
        (NoOutput, "what mixes it"),
        (but(names=("v_proj", "k_proj")), "changed places"),
        (but(bias=True), "Too many parameters: q_proj.bias"),
        (TwoMeans, "k_proj.weight is (18, 18); it must be (6, 18)"),
        (NoValues, "no parameter v_proj.weight"),
        (Layer(12, 6, 2), "Give the class itself"),
        (lambda *sizes: "text", "Your function returns a str"),
        (lambda d, heads, shared: Layer(d, heads, shared) if heads != shared else
         but(scale=lambda self: 1)(d, heads, shared), "For as many heads of keys"),
        (lambda d, heads, shared: Layer(d, heads, shared) if shared > 1 else
         but(mask="")(d, heads, shared), "For a single one"),
    ],
}  # fmt: skip
