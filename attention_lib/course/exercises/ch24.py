"""Exercises of chapter 24: bytes of shards, zigzag, gradients, one rank of a ring."""

from typing import Any

import torch
from torch import Tensor

from attention_lib.course.exercises.exercise import (
    Exercise,
    NumberExercise,
    make_object,
    slip,
)
from attention_lib.course.exercises.verdict import NOT_YET, Stop
from attention_lib.flash_attention import OnlineSoftmax
from attention_lib.reproducibility import seeded

# The gigabytes of a step: 3e9 sharded weights, 8 devices, 16 bits.
check_sharded_traffic = NumberExercise(
    right=15.75,
    praise="Two all-gathers and a reduce-scatter, each of seven eighths of 6 GB.",
    mistakes=[
        (5.25, "That is one all-gather. The backward pass needs the weights "
         "again, and then the gradients are scattered."),
        (10.5, "That is an all-reduce of the gradients. Here the weights are "
         "gathered in the forward pass and again in the backward pass."),
        (18.0, "A device does not send to itself: one piece of eight stays."),
        (2.25, "Each device passes on seven pieces in a joint operation, not one."),
        (42.0, "That is everything sent to seven others. In a ring, pieces move."),
        (126.0, "That is what all devices send together."),
        (31.5, "In 16 bits a number takes 2 bytes, not 4."),
        (7.875, "In 16 bits a number takes 2 bytes, not 1."),
        (21.0, "An all-reduce would be two passes. A reduce-scatter is one: each "
         "device needs its own part only."),
        (6.0, "That is the size of the weights. How often do they move?"),
        (48.0, "That is what is kept, 16 bytes per weight. Adam's state stays "
         "where it is."),
        (15750.0, "The answer is asked for in gigabytes."),
    ],
    otherwise="Three joint operations: what is their size, and how much of it is sent?",
)  # fmt: skip


TWO = "(pieces[rank], pieces[2 * processes - 1 - rank])"
LATE = "pieces[2 * processes - 1 - rank]"
check_zigzag = Exercise(
    solution="""
def my_tokens(length, rank, processes):
    pieces = torch.arange(length).chunk(2 * processes)
    return torch.cat((pieces[rank], pieces[2 * processes - 1 - rank]))
""",
    cases=[
        ((24, 1, 3), ""),
        ((24, 0, 3), "Right for process 1. For process 0:"),
        ((40, 3, 4), "Right for three processes. For process 3 of 4:"),
    ],
    slips=[
        slip("That is the plain order: one piece, so that process 0 has little to do.",
             TWO, "pieces[2 * rank : 2 * rank + 2]"),
        slip("The early piece is right. A late one is missing.",
             f"torch.cat({TWO})", "pieces[rank]"),
        slip("The late piece is right. An early one is missing.",
             f"torch.cat({TWO})", LATE),
        slip("The early piece comes first.", TWO, f"({LATE}, pieces[rank])"),
        slip("Inside the late piece, the tokens keep their order.",
             LATE, LATE + ".flip(0)"),
        slip("Every N-th token: that is a different order, with stripes.",
             f"torch.cat({TWO})", "torch.arange(length)[rank::processes]"),
        slip("The late pieces are dealt out from the end: the first process gets the "
             "last one.", LATE, "pieces[processes + rank]"),
        slip("Pieces count from 0, so the last one has the number 2N - 1.",
             LATE, f"({LATE} + len(pieces[0]))"),
        slip("Tokens count from 0.", f"{TWO})", f"{TWO}) + 1"),
        slip("These are the tokens of the opposite process.",
             TWO, "(pieces[processes - 1 - rank], pieces[processes + rank])"),
        slip("These are the pieces: which tokens are in them?",
             f"torch.cat({TWO})", "torch.tensor([rank, 2 * processes - 1 - rank])"),
    ],
    fault=lambda answer, *given: (
        "The numbers are right, but they are floats: numbers of tokens are integers."
        if answer(*given).is_floating_point() else ""
    ),
    praise="An early and a late piece: all have equally much to do.",
)  # fmt: skip

SHARES = "counts / counts.sum()"
SUMMED = "torch.tensordot(shares.to(gradients.dtype), gradients, dims=1)"
check_whole_gradient = Exercise(
    solution="""
def my_gradient(gradients, counts):
    shares = counts / counts.sum()
    return torch.tensordot(shares.to(gradients.dtype), gradients, dims=1)
""",
    inputs=lambda counts, *shape: (
        torch.randn(shape, generator=seeded(len(counts))), torch.tensor(counts)
    ),
    cases=[
        (([3, 1, 4], 3, 2), ""),
        (([5, 0, 1], 3, 2, 2), "Right so far. Where a process has no target, and a "
         "gradient has two axes:"),
    ],
    slips=[
        slip("The mean of means counts each process equally. One with more targets "
             "must count more.", SUMMED, "gradients.mean(0)"),
        slip("The sum of means grows with the processes, and counts each equally.",
             SUMMED, "gradients.sum(0)"),
        slip("That is the gradient of the sum over all targets: its mean is asked for.",
             SHARES, "counts"),
        slip("Divide by the number of targets, not of processes.",
             SHARES, "counts / len(counts)"),
        slip("Divide by the number of all targets, not by the largest.",
             SHARES, "counts / counts.max()"),
        slip("The counts are in the wrong order.",
             SHARES, "counts.flip(0) / counts.sum()"),
        slip("That is the gradient of process 0 alone.", SUMMED, "gradients[0]"),
        slip("The gradients are means already: dividing again counts large processes "
             "less.", SHARES, "1 / counts.clamp(min=1)"),
        slip("The gradients are means: each must be multiplied by its number of "
             "targets first.", SUMMED, "gradients.sum(0) / counts.sum()"),
        slip("These are the parts of the processes: add them.",
             SUMMED, "(gradients.mT * shares).mT"),
        slip("The process with the most targets is not all.",
             SUMMED, "gradients[counts.argmax()]"),
        slip("A median is not a mean.", SUMMED, "gradients.median(0).values"),
    ],
    praise="As if one process had read all texts.",
)  # fmt: skip


def _went_round(answer: Any, query: Tensor, key: Tensor, value: Tensor) -> Any:
    """Return the results of all processes of a ring, once all have met all keys."""
    methods = ["attend", "give", "take", "result"]
    starts = range(0, query[..., 0].numel(), query.shape[1])
    own = zip(query, key, value, starts, strict=True)
    made = [make_object(answer, *each, methods=methods) for each in own]
    for _ in made:
        for each in made:
            each.attend()
        given = _all([each.give() for each in made])
        for each, received in zip(made, given[-1:] + given[:-1], strict=True):
            each.take(*received)
    found = _all([each.result() for each in made])
    # What cannot be joined is shown as it came.
    joined = all(isinstance(each, Tensor) for each in found)
    return torch.cat(found) if joined else found[0]


def _all(came: list[Any]) -> list[Any]:
    if any(each is None or each is ... for each in came):
        raise Stop(NOT_YET)
    return came


SCALE = " * self.query.shape[-1] ** -0.5"
TAKE = "        self.key, self.value, self.key_start = key, value, start\n\n"
GIVE = "return self.key, self.value, self.key_start"
MASKED = "scores.masked_fill(columns > rows[:, None], -torch.inf)"
LAST = "return self.mixed.result()[0]"
START = "self.mixed = OnlineSoftmax(shape, dtype=value.dtype)"
ADD = "self.mixed.add(scores, self.value)"
# Without the help of OnlineSoftmax.
BY_HAND = (
    START,
    "self.largest = torch.full((len(query), 1), -torch.inf)\n"
    "        self.total, self.mixed = 0, 0",
    ADD,
    "new = torch.maximum(self.largest, scores.amax(dim=-1, keepdim=True))\n"
    "        shrink, weights = (self.largest - new).exp(), (scores - new).exp()\n"
    "        self.total = self.total * shrink + weights.sum(dim=-1, keepdim=True)\n"
    "        self.mixed = self.mixed * shrink + weights @ self.value\n"
    "        self.largest = new",
    LAST,
    "return self.mixed / self.total",
)
MIX, TOTAL = "self.mixed * shrink + ", "self.total * shrink + "
# Each piece with a softmax of its own.
APART = (START, "self.parts = []",
         ADD, "self.parts.append(scores.softmax(-1).nan_to_num() @ self.value)"
         )  # fmt: skip
check_ring_process = Exercise(
    solution="""
class MyProcess:
    def __init__(self, query, key, value, start):
        self.query, self.start = query, start
        self.key, self.value, self.key_start = key, value, start
        shape = len(query), value.shape[-1]
        self.mixed = OnlineSoftmax(shape, dtype=value.dtype)

    def attend(self):
        scores = self.query @ self.key.mT * self.query.shape[-1] ** -0.5
        rows = self.start + torch.arange(len(self.query))
        columns = self.key_start + torch.arange(len(self.key))
        scores = scores.masked_fill(columns > rows[:, None], -torch.inf)
        self.mixed.add(scores, self.value)

    def give(self):
        return self.key, self.value, self.key_start

    def take(self, key, value, start):
        self.key, self.value, self.key_start = key, value, start

    def result(self):
        return self.mixed.result()[0]
""",
    names=dict(OnlineSoftmax=OnlineSoftmax),
    inputs=lambda count, size, factor: (
        factor * torch.randn(count, size, 4, generator=seeded(7)),
        torch.randn(count, size, 4, generator=seeded(8)),
        torch.randn(count, size, 3, generator=seeded(9)),
    ),
    use=_went_round,
    cases=[
        ((3, 2, 1.0), ""),
        ((2, 3, 3000.0), "Right with small scores. With large ones:"),
    ],
    slips=[
        slip("Each process has met its own keys only: does `take` keep what "
             "arrives, and `attend` use it?", TAKE, "        pass\n\n"),
        slip("Queries see the future: hide the keys at later positions.",
             MASKED, "scores"),
        slip("Where do the keys begin that the process holds now? Positions count in "
             "the whole text.", "self.key_start + torch", "self.start + torch"),
        slip("The mask is the wrong way round: it hides the past.",
             "columns > rows", "columns < rows"),
        slip("`give` must say where the keys begin that it returns, not the process's "
             "own.", GIVE, "return self.key, self.value, self.start"),
        slip("The scores are not divided by the root of the width.", SCALE, ""),
        slip("The results of the pieces count equally. A piece with larger scores must "
             "count more.", *APART, LAST, "return torch.stack(self.parts).mean(0)"),
        slip("The results of the pieces are added, each with weights that sum to 1.",
             *APART, LAST, "return sum(self.parts)"),
        slip("Only the last piece is in the result.",
             *APART, LAST, "return self.parts[-1]"),
        slip("The mix is not divided by the sum of the exponentials.",
             *BY_HAND, " / self.total", ""),
        slip("When a larger score arrives, what was summed before must shrink.",
             *BY_HAND, " * shrink", ""),
        slip("When a larger score arrives, the mix must shrink as well.",
             *BY_HAND, MIX, "self.mixed + "),
        slip("When a larger score arrives, the sum of the exponentials must shrink as "
             "well.", *BY_HAND, TOTAL, "self.total + "),
        slip("`give` returns the process's own keys every time: it must pass on those "
             "that arrived.", START, "self.own = key, value, start\n        " + START,
             GIVE, "return self.own"),
        slip("The keys go round, the values stay.",
             TAKE, "        self.key, self.key_start = key, start\n\n"),
        slip("The values go round, the keys stay.",
             TAKE, "        self.value, self.key_start = value, start\n\n"),
    ],
    praise="Each query has met all keys up to its own.",
)  # fmt: skip
