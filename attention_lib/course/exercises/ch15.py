"""Exercises of chapter 15: caches, cross-attention, a text in two parts, writing."""

from copy import deepcopy
from functools import cache
from typing import Any

import torch
from torch import Tensor

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.course.exercises.exercise import (
    Exercise,
    LayerExercise,
    NumberExercise,
    slip,
)
from attention_lib.course.exercises.verdict import Verdict
from attention_lib.cross_attention import TinyTranslator, TranslatorConfig
from attention_lib.masks import causal_mask
from attention_lib.multi_head import merge_heads, split_heads
from attention_lib.reproducibility import seeded

ONE = 12 * 2 * 8 * 64  # keys and values of one word, in all blocks
check_both_caches = NumberExercise(
    solution="""
my_numbers = 12 * (100 + 40) * 2 * 8 * 64  # blocks, words, keys and values, heads, D
""",
    mistakes=[
        (ONE * 100, "That is the memory alone: the words written have keys too."),
        (ONE * 40, "Those are the words written alone: the memory's keys and values "
         "are kept too."),
        (ONE * 4000, "Keys and values are kept, not the weights: the two lengths are "
         "added."),
        (ONE * 70, "Keys and values are both kept."),
        (ONE * 140 // 12, "That is one block: there are 12."),
        (ONE * 140 // 8, "That is one head: there are 8."),
        (ONE * 140 // 64, "Each key has 64 numbers."),
        (ONE * 40 + 2 * 512 * 100, "Every block makes keys and values of the memory "
         "with weights of its own."),
        (ONE * 40 + 12 * 512 * 100, "The memory's values are kept as well as its "
         "keys."),
        (ONE * 40 + 512 * 100, "The memory itself need not be kept: each block keeps "
         "its keys and values."),
        (ONE * 280, "Queries are not kept, and bytes are not asked for."),
    ],
    praise="100 + 40 words, in 12 blocks, with 2 times 512 numbers each.",
    otherwise="Not that many: first count the numbers of one word in one block.",
)  # fmt: skip

READ = "(torch.arange(length) < source_len)"
MASK = f"causal_mask(length) | {READ}"
check_one_text_mask = Exercise(
    solution="""
def one_text_mask(source_len, target_len):
    length = source_len + target_len
    return causal_mask(length) | (torch.arange(length) < source_len)
""",
    names={"causal_mask": causal_mask},
    cases=[
        ((3, 5), ""),
        ((2, 1), "Right for 3 words read and 5 written. For 2 and 1:"),
    ],
    inputs=lambda *lengths: lengths,
    slips=[
        slip("The words of the source may look ahead within the source.",
             MASK, "causal_mask(length)"),
        slip("A word that is written must not see later ones: the model would copy "
             "what it shall find.", MASK, "torch.ones(length, length).bool()"),
        slip("It is inverted: True must mean that it may attend.", MASK, f"~({MASK})"),
        slip("Rows are queries, columns are keys.", MASK, f"({MASK}).mT"),
        slip("The source sees the target: no word of it is written yet when the source "
             "is read.", MASK, f"{MASK} | {READ}[:, None]"),
        slip("The target sees nothing of the source.",
             MASK, f"({MASK}) & ({READ} == {READ}[:, None])"),
        slip("A word of the target sees no word of the target, not even itself.",
             MASK, f"{READ}.expand(length, -1)"),
        slip("A word of the target may see itself.",
             "mask(length)", "mask(length).tril(-1)"),
        slip("The source comes first: its columns are those that all may see.",
             "source_len, target_len", "target_len, source_len"),
        slip("One word too many is open to all: the first of the target.", "<", "<="),
        slip("One word too few is open to all: the last of the source.",
             "< source_len", "< source_len - 1"),
        slip("The words of the source are queries as well: they have rows, too.",
             MASK, f"({MASK})[source_len:]"),
        slip("The words of the source are keys as well: they have columns, too.",
             MASK, f"({MASK})[:, source_len:]"),
    ],
    praise="All see the source, and of the target what is written.",
)  # fmt: skip

GIVEN = "query, key, value, mask"
CALL, MERGED = f"scaled_dot_product_attention({GIVEN})", "merge_heads(context)"
SCORES = "(query @ key.mT * query.shape[-1] ** -0.5)"
HIDDEN = (
    f"{SCORES}.masked_fill(torch.tensor(False) if mask is None else ~mask, -math.inf)"
)
STEPS = f"{HIDDEN}.softmax(dim=-1) @ value"
UNTURNED = (
    "A head gets whole tokens in place of a part of each: split the features of each "
    "token into heads, then exchange the axes of tokens and heads."
)
APART = (
    "split_heads(self.q_proj(x), self.num_heads)",
    "self.q_proj(x).view(len(x), self.num_heads, x.shape[1], -1)",
    "split_heads(self.k_proj(memory), self.num_heads)",
    "self.k_proj(memory).view(len(x), self.num_heads, memory.shape[1], -1)",
    "split_heads(self.v_proj(memory), self.num_heads)",
    "self.v_proj(memory).view(len(x), self.num_heads, memory.shape[1], -1)",
)
check_cross_attention = LayerExercise(
    solution="""
class MyCrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, memory, mask=None):
        query = split_heads(self.q_proj(x), self.num_heads)
        key = split_heads(self.k_proj(memory), self.num_heads)
        value = split_heads(self.v_proj(memory), self.num_heads)
        mask = None if mask is None else mask[:, None]
        context = scaled_dot_product_attention(query, key, value, mask)
        return self.out_proj(merge_heads(context))
""",
    names={
        "causal_mask": causal_mask,
        "merge_heads": merge_heads,
        "split_heads": split_heads,
        "scaled_dot_product_attention": scaled_dot_product_attention,
    },
    surplus="Four weights without a bias are all.",
    sizes=2,
    cases=[
        ((6, 3, 4, 3, False), ""),
        ((6, 3, 4, 4, False), ""),
        ((6, 3, 2, 5, True), "Right without a mask. With one:"),
        ((5, 1, 4, 3, False), "Right for three heads. For a single one:"),
        ((5, 1, 4, 4, False), "Right for three heads. For a single one:"),
        ((5, 1, 2, 5, True), "Right for three heads. For a single one:"),
    ],
    inputs=lambda d_model, heads, queries, keys, masked: (
        torch.randn(2, queries, d_model, generator=seeded(0)),
        torch.randn(2, keys, d_model, generator=seeded(1)),
        *([torch.tensor([2, keys])[:, None, None] > torch.arange(keys)] * masked),
    ),
    slips=[
        slip("Keys and values come from x: the memory is never used.",
             "self.k_proj(memory)", "self.k_proj(x)",
             "self.v_proj(memory)", "self.v_proj(x)"),
        slip("The queries come from the memory: they are made from x.",
             "self.q_proj(x)", "self.q_proj(memory)"),
        slip("x and the memory have changed places.", "x, memory,", "memory, x,"),
        slip("Queries and keys have each other's weights.",
             "self.q_proj(x)", "self.k_proj(x)",
             "self.k_proj(memory)", "self.q_proj(memory)"),
        slip(UNTURNED, *APART),
        slip(UNTURNED, *APART, MERGED, "context.reshape(x.shape)"),
        slip("Each text has a mask of its own: here the first one's hides the keys of "
             "all.", "mask[:, None]", "mask[:1, None]"),
        slip("The scores are not scaled.", GIVEN, f"{GIVEN}, scale=1.0"),
        slip("The scale takes the width of all heads: it is that of one.",
             GIVEN, f"{GIVEN}, scale=x.shape[-1] ** -0.5"),
        slip("Keys and values have changed places.",
             "query, key, value", "query, value, key"),
        slip("The softmax runs over the queries: each row must sum to 1 over the "
             "memory.", CALL, STEPS, "dim=-1", "dim=-2"),
        slip("The way back mixes tokens and heads: which axes change places before the "
             "heads are joined?", MERGED, "context.reshape(x.shape)"),
        slip("The output projection is missing.", f"self.out_proj({MERGED})", MERGED),
        slip("There is a single head: split queries, keys and values first.",
             "self.num_heads = num_heads", "self.num_heads = 1"),
        slip("x is added to the output: that is the block's part.",
             "return ", "return x + "),
        slip("The mask is not used: padding is seen.", GIVEN, "query, key, value"),
        slip("The mask comes after the softmax: the weights no longer sum to 1.",
             CALL,
             f"({SCORES}.softmax(dim=-1) * (1 if mask is None else mask)) @ value"),
        slip("A hidden score of 0 still gets a weight.", CALL, STEPS,
             "-math.inf", "0.0"),
        slip("The mask is inverted: True means may attend.",
             "mask[:, None]", "~mask[:, None]"),
        slip("A causal mask hides part of the memory: all of it was read before.",
             GIVEN,
             "query, key, value, causal_mask(x.shape[1]) if x.shape[1] == "
             "memory.shape[1] else mask"),
    ],
    praise="Cross-attention: one text looks at another.",
)  # fmt: skip

_STOP = 7  # the fourth token that the model writes for the first source


def _translated(answer: Any, source: Tensor, limit: int) -> Any:
    """Let an answer write; return token ids as a tensor, whatever holds them."""
    with torch.no_grad():
        came = answer(deepcopy(_random_translator()), source, 1, _STOP, limit)
    if came is None or came is ...:
        return None
    if isinstance(came, Tensor) and came.ndim == 2 and len(came) == 1:
        came = came[0]
    try:
        return torch.tensor([int(token) for token in came])
    except (TypeError, ValueError, RuntimeError):
        kind = type(came).__name__
        words = f"Your function returns a {kind}: a list of token ids is wanted."
        return Verdict(False, words)


@cache
def _random_translator() -> TinyTranslator:
    """Return a model whose texts depend on the source and on what is written."""
    with torch.random.fork_rng(devices=[]):
        model = TinyTranslator(TranslatorConfig(9, 8, 12, 3, 1)).float().eval()
    rng = seeded(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            drawn = torch.randn(weight.shape, generator=rng, dtype=torch.float32)
            scale = 1.5 * weight.shape[-1] ** -0.5 if weight.ndim == 2 else 0.1
            weight.copy_(drawn * scale + (weight.ndim == 1 and "norm.weight" in name))
    return model


UNTIL, RANGE = "target[-1] == stop", "range(max_new_tokens)"
WRITTEN = "target[1:]"
check_translation = Exercise(
    solution="""
def write(model, source, start, stop, max_new_tokens):
    memory, _ = model.encode(source)
    target = [start]
    for _ in range(max_new_tokens):
        logits = model.decode(torch.tensor([target]), [memory])  # (1, T, V)
        target.append(logits[0, -1].argmax().item())
        if target[-1] == stop:
            break
    return target[1:]  # without start
""",
    cases=[
        (([3, 4, 5, 6], 7), ""),
        (([8, 3, 7], 2), "Right where the stop token comes in time. Where the number "
         "of tokens ends it:"),
    ],
    inputs=lambda source, limit: (torch.tensor([source]), limit),
    use=_translated,
    slips=[
        slip("The start token is not part of what is written.", WRITTEN, "target"),
        slip("The last token is missing: what is written ends with the stop token, or "
             "after so many tokens as are allowed.", WRITTEN, "target[1:-1]"),
        slip("Writing goes on after the stop token.", UNTIL, "False"),
        slip("More tokens than are allowed.", UNTIL, "False",
             RANGE, "range(max_new_tokens + 1)"),
        slip("The next token is read off the wrong position of the target: which row "
             "of the logits belongs to the next one?", "logits[0, -1]", "logits[0, 0]"),
        slip("The decoder gets the newest token alone: without a cache it needs all "
             "that is written so far.", "[target]", "[target[-1:]]"),
        slip("What is written does not depend on the source: is the memory passed on?",
             "[memory]", "[0 * memory]"),
        slip("The decoder begins with the start token, not with the source.",
             "target = [start]", "target = source[0].tolist()",
             RANGE, "range(min(max_new_tokens, 8 - len(target)))",
             WRITTEN, "target[source.shape[1]:]"),
    ],
    praise="Read once, then written token by token.",
)  # fmt: skip
