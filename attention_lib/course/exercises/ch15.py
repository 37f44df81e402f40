"""Checks of chapter 15: bytes that move, halves joined, a softmax over pieces."""

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


def check_flash_bytes(answer: object) -> Verdict:
    """Checks the bytes that move: 8,192 tokens, width 128, pieces of 256."""
    length, width, rows = 8192, 128, 256
    one, passes = 2 * length * width, length // rows  # the bytes of one of Q, K, V, O
    right = one * (2 + 2 * passes)
    mistakes = [
        (one * 4, "Keys and values are read once for each piece of queries."),
        (one * 4 * passes, "Queries and result move once, not in each pass."),
        (one * 2 * passes, "Queries are read and the result is written, too."),
        (one * (1 + 2 * passes), "Both move once: the queries in, the result out."),
        (one * (2 + passes), "Each pass reads keys and values, both."),
        (one * (2 + 2 * rows), "256 is the size of a piece: how many are there?"),
        (one * (2 + 2 * length), "A pass serves a whole piece of queries, not one."),
        (one * 4 + 8 * length**2, "That is the count step by step: in tiles, no score "
         "moves."),
        (right // 2, "Each number takes 2 bytes."),
        (right * 2, "Each number takes 2 bytes, not 4."),
        (right // width, "Each query, key and value has 128 numbers."),
        (right / 2**10, "Right in KiB: the question is for bytes."),
        (right / 2**20, "Right in MiB: the question is for bytes."),
    ]  # fmt: skip
    return judge_number(
        answer,
        right,
        "32 passes over keys and values: 66 times the bytes of the queries.",
        mistakes,
        "Not that many: what moves once, and what moves in each of the passes?",
    )


def check_join_softmaxes(answer: object) -> Verdict:
    """Checks two results, over half of the keys each, joined to the result over all."""
    rng = seeded(0)
    for queries, width, level, hidden, so_far in [
        (5, 3, 0.0, False, ""),
        (4, 2, 1000.0, False, "Right for small sums. For large ones:"),
        (3, 4, 0.0, True, "Right where both saw some key. Where one saw none:"),
    ]:
        a, b = torch.randn(2, queries, width, generator=rng)
        log_a, log_b = 2 * torch.randn(2, queries, generator=rng)
        far = level * torch.arange(1, queries + 1)  # for each query another level
        log_a, log_b = log_a + far, log_b + far
        if hidden:  # in turns, so that neither half may be the one that is always there
            first = torch.arange(queries) % 2 == 0
            a, log_a = a * ~first[:, None], log_a.masked_fill(first, -torch.inf)
            b, log_b = b * first[:, None], log_b.masked_fill(~first, -torch.inf)
        share = (log_a - torch.logaddexp(log_a, log_b)).exp()[:, None]
        right = share * a + (1 - share) * b
        one, two = log_a.exp()[:, None], log_b.exp()[:, None]
        linear = (log_a / (log_a + log_b))[:, None]
        whole = torch.logaddexp(log_a, log_b)
        whole_share = (log_a.logsumexp(0) - whole.logsumexp(0)).exp()
        mistakes = [
            ((a + b) / 2, "The halves count the same: each must count by its share of "
             "the sum."),
            (a + b, "The halves are added: each must count by its share of the sum."),
            (share * b + (1 - share) * a, "The shares have changed places."),
            (one * a + two * b, "The shares do not add up to 1: divide by the whole "
             "sum."),
            (linear * a + (1 - linear) * b, "The shares are those of the logarithms: "
             "take the sums themselves."),
            (torch.where(share > 0.5, a, b), "Only the half with the larger share "
             "counts: the other counts by its own."),
            (a, "That is the first half alone."),
            (b, "That is the second half alone."),
            (share * a, "The second half is missing."),
            ((1 - share) * b, "The first half is missing."),
            (whole_share * a + (1 - whole_share) * b, "Each query has shares of its "
             "own, not one for all."),
        ]  # fmt: skip
        mistakes = [pair for pair in mistakes if pair[0].isfinite().all()]
        given = a, log_a, b, log_b
        if wrong := judge(answer, given, right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "So one text can be read by many machines, and joined.")


def check_online_softmax(answer: object) -> Verdict:
    """Checks a class that mixes values while scores arrive in pieces."""
    rng = seeded(0)
    # So large that exponentials overflow, in float64 too.
    none, high, rising = torch.zeros(1), torch.tensor(5e3), 1e3 * torch.arange(6)
    apart = torch.tensor([[-3e3], [3e3]])
    for queries, keys, width, size, level, often, so_far in [
        (3, 8, 4, 3, none, False, ""),
        (2, 5, 3, 1, high, False, "Right for small scores. For large ones:"),
        (2, 6, 3, 2, apart, False, "Right for large scores. For queries whose scores "
         "are far apart:"),
        (2, 6, 3, 2, -rising, False, "Right where scores rise. Where they fall by "
         "much:"),
        (2, 6, 3, 2, rising, False, "Right where scores fall. Where they rise by "
         "much:"),
        (4, 6, 2, 6, none, False, "Right for several pieces. For a single one:"),
        (2, 7, 5, 2, none, True, "Right at the end. Asked after every piece:"),
    ]:  # fmt: skip
        made = run(answer, queries, width)
        if isinstance(made, Verdict):
            return made if made is NOT_YET or not so_far else after(so_far, made)
        if not (hasattr(made, "add") and hasattr(made, "result")):
            came = type(made).__name__
            return Verdict(False, f"Your function returns a {came}: a class with add "
                           "and result is wanted.")  # fmt: skip
        scores = 2 * torch.randn(queries, keys, generator=rng) + level
        if level is none:  # so that the sums must shrink
            scores = scores.sort(dim=1).values
        value = torch.randn(keys, width, generator=rng)

        def use(
            scores: Tensor,
            value: Tensor,
            *,
            made: Any = made,
            size: int = size,
            often: bool = often,
        ) -> Any:
            pieces = zip(scores.split(size, 1), value.split(size), strict=True)
            for some, own in pieces:
                made.add(some, own)
                if often:
                    made.result()
            return made.result()

        right = scores.softmax(dim=1) @ value
        mistakes = _mistaken(scores, value, size)
        if wrong := judge(use, (scores, value), right, mistakes, so_far=so_far):
            return wrong
    made, sizes = run(answer, 2, 5), []
    for _ in range(3):
        made.add(torch.zeros(2, 4), torch.zeros(4, 5))
        sizes.append(_numbers_in(getattr(made, "__dict__", {})))
    if sizes[1] < sizes[2]:
        return Verdict(False, "The result is right, but your object grows with each "
                       "piece. Keep the largest score and two sums.")  # fmt: skip
    return Verdict(True, "Three things are kept, however many scores arrive.")


def _numbers_in(kept: Any) -> int:
    """Counts the numbers in all tensors, also in lists and dictionaries of them."""
    if isinstance(kept, Tensor):
        return kept.numel()
    parts = [*kept.values()] if isinstance(kept, dict) else kept
    return sum(map(_numbers_in, parts)) if isinstance(parts, list | tuple) else 0


def _mistaken(scores: Tensor, value: Tensor, size: int) -> Mistakes:
    """Gives what comes of each usual mistake."""

    def kept(total: str, mixed: str) -> tuple[Tensor, Tensor]:
        largest = torch.full((len(scores), 1), -torch.inf)
        sums, mix = torch.zeros(len(scores), 1), torch.zeros(len(scores), len(value[0]))
        for some, own in zip(scores.split(size, 1), value.split(size), strict=True):
            new = torch.maximum(largest, some.amax(1, keepdim=True))
            shrink = (largest - new).exp()
            grow = torch.ones_like(shrink) if largest.isinf().all() else 1 / shrink
            by = {"yes": shrink, "no": torch.ones_like(shrink), "up": grow}
            weights = (some - new).exp()
            sums = sums * by[total] + weights.sum(1, keepdim=True)
            mix = mix * by[mixed] + weights @ own
            largest = new
        return mix, sums

    def divided(total: str, mixed: str) -> Tensor:
        mix, sums = kept(total, mixed)
        return mix / sums

    parts = [
        some.softmax(1) @ own
        for some, own in zip(scores.split(size, 1), value.split(size), strict=True)
    ]
    mistakes = [
        (divided("no", "no"), "Nothing shrinks: old sums were measured from a smaller "
         "largest score."),
        (divided("yes", "no"), "The mix must shrink as the sum does."),
        (divided("no", "yes"), "The sum must shrink as the mix does."),
        (divided("up", "up"), "The old sums grow: the factor is upside down."),
        (kept("yes", "yes")[0], "The mix is not divided by the sum."),
        (parts[-1], "Only the last piece counts: is everything kept?"),
        (parts[0], "Only the first piece counts."),
        (torch.stack(parts).mean(0), "The results of the pieces are averaged: they "
         "differ in their share."),
        (torch.stack(parts).sum(0), "The results of the pieces are added up."),
        (value.mean(0).expand(len(scores), -1), "All keys count the same: where are "
         "the scores?"),
    ]  # fmt: skip
    return [pair for pair in mistakes if pair[0].isfinite().all()]
