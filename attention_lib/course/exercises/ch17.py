"""Checks of chapter 17: steps of a batch, places in pages, guesses, a small server."""

from collections.abc import Callable
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


def check_batch_steps(answer: object) -> Verdict:
    """Checks the steps of continuous batching: 5, 1, 8, 2, 2, 6 in three places."""
    return judge_number(
        answer,
        11,
        "The second place serves 1, 2 and 2 steps, then one of two free places 6.",
        [
            (14, "That is the static batch: 8, and then 6."),
            (24, "That is one request after another."),
            (8, "The work shared out evenly. But the last request begins after 5 steps "
             "and cannot be cut."),
            (10, "Five steps pass before the last request begins. It needs 6 more."),
            (12, "The last one begins in the sixth step, not after it."),
            (6, "That would be so if the longest came first and all had a place."),
            (13, "A place is taken in the next step after it is free: no pause."),
            (9, "The last request joins when a place is free: after the step 5."),
            (3, "That is how many places there are."),
            (7, "The request of 8 steps alone takes longer."),
        ],
        "Write down for each place which request it serves in which step.",
    )  # fmt: skip


def check_slots(answer: object) -> Verdict:
    """Checks the places of some tokens, from a block table."""
    for table, page_len, start, count, so_far in [
        ([3, 1, 4], 4, 0, 10, ""),
        ([2, 5, 0], 3, 4, 4, "Right from the first token on. From a later one:"),
        ([6], 5, 2, 1, "Right for several tokens. For a single one:"),
    ]:
        position = torch.arange(start, start + count)
        pages = torch.tensor([*table, 0])
        page, offset = pages[position // page_len], position % page_len
        fresh = torch.arange(count)
        ordered = torch.tensor([*sorted(table), 0])[position // page_len]
        backwards = torch.tensor([*table[::-1], 0])[position // page_len]
        mistakes = [
            (position, "These are the positions in the text: each lies in a page of "
             "the table."),
            (page, "These are the pages: which place of the page?"),
            (offset, "These are the places inside of a page: which page is it?"),
            (page + offset, "A page holds many places: page 3 does not begin at 3."),
            (page * page_len, "These are the first places of the pages."),
            (pages[fresh // page_len] * page_len + fresh % page_len, "Count from the "
             "start that is given, not from the first token."),
            (ordered * page_len + offset, "The pages are sorted: a table has its own "
             "order."),
            (backwards * page_len + offset, "The table is read from its end."),
            (page * page_len + fresh % page_len, "The place in the page counts from "
             "the start that is given: it belongs to the position in the text."),
            (page * page_len + offset + 1, "Places count from 0."),
            (offset * len(table) + page, "The places of one page lie side by side."),
        ]  # fmt: skip
        given = table, page_len, start, count
        right = page * page_len + offset
        if wrong := judge(answer, given, right, mistakes, so_far=so_far):
            return wrong
        if run(answer, *given).is_floating_point():
            return Verdict(False, "The numbers are right, but they are floats: a place "
                           "is a whole number.")  # fmt: skip
    return Verdict(True, "With these places, one line writes and one line gathers.")


def check_accept(answer: object) -> Verdict:
    """Checks the tokens that one pass adds, from guesses and the model's own."""
    for guesses, best, stop, so_far in [
        ([7, 3, 9, 4], [7, 3, 5, 4, 1], 8, ""),
        ([7, 3], [7, 3, 5], 8, "Right where a guess is wrong. Where all are right:"),
        ([2, 6], [4, 6, 5], 8, "Right where the first is right. Where it is wrong:"),
        ([], [5], 8, "Right with guesses. Without any:"),
        ([7, 8, 5, 2], [7, 8, 5, 9, 1], 8, "Right without a stop. With one:"),
        ([7, 2], [8, 2, 1], 8, "Right where a guess is the stop. Where another is:"),
        (
            [3, 8, 5],
            [4, 8, 5, 1],
            8,
            "Right where a stop comes. Where a wrong guess is followed by one:",
        ),
    ]:
        right = _added(guesses, best)
        until = right[: right.index(stop) + 1] if stop in right else right
        same = [a for a, b in zip(guesses, best, strict=False) if a == b]
        mistakes = [
            (right[: right.index(stop)] if stop in right else right,
             "The stop itself belongs to the text."),
            (until[:-1], "One token more is known: the model's own, after the last "
             "guess that is right."),
            (right, "The text ends at the stop: nothing comes after it."),
            (right[: right.index(stop) + 2] if stop in right else right,
             "The text ends at the stop: not even one token comes after it."),
            (best, "The model's tokens after a wrong guess come after a text that does "
             "not exist."),
            (best[:-1], "After the first wrong guess nothing counts any more."),
            (guesses, "Not every guess is right: compare."),
            (same, "After the first wrong guess nothing counts, even where both "
             "agree; and one token of the model is missing."),
            ([*same, best[-1]], "After the first wrong guess nothing counts, even "
             "where both agree."),
            ([*until[:-1], *guesses[len(until) - 1 :][:1]], "The last token is the "
             "model's own, not the wrong guess."),
            ([*until[:-1], best[-1]], "The last token is the one after the last right "
             "guess, not the last of all."),
            (best[:1], "Right guesses count, too."),
        ]  # fmt: skip
        given = guesses, best, stop
        if wrong := judge(answer, given, until, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "One pass, and one token at least.")


def _added(guesses: list[int], best: list[int]) -> list[int]:
    pairs = zip(guesses, best, strict=False)
    right = next((at for at, (a, b) in enumerate(pairs) if a != b), len(guesses))
    return best[: right + 1]


# What comes before each step: the lengths that are submitted.
_STREAMS = [
    (2, [[2, 4, 3, 1], [], [], [], [], [], [], []], ""),
    (3, [[1], [3, 2], [], [4, 1, 1], [], [], [], [], [2], [], []],
     "Right where all come at once. Where they come later:"),
    (1, [[2, 1], [], [], [], [], [1], []], "Right in several places. In a single one:"),
]  # fmt: skip


_NO_LIST = Verdict(
    False, "A step gives nothing back: give an empty list where nobody works."
)


def check_small_server(answer: object) -> Verdict:
    """Checks a class that says which requests work in each step."""
    for places, stream, so_far in _STREAMS:
        made = run(answer, places)
        if isinstance(made, Verdict):
            return made if made is NOT_YET or not so_far else after(so_far, made)
        if not (hasattr(made, "submit") and hasattr(made, "step")):
            came = type(made).__name__
            wanted = "a class with submit and step is wanted."
            return Verdict(False, f"Your function returns a {came}: {wanted}")

        def use(*, stream: list[list[int]] = stream, made: Any = made) -> Any:
            rows: list[list[Any]] = []
            for lengths in stream:
                for length in lengths:
                    made.submit(length)
                came = made.step()
                if came is None or came is ...:
                    return _NO_LIST if rows else None
                rows.append(list(came))  # what is done to it later does not count
            return _table(rows, sum(map(len, stream)))

        right, mistakes = _served(stream, places), _mistaken(stream, places)
        if wrong := judge(use, (), right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "Requests join and leave at any step.")


def _table(rows: list[list[int]], requests: int) -> Tensor:
    """Says for each step and request how often it was named."""
    return torch.tensor([[row.count(n) for n in range(requests)] for row in rows])


def _served(
    stream: list[list[int]],
    places: int,
    *,
    joins: Callable[[list[int]], bool] = lambda running: True,
    take: int = 0,
    at_once: int = 99,
    late: int = 0,
    shown: Callable[[list[int], list[int]], list[int]] = lambda running, _: running,
) -> Tensor:
    """Serves a stream, rightly or with a mistake."""
    left: list[int] = []
    waiting: list[int] = []
    running: list[int] = []
    rows = []
    for lengths in stream:
        for length in lengths:
            waiting.append(len(left))
            left.append(length + late)
        joined, may = 0, joins(running)
        while waiting and len(running) < places and may and joined < at_once:
            running.append(waiting.pop(take))
            joined += 1
        rows.append(shown(running[:], waiting[:]))
        for number in running:
            left[number] -= 1
        running = [number for number in running if left[number] > 0]
    return _table(rows, len(left))


def _mistaken(stream: list[list[int]], places: int) -> Mistakes:
    """Gives what comes of each usual mistake."""

    def with_(**options: Any) -> Tensor:
        return _served(stream, options.pop("places", places), **options)

    return [
        (with_(joins=lambda running: not running), "A free place stays empty until all "
         "others are done: that is a static batch."),
        (with_(take=-1), "The last that came joins first: let the first one join."),
        (with_(at_once=1), "Only one joins in each step: fill all free places."),
        (with_(late=1), "A request works one step too long."),
        (with_(late=-1), "A request works one step too little."),
        (with_(places=99), "More work at a time than there are places."),
        (with_(places=places + 1), "One more works at a time than there are places."),
        (with_(places=max(1, places - 1)), "One place stays empty."),
        (with_(shown=lambda running, waiting: running + waiting), "Those that wait do "
         "not work: name those that run."),
        (with_(shown=lambda running, waiting: waiting), "You name those that wait."),
        (with_(shown=lambda running, _: [n + 1 for n in running]), "The first request "
         "has the number 0."),
        (with_(shown=lambda running, _: running[:1]), "All that run get a token in "
         "each step, not only the first."),
    ]  # fmt: skip
