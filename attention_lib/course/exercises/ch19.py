"""Exercises of chapter 19: steps of a batch, shared pages, drafts, a server."""

from typing import Any

import torch
from torch import Tensor

from attention_lib.course.exercises.exercise import (
    Exercise,
    NumberExercise,
    make_object,
    slip,
)
from attention_lib.course.exercises.shared import as_number
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
        (6, "The last request takes that long, and it begins after 5 steps."),
        (13, "A place is taken in the next step after it is free: no pause."),
        (9, "The last request joins when a place is free: after the step 5."),
        (3, "That is how many places there are."),
        (7, "The request of 8 steps alone takes longer."),
    ],
    otherwise="Write down for each place which request it serves in which step.",
)  # fmt: skip


PAST, OWN = "text[:end]", "text[end - page_len : end]"
MINE, MINE_ONLY = "prompt[:end]", "prompt[end - page_len : end]"
KNOWN, COUNT = f" and tuple({MINE}) in known", "end // page_len - 1"
check_shared_pages = Exercise(
    solution="""
def my_shared(prompt, earlier, page_len):
    known = set()
    for text in earlier:
        for end in range(page_len, len(text) + 1, page_len):
            known.add(tuple(text[:end]))
    end = page_len
    while end < len(prompt) and tuple(prompt[:end]) in known:
        end += page_len
    return end // page_len - 1
""",
    cases=[
        (([*range(16)],
          [[*range(6), 8, 8, 8], [*range(6), 7, 7, 7, *range(6, 12)], [*range(6)]], 3),
         ""),
        (([5, 1, 4, 2], [[5, 1, 4, 2, 7, 7]], 2),
         "Right for a prompt that is new. For one of which all tokens are known:"),
        (([*range(7)], [[*range(9)]], 3),
         "Right so far. Where a single token is in no full page:"),
        (([*range(11)], [[*range(8)], [0, 1, 6, 7]], 2),
         "Right so far. Where the first of two texts shares more:"),
        (([*range(9)], [[0, 1, 6, 7], [*range(8), 0]], 2),
         "Right so far. Where the last of two texts shares more:"),
        (([*range(8)], [[0, 1, 9, 9, *range(4, 9)]], 2),
         "Right so far. Where the texts agree again after a page that differs:"),
        (([3, 1, 4], [], 2), "Right so far. Where no text came before:"),
    ],
    use=as_number,
    otherwise=lambda came, right, prompt, earlier, page_len: (
        f"The prompt {prompt} may share {right:g} pages of {page_len} tokens with "
        f"{earlier}; your number is {came:g}."
    ),
    slips=[
        slip("One of these pages holds the right tokens after a different past: so its "
             "keys and values are those of a different text.", PAST, OWN,
             MINE, MINE_ONLY),
        slip("Nothing is left to read: where would the scores of the next token come "
             "from?", "end < len", "end <= len"),
        slip("It is enough if one token is left to read, not a whole page.",
             "end < len(prompt)", "end + page_len <= len(prompt)"),
        slip("That is how many tokens they share: count pages.",
             COUNT, "end - page_len"),
        slip("The first page that is unknown is not shared.", COUNT, "end // page_len"),
        slip("These are all full pages of the prompt: which are in memory?", KNOWN, ""),
        slip("A page is full at multiples of its length only: go on by a whole page.",
             "end += page_len", "end += 1"),
        slip("Look at every earlier text, not only at the last.",
             "in earlier", "in earlier[-1:]"),
        slip("The last page of an earlier text may be full, too.", "len(text) + 1",
             "len(text)"),
        slip("Look at every earlier text, not only at the first.",
             "in earlier", "in earlier[:1]"),
        slip("The names of the prompt's pages and of those in memory do not fit: all "
             "must hold the past.", MINE, MINE_ONLY),
        slip("The names of the prompt's pages and of those in memory do not fit: all "
             "must hold the past.", PAST, OWN),
    ],
    praise="All tokens up to its end name a page, and one token is left to read.",
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
        (([7, 2], [8, 2, 1], 8),
         "Right where a guess is the stop. Where the model adds it:"),
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


Requests = list[list[tuple[int, int]]]


def _served(answer: Any, num_pages: int, page_len: int, stream: Requests) -> Tensor:
    """Return for each step and request how often it was named."""
    server = make_object(answer, num_pages, page_len, methods=["submit", "step"])
    rows: list[list[Any]] = []
    for requests in stream:
        for prompt_len, new_tokens in requests:
            server.submit(prompt_len, new_tokens)
        came = server.step()
        if came is None or came is ...:
            words = "A step returns nothing: return an empty list where none runs."
            raise Stop(words if rows else NOT_YET)
        rows.append(list(came))  # what is done to it later does not count
    numbers = range(sum(map(len, stream)))
    return torch.tensor([[row.count(number) for number in numbers] for row in rows])


def _first_step(came: Tensor, right: Tensor, num_pages: int, page_len: int,
                stream: Requests) -> str:  # fmt: skip
    """Name the first step in which other requests run."""
    step = int((came != right).any(dim=1).nonzero()[0])
    wanted, yours = (rows[step].nonzero().flatten().tolist() for rows in (right, came))
    lengths = [request for requests in stream[: step + 1] for request in requests]
    return (
        f"{num_pages} pages of {page_len} tokens; prompts and new tokens {lengths}: in "
        f"step {step}, counted from 0, requests {wanted} run; yours are {yours}."
    )


OUT = "self.waiting.insert(0, self.running.pop())"
FITS = "self.pages(self.running + self.waiting[:1]) <= self.num_pages"
PAGES = "-(-length // self.page_len)"
EACH = "for _, length, _ in requests"
NOW = "now = [number for number, _, _ in self.running]"
check_small_server = Exercise(
    solution="""
class MyServer:
    def __init__(self, num_pages, page_len):
        self.num_pages, self.page_len, self.count = num_pages, page_len, 0
        self.waiting, self.running = [], []  # [number, length, tokens to come]

    def submit(self, prompt_len, new_tokens):
        self.waiting.append([self.count, prompt_len, new_tokens])
        self.count += 1

    def pages(self, requests):
        return sum(-(-length // self.page_len) for _, length, _ in requests)

    def step(self):
        while self.pages(self.running) > self.num_pages:
            self.waiting.insert(0, self.running.pop())
        while self.waiting and (
            self.pages(self.running + self.waiting[:1]) <= self.num_pages
        ):
            self.running.append(self.waiting.pop(0))
        now = [number for number, _, _ in self.running]
        for request in self.running:
            request[1:] = request[1] + 1, request[2] - 1
        self.running = [request for request in self.running if request[2] > 0]
        return now
""",
    use=_served,
    otherwise=_first_step,
    cases=[  # pages, their length, and what is submitted before each step
        ((5, 3, [[(5, 2), (6, 6), (1, 5), (1, 4)], [(2, 2), (4, 1)], *[[]] * 7]), ""),
        ((4, 2, [[(1, 6), (3, 3), (2, 4)], [], [], [(1, 2)], *[[]] * 7]),
         "Right for one stream. For a second one:"),
        ((6, 4, [[], [(7, 3)], *[[]] * 4, [(9, 2), (12, 3), (8, 4)], *[[]] * 7]),
         "Right where requests wait from the start. Where none does:"),
    ],
    slips=[
        slip("More pages are in use than there are: the latest must make room.",
             OUT, "break"),
        slip("The request that joined last makes room, not the oldest.",
             "self.running.pop()", "self.running.pop(0)"),
        slip("Who made room goes to the head of the queue, not to its end.",
             "insert(0, ", "insert(99, "),
        slip("Who made room keeps its tokens: it needs only those that are missing.",
             "prompt_len, new_tokens])",
             "prompt_len, new_tokens, prompt_len, new_tokens])",
             EACH, "for _, length, *_ in requests", "number, _, _ in", "number, *_ in",
             "request[1:] =", "request[1:3] =",
             OUT, OUT + "\n            self.waiting[0][1:3] = self.waiting[0][3:]"),
        slip("One request made room, but the others do not fit yet.",
             "while self.pages(self.running) >", "if self.pages(self.running) >"),
        slip("A text grows by one token in each step, and so do its pages.",
             "request[1] + 1", "request[1]"),
        slip("A page that is only partly full is in use, too.",
             PAGES, "length // self.page_len"),
        slip("A text that just fills its pages needs no further page for now.",
             PAGES, "(length // self.page_len + 1)"),
        slip("Texts do not share their last pages: round up for each text, then add.",
             f"sum({PAGES} {EACH})",
             f"-(-sum(length {EACH}) // self.page_len)"),
        slip("A page is taken when it is needed: nobody knows how long a text will be.",
             PAGES, "-(-(length + left) // self.page_len)",
             EACH, "for _, length, left in requests"),
        slip("Nobody overtakes: if the first in the queue does not fit, all wait.",
             f"while self.waiting and (\n            {FITS}\n        ):\n"
             "            self.running.append(self.waiting.pop(0))",
             "for each in [*self.waiting]:\n"
             "            if self.pages([*self.running, each]) <= self.num_pages:\n"
             "                self.running.append(each)\n"
             "                self.waiting.remove(each)"),
        slip("Only one joins in each step: as long as the next one fits, it joins.",
             "while self.waiting", "if self.waiting"),
        slip("The last in the queue joins first: let the first one join.",
             "self.waiting[:1]", "self.waiting[-1:]",
             "self.waiting.pop(0)", "self.waiting.pop()"),
        slip("One page stays unused.", "<= self.num_pages", "< self.num_pages"),
        slip("A request runs one step too long.", "request[2] > 0", "request[2] >= 0"),
        slip("A request runs one step too little.",
             "request[2] > 0", "request[2] > 1"),
        slip("A request that gets its last token runs in this step, too.",
             "        " + NOW + "\n", "",
             "return now", "return [number for number, _, _ in self.running]"),
        slip("Those that wait do not run: name those that run.",
             "return now", "return now + [number for number, _, _ in self.waiting]"),
        slip("The first request has the number 0.", "self.page_len, self.count = "
             "num_pages, page_len, 0", "self.page_len, self.count = "
             "num_pages, page_len, 1"),
        slip("All that run get a token in each step, not only the first.",
             "return now", "return now[:1]"),
    ],
    praise="Texts grow, the latest makes room, and nobody overtakes.",
)  # fmt: skip
