"""Exercises of chapter 23: frozen lengths, a graph, a static mask, wrong sizes."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attention_lib.course.exercises.exercise import (
    Exercise,
    NumberExercise,
    make_object,
    slip,
)
from attention_lib.course.exercises.verdict import run

Rule = Callable[..., Tensor]


# At how many of 30 lengths a graph is wrong that was recorded with 6.
check_wrong_lengths = NumberExercise(
    right=7,
    praise="It is wrong at the multiples of 4, from 4 to 28.",
    mistakes=[
        (23, "There the graph is right: it holds the branch of all lengths that "
         "are not multiples of 4."),
        (8, "32 is above 30."),
        (6, "Count 4 and 28, too."),
        (29, "The graph holds a branch, not a length: it is right wherever the "
         "function takes the same one."),
        (30, "At length 6 it is right for sure: it was recorded there."),
        (1, "At length 6 it was recorded. Where does the function take the other "
         "branch?"),
        (22, "The lengths that take the same branch as 6 are right."),
        (4, "That is the number in the condition. How many multiples of it are "
         "there?"),
        (5, "The multiples of 6 do not matter: the condition asks for 4."),
        (28, "That is the last of the lengths at which it is wrong. How many are "
         "there?"),
        (7.5, "30 / 4 is not whole: how many multiples fit below?"),
    ],
    otherwise="At which lengths does the function take a different branch than at "
    "length 6?",
)  # fmt: skip


def _drawn(length: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(length, 2, generator=generator)


def tensors_of(result: Any) -> Any:
    return result if isinstance(result, (tuple, list)) else [result]


class Recorder(TorchFunctionMode):
    """Notes operations, as on the chapter's page."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if any(isinstance(part, Tensor) for part in tensors_of(result)):
            self.calls.append((function, args, kwargs or {}, result))
        return result


def _run(answer: Any, function: Rule, old: Tensor, *new: Tensor) -> Any:
    """Return what a graph gives in its last run."""
    graph = make_object(answer, function, old, methods=["run"])
    return [graph.run(x) for x in new][-1]


def _calls_again(answer: Any, function: Rule, old: Tensor, *new: Tensor) -> str:
    calls = []

    def counted(x: Tensor) -> Tensor:
        calls.append(x)
        return function(x)

    answer(counted, old).run(new[0])
    words = "run must not call the function again: repeat what was recorded."
    return words if len(calls) > 1 else ""


BIAS = torch.tensor([[0.5, -2.0]])
NOTE = "            known |= dict(zip(map(id, tensors_of(old)), tensors_of(new)))\n"
GET = "known.get(id(arg), arg)"
BEGIN = "        known = {"
check_graph = Exercise(
    solution="""
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
    names=dict(Recorder=Recorder, tensors_of=tensors_of),
    inputs=lambda function, recorded_at, run_at, *seeds: (
        function, _drawn(recorded_at, 1), *(_drawn(run_at, seed) for seed in seeds)
    ),
    use=_run,
    fault=_calls_again,
    cases=[  # the lengths that it is recorded and run with; a graph is run repeatedly
        ((function, recorded_at, run_at, *seeds), so_far)
        for function, recorded_at, run_at, so_far in [
            (lambda x: torch.add(torch.relu(torch.mul(x, 2)), x), 3, 3, ""),
            (lambda x: torch.matmul(torch.softmax(torch.matmul(x, torch.t(x)), 1), x),
             3, 5, "Right at the recorded length. At another one:"),
            (lambda x: torch.add(torch.mul(x, x), BIAS), 1, 1,
             "Right without constants. With a tensor from outside:"),
            (lambda x: torch.sub(torch.mul(x, 3), other=torch.add(x, 1)), 3, 3,
             "Right without names. With an argument by name:"),
            (lambda x: torch.cat([torch.mul(x, 2), x], dim=0), 3, 3,
             "Right with single tensors. With tensors in a list:"),
            (lambda x: torch.sub(*torch.split(torch.mul(x, 2), 1, dim=1)[::-1]), 3, 3,
             "Right so far. Where one operation gives two tensors:"),
            (lambda x: torch.mul(x, 2 if len(x) > 4 else 3), 3, 6,
             "Right without a branch. With one:"),
        ]
        for seeds in [(2,), (2, 3)]
    ],
    slips=[
        # What only later cases can show comes first.
        slip("The bias is not an input: only what the graph recomputes is replaced, "
             "and that by identity, not by shape.", GET,
             f"{GET[:-4]}x if getattr(arg, 'shape', 0) == self.first.shape else arg)"),
        slip("A tensor among the kwargs is still the recorded one.",
             "{name: renewed(arg) for name, arg in kwargs.items()}", "kwargs"),
        slip("The tensors in a list are still the recorded ones.",
             "(list, tuple)", "tuple"),
        slip("These are still the recorded ones: note each new tensor under its old "
             "one.", NOTE, "            known[id(old)] = new\n"),
        slip("The function was called again: a graph holds the branch that was taken "
             "while recording.",
             "self.first = x", "self.first, self.again = x, function",
             BEGIN, f"        if len(x) > 5: return self.again(x)\n{BEGIN}"),
        slip("The result of the example comes back: put the new input where the old "
             "one was.", "{id(self.first): x}", "{}"),
        slip("A result of an earlier operation is still the recorded one: note each "
             "new result under its old.", NOTE, ""),
        slip("The input is used twice: it must be new everywhere.",
             NOTE, NOTE + "            known.pop(id(self.first), None)\n"),
        slip("That is the result of the first operation: the last one is wanted.",
             NOTE, NOTE + "            break\n"),
        slip("That is the last result but one.",
             "in self.calls:", "in self.calls[:-1]:"),
        slip("That is the input itself: run the operations.", "return new", "return x"),
    ],
    praise="A graph: the function is not needed any more.",
)  # fmt: skip


# What reads a value, and what makes a size of it.
_READERS = {"item", "__int__", "__index__", "__bool__", "__float__", "tolist", "numpy"}
_SIZED = {"arange", "full", "ones", "zeros", "linspace"}


class _Reads(TorchFunctionMode):
    """Notices where Python reads a tensor's value."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        parts = [*args, *(kwargs or {}).values()]
        parts += [
            own for part in parts if isinstance(part, tuple | list) for own in part
        ]
        cuts = [part for part in parts if isinstance(part, slice)]
        read = [end for part in cuts for end in (part.start, part.stop)]
        read += parts if name in _SIZED else []
        if name in _READERS or any(isinstance(part, Tensor) for part in read):
            self.seen = True
        return function(*args, **(kwargs or {}))


def _reads(answer: Any, *given: Any) -> str:
    with _Reads() as reads:
        run(answer, *given)
    words = (
        "The mask is right, but Python reads the value of cache_position: in a graph "
        "it would be frozen. Compute with the tensor."
    )
    return words if reads.seen else ""


SEEN, PADDED = "(slots <= new[:, None])", "(slots >= first)"
NEW = "cache_position + torch.arange(count)"
check_static_mask = Exercise(
    solution="""
def my_static_mask(cache_position, count, max_len, first):
    slots = torch.arange(max_len)
    new = cache_position + torch.arange(count)
    return (slots <= new[:, None]) & (slots >= first)
""",
    inputs=lambda cache_position, *sizes: (torch.tensor([cache_position]), *sizes),
    fault=_reads,
    cases=[
        ((3, 2, 8, 0), ""),
        ((3, 2, 8, 2), "Right without padding. With some:"),
        ((0, 3, 5, 0), "Right after some tokens. For a prompt:"),
        ((4, 1, 6, 1), "Right for several tokens. For a single one:"),
    ],
    slips=[
        slip("The padding at the beginning is not hidden.", " & " + PADDED, ""),
        slip("A token sees itself, too.", "<=", "<"),
        slip("Each token sees one slot of the future.", NEW, NEW + " + 1"),
        slip("The new tokens are not at the beginning: add cache_position.",
             NEW, "torch.arange(count)"),
        slip("True means \"may attend\": here it is the other way round.",
             SEEN, "~(" + SEEN, PADDED, PADDED + ")"),
        slip("All new tokens see the same slots: those before the last one see its "
             "future.", NEW, "(cache_position + count - 1).expand(count)"),
        slip("All new tokens see the same slots: later ones see more.",
             NEW, "cache_position.expand(count)"),
        slip("The future is not hidden, nor what holds nothing yet.",
             SEEN, "(slots <= max_len).expand(count, -1)"),
        slip("The padding ends before slot first: that slot may be seen.",
             ">= first", "> first"),
        slip("Only padding is seen: turn the second condition round.",
             PADDED, "(slots < first)"),
    ],
    praise="One graph serves for every position.",
)  # fmt: skip


def _length(length: int) -> Tensor:
    return torch.linspace(0.1, 0.9, length)[:, None]


def _sum(x: Tensor) -> Tensor:
    return x / x.sum()


def _level(x: Tensor) -> Tensor:
    return torch.zeros_like(x) + x.mean()


def _except(at: dict[int, Rule], model: Rule = _sum) -> Rule:
    return lambda x: at.get(len(x), model)(x)


def _fails(x: Tensor) -> Tensor:
    raise IndexError(f"no such size: {len(x)}")


def _last(by: float) -> Rule:
    """Return the model with another last number."""
    return lambda x: _sum(x) + by * (torch.arange(len(x)) == len(x) - 1)[:, None]


MOST = "max(1.0, wanted.abs().max().item())"
GAP = "(found - wanted).abs().max()"
check_size_finder = Exercise(
    solution="""
def my_wrong_sizes(model, file, make, lengths):
    wrong = []
    for length in lengths:
        x = make(length)
        wanted = model(x)
        try:
            found = file(x)
        except Exception:
            wrong.append(length)
            continue
        allowed = 2e-6 * max(1.0, wanted.abs().max().item())
        same = found.shape == wanted.shape
        if not (same and (found - wanted).abs().max().item() <= allowed):
            wrong.append(length)
    return wrong
""",
    inputs=lambda model, file, *lengths: (model, file, _length, [*lengths]),
    cases=[
        ((_sum, lambda x: _sum(x) if len(x) <= 4 else x, 1, 2, 4, 5, 9), ""),
        ((_sum, _except({3: _fails, 7: _fails}), 2, 3, 5, 7),
         "Right where all runs. Where the file raises an error:"),
        ((_level, _except({6: lambda x: _level(x)[:1], 2: lambda x: _level(x).mT},
                          _level), 2, 4, 6),
         "Right with equal shapes. With another shape:"),
        ((_sum, _except({3: _last(1e-7), 5: lambda x: _sum(x) + 4e-6, 8: _last(4e-6),
                         9: _last(-5e-6), 12: _last(9e-7)}), 3, 5, 8, 9, 12),
         "Right for large differences. For small ones:"),
        ((lambda x: x * 1000, lambda x: x * 1000 + (3e-4 if len(x) < 4 else 0.1),
          1, 3, 4, 6), "Right for small numbers. For large ones:"),
        ((_sum, _except({4: lambda x: x * float("nan"), 6: _last(-0.5)}), 3, 4, 6),
         "Right for plain numbers. For others:"),
    ],
    slips=[
        slip("A file that raises an error is wrong, too.",
             "wrong.append(length)\n            continue", "continue"),
        slip("Another shape is wrong, also where it broadcasts.",
             "found.shape == wanted.shape", "True"),
        slip("Larger outputs may differ by more: times the largest number.",
             MOST, "1.0"),
        slip("Below 1 the bound is 2e-6 itself: times 1, not times a smaller number.",
             MOST, "wanted.abs().max().item()"),
        slip("A file that gives NaN is wrong: no comparison with NaN is true.",
             "not (same and", "(not same or", "<= allowed", "> allowed"),
        slip("A difference may be negative: take absolute values.",
             GAP, "(found - wanted).max()"),
        slip("The largest difference counts, not the average.",
             GAP, "(found - wanted).abs().mean()"),
        slip("The bound is 2e-6: yours allows more.", "2e-6", "2e-5"),
        slip("The bound is 2e-6: yours allows less, or nothing.", "2e-6", "1e-8"),
        slip("These are the lengths at which the file is right.", "if not", "if"),
        slip("The file is wrong at some of these lengths.",
             "return wrong", "return []"),
        slip("There are more: do not stop at the first one.",
             "return wrong", "return wrong[:1]"),
    ],
    praise="No file leaves your desk unchecked.",
)  # fmt: skip
