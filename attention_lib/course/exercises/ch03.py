"""Exercises of chapter 3: causal and padding masks, and their translation."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.course.exercises.exercise import Exercise, NumberExercise, slip
from attention_lib.course.exercises.shared import FinderExercise, Suspects
from attention_lib.masks import causal_mask
from attention_lib.reproducibility import seeded


def _attend_to_all(x: Tensor) -> Tensor:
    return scaled_dot_product_attention(x, x, x)


def _attend_to_past(x: Tensor) -> Tensor:
    return scaled_dot_product_attention(x, x, x, causal_mask(x.shape[1]))


def _show_next(x: Tensor) -> Tensor:
    return torch.cat([x[:, 1:], 0 * x[:, :1]], 1)


def _show_previous(x: Tensor) -> Tensor:
    return torch.cat([0 * x[:, :1], x[:, :-1]], 1)


def _show_next_secretly(x: Tensor) -> Tensor:
    return x + _show_next(x.detach())


def _show_next_centred(x: Tensor) -> Tensor:
    return _show_next(x - x.mean(-1, keepdim=True))


def _peek(position: int, at: int) -> Callable[[Tensor], Tensor]:
    """Return a function in which one position looks ahead, at one other only."""

    def function(x: Tensor) -> Tensor:
        mix = torch.eye(4, dtype=x.dtype)
        mix[position, at] = 1
        # The reader may give a beginning of x alone.
        return mix[: x.shape[1], : x.shape[1]] @ x

    return function


# Functions of 4 positions, and whether they leak.
_SUSPECTS: Suspects = [
    ("attention without a mask", _attend_to_all, True),
    ("attention under a causal mask", _attend_to_past, False),
    ("a shift that shows each position the next", _show_next, True),
    ("a running sum", lambda x: x.cumsum(1), False),
    ("a shift that shows each position the previous", _show_previous, False),
    ("a function in which only position 0 sees 1", _peek(0, 1), True),
    ("a function in which only position 0 sees 3", _peek(0, 3), True),
    ("a function in which only position 2 sees 3", _peek(2, 3), True),
    ("one that adds the next token without a gradient", _show_next_secretly, True),
    ("one that shows the next token less its mean", _show_next_centred, True),
    ("a function in which only position 1 sees 3", _peek(1, 3), True),
]

# What the usual mistakes say of the first eight (1: it leaks), and what to say then.
_USUAL = {
    "11111111": "You say that everything leaks: which outputs may not change?",
    "00000000": "You say that nothing leaks: is x changed, and the past compared?",
    "01011000": "Every judgement is the wrong way round: True must mean a leak.",
    "11110111": "A running sum does not leak: a position may depend on itself.",
    "11011000": "A running sum does not leak: outputs after a change may differ.",
    "10100011": "A leak from 1 to 0 is missed: change more than the last position.",
    "10100101": "A leak from 3 to 0 is missed: compare more than the neighbour.",
    "10100110": "A leak from 3 to 2 is missed: compare more than position 0.",
    "10100100": "A leak from 3 is missed: change more than position 1.",
}
_LAST = ["000", "001", "010", "011", "100", "101", "110", "111"]
_PATTERNS = {
    first + rest: words for first, words in _USUAL.items() for rest in _LAST
} | {
    "10100111011": "A leak that passes no gradient is missed: change x, too.",
    "10100111101": "A leak of the next token less its mean is missed: do not change "
    "all features alike.",
    "10100111001": "Two leaks are missed: a gradient alone does not show them.",
}
check_leak_finder = FinderExercise(
    inputs=lambda: torch.randn(1, 4, 3, generator=seeded(0)),
    suspects=_SUSPECTS,
    patterns=_PATTERNS,
    claims=("does not leak", "leaks"),
    changed="Your code changes x itself: change a copy of it.",
)

OFFSET = "key_len - query_len"
check_causal_mask = Exercise(
    solution="""
def my_causal_mask(query_len, key_len):
    ones = torch.ones(query_len, key_len, dtype=torch.bool)
    return ones.tril(key_len - query_len)
""",
    cases=[
        ((4, 4), ""),
        ((2, 5), "This is right for equal lengths. For 2 queries, 5 keys:"),
        ((5, 2), "This is right up to here. For 5 queries, 2 keys:"),
    ],
    slips=[
        slip("the first query is at the first key. Where is the last?", OFFSET, ""),
        slip("each row lacks one key.", OFFSET, f"{OFFSET} - (key_len > query_len)"),
        slip("each row has one key more.", OFFSET, f"{OFFSET} + (key_len > query_len)"),
        slip("the triangle moved the wrong way.", OFFSET, f"abs({OFFSET})"),
        slip("Row 0 sees the future: is the triangle flipped?",
             f"({OFFSET})", f"({OFFSET}).T"),
        slip("True means blocked here: it must mean 'may attend'.",
             "return ", "return ~"),
        slip("No query sees itself: the diagonal is missing.", OFFSET, f"{OFFSET} - 1"),
        slip("Each row sees one token of the future: mind the diagonal.",
             OFFSET, f"{OFFSET} + 1"),
        slip("Every query sees every key: nothing is hidden.", OFFSET, "key_len"),
        slip("No query sees any key: all is hidden.", OFFSET, "-query_len"),
        slip("Each query sees itself only: where is the past?",
             f"({OFFSET})", f"({OFFSET}).triu({OFFSET})"),
    ],
    praise="No row sees the future, with more keys or more queries too.",
)  # fmt: skip

REAL = "torch.arange(max_len) < lengths[:, None]"
KEYS = "real[:, None, :]"
check_padding_mask = Exercise(
    solution="""
def my_padding_mask(lengths, max_len):
    real = torch.arange(max_len) < lengths[:, None]  # (B, K)
    return real[:, None, :]  # (B, 1, K)
""",
    # A row for each query says the same as one row for all.
    also=[(KEYS, f"{KEYS}.expand(-1, max_len, -1)")],
    cases=[
        ((torch.tensor([2, 5, 3]), 6), ""),
        (
            (torch.tensor([4, 1, 0]), 4),
            "This is right up to here. For lengths of 4, 1 and 0 in 4 columns:",
        ),
    ],
    slips=[
        slip("The queries are masked, but padding is hidden as a key.",
             KEYS, "real[:, :, None]"),
        slip("(B, K) would broadcast the batch along the queries: which axis is "
             "missing?", KEYS, "real"),
        slip("The new axis is before the batch: where are the queries?",
             KEYS, "real[None]"),
        slip("There is an axis too many: a mask says nothing of heads.",
             KEYS, "real[:, None, None, :]"),
        slip("Padding's own rows see nothing: hide it as a key only.",
             KEYS, "real[:, None, :] & real[:, :, None]"),
        slip("True marks the padding here: it must mean 'may attend'.", "<", ">="),
        slip("The padding is on the left here: the real tokens come first.",
             "arange(max_len)", "arange(max_len).flip(0)"),
        slip("True marks the last tokens here: the real tokens come first.",
             "lengths[", "(max_len - lengths)["),
        slip("One real token too few is visible.", "lengths[", "(lengths - 1)["),
        slip("One padding token too many is visible.", "lengths[", "(lengths + 1)["),
        slip("The mask is as wide as the longest sequence, not as max_len.",
             "arange(max_len)", "arange(int(lengths.max()))"),
        slip("Nothing is hidden.", REAL, f"({REAL}) | True"),
    ],
    praise="Padding is hidden from every query, as a key.",
)  # fmt: skip


check_visible_pairs = NumberExercise(
    right=27,
    praise="Three real keys give 12 pairs (1+2+3+3+3), five give 15 (1+2+3+4+5).",
    mistakes=[
        (21, "6 + 15 counts the real queries only: padding's own rows see keys too."),
        (30, "15 + 15 is the causal mask alone: where is the padding?"),
        (40, "15 + 25 is the padding mask alone: where is the future?"),
        (34, "9 + 25 counts real pairs, but the future is not hidden."),
        (50, "25 + 25 counts every pair: nothing is hidden."),
        (23, "Those are the hidden pairs: count the others."),
        (12, "That is the shorter text alone: add the other."),
        (15, "That is the longer text alone: add the other."),
        (19, "The diagonal is missing: a query sees itself."),
    ],
    otherwise="That is not the number: count the True cells in five rows per text.",
)  # fmt: skip


NONE = -math.inf
LOWEST = torch.finfo(torch.float32).min
check_from_additive = Exercise(
    solution="""
def my_boolean_mask(additive):
    return additive > -1000
""",
    cases=[  # the last row of each is forbidden as a whole
        ((torch.tensor([[0.0, NONE, NONE], [0, 0, NONE], [NONE] * 3]),), ""),
        (
            (torch.tensor([[0.0, -1e9, LOWEST], [0, 0, -1e4], [LOWEST] * 3]),),
            "This is right for -inf. For -1e9, -10,000 and the lowest finite number:",
        ),
        (
            (torch.tensor([[0.0, -1e4, -1e9], [-20, -0.5, 0], [-1e4] * 3]),),
            "This is right without biases. With them:",
        ),
    ],
    slips=[
        slip("True marks what is blocked: it must mean 'may attend'.", ">", "<="),
        slip("This is still the additive mask: compare each number.", " > -1000", ""),
        slip("The last row is forbidden as a whole: it stays False.",
             "> -1000", ".softmax(-1) > 0"),
        slip("A small bias is no ban: what is allowed need not be 0.",
             "> -1000", "== 0"),
    ],
    praise="Only very negative numbers forbid; a bias does not.",
)  # fmt: skip
