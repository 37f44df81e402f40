"""The checks of chapter 23: each usual mistake is made, and must be named."""

from attention_lib.course.exercises import ch23
from tests.answers import as_numbers

graph, static_mask = ch23.check_graph.made, ch23.check_static_mask.made
sizes = ch23.check_size_finder.made
KNOWN = "known = {id(self.first): x}"
LIST = "if isinstance(arg, (list, tuple)):"
OPTIONS = "{name: renewed(arg) for name, arg in kwargs.items()}"
RUN = "new = function(*renewed(args), **options)"
BOUND = "2e-6 * max(1.0, wanted.abs().max().item())"
TEST = "not (same and (found - wanted).abs().max().item() <= allowed)"

RIGHT = {
    "wrong_lengths": [7, *as_numbers(7), 3 + 4, 7.004],
    "graph": [
        graph(ch23.GET, "known[id(arg)] if id(arg) in known else arg"),
        graph(LIST, "if type(arg) in (list, tuple):"),
        graph(KNOWN, "known = {}\n        known[id(self.first)] = x"),
        graph(ch23.NOTE,
              "            for a, b in zip(tensors_of(old), tensors_of(new)):"
              "\n                known[id(a)] = b\n"),
        graph("return new", "return known[id(self.calls[-1][3])]"),
        graph(RUN, "args = [renewed(arg) for arg in args]\n"
              "            new = function(*args, **options)"),
        graph(OPTIONS, "dict(zip(kwargs, renewed(tuple(kwargs.values()))))"),
        graph("self.calls = recorder.calls", "self.calls = tuple(recorder.calls)"),
        lambda function, x: graph()(function, x),
    ],
    "static_mask": [
        static_mask(ch23.SEEN, "(new[:, None] >= slots)"),
        static_mask(ch23.SEEN, "~(slots > new[:, None])"),
        static_mask(ch23.PADDED, "~(slots < first)"),
        static_mask(") & (", ") * ("),
        static_mask(ch23.NEW, "torch.arange(count) + cache_position"),
        static_mask(ch23.SEEN + " & " + ch23.PADDED,
                    "torch.logical_and(slots <= new[:, None], "
                  "slots >= first)"),
        static_mask(ch23.SEEN, "(slots < new[:, None] + 1)"),
        static_mask(ch23.SEEN,
                    "(slots - cache_position <= torch.arange(count)[:, None])"),
        static_mask(ch23.SEEN, "(slots[None] <= new.view(-1, 1))"),
        static_mask(ch23.SEEN + " & " + ch23.PADDED,
                  "torch.where(slots >= first, slots <= new[:, None], False)"),
    ],
    "size_finder": [
        sizes(BOUND, "max(2e-6, 2e-6 * wanted.abs().max().item())"),
        sizes(BOUND, "2e-6 * wanted.abs().max().clamp(min=1).item()"),
        sizes(TEST, "not same or not (found - wanted).abs().max() <= allowed"),
        sizes(TEST, "not same or not ((found - wanted).abs() <= allowed).all()"),
        sizes("except Exception:", "except BaseException:"),
        sizes("    return wrong", "    return list(wrong)"),
        sizes("    return wrong", "    return [n for n in lengths if n in wrong]"),
        sizes("x = make(length)\n        wanted = model(x)",
              "wanted = model(make(length))\n        x = make(length)"),
        sizes(TEST, "not (same and torch.allclose(found, wanted, 0, allowed))"),
    ],
}  # fmt: skip
MISTAKES = {
    "wrong_lengths": [(2, "At which lengths")],
    "graph": [
        (graph("self.first = x", "self.first, self.again = x, function",
               ch23.BEGIN, "        return self.again(x)\n" + ch23.BEGIN),
         "must not call the function again"),
        (graph(ch23.BEGIN, "        if x.shape != self.first.shape:\n"
               "            return self.calls[-1][3]\n" + ch23.BEGIN),
         "At another one: The result of the example comes back"),
        (graph("self.first = x", "self.first, self.runs = x, 0", ch23.BEGIN,
               "        self.runs += 1\n" + ch23.BEGIN, "return new",
               "return new * self.runs"), "look at"),
    ],
    "static_mask": [
        (static_mask(ch23.SEEN,
                     "torch.stack([torch.arange(max_len) < len(slots[: n + 1]) "
                   "for n in new])"), "Python reads the value of cache_position"),
        (static_mask(ch23.NEW, "cache_position.clamp(min=1) + torch.arange(count)"),
         "For a prompt: Each token sees one slot of the future"),
        (static_mask(ch23.SEEN, "(slots <= new[:, None] + (count == 1) * max_len)"),
         "For a single one: Each token sees"),
        (static_mask("cache_position + ", "int(cache_position) + "), "be frozen"),
        (static_mask("cache_position + ", "cache_position.item() + "), "be frozen"),
        (static_mask(ch23.NEW,
                     "torch.arange(cache_position[0], cache_position[0] + count)"),
         "be frozen"),
        (static_mask(ch23.SEEN + " & " + ch23.PADDED,
                     "(" + ch23.SEEN + " & " + ch23.PADDED + ").T"),
         "The shape must be"),
    ],
    "size_finder": [
        (sizes("try:\n            found = file(x)\n        except Exception:\n"
               "            wrong.append(length)\n            continue",
               "found = file(x)"), "IndexError"),
    ],
}  # fmt: skip
