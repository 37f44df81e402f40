"""Checks of chapter 3: causal and padding masks, and their translation."""

import math

import torch
from torch import Tensor

from attention_lib.exercises.verdict import Mistakes, Verdict, judge, judge_number
from attention_lib.masks import causal_mask, padding_mask


def check_causal_mask(answer: object) -> Verdict:
    """Checks a causal mask for lengths that may differ."""
    lengths = [
        (4, 4, _triangle_mistakes(4), ""),
        (
            2,
            5,
            _wide_mistakes(2, 5),
            "This is right for equal lengths. For 2 queries, 5 keys:",
        ),
        (
            5,
            2,
            _tall_mistakes(5, 2),
            "This is right up to here. For 5 queries, 2 keys:",
        ),
    ]
    for query_len, key_len, mistakes, so_far in lengths:
        right = causal_mask(query_len, key_len)
        wrong = judge(answer, (query_len, key_len), right, mistakes, so_far=so_far)
        if wrong:
            return wrong
    return Verdict(True, "No row sees the future, with more keys or more queries too.")


def check_padding_mask(answer: object) -> Verdict:
    """Checks a right padding mask made from lengths: (B, 1, K), or (B, K, K)."""
    first, full = torch.tensor([2, 5, 3]), torch.tensor([4, 1, 0])
    mistakes = [*_wrong_axes(padding_mask(first, 6)), *_wrong_keys(first, 6)]
    for inputs, known, so_far in [
        ((first, 6), mistakes, ""),
        (
            (full, 4),
            [],
            "This is right up to here. For lengths of 4, 1 and 0 in 4 columns:",
        ),
    ]:
        right = padding_mask(*inputs)
        wrong = judge(answer, inputs, right, known, so_far=so_far)
        # A row for each query says the same as one row for all.
        if wrong and judge(answer, inputs, right.expand(-1, right.shape[-1], -1)):
            return wrong
    return Verdict(True, "Padding is hidden from every query, as a key.")


def check_from_additive(answer: object) -> Verdict:
    """Checks the translation of an additive mask, biases included, into booleans."""
    # The last row of each is forbidden as a whole.
    none, lowest = -math.inf, torch.finfo(torch.float32).min
    infinite = torch.tensor([[0.0, none, none], [0.0, 0.0, none], [none] * 3])
    finite = torch.tensor([[0.0, -1e9, lowest], [0.0, 0.0, -1e4], [lowest] * 3])
    biased = torch.tensor([[0.0, -1e4, -1e9], [-20.0, -0.5, 0.0], [-1e4] * 3])
    right = infinite == 0
    empty = "The last row is forbidden as a whole: it stays False."
    mistakes = [
        (~right, "True marks what is blocked: it must mean 'may attend'."),
        (infinite, "This is still the additive mask: ask a question of each number."),
    ]
    zero_only = "A small bias is no ban: what is allowed need not be exactly 0."
    return (
        judge(answer, (infinite,), right, mistakes)
        or judge(
            answer,
            (finite,),
            right,
            [(finite.softmax(-1) > 0, empty)],
            so_far="This is right for -inf. For -1e9, -10,000 and the lowest finite "
            "number:",
        )
        or judge(
            answer,
            (biased,),
            biased >= -20,
            [(biased == 0, zero_only)],
            so_far="This is right without biases. With them:",
        )
        or Verdict(True, "Only very negative numbers forbid; a bias does not.")
    )


def check_visible_pairs(answer: object) -> Verdict:
    """Checks how many pairs two sequences of 3 and 5 tokens keep, causal and padded."""
    mistakes = [
        (21, "6 + 15 counts the real queries only: padding's own rows see keys too."),
        (30, "15 + 15 is the causal mask alone: where is the padding?"),
        (40, "15 + 25 is the padding mask alone: where is the future?"),
        (34, "9 + 25 counts real pairs, but the future is not hidden."),
        (50, "25 + 25 counts every pair: nothing is hidden."),
        (23, "Those are the hidden pairs: count the others."),
        (12, "That is the shorter text alone: add the other."),
        (15, "That is the longer text alone: add the other."),
        (19, "The diagonal is missing: a query sees itself."),
    ]
    return judge_number(
        answer,
        27,
        "Three real keys give 12 pairs (1+2+3+3+3), five give 15 (1+2+3+4+5).",
        mistakes,
        "That is not the number: count the True cells in five rows per text.",
    )


def _triangle_mistakes(length: int) -> Mistakes:
    allowed = causal_mask(length)
    full = torch.ones_like(allowed)
    return [
        (allowed.T, "Row 0 sees the future: is the triangle flipped?"),
        (~allowed, "True means blocked here: it must mean 'may attend'."),
        (allowed.tril(-1), "No query sees itself: the diagonal is missing."),
        (full.tril(1), "Each row sees one token of the future: mind the diagonal."),
        (full, "Every query sees every key: nothing is hidden."),
        (~full, "No query sees any key: all is hidden."),
        (allowed & allowed.T, "Each query sees itself only: where is the past?"),
    ]


def _wide_mistakes(query_len: int, key_len: int) -> Mistakes:
    full = torch.ones(query_len, key_len, dtype=torch.bool)
    last = key_len - query_len
    return [
        (full.tril(), "the first query stands at the first key. Where does the last?"),
        (full.tril(last - 1), "each row sees one key too few."),
        (full.tril(last + 1), "each row sees one key too many."),
    ]


def _tall_mistakes(query_len: int, key_len: int) -> Mistakes:
    full = torch.ones(query_len, key_len, dtype=torch.bool)
    return [
        (full.tril(), "the first query stands at the first key. Where does the last?"),
        (full.tril(query_len - key_len), "the triangle moved the wrong way."),
    ]


def _wrong_axes(right: Tensor) -> Mistakes:
    columns = right[:, 0]
    return [
        (columns[:, :, None], "The queries are masked, but padding is hidden as a "
         "key."),
        (columns, "(B, K) would broadcast the batch along the queries: which axis is "
         "missing?"),
        (columns[None], "The new axis stands before the batch: where are the queries?"),
        (right[:, None], "There is an axis too many: a mask says nothing of heads."),
        (right & right.mT, "Padding's own rows see nothing: hide it as a key only."),
    ]  # fmt: skip


def _wrong_keys(lengths: Tensor, max_len: int) -> Mistakes:
    right = padding_mask(lengths, max_len)
    left = padding_mask(lengths, max_len, side="left")
    short = padding_mask(lengths, int(lengths.max()))
    return [
        (~right, "True marks the padding here: it must mean 'may attend'."),
        (left, "The padding stands on the left here: the real tokens come first."),
        (~left, "True marks the last tokens here: the real tokens come first."),
        (padding_mask(lengths - 1, max_len), "One real token too few is visible."),
        (padding_mask(lengths + 1, max_len), "One padding token too many is visible."),
        (short, "The mask is as wide as the longest sequence, not as max_len."),
        (torch.ones_like(right), "Nothing is hidden."),
    ]
