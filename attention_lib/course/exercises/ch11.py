"""Exercises of chapter 11: a cache counted, heads averaged, a sink, a layer built."""

import torch

from attention_lib.course.exercises.exercise import (
    Exercise,
    LayerExercise,
    NumberExercise,
    slip,
)
from attention_lib.multi_head import merge_heads, split_heads
from attention_lib.reproducibility import seeded

ROW = 2 * 4 * 64 * 2  # the bytes of one token in one layer
check_shared_bytes = NumberExercise(
    solution="""
one_token_one_layer = 2 * 4 * 64 * 2  # keys and values, heads, width, bytes
my_bytes = (12 * 1024 + 12 * 128) * one_token_one_layer
""",
    mistakes=[
        (24 * 1024 * ROW, "The layers with a window keep 128 tokens only."),
        (24 * 128 * ROW, "Only every other layer has a window."),
        (6 * 1152 * ROW, "Keys and values are both kept, and each number takes 2 "
         "bytes."),
        (3 * 1152 * ROW, "Keys and values are both kept, and each number takes 2 "
         "bytes."),
        (48 * 1152 * ROW, "The cache holds the 4 KV heads, not the 16 "
         "of the queries."),
        (12 * 1024 * ROW, "The layers with a window keep something, too."),
        (12 * 129 * ROW, "That is one token in the layers without a window: there are "
         "1,024."),
        (24 * ROW, "That is what one token adds: there are 1,024."),
        (576 * ROW, "That is one layer's share: there are 24."),
    ],
    praise="12 layers keep 1,024 tokens, 12 keep 128: 1,024 bytes per token and layer.",
    otherwise="Not that many: first the bytes of one token in one layer, then the "
    "tokens.",
)  # fmt: skip

MEAN, STACKED = "heads.mean(dim=1)", "heads.mean(dim=1).flatten(0, 1)"
check_to_groups = Exercise(
    solution="""
def to_groups(weight, num_heads, num_kv_heads):
    size = num_heads // num_kv_heads
    heads = weight.view(num_kv_heads, size, -1, weight.shape[1])
    return heads.mean(dim=1).flatten(0, 1)
""",
    cases=[
        ((6, 2, 2, 5), ""),
        ((4, 4, 3, 5), "Right for six heads that become two. For four that stay four:"),
        ((4, 1, 3, 7), "Right for several groups. For a single one:"),
    ],
    inputs=lambda heads, shared, head_dim, width: (
        torch.randn(heads * head_dim, width, generator=seeded(0)),
        heads,
        shared,
    ),
    slips=[
        slip("The heads are added: a mean is wanted.", MEAN, "heads.sum(dim=1)"),
        slip("The first head of each group is taken: where are the others?",
             MEAN, "heads[:, 0]"),
        slip("The last head of each group is taken: where are the others?",
             MEAN, "heads[:, -1]"),
        slip("Heads far from each other are averaged: neighbours share a KV head.",
             "num_kv_heads, size,", "size, num_kv_heads,", "dim=1", "dim=0"),
        slip("Single rows are averaged, not whole heads: a head is head_dim rows.",
             STACKED, "weight.view(-1, size, weight.shape[1]).mean(dim=1)"),
        slip("The heads are still separate: put their rows below each other.",
             STACKED, MEAN),
        slip("All heads are averaged: each group has a mean of its own.",
             STACKED,
             "weight.view(num_heads, -1, "
             "weight.shape[1]).mean(dim=0).repeat(num_kv_heads, 1)"),
        slip("Each mean is repeated for its group: one copy is enough.",
             MEAN, f"{MEAN}.repeat_interleave(size, dim=0)"),
        slip("This is a median: a mean is wanted.", MEAN, "heads.median(dim=1).values"),
        slip("The rows inside a head are averaged: average the heads of a group, row "
             "by row.", MEAN, "heads.mean(dim=2)"),
    ],
    praise="Each group's mean: the start that Ainslie et al. found best.",
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
             "first.", WEIGHTS, f"scores.exp() / ({TOTAL} + column.exp())"),
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
