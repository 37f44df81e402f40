"""The checks of chapter 11: each usual mistake is made, and must be named."""

import torch
import torch.nn.functional as F

from attention_lib.course.exercises import ch11
from attention_lib.grouped_query import GroupedQueryAttention

pairs, step = ch11.check_merge_changes.made, ch11.check_grouped_decode.made
layer = ch11.check_grouped_query.made


def by_mean(weight, heads):
    own = weight.split(len(weight) // heads)
    found = torch.zeros(heads, heads, dtype=weight.dtype)
    for i in range(heads):
        for j in range(heads):
            mean = (own[i] + own[j]) / 2
            found[i, j] = ((own[i] - mean) ** 2).sum() + ((own[j] - mean) ** 2).sum()
    return found


def by_half(weight, heads):
    own, found = weight.reshape(heads, -1), torch.zeros(heads, heads).to(weight)
    for i in range(heads):
        for j in range(i):
            found[i, j] = found[j, i] = 2 * ((own[i] - own[j]) / 2).square().sum()
    return found


def by_products(weight, heads):
    own = weight.view(heads, -1)
    products = own @ own.T
    squares = products.diagonal()
    return (squares[:, None] + squares) / 2 - products


def by_distance(weight, heads):
    own = weight.view(heads, -1)
    return torch.cdist(own, own).square() / 2


def by_rows(weight, heads):
    own = weight.view(heads, -1)
    return torch.stack([((own - one) ** 2).sum(1) / 2 for one in own])


def by_variance(weight, heads):
    own = weight.view(heads, -1)
    both = torch.stack(torch.broadcast_tensors(own[:, None], own))
    return both.var(0, correction=1).sum(-1)


def by_one_pair(weight, heads):
    found = by_mean(weight, heads)
    smallest = (found + torch.eye(heads) * 1e9).argmin().item()
    return divmod(smallest, heads)


def by_sdpa(query, key, value):
    rows = query.view(len(key), key.shape[1], -1, key.shape[-1])
    return F.scaled_dot_product_attention(rows, key, value).view(query.shape)


def by_kernel(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)


def by_head(query, key, value):
    size = query.shape[1] // key.shape[1]
    found = []
    for head in range(query.shape[1]):
        scores = query[:, head] @ key[:, head // size].mT / key.shape[-1] ** 0.5
        found.append(scores.softmax(-1) @ value[:, head // size])
    return torch.stack(found, 1)


def by_group(query, key, value):
    size, width = query.shape[1] // key.shape[1], key.shape[-1]
    parts = zip(query.split(size, 1), key.unbind(1), value.unbind(1), strict=True)
    found = [(q[:, :, 0] @ k.mT / width**0.5).softmax(-1) @ v for q, k, v in parts]
    return torch.cat(found, 1)[:, :, None]


def by_einsum(query, key, value):
    rows = query[:, :, 0].unflatten(1, (key.shape[1], -1)) / key.shape[-1] ** 0.5
    weights = torch.einsum("bgnd,bgkd->bgnk", rows, key).softmax(-1)
    return torch.einsum("bgnk,bgkd->bgnd", weights, value).flatten(1, 2)[:, :, None]


def by_bmm(query, key, value):
    rows = query.reshape(key.shape[0] * key.shape[1], -1, key.shape[-1])
    weights = (rows @ key.flatten(0, 1).mT / key.shape[-1] ** 0.5).softmax(-1)
    return torch.bmm(weights, value.flatten(0, 1)).view_as(query)


def by_copy(query, key, value):
    size = query.shape[1] // key.shape[1]
    key, value = (it.repeat_interleave(size, 1) for it in (key, value))
    return F.scaled_dot_product_attention(query, key, value)


def by_expand(query, key, value):
    size, width = query.shape[1] // key.shape[1], key.shape[-1]
    key, value = (
        it[:, :, None].expand(-1, -1, size, -1, -1).flatten(1, 2) for it in (key, value)
    )
    return (query @ key.mT / width**0.5).softmax(-1) @ value


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
    "merge_changes": [
        by_mean, by_half, by_products, by_distance, by_rows, by_variance,
        pairs(ch11.HEADS, "weight.view(num_heads, -1, weight.shape[1])"),
        pairs(ch11.HALF, "torch.einsum('ijdm,ijdm->ij', apart, apart) / 2"),
        pairs(ch11.HALF, "torch.linalg.vector_norm(apart, dim=(2, 3)) ** 2 / 2"),
        pairs("heads[:, None] - heads", "heads - heads[:, None]"),
    ],
    "grouped_decode": [
        by_sdpa, by_kernel, by_head, by_group, by_einsum, by_bmm,
        step("reshape(batch, kv_heads, -1, width)", "view(batch, kv_heads, -1, width)"),
        step(ch11.ROOT, "math.sqrt(width)", "    batch", "    import math\n    batch"),
        step(ch11.BACK, "context.flatten(1, 2)[:, :, None]"),
        step("rows @ key.mT / width**0.5", "(rows / width**0.5) @ key.transpose(2, 3)"),
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
    "merge_changes": [
        (by_one_pair, "only one is asked for"),
        (lambda weight, heads: by_mean(weight, heads)
         if heads == 4 else weight * 2, "For three"),
        (lambda weight, heads: by_mean(weight, heads)
         if heads > 1 else weight[:1, :1], "For a single one"),
    ],
    "grouped_decode": [
        (by_copy, "copied for each query head"),
        (by_expand, "copied for each query head"),
        (lambda query, key, value: by_head(query, key, value)
         if key.shape[1] < query.shape[1] else 2 * query, "For as many KV heads"),
        (lambda query, key, value: by_head(query, key, value)
         if key.shape[1] > 1 else 2 * query, "For a single one"),
    ],
    "grouped_query": [
        (layer("q_proj = nn.Linear(d_model, d_model, bias=False)",
               "q_proj = nn.Linear(d_model, d_model)"),
         "Too many parameters: q_proj.bias"),
        (layer(ch11.GQA, ch11.SCALE.format(
            "1.0 if self.num_kv_heads == 2 == self.num_heads else None")),
         "For as many KV heads"),
        (layer("is_causal=True", "is_causal=self.num_kv_heads > 1"),
         "For a single one"),
    ],
}  # fmt: skip
