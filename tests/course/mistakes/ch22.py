"""The checks of chapter 22: each usual mistake is made, and must be named."""

import statistics

import torch

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.course.exercises import ch22
from tests.answers import as_numbers

joined, turns = ch22.check_attend_joined.made, ch22.check_ratios_in_turns.made
CALL = "F.scaled_dot_product_attention(query, key, value, mask[:, None])"
FOUR = (
    "query, key, value = (t.unflatten(0, (-1, num_heads)) for t in (query, key, value))"
)
THREE = (
    FOUR,
    "pass",
    ch22.MASK,
    "mask.repeat_interleave(num_heads, 0)",
    ch22.END,
    "context",
)
GIVE = f"return {{name: {ch22.EACH} for name, own in seconds.items()}}"


def by_hand(query, key, value, mask, num_heads):
    each = mask.repeat_interleave(num_heads, 0)
    return scaled_dot_product_attention(query, key, value, each)


RIGHT = {
    "median_ratio": [
        0.9, 18 / 20, 9 / 10, 0.9000001, *as_numbers(0.9)[3:],
        statistics.median([18 / 20, 21 / 30, 8 / 11, 20 / 16, 25 / 12]),
        torch.tensor([0.9, 0.7, 0.727, 1.25, 2.083]).median(),
    ],
    "attend_joined": [
        joined(ch22.MASK, "mask.unsqueeze(1)"),
        joined(ch22.MASK, "mask.unflatten(0, (-1, 1))"),
        joined("(-1, num_heads)", "(len(mask), num_heads)"),
        joined("t.unflatten(0, (-1, num_heads))",
               "t.view(len(mask), num_heads, *t.shape[1:])"),
        joined("context.flatten(0, 1)", "context.reshape(-1, *context.shape[2:])"),
        joined(ch22.MASK, "mask[:, None].expand(-1, num_heads, -1, -1)"),
        joined("value, mask[:", "value, attn_mask=mask[:"),
        joined(FOUR, "query, key, value = query[None], key[None], value[None]",
               ch22.MASK, "mask.repeat_interleave(num_heads, 0)[None]"),
        joined(ch22.MASK,
               "torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)[:, None]"),
    ],
    "flops": [230_400, *as_numbers(230_400), 5 * 10 * 64**2 + 4 * 100 * 64,
              2 * (2 * 10 * 64 * (64 + 16) + 2 * 4 * 100 * 16)],
    "ratios_in_turns": [
        turns(ch22.EACH, "[own[i] / first[i] for i in range(rounds)]"),
        turns(ch22.EACH, "list(np.array(own) / np.array(first))"),
        turns(ch22.EACH, "np.array(own) / np.array(first)"),
        turns(ch22.EACH, "torch.tensor(own) / torch.tensor(first)"),
        turns(ch22.EACH, "tuple(a / b for a, b in zip(own, first))"),
        turns("next(iter(ways))", "list(ways)[0]"),
        turns(ch22.WARM, "    for name in ways:\n        ways[name]()\n"),
        turns("clock() - begin", "-begin + clock()"),
        turns(f"list(ways){ch22.ORDER}", "[list(ways), list(ways)[::-1]][number % 2]"),
        turns(f"list(ways){ch22.ORDER}", "sorted(ways, reverse=number % 2)"),
        turns("{name: [] for name in ways}", "dict(zip(ways, ([] for _ in ways)))"),
    ],
}  # fmt: skip
MISTAKES = {
    "median_ratio": [(3, "sort, take the middle")],
    "attend_joined": [
        (joined(*THREE), "how many axes"),
        (by_hand, "written out"),
        (joined(CALL, "torch.cat([F.scaled_dot_product_attention(query[:, h:h + 1], "
                "key[:, h:h + 1], value[:, h:h + 1], mask[:, None]) "
                "for h in range(num_heads)], 1)"), "all heads and texts fit"),
        (joined("(-1, num_heads)", "(num_heads, -1)"), "For other numbers"),
        (joined(ch22.MASK, "mask.squeeze()[:, None]"), "For a single one"),
    ],
    "flops": [(12, "Count the four projections first")],
    "ratios_in_turns": [
        (turns(GIVE, "return [1.0]"), "a dict with the names"),
        (turns(ch22.EACH, "np.median(own)"), "a list of numbers"),
        (turns(ch22.WARM, ch22.WARM + ch22.WARM), "are enough"),
        (turns("next(iter(ways))", "list(ways)[-2]"), "For three"),
        (turns(ch22.WARM, ch22.WARM + "    if len(ways) < 2: raise ValueError\n"),
         "Right for several ways. For a single one"),
        (turns(GIVE, GIVE.replace("return {", "return {'extra': [], **{") + "}"),
         "it has"),
        (turns(ch22.ORDER, "[::-1]"), "in the order a b b a b a"),
        (turns("a / b", "a / b + 1"), "Wanted: The ratios are"),
        (turns("range(rounds)", "range(rounds - 2)"), "order a b a b; ratios of each"),
        (turns("    seconds = {name: [] for name in ways}\n",
               "    return {name: [] for name in ways}\n"), "No way was called."),
    ],
}  # fmt: skip
