"""Checks of chapter 20: a median of ratios, the fused kernel, a clock in turns."""

import statistics
from typing import Any

import torch
import torch.nn.functional as F

from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Verdict,
    after,
    judge,
    judge_number,
    run,
)
from attention_lib.reproducibility import seeded
from attention_lib.timing import kernels_of


def check_median_ratio(answer: object) -> Verdict:
    """Checks the median of the ratios of two rows of times."""
    first, second = [15, 16, 35, 8, 15], [9, 12, 33, 16, 8]
    ratios = [b / a for a, b in zip(first, second, strict=True)]
    right, middle = statistics.median(ratios), statistics.median
    mistakes = [
        (1 / right, "That is the first over the second: second over first is asked."),
        (middle(second) / middle(first), "That is the ratio of the medians: divide "
         "within each round first."),
        (middle(first) / middle(second), "That is the ratio of the medians, and first "
         "over second."),
        (sum(ratios) / 5, "That is the mean of the ratios: take the one in the "
         "middle."),
        (sum(second) / sum(first), "That is the ratio of the sums, in which the long "
         "round counts most."),
        (min(second) / min(first), "That is the ratio of the shortest times: no round "
         "had both."),
        (ratios[2], "That is the third round: sort the ratios first."),
        (min(ratios), "That is the smallest ratio."),
        (max(ratios), "That is the largest ratio."),
        (1 - right, "That is what is saved: give the ratio itself."),
        (100 * right, "That is in percent: give the ratio itself."),
    ]  # fmt: skip
    return judge_number(
        answer,
        right,
        "The long third round does no harm: both ways met it.",
        mistakes,
        "Not that: divide round by round, sort, take the middle one.",
    )


def check_attend_joined(answer: object) -> Verdict:
    """Checks attention for heads joined with the batch: numbers, then the kernel."""
    rng = seeded(0)
    for batch, heads, length, width, so_far in [
        (2, 2, 5, 4, ""),
        (3, 4, 6, 8, "Right for as many texts as heads. For other numbers:"),
        (1, 3, 4, 2, "Right for several texts. For a single one:"),
    ]:
        query, key, value = torch.randn(3, batch * heads, length, width, generator=rng)
        mask = torch.rand(batch, length, length, generator=rng) < 0.6
        mask |= torch.eye(length, dtype=torch.bool)
        each = mask.repeat_interleave(heads, 0)
        right = F.scaled_dot_product_attention(query, key, value, each)

        def masked(
            by: torch.Tensor, q: Any = query, k: Any = key, v: Any = value
        ) -> torch.Tensor:
            return F.scaled_dot_product_attention(q, k, v, by)

        mistakes = [
            (F.scaled_dot_product_attention(query, key, value), "No mask was used."),
            (masked(mask.repeat(heads, 1, 1)), "Each head got the mask of another "
             "text: the heads of one text stand together."),
            (masked(~each), "The mask is upside down: True means \"may attend\"."),
            (masked(mask[:1]), "Every text got the first text's mask."),
            (masked(each.transpose(-1, -2)), "The mask has its rows and columns "
             "swapped."),
            (right.unflatten(0, (batch, heads)), "The heads must be joined with the "
             "batch again: (B·H, T, D)."),
        ]  # fmt: skip
        mistakes = [(a, b) for a, b in mistakes if not a.isnan().any()]
        given = query, key, value, mask, heads
        if wrong := judge(answer, given, right, mistakes, so_far=so_far):
            return wrong
    ran = kernels_of(lambda: run(answer, *given))
    if not ran:
        return Verdict(False, "The numbers are right, but attention is written out: "
                       "no kernel ran.")  # fmt: skip
    if "math" in ran:
        return Verdict(False, "The numbers are right, but they come from the slow "
                       "way: how many axes did the kernel get?")  # fmt: skip
    if len(ran) > 1:
        return Verdict(False, f"The numbers are right, but the kernel ran {len(ran)} "
                       "times: all heads and texts fit into one call.")  # fmt: skip
    return Verdict(True, "The fused kernel, called once.")


class _Machine:
    """A clock that only calls move; each call's time depends on its turn."""

    def __init__(self, speeds: dict[str, list[float]]) -> None:
        self.now, self.calls, self.speeds = 100.0, [], speeds  # type: tuple[float, list[str], dict[str, list[float]]]
        self.read = 0

    def clock(self) -> float:
        self.read += 1
        return self.now

    def way(self, name: str) -> Any:
        def call() -> None:
            done = self.calls.count(name)
            each = self.speeds[name]
            self.now += each[min(done, len(each) - 1)]
            self.calls.append(name)

        return call


def check_ratios_in_turns(answer: object) -> Verdict:
    """Checks a clock in turns, on a machine whose every call takes a known time."""
    for speeds, rounds, so_far in [
        ({"a": [9.0, 2.0, 4.0, 8.0], "b": [7.0, 3.0, 2.0, 2.0]}, 3, ""),
        (
            {"x": [5.0, 1.0, 2.0], "y": [5.0, 3.0, 1.0], "z": [1.0, 4.0, 6.0]},
            2,
            "Right for two ways. For three:",
        ),
        ({"only": [3.0, 2.0]}, 1, "Right for several ways. For a single one:"),
    ]:
        machine, names = _Machine(speeds), list(speeds)
        came = run(answer, {n: machine.way(n) for n in names}, rounds, machine.clock)
        wrong = _wrong_turns(came, machine, names, rounds)
        if wrong is not None:
            return wrong if wrong is NOT_YET else after(so_far, wrong)
    return Verdict(True, "A busy time that lasts longer than a round now meets all "
                   "ways alike.")  # fmt: skip


def _wrong_turns(
    came: Any, machine: _Machine, names: list[str], rounds: int
) -> Verdict | None:
    """Says what is wrong with the calls and the ratios; None where nothing is."""
    if isinstance(came, Verdict):
        return came
    calls, turns = machine.calls, names * (1 + rounds)
    if not isinstance(came, dict):
        return Verdict(False, f"Your function returns a {type(came).__name__}: a dict "
                       f"with the names {names} is wanted.")  # fmt: skip
    if list(came) != names:
        return Verdict(False, f"A dict with the names {names} is wanted; it has "
                       f"{list(came)}.")  # fmt: skip
    if not calls:
        return Verdict(False, "No way was called.")
    wrong = None
    if calls == names * rounds and len(came[names[0]]) == rounds:
        wrong = "No way was called before the rounds: the first call pays for more."
    elif calls == names * rounds:
        wrong = f"A round is missing: {rounds} are wanted."
    elif calls == [n for n in names for _ in range(1 + rounds)] and len(names) > 1:
        wrong = "All rounds of one way come first: take turns, A B, A B."
    elif calls == names + [n for n in names for _ in range(rounds)] != turns:
        wrong = "After the warm-up, all rounds of one way come first: take turns."
    elif len(calls) > len(turns):
        wrong = f"{len(calls)} calls were made, and {len(turns)} are enough: one " \
                "before the rounds, one in each."  # fmt: skip
    elif calls != turns:
        wrong = f"The ways were called in the order {' '.join(calls)}."
    if wrong:
        return Verdict(False, wrong)
    times = {n: machine.speeds[n][1 : rounds + 1] for n in names}
    warm = {n: machine.speeds[n][:rounds] for n in names}
    first = times[names[0]]
    right = {n: [a / b for a, b in zip(times[n], first, strict=True)] for n in names}
    try:
        given = {n: [float(each) for each in came[n]] for n in names}
    except (TypeError, ValueError):
        return Verdict(False, "For each name a list of numbers is wanted, one per "
                       "round.")  # fmt: skip
    if _close(given, right):
        return None
    said = {
        "These are the times: divide by the first way's.": times,
        "These are the first way's times over the others'.": {
            n: [1 / each for each in right[n]] for n in names
        },
        "All are divided by the first way's first time: divide within each round.": {
            n: [each / first[0] for each in times[n]] for n in names
        },
        "All are divided by the first way's median: divide within each round.": {
            n: [each / statistics.median(first) for each in times[n]] for n in names
        },
        "The warm-up was counted as the first round.": {
            n: [a / b for a, b in zip(warm[n], warm[names[0]], strict=True)]
            for n in names
        },
        "The ratios are sorted: keep the order of the rounds.": {
            n: sorted(right[n]) for n in names
        },
        "One number for each name: give the ratio of every round.": {
            n: [statistics.median(right[n])] for n in names
        },
    }
    for message, numbers in said.items():
        if _close(given, numbers):
            return Verdict(False, message)
    name = next(n for n in names if given[n] != right[n])
    return Verdict(False, f"For {name!r} it gives {given[name]}, and "
                   f"{right[name]} is right.")  # fmt: skip


def _close(given: dict[str, list[float]], wanted: dict[str, list[float]]) -> bool:
    return all(
        len(given[name]) == len(numbers)
        and all(abs(a - b) < 1e-6 for a, b in zip(given[name], numbers, strict=True))
        for name, numbers in wanted.items()
    )
