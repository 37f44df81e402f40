"""The checks of chapter 19: each usual mistake is made, and must be named."""

import numpy as np
import torch

from attention_lib.course.exercises import ch19
from tests.answers import as_numbers

shared, accept = ch19.check_shared_pages.made, ch19.check_accept.made
served = ch19.check_small_server.made
ENDS = ch19.UNTIL + "guesses[number : number + 1] != [token]"
STEP = "def step(self):\n"


def common(prompt, text):
    """How many tokens a prompt shares with a text, its last one left to read."""
    same = 0
    while same < min(len(prompt) - 1, len(text)) and prompt[same] == text[same]:
        same += 1
    return same


def compared(prompt, earlier, page_len):
    """The longest beginning that is shared with one text, without names."""
    return max([common(prompt, text) for text in earlier], default=0) // page_len


def hashed(prompt, earlier, page_len):
    """A name for each page, of the name before it and of its own tokens."""

    def names(text):
        found, name = [], 0
        for start in range(0, len(text) - page_len + 1, page_len):
            name = hash((name, *text[start : start + page_len]))
            found.append(name)
        return found

    known = {name for text in earlier for name in names(text)}
    found = [name in known for name in names(prompt[:-1])]
    return [*found, False].index(False)


class Counted:
    """A server that keeps what each text needs in dictionaries."""

    def __init__(self, num_pages, page_len):
        self.free, self.page_len = num_pages, page_len
        self.queue, self.runs, self.held, self.left, self.length = [], [], {}, {}, {}

    def submit(self, prompt_len, new_tokens):
        number = len(self.length)
        self.length[number], self.left[number] = prompt_len, new_tokens
        self.queue.append(number)

    def needed(self, number):
        return (self.length[number] + self.page_len - 1) // self.page_len

    def release(self, number):
        self.free += self.held.pop(number)
        self.runs.remove(number)

    def step(self):
        for number in [*self.runs]:
            while number in self.runs and self.needed(number) > (
                self.held[number] + self.free
            ):
                self.queue.insert(0, last := self.runs[-1])
                self.release(last)
            if number in self.runs:
                self.free -= self.needed(number) - self.held[number]
                self.held[number] = self.needed(number)
        while self.queue and self.needed(self.queue[0]) <= self.free:
            self.runs.append(number := self.queue.pop(0))
            self.held[number] = self.needed(number)
            self.free -= self.held[number]
        ran = [*self.runs]
        for number in ran:
            self.length[number] += 1
            self.left[number] -= 1
            if not self.left[number]:
                self.release(number)
        return ran


RIGHT = {
    "batch_steps": [11, *as_numbers(11), 5 + 6, 11.004],
    "shared_pages": [
        compared, hashed,
        lambda *given: float(compared(*given)),
        lambda *given: torch.tensor(compared(*given), dtype=torch.float32),
        lambda *given: torch.tensor(compared(*given), dtype=torch.float64),
        lambda *given: np.int64(compared(*given)),
        shared(ch19.PAST, "str(text[:end])", ch19.MINE, "str(prompt[:end])",
               "tuple(str(text[:end]))", "str(text[:end])",
               "tuple(str(prompt[:end]))", "str(prompt[:end])"),
        shared("end < len(prompt)", "len(prompt) - end > 0"),
        shared("return " + ch19.COUNT, "return (end - page_len) // page_len"),
        shared("in earlier:", "in earlier[::-1]:"),
        shared("known.add(tuple(text[:end]))", "known |= {tuple(text[:end])}"),
    ],
    "accept": [
        accept(ENDS, "token == stop or [token] != guesses[number : number + 1]"),
        accept(ENDS, "number == len(guesses) or token in {stop} or "
               "guesses[number] != token"),
        accept("if " + ENDS, "if stop in added or list(guesses[: number + 1]) != "
               "list(best[: number + 1])"),
        accept(ch19.ADDED, "return list(added)"),
        accept(ch19.ADDED, "return added[:]"),
        accept("added.append(token)", "added = added + [token]"),
        accept("added.append(token)", "added += [token]"),
        accept("enumerate(best)", "zip(range(99), best)"),
        accept(ch19.ADDED, "return best[: len(added)]"),
    ],
    "small_server": [
        Counted, lambda *sizes: served()(*sizes),
        served(ch19.PAGES, "math.ceil(length / self.page_len)"),
        served(ch19.PAGES, "(length - 1) // self.page_len + 1"),
        served(ch19.NOW, "now = {number for number, _, _ in self.running}"),
        served(ch19.NOW, "now = tuple(number for number, _, _ in self.running)"),
        served("return now", "return sorted(now, reverse=True)"),
        served(ch19.OUT, "self.waiting = [self.running.pop(), *self.waiting]"),
        # Who joins first makes room first: the same requests run.
        served(ch19.OUT, "break", "        " + ch19.NOW,
               "        while self.pages(self.running) > self.num_pages:\n"
               "            " + ch19.OUT + "\n        " + ch19.NOW),
        # Its own list: it is right when it is given, and changes in the next step.
        served("self.running = [], []", "self.running, self.now = [], [], []", ch19.NOW,
               "self.now[:] = [number for number, _, _ in self.running]",
               "return now", "return self.now"),
        served("request[2] > 0", "request[2]"),
    ],
}  # fmt: skip
MISTAKES = {
    "batch_steps": [(15, "Write down for each place")],
    "shared_pages": [
        (lambda *given: [compared(*given)], "returns a list: give a number"),
        (lambda *given: compared(*given) + 9, "may share 2 pages of 3 tokens with"),
        (shared(ch19.COUNT, ch19.COUNT + " + 9 * (not earlier)"),
         "Where no text came before: The prompt [3, 1, 4] may share 0"),
        (lambda prompt, earlier, page_len: max(
            sum(prompt[i : i + page_len] == text[i : i + page_len]
                for i in range(0, len(prompt) - page_len, page_len))
            for text in earlier), "Where the texts agree again after a page"),
    ],
    "accept": [
        (accept("enumerate(best)", "enumerate(best[: max(1, len(guesses))])"),
         "Right where a guess is wrong. Where all are right: One token"),
        (accept(ch19.ADDED, "return added if guesses[:1] == best[: len(guesses[:1])] "
                "else []"), "Right where the first is right. Where it is wrong: One"),
        (accept(ch19.ADDED, "return added if guesses else []"), "Without any: One"),
        (accept(ch19.ADDED, "return [t for t in added if t != stop or t in guesses]"),
         "Right where a guess is the stop. Where the model adds it: The stop"),
        (accept(ch19.ADDED, "return best[: guesses.index(stop) + 1] if stop in guesses "
                "else added"), "Where a wrong guess is followed by one:"),
    ],
    "small_server": [
        (served("return now", "return now or None"), "return an empty list"),
        (served(STEP, STEP + "        if self.num_pages < 5: return []\n"),
         "Right for one stream. For a second one: "),
        (served(STEP, STEP + "        if self.num_pages > 5: return []\n"),
         "Right where requests wait from the start. Where none does: "),
        (served("self.count += 1", "self.count += 2"), "counted from 0, requests"),
    ],
}  # fmt: skip
