"""The checks of chapter 20: each usual mistake is made, and must be named."""

import statistics

import torch

from attention_lib.attention import scaled_dot_product_attention
from tests.answers import as_numbers, solution

joined = solution(
    """
def attend_joined(query, key, value, mask, num_heads):
    query, key, value = (t.unflatten(0, (-1, num_heads)) for t in (query, key, value))
    context = F.scaled_dot_product_attention(query, key, value, mask[:, None])
    return context.flatten(0, 1)
""",
    by_hand=scaled_dot_product_attention,
)
FOUR = (
    "query, key, value = (t.unflatten(0, (-1, num_heads)) for t in (query, key, value))"
)
MASK, CALL = (
    "mask[:, None]",
    "F.scaled_dot_product_attention(query, key, value, mask[:, None])",
)
EACH_MASK, END = "mask.repeat_interleave(num_heads, 0)", "context.flatten(0, 1)"
THREE = (FOUR, "pass", MASK, EACH_MASK, END, "context")
turns = solution(
    """
def ratios_in_turns(ways, rounds, clock):
    seconds = {name: [] for name in ways}
    for call in ways.values():
        call()
    for _ in range(rounds):
        for name, call in ways.items():
            begin = clock()
            call()
            seconds[name].append(clock() - begin)
    first = seconds[next(iter(ways))]
    return {name: [a / b for a, b in zip(own, first)] for name, own in seconds.items()}
""",
    statistics=statistics,
)
WARM = "    for call in ways.values():\n        call()\n"
LOOP = "    for _ in range(rounds):\n        for name, call in ways.items():\n"
SWAPPED = "    for name, call in ways.items():\n        for _ in range(rounds):\n"
EACH = "[a / b for a, b in zip(own, first)]"
GIVE = f"return {{name: {EACH} for name, own in seconds.items()}}"

RIGHT = {
    "median_ratio": [
        0.75, 12 / 16, 3 / 4, 0.7500001, *as_numbers(0.75)[3:],
        statistics.median([9 / 15, 12 / 16, 33 / 35, 16 / 8, 8 / 15]),
        torch.tensor([0.6, 0.75, 0.943, 2.0, 0.533]).median(),
    ],
    "attend_joined": [
        joined(),
        joined("mask[:, None]", "mask.unsqueeze(1)"),
        joined("mask[:, None]", "mask.unflatten(0, (-1, 1))"),
        joined("(-1, num_heads)", "(len(mask), num_heads)"),
        joined("t.unflatten(0, (-1, num_heads))",
               "t.view(len(mask), num_heads, *t.shape[1:])"),
        joined("context.flatten(0, 1)", "context.reshape(-1, *context.shape[2:])"),
        joined(MASK, "mask[:, None].expand(-1, num_heads, -1, -1)"),
        joined("value, mask[:", "value, attn_mask=mask[:"),
        joined(FOUR, "query, key, value = query[None], key[None], value[None]",
               MASK, "mask.repeat_interleave(num_heads, 0)[None]"),
        joined(MASK, "torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)[:, None]"),
    ],
    "ratios_in_turns": [
        turns(),
        turns(EACH, "[own[i] / first[i] for i in range(rounds)]"),
        turns(EACH, "list(np.array(own) / np.array(first))"),
        turns(EACH, "np.array(own) / np.array(first)"),
        turns(EACH, "torch.tensor(own) / torch.tensor(first)"),
        turns(EACH, "tuple(a / b for a, b in zip(own, first))"),
        turns("next(iter(ways))", "list(ways)[0]"),
        turns(WARM, "    for name in ways:\n        ways[name]()\n"),
        turns("clock() - begin", "-begin + clock()"),
        turns("{name: [] for name in ways}", "dict(zip(ways, ([] for _ in ways)))"),
    ],
}  # fmt: skip
MISTAKES = {
    "median_ratio": [
        (16 / 12, "first over the second"),
        (12 / 15, "ratio of the medians: divide"),
        (15 / 12, "and first over second"),
        ((9 / 15 + 12 / 16 + 33 / 35 + 2 + 8 / 15) / 5, "mean of the ratios"),
        (78 / 89, "ratio of the sums"),
        (1, "shortest times"),
        (33 / 35, "third round"),
        (8 / 15, "smallest ratio"),
        (2, "largest ratio"),
        (0.25, "what is saved"),
        (75, "in percent"),
        (3, "sort, take the middle"),
    ],
    "attend_joined": [
        (joined(", mask[:, None]", ""), "No mask was used"),
        (joined(*THREE[:3], "mask.repeat(num_heads, 1, 1)", *THREE[4:]),
         "mask of another text"),
        (joined(MASK, "~mask[:, None]"), "upside down"),
        (joined(MASK, "mask[:1, None]"), "first text's mask"),
        (joined(MASK, "mask[:, None].mT"), "rows and columns swapped"),
        (joined("context.flatten(0, 1)", "context"), "joined with the batch again"),
        (joined(*THREE), "how many axes"),
        (joined(CALL, "by_hand(query, key, value, mask[:, None])"), "written out"),
        (joined(CALL, "torch.cat([F.scaled_dot_product_attention(query[:, h:h + 1], "
                "key[:, h:h + 1], value[:, h:h + 1], mask[:, None]) "
                "for h in range(num_heads)], 1)"), "all heads and texts fit"),
        (joined("(-1, num_heads)", "(num_heads, -1)"),
         "For other numbers"),
        (joined(MASK, "mask.squeeze()[:, None]"), "For a single one"),
    ],
    "ratios_in_turns": [
        (turns(WARM, ""), "No way was called before"),
        (turns(LOOP, SWAPPED), "After the warm-up, all rounds"),
        (turns(WARM, "", LOOP, "    for name, call in ways.items():\n        call()\n"
               "        for _ in range(rounds):\n"), "come first: take turns, A B"),
        (turns(EACH, "own"), "These are the times"),
        (turns("a / b", "b / a"), "over the others'"),
        (turns(EACH, "[a / first[0] for a in own]"), "first time"),
        (turns(EACH, "[a / statistics.median(first) for a in own]"), "median: divide"),
        (turns(EACH, f"sorted({EACH})"), "are sorted"),
        (turns(EACH, f"[statistics.median({EACH})]"), "One number for each"),
        (turns(GIVE, "return [1.0]"), "a dict with the names"),
        (turns(EACH, "statistics.median(own)"), "a list of numbers"),
        (turns(WARM, WARM + WARM), "are enough"),
        (turns(WARM, "", "range(rounds)", "range(rounds + 1)",
               "in zip(own, first)", "in zip(own[:-1], first)"), "warm-up was counted"),
        (turns("next(iter(ways))", "list(ways)[-2]"), "For three"),
        (turns(WARM, WARM + "    if len(ways) < 2: raise ValueError\n"),
         "Right for several ways. For a single one"),
        (turns(GIVE, GIVE.replace("return {", "return {'extra': [], **{") + "}"),
         "it has"),
        (turns("in ways.items():", "in reversed(ways.items()):"), "in the order"),
        (turns("range(rounds):", "range(rounds - 1):"), "round is missing"),
        (turns(EACH, "[a / b + 1 for a, b in zip(own, first)]"), "is right"),
        (turns("    seconds = {name: [] for name in ways}\n",
               "    return {name: [] for name in ways}\n"), "No way was called."),
    ],
}  # fmt: skip
