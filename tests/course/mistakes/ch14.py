"""The checks of chapter 14: each usual mistake is made, and must be named."""

import numpy as np
import torch

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.cross_attention import translate
from attention_lib.masks import causal_mask
from attention_lib.multi_head import MultiHeadAttention, merge_heads, split_heads
from tests.answers import as_numbers, solution

ONE = 12 * 2 * 8 * 64  # keys and values of one word, in all blocks

layer = solution(
    """
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
    merge_heads=merge_heads,
    split_heads=split_heads,
    scaled_dot_product_attention=scaled_dot_product_attention,
)
CALL = "scaled_dot_product_attention(query, key, value, mask)"
SCALED = "scaled_dot_product_attention(query, key, value, mask, scale={})"
OPEN_SCORES = "(query @ key.mT * query.shape[-1] ** -0.5)"
OPEN = "None if mask is None else mask[:, None]"
SCORES = """(query @ key.mT * query.shape[-1] ** -0.5).masked_fill(
            torch.tensor(False) if mask is None else ~mask, -math.inf
        )"""


class OfLibrary(MultiHeadAttention):
    """The library's layer, without the bias of its output."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.out_proj = torch.nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, memory, mask=None):
        return super().forward(x, mask, memory=memory)


joint = solution(
    """
def one_text_mask(source_len, target_len):
    length = source_len + target_len
    mask = causal_mask(length) | (torch.arange(length) < source_len)
    return mask
""",
    causal_mask=causal_mask,
)
JOINT = "causal_mask(length) | (torch.arange(length) < source_len)"
GIVEN = "return mask"


def joint_by_loops(source_len, target_len):
    length = source_len + target_len
    mask = torch.zeros(length, length, dtype=torch.bool)
    for query in range(length):
        for key in range(length):
            mask[query, key] = key < source_len or key <= query
    return mask


def joint_by_blocks(source_len, target_len):
    top = torch.cat(
        [
            torch.ones(source_len, source_len).bool(),
            torch.zeros(source_len, target_len).bool(),
        ],
        dim=1,
    )
    low = torch.cat(
        [torch.ones(target_len, source_len).bool(), causal_mask(target_len)], dim=1
    )
    return torch.cat([top, low])  # fmt: skip


def joint_by_filling(source_len, target_len):
    mask = causal_mask(source_len + target_len)
    mask[:, :source_len] = True
    return mask


writing = solution(
    """
@torch.no_grad()
def write(model, source, start, stop, max_new_tokens):
    memory, _ = model.encode(source)
    ids = [start]
    while len(ids) <= max_new_tokens and ids[1:][-1:] != [stop]:
        target = torch.tensor([ids])
        logits = model.decode(target, [memory])  # (1, T, V)
        ids.append(logits[0, -1].argmax().item())
    return ids[1:]
"""
)
DECODE = "model.decode(target, [memory])"
UNTIL = "len(ids) <= max_new_tokens and ids[1:][-1:] != [stop]"


def by_translate(model, source, start, stop, max_new_tokens):
    options = {"start": start, "stop": stop, "max_new_tokens": max_new_tokens}
    return translate(model, source, **options)


def by_tensors(model, source, start, stop, max_new_tokens):
    memory, _ = model.encode(source)
    target = torch.tensor([[start]])
    for _ in range(max_new_tokens):
        new = model.decode(target, [memory])[:, -1:].argmax(-1)
        target = torch.cat([target, new], dim=1)
        if new.item() == stop:
            break
    return target[0, 1:]


def by_cache(model, source, start, stop, max_new_tokens):
    kept, cache = model.cache_memory(model.encode(source)[0]), model.new_cache(1)
    found, new = [], start
    while len(found) < max_new_tokens and new != stop:
        new = int(model.decode(torch.tensor([[new]]), kept, cache=cache).argmax())
        found.append(new)
    return found


RIGHT = {
    "translation": [
        writing(), by_translate, by_tensors, by_cache,
        lambda *given: tuple(writing()(*given)),
        lambda *given: np.array(writing()(*given)),
        lambda *given: [torch.tensor(token) for token in writing()(*given)],
        writing(DECODE, "model(source, target)"),
        writing("argmax().item()", "softmax(-1).topk(1).indices.item()"),
        writing("@torch.no_grad()", ""),
        writing("return ids[1:]", "return torch.tensor([ids[1:]])"),
    ],
    "both_caches": [
        ONE * 140, ONE * 100 + ONE * 40, *as_numbers(1_720_320), 1.72032e6,
    ],
    "one_text_mask": [
        joint(), joint_by_loops, joint_by_blocks, joint_by_filling,
        joint(JOINT, "torch.ones(length, length).tril(max(source_len - 1, 0)).bool() "
              "& causal_mask(length) | (torch.arange(length) < source_len)"),
        joint(JOINT, "torch.ones(length, length, dtype=torch.bool).tril() "
              "| (torch.arange(length) < source_len)[None]"),
        joint(JOINT, "torch.arange(length) <= torch.arange(length)"
              "[:, None].clamp(min=source_len - 1)"),
        joint(JOINT, "~(torch.ones(length, length).triu(1).bool() "
              "& (torch.arange(length) >= source_len))"),
        joint(JOINT, "torch.where(torch.arange(length) < source_len, True, "
              "causal_mask(length))"),
        joint(GIVEN, "return mask.clone()"),
        lambda *lengths: joint()(*lengths),
    ],
    "cross_attention": [
        layer(), OfLibrary, lambda *sizes: layer()(*sizes),
        layer(CALL, "F.scaled_dot_product_attention(query, key, value, mask)"),
        layer(CALL, f"{SCORES}.softmax(-1) @ value"),
        layer(CALL, f"torch.softmax({SCORES}, dim=3) @ value"),
        layer(CALL, SCALED.format("query.shape[-1] ** -0.5")),
        layer("merge_heads(context)", "context.transpose(1, 2).flatten(2)"),
        layer("merge_heads(context)",
              "context.transpose(1, 2).reshape(len(x), x.shape[1], -1)"),
        layer("split_heads(self.q_proj(x), self.num_heads)",
              "self.q_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)"),
        layer(OPEN, "None if mask is None else mask.unsqueeze(1)"),
    ],
}  # fmt: skip

MISTAKES = {
    "translation": [
        (writing("return ids[1:]", "return ids"), "not part of what is written"),
        (writing("return ids[1:]", "return [i for i in ids[1:] if i != stop]"),
         "last token is missing"),
        (writing(UNTIL, "len(ids) < max_new_tokens and ids[1:][-1:] != [stop]"),
         "Where the number of tokens ends it:"),
        (writing(UNTIL, "len(ids) <= max_new_tokens"), "after the stop token"),
        (writing(UNTIL, "len(ids) <= max_new_tokens + 1"), "More tokens than"),
        (writing("logits[0, -1]", "logits[0, 0]"), "wrong place"),
        (writing("torch.tensor([ids])", "torch.tensor([ids[-1:]])"), "newest token"),
        (writing("[memory]", "[memory * 0]"), "does not depend on the source"),
        (writing("ids = [start]", "ids = source[0].tolist()", "ids[1:][-1:]",
                 "ids[-1:]", "len(ids) <= max_new_tokens", "len(ids) < 8",
                 "return ids[1:]", "return ids[source.shape[1]:]"), "begins with"),
        (writing("return ids[1:]", "return len(ids)"), "list of token ids"),
        (writing("argmax()", "argmin()"), "The shape must be"),
        (lambda model, source, *rest: ... if source.shape[1] == 3 else
         writing()(model, source, *rest), "gives nothing back"),
    ],
    "both_caches": [
        (ONE * 100, "the memory alone"),
        (ONE * 40, "words written alone"),
        (ONE * 4000, "the two lengths are added"),
        (ONE * 70, "both kept"),
        (ONE * 140 // 12, "one block"),
        (ONE * 140 // 8, "one head"),
        (ONE * 140 // 64, "64 numbers"),
        (ONE * 40 + 2 * 512 * 100, "Every block"),
        (ONE * 40 + 12 * 512 * 100, "values are kept"),
        (ONE * 40 + 512 * 100, "memory itself need not"),
        (ONE * 280, "Queries are not kept"),
        (7, "Not that many"),
    ],
    "one_text_mask": [
        (joint(JOINT, "causal_mask(length)"), "may look ahead within the source"),
        (joint(JOINT, "torch.ones(length, length).bool()"), "must not see later"),
        (joint(GIVEN, "return ~mask"), "wrong way round"),
        (joint(GIVEN, "return mask.mT"), "Rows are queries"),
        (joint(GIVEN, "mask[:source_len] = True; return mask"), "sees the target"),
        (joint(GIVEN, "mask[source_len:, :source_len] = False; return mask"),
         "nothing of the source"),
        (joint(JOINT, "(torch.arange(length) < source_len).expand(length, -1)"),
         "no word of the target"),
        (joint(JOINT, "causal_mask(length).tril(-1) "
               "| (torch.arange(length) < source_len)"), "may see itself"),
        (lambda source, target: joint()(target, source), "source comes first"),
        (joint(GIVEN, "return mask[source_len:]"), "have rows"),
        (joint(GIVEN, "return mask[:, source_len:]"), "have columns"),
        (joint(GIVEN, "return mask.float()"), "True and False"),
        (lambda source, target: joint()(3, 5), "For 2 and 1:"),
        (joint(JOINT, "causal_mask(length) | (torch.arange(length) <= source_len)"),
         "One word too many"),
        (joint(JOINT, "causal_mask(length) | (torch.arange(length) < source_len - 1)"),
         "One word too few"),
    ],
    "cross_attention": [
        (layer("self.k_proj(memory)", "self.k_proj(x)",
               "self.v_proj(memory)", "self.v_proj(x)"), "never looked at"),
        (layer("self.q_proj(x)", "self.q_proj(memory)"), "queries come from the"),
        (layer("self, x, memory,", "self, memory, x,"), "changed places"),
        (layer(CALL, SCALED.format("1.0")), "not scaled"),
        (layer("num_heads = num_heads", "num_heads = 1"), "single head"),
        (layer("return self.out", "return x + self.out"), "the block's part"),
        (layer(CALL, f"({OPEN_SCORES}.softmax(-1) * "
               "(1 if mask is None else mask)) @ value"), "after the softmax"),
        (layer(CALL, f"({OPEN_SCORES} * (1 if mask is None else mask))"
               ".softmax(-1) @ value"), "still gets a weight"),
        (layer(CALL, SCALED.format("len(self.q_proj.weight) ** -0.5")), "all heads"),
        (layer("self.k_proj(memory)", "self.v_proj(memory)",
               "value = split_heads(self.v_proj(memory)",
               "value = split_heads(self.k_proj(memory)"), "values have changed"),
        (layer(CALL, f"{SCORES}.softmax(-2) @ value"), "over the queries"),
        (layer("merge_heads(context)", "context.reshape(x.shape)"), "way back"),
        (layer("self.out_proj(merge_heads(context))", "merge_heads(context)"),
         "output projection is missing"),
        (layer(CALL, "scaled_dot_product_attention(query, key, value)"), "not used"),
        (layer(OPEN, "None if mask is None else ~mask[:, None]"), "wrong way round"),
        (layer(CALL, "F.scaled_dot_product_attention(query, key, value, "
               "torch.ones(x.shape[1], memory.shape[1], dtype=torch.bool).tril() "
               "if mask is None and x.shape[1] == memory.shape[1] else mask)"),
         "causal mask hides"),
        (layer("bias=False", "bias=True"), "Too many parameters"),
        (layer("q_proj = nn.Linear(d_model, d_model", "q_proj = nn.Linear(d_model, 9"),
         "q_proj.weight is (9, 6); it must be (6, 6) here."),
        (layer("self.num_heads = num_heads", "self.num_heads = 3"), "For a single one"),
        (layer("out_proj", "o_proj"), "no parameter out_proj.weight"),
    ],
}  # fmt: skip
