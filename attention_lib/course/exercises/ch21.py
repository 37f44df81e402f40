"""Checks of chapter 21: frozen lengths, a graph, the mask of a room, wrong sizes."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Mistakes,
    Verdict,
    after,
    judge,
    judge_number,
    run,
)

Rule = Callable[..., Tensor]


def check_wrong_lengths(answer: object) -> Verdict:
    """Checks at how many of 30 lengths a graph is wrong that was recorded with 6."""
    return judge_number(
        answer,
        7,
        "It is wrong at the multiples of 4, from 4 to 28.",
        [
            (23, "There the graph is right: it holds the branch of all lengths that "
             "are no multiples of 4."),
            (8, "32 lies above 30."),
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
        "At which lengths does the function take another branch than at length 6?",
    )  # fmt: skip


def _chain(x: Tensor) -> Tensor:
    double = torch.mul(x, 2)
    return torch.add(torch.relu(double), x)


def _attend(x: Tensor) -> Tensor:
    scores = torch.matmul(x, torch.transpose(x, 0, 1))
    return torch.matmul(torch.softmax(scores, dim=1), x)


def _named(x: Tensor) -> Tensor:
    return torch.sub(torch.mul(x, 3), other=torch.add(x, 1))


def _listed(x: Tensor) -> Tensor:
    return torch.cat([torch.mul(x, 2), x], dim=0)


def _split(x: Tensor) -> Tensor:
    first, second = torch.split(torch.mul(x, 2), 1, dim=1)
    return torch.sub(second, first)


def _branch(x: Tensor) -> Tensor:
    return torch.mul(x, 2) if x.shape[0] > 4 else torch.mul(x, 3)


_BIAS = torch.tensor([[0.5, -2.0]])


def _with_constant(x: Tensor) -> Tensor:
    return torch.add(torch.mul(x, x), _BIAS)


def _drawn(length: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(length, 2, generator=generator)


# A function, the lengths that it is recorded and run with, and what gives what mistake:
# of the recorded input and of the new one.
_GRAPHS: list[tuple[Rule, int, int, str, list[tuple[Rule, str]]]] = [
    (_chain, 3, 3, "", [
        (lambda old, new: _chain(old), "The result of the example comes back: put the "
         "new input where the old one was."),
        (lambda old, new: torch.relu(old * 2) + new, "A result of an earlier "
         "operation is still the recorded one: note each new result under its old."),
        (lambda old, new: torch.relu(new * 2) + old, "The input is used "
         "twice: it must be new everywhere."),
        (lambda old, new: new * 2, "That is the result of the first operation: the "
         "last one is wanted."),
        (lambda old, new: torch.relu(new * 2), "That is the last result but one."),
        (lambda old, new: new, "That is the input itself: do the operations."),
    ]),
    (_attend, 3, 5, "Right at the recorded length. At another one:", [
        (lambda old, new: _attend(old), "The result of the example comes back."),
    ]),
    (_with_constant, 1, 1, "Right without constants. With a tensor from outside:", [
        (lambda old, new: new * new + new, "The bias is no input: only what the graph "
         "computed anew is replaced, and that by identity, not by shape."),
    ]),
    (_named, 3, 3, "Right without names. With an argument by name:", [
        (lambda old, new: new * 3 - (old + 1), "A tensor among the kwargs is still the "
         "recorded one."),
    ]),
    (_listed, 3, 3, "Right with single tensors. With tensors in a list:", [
        (lambda old, new: torch.cat([old * 2, old]), "The tensors in a list are still "
         "the recorded ones."),
    ]),
    (_split, 3, 3, "Right so far. Where one operation gives two tensors:", [
        (lambda old, new: _split(old), "These are still the recorded ones: note each "
         "new tensor under its old one."),
    ]),
    (_branch, 3, 6, "Right without a branch. With one:", [
        (lambda old, new: new * 2, "The function was called again: a graph holds the "
         "branch that was taken while recording."),
    ]),
]  # fmt: skip


def check_graph(answer: object) -> Verdict:
    """Checks a class that records the operations of a function and does them again."""
    for function, recorded_at, run_at, so_far, mistaken in _GRAPHS:
        calls: list[Tensor] = []

        def counted(x: Tensor, function: Rule = function, calls: Any = calls) -> Tensor:
            calls.append(x)
            return function(x)

        old = _drawn(recorded_at, 1)
        made = run(answer, counted, old)
        if isinstance(made, Verdict):
            return made if made is NOT_YET or not so_far else after(so_far, made)
        if not hasattr(made, "run"):
            came = type(made).__name__
            wanted = "a class with a method run is wanted."
            return Verdict(False, f"Your function returns a {came}: {wanted}")
        for seed in (2, 3):  # a graph is run more than once
            new = _drawn(run_at, seed)
            right = function(new) if function is not _branch else new * 3
            mistakes = [(rule(old, new), words) for rule, words in mistaken]
            if wrong := judge(made.run, (new,), right, mistakes, so_far=so_far):
                return wrong
        if len(calls) > 1:
            words = "run must not call the function again: do what was written down."
            return after(so_far, Verdict(False, words))
    return Verdict(True, "A graph: the function is not needed any more.")


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
        parts = _parts([*args, *(kwargs or {}).values()])
        given = any(isinstance(part, Tensor) for part in parts)
        if name in _READERS or (name in _SIZED and given):
            self.seen = True
        if any(isinstance(end, Tensor) for part in parts for end in _ends(part)):
            self.seen = True
        return function(*args, **(kwargs or {}))


def _parts(arg: Any) -> list[Any]:
    if not isinstance(arg, tuple | list):
        return [arg]
    return [part for own in arg for part in _parts(own)]


def _ends(part: Any) -> list[Any]:
    return [part.start, part.stop] if isinstance(part, slice) else []


def check_room_mask(answer: object) -> Verdict:
    """Checks the mask of a cache whose place is a tensor."""
    for place, count, room, first, so_far in [
        (3, 2, 8, 0, ""),
        (3, 2, 8, 2, "Right without padding. With some:"),
        (0, 3, 5, 0, "Right after some tokens. For a prompt:"),
        (4, 1, 6, 1, "Right for several tokens. For a single one:"),
    ]:
        right = _room(place, count, room, first)
        mistakes: Mistakes = [
            (_room(place, count, room, 0), "The padding at the beginning is not "
             "hidden."),
            (_room(place - 1, count, room, first), "A token sees itself, too."),
            (_room(place + 1, count, room, first), "Each token sees one place of the "
             "future."),
            (_room(0, count, room, first), "The new tokens do not stand at the "
             "beginning: add place."),
            (~right, "True means \"may attend\": here it is the other way round."),
            (_room(place + count - 1, 1, room, first).expand(count, -1), "All new "
             "tokens see the same places: those before the last one see its future."),
            (_room(place, 1, room, first).expand(count, -1), "All new tokens see the "
             "same places: later ones see more."),
            (_room(room, count, room, first), "The future is not hidden, nor what "
             "holds nothing yet."),
            (_room(place, count, room, first + 1), "The padding ends before the place "
             "first: that place may be seen."),
            (_room(place, count, room, 0) & ~_room(room, count, room, first), "Only "
             "padding is seen: turn the second condition round."),
        ]  # fmt: skip
        given = torch.tensor([place]), count, room, first
        if wrong := judge(answer, given, right, mistakes, so_far=so_far):
            return wrong
        with _Reads() as reads:
            run(answer, *given)
        if reads.seen:
            words = (
                "The mask is right, but Python reads the value of place: in a graph it "
                "would be frozen. Compute with the tensor."
            )
            return Verdict(False, words)
    return Verdict(True, "One graph serves for every place.")


def _room(place: int, count: int, room: int, first: int) -> Tensor:
    places = torch.arange(room)
    new = place + torch.arange(count)
    return (places <= new[:, None]) & (places >= first)


def check_size_finder(answer: object) -> Verdict:
    """Checks a function that names the lengths at which a file is wrong."""
    for model, file, lengths, so_far in _FILES:
        right = _wrong_at(model, file, lengths)
        mistakes = [
            (found, words)
            for words, options in _MISTAKEN.items()
            if (found := _wrong_at(model, file, lengths, **options)) != right
        ]
        others = [length for length in lengths if length not in right]
        mistakes.append((others, "These are the lengths at which the file is right."))
        mistakes.append(([], "The file is wrong at some of these lengths."))
        mistakes.append((right[:1], "There are more: do not stop at the first one."))
        own = partial(answer, model, file, _length) if callable(answer) else answer
        if wrong := judge(own, (lengths,), right, mistakes, so_far=so_far):
            return wrong
    return Verdict(True, "No file leaves your desk unchecked.")


def _length(length: int) -> Tensor:
    return torch.linspace(0.1, 0.9, length)[:, None]


def _wrong_at(
    model: Rule,
    file: Rule,
    lengths: list[int],
    *,
    raises: bool = True,
    shape: bool = True,
    scale: bool = True,
    floor: bool = True,
    nan: bool = True,
    signed: bool = False,
    average: bool = False,
    tolerance: float = 2e-6,
) -> list[int]:
    """Gives the lengths at which a file is wrong, rightly or with a mistake."""
    wrong = []
    for length in lengths:
        x = _length(length)
        wanted = model(x)
        try:
            came = file(x)
        except Exception:
            wrong += [length] * raises
            continue
        if came.shape != wanted.shape and shape:
            wrong.append(length)
            continue
        largest = wanted.abs().max().item()
        factor = max(1.0, largest) if floor else largest
        allowed = tolerance * (factor if scale else 1.0)
        off = came - wanted if signed else (came - wanted).abs()
        most = (off.mean() if average else off.max()).item()
        if most > allowed or (nan and math.isnan(most)):
            wrong.append(length)
    return wrong


_MISTAKEN: dict[str, dict[str, Any]] = {
    "A file that raises an error is wrong, too.": {"raises": False},
    "Another shape is wrong, also where it broadcasts.": {"shape": False},
    "Larger outputs may differ by more: times the largest number.": {"scale": False},
    "Below 1 the bound is 2e-6 itself: times 1, not times a smaller number.":
        {"floor": False},
    "A file that gives NaN is wrong: no comparison with NaN is true.": {"nan": False},
    "A difference may be negative: take absolute values.": {"signed": True},
    "The largest difference counts, not the average.": {"average": True},
    "The bound is 2e-6: yours allows more.": {"tolerance": 2e-5},
    "The bound is 2e-6: yours allows less, or nothing.": {"tolerance": 1e-8},
}  # fmt: skip


def _sum(x: Tensor) -> Tensor:
    return x / x.sum()


def _level(x: Tensor) -> Tensor:
    return torch.zeros_like(x) + x.mean()


def _at(length: int, change: Rule, otherwise: Rule | None = None) -> Rule:
    other = otherwise or _sum
    return lambda x: change(x) if len(x) == length else other(x)


def _fails(x: Tensor) -> Tensor:
    raise IndexError(f"no such size: {len(x)}")


def _one_more(x: Tensor, by: float) -> Tensor:
    right = _sum(x)
    return torch.cat([right[:-1], right[-1:] + by])


_FILES: list[tuple[Rule, Rule, list[int], str]] = [
    (_sum, lambda x: _sum(x) if len(x) <= 4 else x, [1, 2, 4, 5, 9], ""),
    (_sum, _at(3, _fails, _at(7, _fails)), [2, 3, 5, 7],
     "Right where all runs. Where the file raises an error:"),
    (_level, _at(6, lambda x: _level(x)[:1], _at(2, lambda x: _level(x).mT, _level)),
     [2, 4, 6], "Right with equal shapes. With another shape:"),
    (_sum, _at(3, lambda x: _one_more(x, 1e-7), _at(5, lambda x: _sum(x) + 4e-6,
     _at(8, lambda x: _one_more(x, 4e-6), _at(9, lambda x: _one_more(x, -5e-6),
     _at(12, lambda x: _one_more(x, 9e-7)))))),
     [3, 5, 8, 9, 12], "Right for large differences. For small ones:"),
    (lambda x: x * 1000, lambda x: x * 1000 + (3e-4 if len(x) < 4 else 0.1),
     [1, 3, 4, 6], "Right for small numbers. For large ones:"),
    (_sum, _at(4, lambda x: x * float("nan"), _at(6, lambda x: _one_more(x, -0.5))),
     [3, 4, 6], "Right for plain numbers. For others:"),
]  # fmt: skip
