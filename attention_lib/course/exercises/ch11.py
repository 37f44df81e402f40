"""Exercises of chapter 11: heads compared, a step without a copy, a layer built."""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from attention_lib.course.exercises.exercise import (
    Exercise,
    LayerExercise,
    slip,
)
from attention_lib.multi_head import merge_heads, split_heads
from attention_lib.reproducibility import seeded

HEADS = "weight.unflatten(0, (num_heads, -1))"
SQUARES = "apart.square().sum(dim=(2, 3))"
HALF = f"{SQUARES} / 2"
check_merge_changes = Exercise(
    solution="""
def merge_changes(weight, num_heads):
    heads = weight.unflatten(0, (num_heads, -1))  # (H, D, M)
    apart = heads[:, None] - heads  # (H, H, D, M)
    return apart.square().sum(dim=(2, 3)) / 2
""",
    cases=[
        ((4, 2, 12), ""),
        ((3, 5, 6), "Right for four heads. For three:"),
        ((1, 4, 3), "Right for several heads. For a single one:"),
    ],
    inputs=lambda heads, head_dim, width: (
        torch.randn(heads * head_dim, width, generator=seeded(0)),
        heads,
    ),
    slips=[
        slip("Each head moves by half of the difference only, to the mean.",
             HALF, SQUARES),
        slip("That is what one of the two heads changes: both move.",
             HALF, f"{SQUARES} / 4"),
        slip("Each head is moved to the other: both move to their mean.",
             HALF, f"2 * {SQUARES}"),
        slip("The squares are averaged: their sum is wanted.",
             HALF, "apart.square().mean(dim=(2, 3)) / 2"),
        slip("The squares are averaged over the two heads' numbers: their sum is "
             "wanted.", HALF, "apart.square().mean(dim=(2, 3)) / 4"),
        slip("This is a root of the sum: the sum itself is wanted.",
             HALF, f"({HALF}).sqrt()"),
        slip("This is the distance of two heads: what changes when both move to their "
             "mean, squared?", HALF, f"{SQUARES}.sqrt()"),
        slip("The sizes of the changes are added: add their squares.",
             HALF, "apart.abs().sum(dim=(2, 3))"),
        slip("Changes of opposite signs cancel: square each before you add.",
             HALF, "apart.sum(dim=(2, 3)).square() / 2"),
        slip("The squares are added row by row: one number for each pair of heads is "
             "wanted.", HALF, "apart.square().sum(dim=3) / 2"),
        slip("The squares are added column by column: one number for each pair of "
             "heads is wanted.", HALF, "apart.square().sum(dim=2) / 2"),
        slip("The rows of the heads are mixed: the first rows are head 0.",
             HEADS, "weight.unflatten(0, (-1, num_heads)).transpose(0, 1)"),
        slip("The columns are cut into heads: a head is a block of rows.",
             HEADS, "weight.T.unflatten(0, (num_heads, -1))"),
        slip("Each head is compared with the mean of all heads: only two are merged.",
             HALF, "far[:, None] + far",
             "    return", "    far = (heads - heads.mean(0)).square().sum(dim=(1, 2))"
             "\n    return"),
        slip("The heads are multiplied: how alike they are is not how far each moves.",
             HALF, "(heads[:, None] * heads).sum(dim=(2, 3))"),
        slip("Half of the matrix is empty: merging 2 with 0 is merging 0 with 2.",
             HALF, f"({HALF}).triu()"),
        slip("Half of the matrix is empty: merging 2 with 0 is merging 0 with 2.",
             HALF, f"({HALF}).tril()"),
        slip("The diagonal must be 0: a head merged with itself does not change.",
             HALF, f"({HALF}).fill_diagonal_(1e9)"),
    ],
    praise="The smallest number off the diagonal is the pair that changes least.",
)  # fmt: skip

REPEATED = "The numbers are right, but keys or values are copied for each query head."
QUERIES, SUMS = "reshape(batch, kv_heads, -1, width)", "scores.softmax(dim=-1) @ value"
BACK, ROOT = "context.reshape(query.shape)", "width**0.5"


class _Largest(TorchFunctionMode):
    """Keep the size of the largest tensor that is made, in numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            if isinstance(each, Tensor):
                size = each.untyped_storage().nbytes() // each.element_size()
                self.size = max(self.size, size)
        return made


def _copied(answer: Any, query: Tensor, key: Tensor, value: Tensor) -> str | None:
    """Say that each query head got its own keys, if a tensor was as large as that."""
    with _Largest() as largest:
        answer(query, key, value)
    copy = key.numel() // key.shape[1] * query.shape[1]
    return REPEATED if largest.size >= copy > key.numel() else None


check_grouped_decode = Exercise(
    solution="""
def decode(query, key, value):
    batch, kv_heads, _, width = key.shape
    rows = query.reshape(batch, kv_heads, -1, width)  # (B, G, H/G, D)
    scores = rows @ key.mT / width**0.5
    context = scores.softmax(dim=-1) @ value
    return context.reshape(query.shape)
""",
    cases=[
        ((2, 6, 2, 9, 4), ""),
        ((1, 4, 4, 7, 8), "Right for groups of three. For as many KV heads as query "
         "heads:"),
        ((3, 4, 1, 8, 5), "Right for several KV heads. For a single one:"),
    ],
    inputs=lambda batch, heads, shared, keys, width: (
        torch.randn(batch, heads, 1, width, generator=seeded(0)),
        torch.randn(batch, shared, keys, width, generator=seeded(1)),
        torch.randn(batch, shared, keys, width, generator=seeded(2)),
    ),
    fault=_copied,
    slips=[
        slip("The query heads read the wrong KV heads: neighbours share one.",
             QUERIES, "reshape(batch, -1, kv_heads, width).transpose(1, 2)",
             BACK, "context.transpose(1, 2).reshape(query.shape)"),
        slip("The queries are in the right groups, but their results come back in "
             "another order.", BACK, "context.transpose(1, 2).reshape(query.shape)"),
        slip("The scores are not scaled.", ROOT, "1"),
        slip("The scores are divided by the width of a head: by its square root is "
             "meant.", ROOT, "width"),
        slip("The scale takes the number of keys: the width of a head is meant.",
             ROOT, "key.shape[2]**0.5"),
        slip("The softmax goes over the queries of a group: each query's weights sum "
             "to 1, so it goes over the keys.", "softmax(dim=-1)", "softmax(dim=-2)"),
        slip("The softmax is missing: scores are not weights yet.",
             SUMS, "scores @ value"),
        slip("The result keeps its groups: take the shape of the query back.",
             BACK, "context"),
        slip("The mix is made of keys: the values are wanted.", "@ value", "@ key"),
        slip("Keys and values have changed places.",
             "rows @ key.mT", "rows @ value.mT", SUMS, SUMS.replace("value", "key")),
        slip("The queries of a group are averaged: each has its own row of weights.",
             BACK, "context.mean(2, True).expand_as(context).reshape(query.shape)"),
    ],
    praise="The queries of a group are rows of one head: no key was copied.",
)  # fmt: skip

CALL = """context = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )"""
STEPS = """size = self.num_heads // self.num_kv_heads
        key, value = (part.repeat_interleave(size, dim=1) for part in (key, value))
        scores = query @ key.mT / query.shape[-1] ** 0.5
        seen = torch.ones(x.shape[1], x.shape[1]).tril() > 0
        weights = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)
        context = weights @ value"""
PAIR = "(part.repeat_interleave(size, dim=1) for part in (key, value))"
GQA, SCALE = "enable_gqa=True", "enable_gqa=True, scale={}"
check_grouped_query = LayerExercise(
    solution="""
class MyGroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        shared = d_model // num_heads * num_kv_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, shared, bias=False)
        self.v_proj = nn.Linear(d_model, shared, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        query = split_heads(self.q_proj(x), self.num_heads)
        key = split_heads(self.k_proj(x), self.num_kv_heads)
        value = split_heads(self.v_proj(x), self.num_kv_heads)
        context = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )
        return self.out_proj(merge_heads(context))
""",
    names={"merge_heads": merge_heads, "split_heads": split_heads},
    surplus="Four weights without a bias are all.",
    cases=[
        ((18, 6, 2), ""),
        ((8, 2, 2), "Right for groups of three. For as many KV heads as query heads:"),
        ((8, 4, 1), "Right for several KV heads. For a single one:"),
    ],
    inputs=lambda d_model, heads, shared: (
        torch.randn(2, 5, d_model, generator=seeded(0)),
    ),
    slips=[
        slip("The query heads read the wrong KV heads: neighbours share one.",
             CALL, STEPS,
             "part.repeat_interleave(size, dim=1)", "part.repeat(1, size, 1, 1)"),
        slip("Keys and values are shared out in different orders.", CALL, STEPS,
             PAIR, "key.repeat_interleave(size, dim=1), value.repeat(1, size, 1, 1)"),
        slip("A token sees the future: where is the mask?",
             "is_causal=True", "is_causal=False"),
        slip("A token sees the future, not the past: is the triangle flipped?",
             CALL, STEPS, "tril()", "triu()"),
        slip("The scores are not scaled.", GQA, SCALE.format("1.0")),
        slip("The scale takes the width of the model, not of a head.",
             GQA, SCALE.format("x.shape[-1] ** -0.5")),
        slip("The scale takes the width of all shared heads together, not of one.",
             GQA, SCALE.format("self.k_proj.out_features ** -0.5")),
        slip("The scores are divided by the width of a head: by its square root is "
             "meant.", GQA, SCALE.format("1 / query.shape[-1]")),
        slip("Hidden scores are 0, and e⁰ is 1: they still get weight.", CALL, STEPS,
             "-torch.inf", "0.0"),
        slip("The mask comes after the softmax: the other weights then sum to less "
             "than 1.", CALL, STEPS,
             "scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)",
             "scores.softmax(dim=-1) * seen"),
        slip("The softmax goes over the queries: each query's weights sum to 1, so it "
             "goes over the keys.", CALL, STEPS, "dim=-1", "dim=-2"),
        slip("The input is added: that is the block's work.", "return ", "return x + "),
        slip("The way back mixes tokens and heads: which axes change places before the "
             "heads are joined?", "merge_heads(context)", "context.reshape(x.shape)"),
        slip("What the heads found is side by side: what mixes it?",
             "self.out_proj(merge_heads(context))", "merge_heads(context)"),
        slip("Keys and values have changed places.", "key, value,", "value, key,"),
    ],
    praise="Multi-head, grouped and multi-query attention in one class.",
)  # fmt: skip
