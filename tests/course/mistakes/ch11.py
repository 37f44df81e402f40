"""The checks of chapter 11: each usual mistake is made, and must be named."""

import torch
import torch.nn.functional as F

from attention_lib.course.exercises import ch11
from attention_lib.grouped_query import GroupedQueryAttention

groups, step = ch11.check_to_groups.made, ch11.check_grouped_decode.made
layer = ch11.check_grouped_query.made


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
    "to_groups": [
        by_loop, by_matrix, by_unfold,
        groups(ch11.MEAN, "(torch.einsum('gndm->gdm', heads) / heads.shape[1])"),
        groups(ch11.MEAN, "(heads.sum(1) / size)"),
        groups(ch11.MEAN, "heads.double().mean(1).float()"),
        groups(ch11.MEAN, "torch.stack([each.mean(0) for each in heads])"),
        groups(".flatten(0, 1)", ".reshape(-1, weight.shape[-1])"),
        groups(f"{ch11.MEAN}.flatten(0, 1)", f"torch.cat(list({ch11.MEAN}))"),
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
    "to_groups": [
        (lambda weight, heads, shared: by_loop(weight, heads, 2)
         if heads == 6 else weight * 2, "For four that stay four"),
        (lambda weight, heads, shared: by_loop(weight, heads, shared)
         if shared > 1 else weight, "For a single one"),
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
