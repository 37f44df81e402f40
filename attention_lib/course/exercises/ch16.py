"""Exercises of chapter 16: the size of a piece, halves joined, softmax over pieces."""

from typing import Any

import torch
from torch import Tensor

from attention_lib.course.exercises.exercise import (
    Exercise,
    NumberExercise,
    make_object,
    slip,
)
from attention_lib.course.exercises.verdict import Verdict
from attention_lib.reproducibility import seeded

check_flash_piece = NumberExercise(
    solution="""
plain = 4 * 8192 * (128 + 8192)  # numbers, step by step
once = 2 * 8192 * 128  # queries and result, or keys and values
passes = plain // 10 // once - 1
my_queries = -(-8192 // passes)  # rounded up
""",
    mistakes=[
        (682, "Twelve pieces of 682 leave eight queries, which need one more pass."),
        (8192 / 12, "The passes are right: a piece holds whole queries, so round up."),
        (12, "That is how many passes may be made: how many queries does each hold?"),
        (13, "Queries and result move once, which is as much as a pass: how many "
         "passes are left, and how large is each piece?"),
        (631, "Queries and result move, too: as much as one pass."),
        (8192 / 13, "Queries and result move, too: as much as one pass."),
        (745, "Step by step, queries, keys, values and result move, too."),
        (1639, "Step by step, scores and weights are both written and read: 4 T · T."),
        (342, "Each pass reads keys and values, both."),
        (820, "A tenth of the text is not a tenth of the numbers: count what moves."),
        (1024, "That is enough, but fewer do: it need not be a power of two."),
        (128, "That is the width of the head."),
        (8192, "That is one pass for all: smaller pieces do."),
    ],
    praise="Twelve passes, and queries and result, move exactly a tenth.",
    otherwise="Not that many: write down the numbers that move step by step, and those "
    "that move in each pass.",
)  # fmt: skip


def _halves(queries: int, width: int, level: float, hidden: bool) -> tuple[Tensor, ...]:
    """Draw two results and the logarithms of their sums; hide one half in turns."""
    rng, exact = seeded(0), torch.float64  # float32 cannot hold large logarithms well
    a, b = torch.randn(2, queries, width, generator=rng, dtype=exact)
    far = level * torch.arange(1, queries + 1)  # for each query another level
    log_a, log_b = 2 * torch.randn(2, queries, generator=rng, dtype=exact) + far
    if hidden:  # so that neither half may be the one that is always there
        first = torch.arange(queries) % 2 == 0
        a, log_a = a * ~first[:, None], log_a.masked_fill(first, -torch.inf)
        b, log_b = b * first[:, None], log_b.masked_fill(~first, -torch.inf)
    return a, log_a, b, log_b


BOTH = "both = torch.logaddexp(log_sum_a, log_sum_b)"
SHARES = "(log_sum_a - both).exp(), (log_sum_b - both).exp()"
MIXED = "share_a[:, None] * result_a + share_b[:, None] * result_b"
check_join_softmaxes = Exercise(
    solution="""
def join(result_a, log_sum_a, result_b, log_sum_b):
    both = torch.logaddexp(log_sum_a, log_sum_b)
    share_a, share_b = (log_sum_a - both).exp(), (log_sum_b - both).exp()
    return share_a[:, None] * result_a + share_b[:, None] * result_b
""",
    cases=[
        ((5, 3, 0.0, False), ""),
        ((4, 2, 1000.0, False), "Right for small sums. For large ones:"),
        ((3, 4, 0.0, True), "Right where both saw some key. Where one saw none:"),
    ],
    inputs=_halves,
    slips=[
        slip("The halves count the same: each must count by its share of the sum.",
             MIXED, "(result_a + result_b) / 2"),
        slip("The halves are added: each must count by its share of the sum.",
             MIXED, "result_a + result_b"),
        slip("The shares have changed places.", "share_a, share_b", "share_b, share_a"),
        slip("The shares do not add up to 1: divide by the whole sum.", " - both", ""),
        slip("The shares are those of the logarithms: take the sums themselves.",
             SHARES, "(x / (log_sum_a + log_sum_b) for x in (log_sum_a, log_sum_b))"),
        slip("Only the half with the larger share counts: the other counts by its own.",
             MIXED, "torch.where(share_a[:, None] > 0.5, result_a, result_b)"),
        slip("That is the first half alone.", MIXED, "result_a"),
        slip("That is the second half alone.", MIXED, "result_b"),
        slip("The second half is missing.", MIXED, "share_a[:, None] * result_a"),
        slip("The first half is missing.", MIXED, "share_b[:, None] * result_b"),
        slip("Each query has shares of its own, not one for all.",
             "    both",
             "    log_sum_a, log_sum_b = log_sum_a.logsumexp(0), "
             "log_sum_b.logsumexp(0)\n    both", "[:, None]", ""),
    ],
    praise="So one text can be read by many machines, and joined.",
)  # fmt: skip


def _scores(
    sizes: tuple[int, int], keys: int, piece: int, level: Any, often: bool
) -> tuple[Any, ...]:
    """Draw scores around a level, sorted around 0 so that the sums must shrink."""
    rng, exact = seeded(0), torch.float64  # float32 cannot hold large scores well
    scores = 2 * torch.randn(sizes[0], keys, generator=rng, dtype=exact)
    scores = scores + torch.tensor(level, dtype=exact)
    scores = scores if level else scores.sort(dim=1).values
    return scores, torch.randn(keys, sizes[1], generator=rng, dtype=exact), piece, often


def _mixed(made: Any, scores: Tensor, value: Tensor, piece: int, often: bool) -> Any:
    for some, own in zip(scores.split(piece, 1), value.split(piece), strict=True):
        made.add(some, own)
        if often:
            made.result()
    return made.result()


def _growth(answer: Any) -> Verdict | None:
    """Say whether an object keeps more with each piece."""
    made, sizes = answer(2, 5), []
    for _ in range(3):
        made.add(torch.zeros(2, 4), torch.zeros(4, 5))
        sizes.append(_numbers_in(getattr(made, "__dict__", {})))
    if sizes[1] >= sizes[2]:
        return None
    return Verdict(
        False,
        "The result is right, but your object grows with each piece. Keep the largest "
        "score and two sums.",
    )


def _numbers_in(kept: Any) -> int:
    """Count the numbers in tensors, lists and dictionaries, also one in another."""
    if isinstance(kept, Tensor):
        return kept.numel()
    if isinstance(kept, int | float):
        return 1
    parts = [*kept.values()] if isinstance(kept, dict) else kept
    return sum(map(_numbers_in, parts)) if isinstance(parts, list | tuple) else 0


TOTAL, MIX = "self.total * shrink", "self.mixed * shrink"
SHRINK, NEW = "(self.largest - new).exp()", "new = torch.maximum"
WEIGHTS, SUM = "(scores - new).exp()", "weights.sum(dim=-1, keepdim=True)"
RESULT = "self.mixed / self.total"
# Each piece has a softmax of its own.
APART = (
    TOTAL,
    "self.total",
    SUM,
    "1",
    MIX,
    "self.mixed",
    "weights @",
    "scores.softmax(dim=-1) @",
)
RISING = [0.0, 1e3, 2e3, 3e3, 4e3, 5e3]
check_online_softmax = Exercise(
    solution="""
class MyOnlineSoftmax:
    def __init__(self, num_queries, value_dim):
        self.largest = torch.full((num_queries, 1), -torch.inf)
        self.total = torch.zeros(num_queries, 1)
        self.mixed = torch.zeros(num_queries, value_dim)

    def add(self, scores, value):
        new = torch.maximum(self.largest, scores.amax(dim=-1, keepdim=True))
        shrink, weights = (self.largest - new).exp(), (scores - new).exp()
        self.total = self.total * shrink + weights.sum(dim=-1, keepdim=True)
        self.mixed = self.mixed * shrink + weights @ value
        self.largest = new

    def result(self):
        return self.mixed / self.total
""",
    # Levels so large that exponentials overflow, in float64 too.
    cases=[
        (((3, 3), 8, 4, 0.0, False), ""),
        (((2, 3), 5, 1, 5e3, False), "Right for small scores. For large ones:"),
        (((2, 3), 6, 2, [[-3e3], [3e3]], False), "Right for large scores. For "
         "queries whose scores are far apart:"),
        (((2, 3), 6, 2, RISING[::-1], False), "Right where scores rise. Where they "
         "fall by much:"),
        (((2, 3), 6, 2, RISING, False), "Right where scores fall. Where they rise "
         "by much:"),
        (((4, 2), 6, 6, 0.0, False), "Right for several pieces. For a single one:"),
        (((2, 5), 7, 2, 0.0, True), "Right at the end. Asked after every piece:"),
    ],
    inputs=lambda sizes, *how: (sizes, *_scores(sizes, *how)),
    use=lambda kind, sizes, *given: _mixed(
        make_object(kind, *sizes, methods=["add", "result"]), *given
    ),
    lastly=_growth,
    slips=[
        slip("Nothing shrinks: old sums were measured from a smaller largest score.",
             TOTAL, "self.total", MIX, "self.mixed"),
        slip("The mix must shrink as the sum does.", MIX, "self.mixed"),
        slip("The sum must shrink as the mix does.", TOTAL, "self.total"),
        slip("The old sums grow: the factor is upside down.",
             SHRINK, "(new - self.largest).exp().nan_to_num(posinf=1.0)"),
        slip("The mix is not divided by the sum.", RESULT, "self.mixed"),
        slip("Only the last piece counts: is everything kept?",
             "self.largest = new", "pass"),
        slip("Only the first piece counts.",
             NEW, f"if self.total.any(): return\n        {NEW}"),
        slip("The results of the pieces are averaged: they differ in their share.",
             *APART),
        slip("The results of the pieces are added up.", *APART, RESULT, "self.mixed"),
        slip("All keys count the same: where are the scores?",
             WEIGHTS, "torch.ones_like(scores)", TOTAL, "self.total",
             MIX, "self.mixed"),
    ],
    praise="What is kept does not grow, however many scores arrive.",
)  # fmt: skip
