"""The checks of chapter 19: each usual mistake is made, and must be named."""

from attention_lib.course.exercises.ch19 import (
    ADDED,
    PAGE,
    PLACE,
    ROOM,
    UNTIL,
    check_accept,
    check_slots,
    check_small_server,
)
from tests.answers import as_numbers

places, accept, served = check_slots.made, check_accept.made, check_small_server.made
ENDS = UNTIL + "guesses[number : number + 1] != [token]"
WAIT = f"while self.waiting and {ROOM}:"
NOW = "now = [number for number, left in self.running]"

RIGHT = {
    "batch_steps": [11, *as_numbers(11), 5 + 6, 11.004],
    "slots": [
        places(),
        places(PLACE, "position % page_len + page_len * page"),
        places(PAGE, "torch.tensor([table[p // page_len] for p in position.tolist()])"),
        places(PLACE, "torch.tensor([table[i // page_len] * "
               "page_len + i % page_len for i in range(start, start + count)])"),
        places(PAGE, "torch.as_tensor(table).take(position // page_len)"),
        places(PLACE, "torch.add(position % page_len, page, alpha=page_len)"),
        places("return " + PLACE, "grid = torch.arange(9 * page_len).view(9, "
               "-1)\n    return grid[torch.tensor(table)].flatten()[start:][:count]"),
        places("torch.arange(start, start + count)", "torch.arange(count) + start"),
        places(PLACE, "position + (page - position // page_len) * page_len"),
        places("position // page_len", "position.div(page_len, rounding_mode='floor')"),
    ],
    "accept": [
        accept(),
        accept(ENDS, "token == stop or [token] != guesses[number : number + 1]"),
        accept(ENDS, "number == len(guesses) or token in {stop} or "
               "guesses[number] != token"),
        accept("if " + ENDS, "if stop in added or list(guesses[: number + 1]) != "
               "list(best[: number + 1])"),
        accept(ADDED, "return list(added)"),
        accept(ADDED, "return added[:]"),
        accept("added.append(token)", "added = added + [token]"),
        accept("added.append(token)", "added += [token]"),
        accept("enumerate(best)", "zip(range(99), best)"),
        accept(ADDED, "return best[: len(added)]"),
    ],
    "small_server": [
        served(), lambda places: served()(places),
        served(WAIT, "while len(self.running) < self.places and len(self.waiting):"),
        served(NOW, "now = [request[0] for request in self.running]"),
        served(NOW, "now = {number for number, left in self.running}"),
        served(NOW, "now = tuple(number for number, left in self.running)"),
        served("if request[1] > 0]", "if request[1]]"),
        served("return now", "return sorted(now, reverse=True)"),
        # Its own list: it is right when it is given, and changes in the next step.
        served("        while self", "        for number in [*self.now]:\n            "
               "if number not in [n for n, _ in self.running]: self.now.remove(number)"
               "\n        while self", "self.running = [], []",
               "self.running, self.now = [], [], []", NOW,
               "self.now[:] = [number for number, left in self.running]",
               "return now", "return self.now"),
        served(WAIT, "for _ in range(min(len(self.waiting), self.places - "
               "len(self.running))):"),
        served("self.waiting.pop(0)", "self.waiting[0]); del (self.waiting[0]"),
    ],
}  # fmt: skip
MISTAKES = {
    "batch_steps": [(15, "Write down for each place")],
    "slots": [
        (places(PAGE, "position // page_len"), "positions in the text"),
        (places(PLACE, "page * page_len + position % page_len / 1"), "whole number"),
        (places("return " + PLACE, f"found = {PLACE}\n    return "
                "found[found != page_len * (table[-1] + 1) - 1]"),
         "Where the last page is full: "),
        (places(PLACE, f"({PLACE}).squeeze()"),
         "Right for several tokens. For a single one: The shape"),
    ],
    "accept": [
        (accept("enumerate(best)", "enumerate(best[: max(1, len(guesses))])"),
         "Right where a guess is wrong. Where all are right: One token"),
        (accept(ADDED, "return added if guesses[:1] == best[: len(guesses[:1])] "
                "else []"), "Right where the first is right. Where it is wrong: One"),
        (accept(ADDED, "return added if guesses else []"), "Without any: One"),
        (accept(ADDED, "return [t for t in added if t != stop or t in guesses]"),
         "Right where a guess is the stop. Where another is: The stop"),
        (accept(ADDED, "return best[: guesses.index(stop) + 1] if stop in guesses "
                "else added"), "Where a wrong guess is followed by one:"),
    ],
    "small_server": [
        (served("return now", "return now or None"), "give an empty list"),
        (lambda places: 3, "has no submit"),
        (served(WAIT, "if not self.waiting and not self.running:\n"
                "            self.places = 0\n        " + WAIT),
         "Right where all come at once. Where they come later: The shape"),
        (served("< self.places", "< max(2, self.places)"),
         "Right in several places. In a single one: More work"),
    ],
}  # fmt: skip
