"""The checks of chapter 21: each usual mistake is made, and must be named."""

import torch
from torch.overrides import TorchFunctionMode

from tests.answers import as_numbers, solution


def tensors_of(result):
    return result if isinstance(result, (tuple, list)) else [result]


class Recorder(TorchFunctionMode):
    """As on the chapter's page."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if any(isinstance(part, torch.Tensor) for part in tensors_of(result)):
            self.calls.append((function, args, kwargs or {}, result))
        return result


graph = solution(
    """
class MyGraph:
    def __init__(self, function, x):
        self.first = x
        with Recorder() as recorder:
            function(x)
        self.calls = recorder.calls

    def run(self, x):
        known = {id(self.first): x}

        def renewed(arg):
            if isinstance(arg, (list, tuple)):
                return type(arg)(renewed(part) for part in arg)
            return known.get(id(arg), arg)

        for function, args, kwargs, old in self.calls:
            options = {name: renewed(arg) for name, arg in kwargs.items()}
            new = function(*renewed(args), **options)
            known |= dict(zip(map(id, tensors_of(old)), tensors_of(new)))
        return new
""",
    Recorder=Recorder,
    tensors_of=tensors_of,
)
KNOWN = "known = {id(self.first): x}"
NOTE = "            known |= dict(zip(map(id, tensors_of(old)), tensors_of(new)))\n"
LIST = "if isinstance(arg, (list, tuple)):"
OPTIONS = "{name: renewed(arg) for name, arg in kwargs.items()}"
RUN = "new = function(*renewed(args), **options)"
LAST = "        return new\n"
GET = "known.get(id(arg), arg)"

room_mask = solution(
    """
def room_mask(place, count, room, first):
    places = torch.arange(room)
    new = place + torch.arange(count)
    return (places <= new[:, None]) & (places >= first)
"""
)
SEEN, PADDED = "(places <= new[:, None])", "(places >= first)"
NEW = "place + torch.arange(count)"

sizes = solution(
    """
def wrong_sizes(model, file, make, lengths):
    wrong = []
    for length in lengths:
        x = make(length)
        wanted = model(x)
        try:
            came = file(x)
        except Exception:
            wrong.append(length)
            continue
        allowed = 2e-6 * max(1.0, wanted.abs().max().item())
        same = came.shape == wanted.shape
        if not (same and (came - wanted).abs().max().item() <= allowed):
            wrong.append(length)
    return wrong
"""
)
FAILED = "            wrong.append(length)\n            continue"
BOUND = "2e-6 * max(1.0, wanted.abs().max().item())"
TEST = "not (same and (came - wanted).abs().max().item() <= allowed)"

RIGHT = {
    "wrong_lengths": [7, *as_numbers(7), 3 + 4, 7.004],
    "graph": [
        graph(),
        graph(GET, "known[id(arg)] if id(arg) in known else arg"),
        graph(LIST, "if type(arg) in (list, tuple):"),
        graph(KNOWN, "known = {}\n        known[id(self.first)] = x"),
        graph(NOTE, "            for a, b in zip(tensors_of(old), tensors_of(new)):"
              "\n                known[id(a)] = b\n"),
        graph(LAST, "        return known[id(self.calls[-1][3])]\n"),
        graph(RUN, "args = [renewed(arg) for arg in args]\n"
              "            new = function(*args, **options)"),
        graph(OPTIONS, "dict(zip(kwargs, renewed(tuple(kwargs.values()))))"),
        graph("self.calls = recorder.calls", "self.calls = tuple(recorder.calls)"),
        lambda function, x: graph()(function, x),
    ],
    "room_mask": [
        room_mask(),
        room_mask(SEEN, "(new[:, None] >= places)"),
        room_mask(SEEN, "~(places > new[:, None])"),
        room_mask(PADDED, "~(places < first)"),
        room_mask(") & (", ") * ("),
        room_mask(NEW, "torch.arange(count) + place"),
        room_mask(SEEN + " & " + PADDED, "torch.logical_and(places <= new[:, None], "
                  "places >= first)"),
        room_mask(SEEN, "(places < new[:, None] + 1)"),
        room_mask(SEEN, "(places - place <= torch.arange(count)[:, None])"),
        room_mask(SEEN, "(places[None] <= new.view(-1, 1))"),
        room_mask(SEEN + " & " + PADDED,
                  "torch.where(places >= first, places <= new[:, None], False)"),
    ],
    "size_finder": [
        sizes(),
        sizes(BOUND, "max(2e-6, 2e-6 * wanted.abs().max().item())"),
        sizes(BOUND, "2e-6 * wanted.abs().max().clamp(min=1).item()"),
        sizes(TEST, "not same or not (came - wanted).abs().max() <= allowed"),
        sizes(TEST, "not same or not ((came - wanted).abs() <= allowed).all()"),
        sizes("except Exception:", "except BaseException:"),
        sizes("    return wrong", "    return list(wrong)"),
        sizes("    return wrong", "    return [n for n in lengths if n in wrong]"),
        sizes("x = make(length)\n        wanted = model(x)",
              "wanted = model(make(length))\n        x = make(length)"),
        sizes(TEST, "not (same and torch.allclose(came, wanted, 0, allowed))"),
    ],
}  # fmt: skip
MISTAKES = {
    "wrong_lengths": [
        (23, "There the graph is right"),
        (8, "32 lies above 30"),
        (6, "Count 4 and 28"),
        (29, "a branch, not a length"),
        (30, "recorded there"),
        (1, "take the other branch"),
        (22, "are right"),
        (4, "the number in the condition"),
        (5, "multiples of 6"),
        (28, "the last of the lengths"),
        (7.5, "not whole"),
        (2, "At which lengths"),
    ],
    "graph": [
        (graph(KNOWN, "known = {}"), "The result of the example comes back"),
        (graph(NOTE, ""), "of an earlier operation is still the recorded"),
        (graph("        for function", "        first = True\n        for function",
               RUN, "use = args if not first else renewed(args)\n"
               "            first = False\n"
               "            new = function(*[known.get(id(a), a) if a is not "
               "self.first else a for a in use], **options)"),
         "used twice"),
        (graph(NOTE, "            known[id(old)] = new\n"), "Where one operation gives "
         "two tensors: These are"),
        (graph(NOTE, NOTE + "            break\n"), "of the first operation"),
        (graph("in self.calls:", "in self.calls[:-1]:"), "the last result but one"),
        (graph(LAST, "        return x\n"), "the input itself"),
        (graph(OPTIONS, "kwargs"), "among the kwargs"),
        (graph(LIST, "if isinstance(arg, tuple):"), "in a list are still"),
        (graph(GET, "x if getattr(arg, 'shape', None) == self.first.shape and id(arg) "
               "not in known else known.get(id(arg), arg)"), "by identity"),
        (graph("        self.first = x\n", "        self.first = x\n"
               "        self.function = function\n",
               "        known =", "        return self.function(x)\n        known ="),
         "must not call the function again"),
        (graph("self.calls = recorder.calls", "self.calls = recorder.calls[:1]"),
         "of the first operation"),
        (graph("        known =", "        if x.shape != self.first.shape:\n"
               "            return self.calls[-1][3]\n        known ="),
         "At another one: The result of the example comes back."),
        (graph("        self.first = x\n", "        self.first = x\n"
               "        self.function = function\n", "        known =",
               "        if len(x) == 6:\n            return self.function(x)\n"
               "        known ="),
         "With one: The function was called again"),
        (lambda function, x: 3, "a class with a method run"),
    ],
    "room_mask": [
        (room_mask(" & " + PADDED, ""), "With some: The padding at the beginning"),
        (room_mask("<=", "<"), "sees itself"),
        (room_mask(NEW, NEW + " + 1"), "one place of the future"),
        (room_mask(SEEN, "torch.stack([torch.arange(room) < len(places[: n + 1]) "
                   "for n in new])"), "Python reads the value of place"),
        (room_mask(NEW, "torch.arange(count)"), "do not stand at the beginning"),
        (room_mask(SEEN + " & " + PADDED, "~(" + SEEN + " & " + PADDED + ")"),
         "the other way round"),
        (room_mask(NEW, "(place + count - 1).expand(count)"), "see its future"),
        (room_mask(NEW, "place.expand(count)"), "later ones see more"),
        (room_mask(SEEN, "(places <= room).expand(count, -1)"), "nor what holds"),
        (room_mask(">= first", "> first"), "that place may be seen"),
        (room_mask(") & (", ") | ("), "future is not hidden"),
        (room_mask(PADDED, "(places < first)"), "turn the second"),
        (room_mask(NEW, "place.clamp(min=1) + torch.arange(count)"),
         "For a prompt: Each token sees one place of the future"),
        (room_mask(SEEN, "(places <= new[:, None] + (count == 1) * room)"),
         "For a single one: Each token sees"),
        (room_mask("place + torch", "int(place) + torch"), "would be frozen"),
        (room_mask("place + torch", "place.item() + torch"), "would be frozen"),
        (room_mask(NEW, "torch.arange(place[0], place[0] + count)"), "would be frozen"),
        (room_mask(SEEN + " & " + PADDED, "(" + SEEN + " & " + PADDED + ").T"),
         "The shape must be"),
    ],
    "size_finder": [
        (sizes(FAILED, "            continue"), "raises an error: A file that raises"),
        (sizes("same = came.shape == wanted.shape", "same = True"), "Another shape"),
        (sizes(BOUND, "2e-6"), "For large ones: Larger outputs may"),
        (sizes("max(1.0, wanted.abs().max().item())", "wanted.abs().max().item()"),
         "For small ones: Below 1"),
        (sizes(TEST, "not same or (came - wanted).abs().max().item() > allowed"),
         "For others: A file that gives NaN"),
        (sizes("(came - wanted).abs().max()", "(came - wanted).max()"), "absolute"),
        (sizes("(came - wanted).abs().max()", "(came - wanted).abs().mean()"),
         "not the average"),
        (sizes("2e-6", "2e-5"), "yours allows more"),
        (sizes("2e-6", "1e-8"), "yours allows less"),
        (sizes("if not", "if"), "at which the file is right"),
        (sizes("    return wrong", "    return []"), "wrong at some"),
        (sizes("    return wrong", "    return wrong[:1]"), "do not stop"),
        (sizes("try:\n            came = file(x)\n        except Exception:\n" + FAILED,
               "came = file(x)"), "IndexError"),
    ],
}  # fmt: skip
