"""The checks of chapter 23: each usual mistake is made, and must be named."""

from attention_lib.course.exercises.ch23 import (
    BEGIN,
    GET,
    NEW,
    NOTE,
    PADDED,
    SEEN,
    check_graph,
    check_room_mask,
    check_size_finder,
)
from tests.answers import as_numbers

graph, room_mask = check_graph.made, check_room_mask.made
sizes = check_size_finder.made
KNOWN = "known = {id(self.first): x}"
LIST = "if isinstance(arg, (list, tuple)):"
OPTIONS = "{name: renewed(arg) for name, arg in kwargs.items()}"
RUN = "new = function(*renewed(args), **options)"
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
        graph("return new", "return known[id(self.calls[-1][3])]"),
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
    "wrong_lengths": [(2, "At which lengths")],
    "graph": [
        (graph("self.first = x", "self.first, self.again = x, function",
               BEGIN, "        return self.again(x)\n" + BEGIN),
         "must not call the function again"),
        (graph("= recorder.calls", "= recorder.calls[:1]"), "of the first operation"),
        (graph(BEGIN, "        if x.shape != self.first.shape:\n"
               "            return self.calls[-1][3]\n" + BEGIN),
         "At another one: The result of the example comes back"),
        (graph("self.first = x", "self.first, self.runs = x, 0", BEGIN,
               "        self.runs += 1\n" + BEGIN, "return new",
               "return new * self.runs"), "look at"),
        (lambda function, x: 3, "has no run"),
    ],
    "room_mask": [
        (room_mask(SEEN, "torch.stack([torch.arange(room) < len(places[: n + 1]) "
                   "for n in new])"), "Python reads the value of place"),
        (room_mask(") & (", ") | ("), "future is not hidden"),
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
        (sizes("try:\n            came = file(x)\n        except Exception:\n"
               "            wrong.append(length)\n            continue",
               "came = file(x)"), "IndexError"),
    ],
}  # fmt: skip
