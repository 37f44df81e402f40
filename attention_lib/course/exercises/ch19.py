"""Exercises of chapter 19: steps of a batch, slots in pages, drafts, a server."""

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

# The steps of continuous batching: 5, 1, 8, 2, 2, 6 in three places.
check_batch_steps = NumberExercise(
    right=11,
    praise="The second place serves 1, 2 and 2 steps, then one of two free places 6.",
    mistakes=[
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
    otherwise="Write down for each place which request it serves in which step.",
)  # fmt: skip


PAGE = "torch.tensor(table)[position // page_len]"
PLACE = "page * page_len + position % page_len"
check_slots = Exercise(
    solution="""
def my_slots(table, page_len, start, count):
    position = torch.arange(start, start + count)
    page = torch.tensor(table)[position // page_len]
    return page * page_len + position % page_len
""",
    cases=[
        (([3, 1, 4], 4, 0, 10), ""),
        (([2, 5, 0], 3, 4, 4), "Right from the first token on. From a later one:"),
        (([6], 5, 2, 1), "Right for several tokens. For a single one:"),
        (([3, 1], 4, 5, 3), "Right so far. Where the last page is full:"),
    ],
    slips=[
        slip("These are the positions in the text: each lies in a page of the table.",
             PLACE, "position"),
        slip("These are the pages: which slot of the page?", PLACE, "page"),
        slip("These are the slots inside a page: which page is it?",
             PLACE, "position % page_len"),
        slip("A page holds many slots: page 3 does not begin at 3.",
             PLACE, "page + position % page_len"),
        slip("These are the first slots of the pages.", PLACE, "page * page_len"),
        slip("Count from the start that is given, not from the first token.",
             "torch.arange(start, start + count)", "torch.arange(count)"),
        slip("The pages are sorted: a table has its own order.",
             PAGE, "torch.tensor(sorted(table))[position // page_len]"),
        slip("The table is read from its end.",
             PAGE, "torch.tensor(table[::-1])[position // page_len]"),
        slip("The slot in the page counts from the start that is given: it belongs to "
             "the position in the text.",
             PLACE, "page * page_len + (position - start) % page_len"),
        slip("Slots count from 0.", PLACE, PLACE + " + 1"),
        slip("The slots of one page are side by side.",
             PLACE, "position % page_len * len(table) + page"),
    ],
    fault=lambda answer, *given: (
        "The numbers are right, but they are floats: a slot is a whole number."
        if answer(*given).is_floating_point() else ""
    ),
    praise="With these slots, one line writes and one line gathers.",
)  # fmt: skip

ADDED = "return added"
UNTIL = "token == stop or "
SAME = "[guess for guess, token in zip(guesses, best) if guess == token]"
check_accept = Exercise(
    solution="""
def my_accepted(guesses, best, stop):
    added = []
    for number, token in enumerate(best):
        added.append(token)
        if token == stop or guesses[number : number + 1] != [token]:
            break
    return added
""",
    cases=[
        (([7, 3, 9, 4], [7, 3, 5, 4, 1], 8), ""),
        (([7, 3], [7, 3, 5], 8), "Right where a guess is wrong. Where all are right:"),
        (([2, 6], [4, 6, 5], 8), "Right where the first is right. Where it is wrong:"),
        (([], [5], 8), "Right with guesses. Without any:"),
        (([7, 8, 5, 2], [7, 8, 5, 9, 1], 8), "Right without a stop. With one:"),
        (([7, 2], [8, 2, 1], 8), "Right where a guess is the stop. Where another is:"),
        (([3, 8, 5], [4, 8, 5, 1], 8),
         "Right where a stop comes. Where a wrong guess is followed by one:"),
    ],
    slips=[
        slip("The stop itself belongs to the text.",
             ADDED, "return added[: added.index(stop)] if stop in added else added"),
        slip("One token more is known: the model's own, after the last guess that is "
             "right.", ADDED, "return added[:-1]"),
        slip("The text ends at the stop: nothing comes after it.", UNTIL, ""),
        slip("The text ends at the stop: not even one token comes after it.", UNTIL, "",
             ADDED, "return added[: [*added, stop].index(stop) + 2]"),
        slip("The model's tokens after a wrong guess come after a text that does not "
             "exist.", ADDED, "return best"),
        slip("After the first wrong guess nothing counts any more.",
             ADDED, "return best[:-1]"),
        slip("Not every guess is right: compare.", ADDED, "return guesses"),
        slip("After the first wrong guess nothing counts, even where both agree; and "
             "one token of the model is missing.", ADDED, f"return {SAME}"),
        slip("After the first wrong guess nothing counts, even where both agree.",
             ADDED, f"return {SAME} + best[-1:]"),
        slip("The last token is the model's own, not the wrong guess.",
             ADDED, "return guesses[: len(added)]"),
        slip("The last token is the one after the last right guess, not the last of "
             "all.", ADDED, "return added[:-1] + best[-1:]"),
        slip("Right guesses count, too.", ADDED, "return best[:1]"),
    ],
    praise="One pass, and one token at least.",
)  # fmt: skip


def _served(answer: Any, places: int, stream: list[list[int]]) -> Tensor:
    """Return for each step and request how often it was named."""
    server = make_object(answer, places, methods=["submit", "step"])
    rows: list[list[Any]] = []
    for lengths in stream:
        for length in lengths:
            server.submit(length)
        came = server.step()
        if came is None or came is ...:
            words = "A step gives nothing back: give an empty list where nobody works."
            raise Stop(words if rows else NOT_YET)
        rows.append(list(came))  # what is done to it later does not count
    requests = range(sum(map(len, stream)))
    return torch.tensor([[row.count(number) for number in requests] for row in rows])


ROOM = "len(self.running) < self.places"
check_small_server = Exercise(
    solution="""
class MyServer:
    def __init__(self, places):
        self.places, self.count = places, 0
        self.waiting, self.running = [], []

    def submit(self, length):
        self.waiting.append([self.count, length])
        self.count += 1

    def step(self):
        while self.waiting and len(self.running) < self.places:
            self.running.append(self.waiting.pop(0))
        now = [number for number, left in self.running]
        for request in self.running:
            request[1] -= 1
        self.running = [request for request in self.running if request[1] > 0]
        return now
""",
    use=_served,
    cases=[  # the places, and the lengths that are submitted before each step
        ((2, [[2, 4, 3, 1], [], [], [], [], [], [], []]), ""),
        ((3, [[1], [3, 2], [], [4, 1, 1], [], [], [], [], [2], [], []]),
         "Right where all come at once. Where they come later:"),
        ((1, [[2, 1], [], [], [], [], [1], []]),
         "Right in several places. In a single one:"),
    ],
    slips=[
        slip("A free place stays empty until all others are done: that is a static "
             "batch.", "while self.waiting",
             "busy = bool(self.running)\n        while not busy and self.waiting"),
        slip("The last that came joins first: let the first one join.",
             "pop(0)", "pop()"),
        slip("The shortest joins first: requests join in the order in which they came.",
             "self.waiting.pop(0)",
             "self.waiting.pop(self.waiting.index(min(self.waiting, "
             "key=lambda request: request[1])))"),
        slip("Only one joins in each step: fill all free places.",
             "while self", "if self"),
        slip("A request works one step too long.", "request[1] > 0", "request[1] >= 0"),
        slip("A request works one step too little.",
             "request[1] > 0", "request[1] > 1"),
        slip("More work at a time than there are places.", f" and {ROOM}", ""),
        slip("One more works at a time than there are places.",
             "< self.places", "<= self.places"),
        slip("One place stays empty.", "< self.places", "< max(1, self.places - 1)"),
        slip("Those that wait do not work: name those that run.",
             "return now", "return now + [number for number, _ in self.waiting]"),
        slip("You name those that wait.",
             "return now", "return [number for number, _ in self.waiting]"),
        slip("The first request has the number 0.", "= places, 0", "= places, 1"),
        slip("All that run get a token in each step, not only the first.",
             "return now", "return now[:1]"),
    ],
    praise="Requests join and leave at any step.",
)  # fmt: skip
