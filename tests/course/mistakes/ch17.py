"""The checks of chapter 17: each usual mistake is made, and must be named."""

from tests.answers import as_numbers, solution

places = solution(
    """
def places(table, page_len, start, count):
    position = torch.arange(start, start + count)
    page = torch.tensor(table)[position // page_len]
    return page * page_len + position % page_len
"""
)
LAST = "page * page_len + position % page_len"
PAGE = "torch.tensor(table)[position // page_len]"

accept = solution(
    """
def accept(guesses, best, stop):
    added = []
    for number, token in enumerate(best):
        added.append(token)
        if token == stop or guesses[number : number + 1] != [token]:
            break
    return added
"""
)
WHOLE = "    return added"
ENDS = "token == stop or guesses[number : number + 1] != [token]"

served = solution(
    """
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
"""
)
ROOM = "while self.waiting and len(self.running) < self.places:"
NOW = "now = [number for number, left in self.running]"
KEPT = "if request[1] > 0]"

RIGHT = {
    "batch_steps": [11, *as_numbers(11), 5 + 6, 11.004],
    "slots": [
        places(),
        places(LAST, "position % page_len + page_len * page"),
        places(PAGE, "torch.tensor([table[p // page_len] for p in position.tolist()])"),
        places("    return " + LAST, "    return torch.tensor([table[i // page_len] * "
               "page_len + i % page_len for i in range(start, start + count)])"),
        places(PAGE, "torch.as_tensor(table).take(position // page_len)"),
        places(LAST, "torch.add(position % page_len, page, alpha=page_len)"),
        places("    return " + LAST, "    grid = torch.arange(9 * page_len).view(9, "
               "-1)\n    return grid[torch.tensor(table)].flatten()[start:][:count]"),
        places("torch.arange(start, start + count)", "torch.arange(count) + start"),
        places(LAST, "position + (page - position // page_len) * page_len"),
        places("position // page_len", "position.div(page_len, rounding_mode='floor')"),
    ],
    "accept": [
        accept(),
        accept(ENDS, "token == stop or [token] != guesses[number : number + 1]"),
        accept(ENDS, "number == len(guesses) or token in {stop} or "
               "guesses[number] != token"),
        accept("if " + ENDS, "if stop in added or list(guesses[: number + 1]) != "
               "list(best[: number + 1])"),
        accept(WHOLE, "    return list(added)"),
        accept(WHOLE, "    return added[:]"),
        accept("added.append(token)", "added = added + [token]"),
        accept("added.append(token)", "added += [token]"),
        accept("enumerate(best)", "zip(range(99), best)"),
        accept(WHOLE, "    return best[: len(added)]"),
    ],
    "small_server": [
        served(), lambda places: served()(places),
        served(ROOM, "while len(self.running) < self.places and len(self.waiting):"),
        served(NOW, "now = [request[0] for request in self.running]"),
        served(NOW, "now = {number for number, left in self.running}"),
        served(NOW, "now = tuple(number for number, left in self.running)"),
        served(KEPT, "if request[1]]"),
        served("return now", "return sorted(now, reverse=True)"),
        # Its own list: it is right when it is given, and changes in the next step.
        served("        while self", "        for number in [*self.now]:\n            "
               "if number not in [n for n, _ in self.running]: self.now.remove(number)"
               "\n        while self", "self.running = [], []",
               "self.running, self.now = [], [], []", NOW,
               "self.now[:] = [number for number, left in self.running]",
               "return now", "return self.now"),
        served(ROOM, "for _ in range(min(len(self.waiting), self.places - "
               "len(self.running))):"),
        served("self.waiting.pop(0)", "self.waiting[0]); del (self.waiting[0]"),
    ],
}  # fmt: skip
MISTAKES = {
    "batch_steps": [
        (14, "static batch"),
        (24, "one request after another"),
        (8, "shared out evenly"),
        (10, "It needs 6 more"),
        (12, "sixth step"),
        (6, "longest came first"),
        (13, "no pause"),
        (9, "after the step 5"),
        (3, "how many places"),
        (7, "takes longer"),
        (15, "Write down for each place"),
    ],
    "slots": [
        (places(LAST, "position"), "positions in the text"),
        (places(LAST, "page"), "which place of the page"),
        (places(LAST, "position % page_len"), "which page is it"),
        (places(LAST, "page + position % page_len"), "does not begin at 3"),
        (places(LAST, "page * page_len"), "first places of the pages"),
        (places(PAGE, "position // page_len"), "positions in the text"),
        (places("torch.arange(start, start + count)", "torch.arange(count)"),
         "From a later one: Count from the start"),
        (places(PAGE, "torch.tensor(sorted(table))[position // page_len]"), "sorted"),
        (places(PAGE, "torch.tensor(table[::-1])[position // page_len]"), "its end"),
        (places(LAST, "page * page_len + (position - start) % page_len"),
         "From a later one: The place in the page"),
        (places(LAST, LAST + " + 1"), "count from 0"),
        (places(LAST, "position % page_len * len(table) + page"), "side by side"),
        (places(LAST, "page * page_len + position % page_len / 1"), "whole number"),
        (places("    return " + LAST, "    return (" + LAST + ").squeeze()"),
         "Right for several tokens. For a single one: The shape"),
    ],
    "accept": [
        (accept(WHOLE, "    return added[:-1]"), "One token more is known"),
        (accept("token == stop or ", ""), "With one: The text ends at the stop"),
        (accept(WHOLE, "    return added[: added.index(stop)] if stop in added else "
                "added"), "The stop itself"),
        (accept(WHOLE, "    return best"), "a text that does not exist"),
        (accept(WHOLE, "    return best[:-1]"), "nothing counts any more"),
        (accept(WHOLE, "    return guesses"), "Not every guess"),
        (accept(WHOLE, "    return [a for a, b in zip(guesses, best) if a == b]"),
         "one token of the model is missing"),
        (accept(WHOLE, "    return [a for a, b in zip(guesses, best) if a == b] + "
                "best[-1:]"), "even where both agree."),
        (accept(WHOLE, "    return guesses[: len(added)]"), "not the wrong guess"),
        (accept(WHOLE, "    return added[:-1] + best[-1:]"), "not the last of all"),
        (accept(WHOLE, "    return best[:1]"), "Right guesses count"),
        (accept("enumerate(best)", "enumerate(best[: max(1, len(guesses))])"),
         "Right where a guess is wrong. Where all are right: One token"),
        (accept(WHOLE, "    return added if guesses[:1] == best[: len(guesses[:1])] "
                "else []"), "Right where the first is right. Where it is wrong: One"),
        (accept(WHOLE, "    return added if guesses else []"), "Without any: One"),
        (accept(WHOLE, "    return [t for t in added if t != stop or t in guesses]"),
         "Right where a guess is the stop. Where another is: The stop"),
        (accept(WHOLE, "    return best[: guesses.index(stop) + 1] if stop in guesses "
                "else added"), "Where a wrong guess is followed by one:"),
        (accept("enumerate(best)", "enumerate(best[: (guesses + [stop]).index(stop) + "
                "2])", "token == stop or ", ""), "not even one token"),
    ],
    "small_server": [
        (served(ROOM, "while not now and self.waiting and len(self.running) < "
                "self.places:", "        while", "        now = list(self.running)\n"
                "        while"), "static batch"),
        (served("pop(0)", "pop()"), "let the first one join"),
        (served("while self", "if self"), "Only one joins"),
        (served("request[1] > 0", "request[1] >= 0"), "too long"),
        (served("request[1] > 0", "request[1] > 1"), "too little"),
        (served(" and len(self.running) < self.places", ""), "More work at a time"),
        (served("< self.places", "<= self.places"), "One more works"),
        (served("< self.places", "< max(1, self.places - 1)"), "One place stays empty"),
        (served("return now", "return now + [number for number, _ in self.waiting]"),
         "do not work"),
        (served("return now", "return [number for number, _ in self.waiting]"),
         "You name those that wait"),
        (served("return now", "return now[:1]"), "not only the first"),
        (served("return now", "return now or None"), "give an empty list"),
        (served("self.places, self.count = places, 0", "self.places, self.count = "
                "places, 1"), "has the number 0"),
        (lambda places: 3, "a class with submit and step"),
        (served(ROOM, "if not self.waiting and not self.running:\n"
                "            self.places = 0\n        " + ROOM),
         "Right where all come at once. Where they come later: The shape"),
        (served("< self.places", "< max(2, self.places)"),
         "Right in several places. In a single one: More work"),
    ],
}  # fmt: skip
