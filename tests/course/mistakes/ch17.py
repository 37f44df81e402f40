"""The checks of chapter 17: each usual mistake is made, and must be named."""

import numpy as np
import torch

from attention_lib.course.exercises import ch17
from attention_lib.sparse_attention import sink_window_mask
from tests.answers import as_numbers

kept, mask = ch17.check_kept_positions.made, ch17.check_sink_mask.made


def by_library(query_len, key_len, window, num_sinks):
    return sink_window_mask(query_len, window, num_sinks, key_len)


def by_rows(query_len, key_len, window, num_sinks):
    seen = torch.zeros(query_len, key_len, dtype=torch.bool)
    for row, position in enumerate(range(key_len - query_len, key_len)):
        seen[row, : min(num_sinks, position + 1)] = True
        seen[row, max(0, position - window + 1) : position + 1] = True
    return seen


def by_difference(query_len, key_len, window, num_sinks):
    ones = torch.ones(key_len, key_len, dtype=torch.bool)
    seen = ones.tril() & ~ones.tril(-window)
    seen[:, :num_sinks] |= ones.tril()[:, :num_sinks]
    return seen[key_len - query_len :]


RIGHT = {
    "window_layers": [
        *as_numbers(33), np.ceil(4095 / 127), 4095 // 127 + 1,
    ],
    "kept_positions": [
        kept(ch17.KEPT, "not num_sinks <= token < length - window"),
        kept(ch17.KEPT, "token + window >= length or token < num_sinks"),
        kept(ch17.KEPT, f"{ch17.LAST} or {ch17.FIRST}"),
        kept(ch17.KEPT, "length - token <= window or token <= num_sinks - 1"),
        kept(ch17.KEPT, "token in range(num_sinks) or token > length - window - 1"),
        lambda n, w, s: sorted({*range(n)[:s], *range(n)[max(n - w, 0) :]}),
        lambda n, w, s: [*range(min(s, n)), *range(max(s, n - w), n)],
        lambda n, w, s: list(range(n)) if n <= w + s
        else list(range(s)) + list(range(n - w, n)),
        lambda n, w, s: list(dict.fromkeys([*range(n)[:s], *range(max(n - w, 0), n)])),
    ],
    "sink_mask": [
        by_library, by_rows, by_difference,
        mask(ch17.QUERY, "(torch.arange(query_len) + key_len - query_len)"),
        mask(ch17.QUERY, "torch.arange(key_len)[key_len - query_len :]"),
        mask(ch17.NEAR, "key > query - window"),
        mask(ch17.NEAR, "query - key <= window - 1"),
        mask(ch17.SEEN, "near & (key <= query) | (key < num_sinks) & (key <= query)"),
        mask(ch17.SEEN, "(query >= key).logical_and(near.logical_or(key < num_sinks))"),
        mask(ch17.SEEN, "~((key > query) | ~near & (key >= num_sinks))"),
        mask(ch17.SEEN, "((key <= query) * (near + (key < num_sinks))).bool()"),
    ],
}  # fmt: skip
MISTAKES = {
    "window_layers": [
        (5, "Not that many"),
    ],
    "kept_positions": [
        (lambda n, w, s: [*range(s), *range(n - w, n)], "Where they overlap"),
        (lambda n, w, s: [*range(s), *range(max(s, n - w), n)], "For a short one"),
        (kept(ch17.FIRST, "token < (num_sinks or 1)"), "Without any"),
        (kept("- window", "- max(window, 2)"), "For a window of 1"),
        (lambda n, w, s: [*range(n if n <= w else s), *range(max(s, n - w), n)][:n + s],
         "shorter than the sinks"),
        (lambda n, w, s: kept()(n, w, s)[::-1], "not sorted"),
        (lambda n, w, s: {*kept()(n, w, s)}, "returns a set"),
        (lambda n, w, s: torch.tensor(kept()(n, w, s)), "returns a Tensor"),
        (lambda n, w, s: [1 + i for i in kept()(n, w, s)], "from 0 to 8"),
        (lambda n, w, s: [float(i) for i in kept()(n, w, s)], "ints"),
        (lambda n, w, s: kept()(n, w, s) * 2, "twice"),
        (lambda n, w, s: [], "positions are needed"),
    ],
    "sink_mask": [
        (mask(ch17.NEAR, "(query - key).abs() < window",
              ch17.SEEN, "near | (key < num_sinks)"), "the content is not"),
        (mask(f"return {ch17.SEEN}", f"return ({ch17.SEEN})[-1]"), "The shape must be"),
        (mask("key < num_sinks", "key < max(num_sinks, 1)"), "Without any"),
        (mask("< window", "< max(window, 2)"), "for one new token"),
        (mask("< window", "< min(window, key_len - 1)"), "For a longer one"),
        (mask("near |", "near & (key >= num_sinks) |",
              "(key < num_sinks))\n", "(key < num_sinks) & (key < key_len - query_len"
              " + (key_len == query_len) * key_len))\n"),
         "Where a sink may be new as well"),
    ],
}  # fmt: skip
