"""Checks of chapter 22: bytes of sharded weights, zigzag, gradients, one of a ring."""

from typing import Any

import torch
from torch import Tensor

from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Mistakes,
    Verdict,
    after,
    judge,
    judge_number,
    run,
)
from attention_lib.reproducibility import seeded


def check_sharded_traffic(answer: object) -> Verdict:
    """Checks the gigabytes of a step: 3e9 sharded weights, 8 devices, 16 bits."""
    return judge_number(
        answer,
        15.75,
        "Two all-gathers and a reduce-scatter, each of seven eighths of 6 GB.",
        [
            (5.25, "That is one all-gather. Backward needs the weights again, and then "
             "the gradients go."),
            (10.5, "That is an all-reduce of the gradients. Here the weights are "
             "gathered in forward and again in backward."),
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
        "Three joint operations: what is their size, and how much of it is sent?",
    )  # fmt: skip


def check_zigzag(answer: object) -> Verdict:
    """Checks which tokens a process holds in zigzag order."""
    for length, rank, count, so_far in [
        (24, 1, 3, ""),
        (24, 0, 3, "Right for process 1. For process 0:"),
        (40, 3, 4, "Right for three processes. For process 3 of 4:"),
    ]:
        size = length // count // 2
        early, late = rank * size, (2 * count - 1 - rank) * size
        own = torch.arange(size)
        half, tokens = 2 * size, torch.arange(length)
        right = torch.cat((early + own, late + own))
        mistakes = [
            (torch.arange(rank * half, (rank + 1) * half), "That is the plain order: "
             "one piece, so that process 0 has little to do."),
            (early + own, "The early piece is right. A late one is missing."),
            (late + own, "The late piece is right. An early one is missing."),
            (torch.cat((late + own, early + own)), "The early piece comes first."),
            (torch.cat((early + own, (late + own).flip(0))), "Inside of the late piece "
             "the tokens keep their order."),
            (tokens[rank::count], "Every N-th token: that is another order, with "
             "stripes."),
            (torch.cat((early + own, (rank + count) * size + own)), "The late pieces "
             "are dealt out from the end: the first process gets the last one."),
            (torch.cat((early + own, (2 * count - rank) * size + own)), "Pieces count "
             "from 0, so the last one has the number 2N - 1."),
            (right + 1, "Tokens count from 0."),
            (torch.cat(((count - 1 - rank) * size + own, (count + rank) * size + own)),
             "These are the tokens of the process that stands opposite."),
            (torch.tensor([rank, 2 * count - 1 - rank]), "These are the pieces: which "
             "tokens are in them?"),
        ]  # fmt: skip
        if wrong := judge(
            answer, (length, rank, count), right, mistakes, so_far=so_far
        ):
            return wrong
        came = run(answer, length, rank, count)
        if isinstance(came, Tensor) and came.is_floating_point():
            return Verdict(False, "The numbers are right, but they are floats: numbers "
                           "of tokens are integers.")  # fmt: skip
    return Verdict(True, "An early and a late piece: all have equally much to do.")


def check_whole_gradient(answer: object) -> Verdict:
    """Checks the gradient of all targets, from the means of processes."""
    for counts, shape, so_far in [
        ([3, 1, 4], (3, 2), ""),
        ([5, 0, 1], (3, 2, 2), "Right so far. Where a process has no target, and a "
         "gradient has two axes:"),
    ]:  # fmt: skip
        gradients = torch.randn(shape, generator=seeded(len(counts)))
        each = torch.tensor(counts).view(-1, *[1] * (len(shape) - 1))
        total, summed = sum(counts), (gradients * each).sum(0)
        mistakes = [
            (gradients.mean(0), "The mean of means counts each process alike. One with "
             "more targets must count more."),
            (gradients.sum(0), "The sum of means grows with the processes, and counts "
             "each alike."),
            (summed, "That is the gradient of the sum over all targets: its mean is "
             "asked for."),
            (summed / len(counts), "Divide by the number of targets, not of "
             "processes."),
            (summed / max(counts), "Divide by the number of all targets, not by the "
             "largest."),
            ((gradients * each.flip(0)).sum(0) / total, "The counts are in the wrong "
             "order."),
            (gradients[0], "That is the gradient of process 0 alone."),
            ((gradients / each.clamp(min=1)).sum(0), "The gradients are means already: "
             "dividing again counts large processes less."),
            (gradients.sum(0) / total, "The gradients are means: each must be "
             "multiplied by its number of targets first."),
            (gradients * each / total, "These are the parts of the processes: add "
             "them."),
            (gradients[counts.index(max(counts))], "The process with the most targets "
             "is not all."),
            (gradients.median(0).values, "A median is no mean."),
        ]  # fmt: skip
        given = gradients, torch.tensor(counts)
        if wrong := judge(answer, given, summed / total, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "As if one process had read all texts.")


def check_ring_process(answer: object) -> Verdict:
    """Checks a class that is one process of a ring: it attends, gives and takes."""
    for count, size, factor, so_far in [
        (3, 2, 1.0, ""),
        (2, 3, 3000.0, "Right with small scores. With large ones:"),
    ]:
        width, value_dim = 4, 3
        shapes = (count, size, width), (count, size, width), (count, size, value_dim)
        query, key, value = (
            torch.randn(shape, generator=seeded(7 + n))
            for n, shape in enumerate(shapes)
        )
        query = query * factor
        made = [run(answer, *own) for own in zip(query, key, value, strict=True)]
        for each in made:
            if isinstance(each, Verdict):
                return each if each is NOT_YET or not so_far else after(so_far, each)
            if not all(hasattr(each, n) for n in ("attend", "give", "take", "result")):
                came = type(each).__name__
                wanted = "a class with attend, give, take and result is wanted."
                return Verdict(False, f"Your function returns a {came}: {wanted}")

        def use(*, made: list[Any] = made) -> Any:
            for _ in made:
                for each in made:
                    each.attend()
                given = [each.give() for each in made]
                if any(it is None or it is ... for it in given):
                    return None
                for each, (key, value) in zip(
                    made, given[-1:] + given[:-1], strict=True
                ):
                    each.take(key, value)
            found = [each.result() for each in made]
            return None if any(it is None or it is ... for it in found) else _all(found)

        right = _went_round(query, key, value)
        mistakes = _mistaken(query, key, value)
        if wrong := judge(use, (), right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "Each query has met all keys.")


def _all(found: list[Any]) -> Any:
    """Joins the results; what cannot be joined is shown as it came."""
    if all(isinstance(each, Tensor) for each in found):
        return torch.cat(found)
    return found[0]


def _went_round(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    keys: str = "all",
    values: str = "all",
    scale: float = 0.5,
) -> Tensor:
    """Gives the result of all processes, if they meet all keys or only some."""
    scores = query @ _met(key, keys).mT * scale
    return (scores.softmax(-1) @ _met(value, values)).flatten(0, 1)


def _met(kept: Tensor, which: str) -> Tensor:
    """Gives what each process meets: all, its own again and again, …"""
    count = len(kept)

    def origin(rank: int, step: int) -> int:
        back = {"all": step, "own": 0, "previous": min(step, 1)}[which]
        return (rank - back) % count

    ranks = range(count)
    met = [torch.cat([kept[origin(r, step)] for step in ranks]) for r in ranks]
    return torch.stack(met)


def _mistaken(query: Tensor, key: Tensor, value: Tensor) -> Mistakes:
    """Gives what comes of each usual mistake."""
    given = query, key, value
    size = key.shape[1]
    met, mixed = _met(key, "all"), _met(value, "all")
    parts = (query @ met.mT * 0.5).split(size, -1)
    pieces = mixed.split(size, -2)
    means = torch.stack([s.softmax(-1) @ v for s, v in zip(parts, pieces, strict=True)])
    largest = torch.full((*query.shape[:-1], 1), -torch.inf)
    mix = total = loose_mix = loose_total = torch.zeros(1)
    for part, piece in zip(parts, pieces, strict=True):
        new = torch.maximum(largest, part.amax(-1, keepdim=True))
        shrink, weights = (largest - new).exp(), (part - new).exp()
        ones = weights.sum(-1, keepdim=True)
        mix, loose_mix = mix * shrink + weights @ piece, loose_mix + weights @ piece
        total, loose_total = total * shrink + ones, loose_total + ones
        largest = new
    kept = {"both": loose_mix / loose_total, "mix": loose_mix / total,
            "total": mix / loose_total, "undivided": mix}  # fmt: skip
    flat = {name: each.flatten(0, 1) for name, each in kept.items()}
    return [
        (_went_round(*given, keys="own", values="own"), "Each process has met its own "
         "keys only: does `take` keep what comes, and `attend` use it?"),
        (_went_round(*given, scale=1.0), "The scores are not divided by the root of "
         "the width."),
        (means.mean(0).flatten(0, 1), "The results of the pieces count alike. A piece "
         "with larger scores must count more."),
        (means.sum(0).flatten(0, 1), "The results of the pieces are added, each with "
         "weights that sum to 1."),
        (means[-1].flatten(0, 1), "Only the last piece is in the result."),
        (flat["undivided"], "The mix is not divided by the sum of the exponentials."),
        (flat["both"], "When a larger score comes, what was summed before must "
         "shrink."),
        (flat["mix"], "When a larger score comes, the mix must shrink as well."),
        (flat["total"], "When a larger score comes, the sum of the exponentials must "
         "shrink as well."),
        (_went_round(*given, keys="previous", values="previous"), "`give` gives the "
         "process's own keys every time: they must go on that came."),
        (_went_round(*given, values="own"), "The keys go round, the values stay."),
        (_went_round(*given, keys="own"), "The values go round, the keys stay."),
    ]  # fmt: skip
