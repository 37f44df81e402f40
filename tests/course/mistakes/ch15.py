"""The checks of chapter 15: each usual mistake is made, and must be named."""

import numpy as np
import torch

from attention_lib.course.exercises import ch15
from attention_lib.cross_attention import translate
from attention_lib.masks import causal_mask
from attention_lib.multi_head import MultiHeadAttention
from tests.answers import as_numbers

layer, joint = ch15.check_cross_attention.made, ch15.check_one_text_mask.made
writing = ch15.check_translation.made


class OfLibrary(MultiHeadAttention):
    """The library's layer, without the bias of its output."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.out_proj = torch.nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, memory, mask=None):
        return super().forward(x, mask, memory=memory)


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
        by_translate, by_tensors, by_cache,
        lambda *given: tuple(writing()(*given)),
        lambda *given: np.array(writing()(*given)),
        lambda *given: [torch.tensor(token) for token in writing()(*given)],
        writing("model.decode(torch.tensor([target]), [memory])",
                "model(source, torch.tensor([target]))"),
        writing("argmax().item()", "softmax(-1).topk(1).indices.item()"),
        torch.no_grad()(writing()),
        writing(ch15.WRITTEN, f"torch.tensor([{ch15.WRITTEN}])"),
    ],
    "both_caches": [ch15.ONE * 140, *as_numbers(1_720_320), 1.72032e6],
    "one_text_mask": [
        joint_by_loops, joint_by_blocks, joint_by_filling,
        joint(ch15.MASK, "torch.ones(length, length).tril(max(source_len - 1, 0))"
              ".bool() & causal_mask(length) | (torch.arange(length) < source_len)"),
        joint(ch15.MASK, "torch.ones(length, length, dtype=torch.bool).tril() "
              "| (torch.arange(length) < source_len)[None]"),
        joint(ch15.MASK, "torch.arange(length) <= torch.arange(length)"
              "[:, None].clamp(min=source_len - 1)"),
        joint(ch15.MASK, "~(torch.ones(length, length).triu(1).bool() "
              "& (torch.arange(length) >= source_len))"),
        joint(ch15.MASK, "torch.where(torch.arange(length) < source_len, True, "
              "causal_mask(length))"),
        joint(ch15.MASK, f"({ch15.MASK}).clone()"),
        lambda *lengths: joint()(*lengths),
    ],
    "cross_attention": [
        OfLibrary, lambda *sizes: layer()(*sizes),
        layer(ch15.CALL, f"F.{ch15.CALL}"),
        layer(ch15.CALL, ch15.STEPS),
        layer(ch15.CALL, ch15.STEPS, "dim=-1", "dim=3"),
        layer(ch15.GIVEN, f"{ch15.GIVEN}, scale=query.shape[-1] ** -0.5"),
        layer(ch15.MERGED, "context.transpose(1, 2).flatten(2)"),
        layer(ch15.MERGED, "context.transpose(1, 2).reshape(len(x), x.shape[1], -1)"),
        layer("split_heads(self.q_proj(x), self.num_heads)",
              "self.q_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)"),
        layer("mask[:, None]", "mask.unsqueeze(1)"),
    ],
}  # fmt: skip

MISTAKES = {
    "translation": [
        (writing("range(max_new_tokens)", "range(max_new_tokens - 1)"),
         "Where the number of tokens ends it:"),
        (writing(ch15.WRITTEN, "len(target)"), "list of token ids"),
        (writing("argmax()", "argmin()"), "The shape must be"),
        (lambda model, source, *rest: ... if source.shape[1] == 3 else
         writing()(model, source, *rest), "gives nothing back"),
    ],
    "both_caches": [(7, "Not that many")],
    "one_text_mask": [
        (lambda source, target: joint()(3, 5), "For 2 and 1:"),
    ],
    "cross_attention": [
        (layer("bias=False", "bias=True"), "Too many parameters"),
        (layer("self.num_heads = num_heads", "self.num_heads = 3"), "For a single one"),
    ],
}  # fmt: skip
