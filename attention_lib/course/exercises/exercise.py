"""One exercise as data: a solution, inputs to try it on, and slips.

The solution is the text that the chapter folds. A slip is an edit of it that readers
make, and the sentence that helps them. A check compares an answer with the solution on
each case; where they differ, it reports the first slip that gives the same result.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.course.edits import defined, edited
from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Stop,
    Verdict,
    after,
    judge,
    judge_number,
    make_layer,
    run,
)
from attention_lib.reproducibility import seeded

#: What the inputs are drawn from, and what earlier cases have shown.
Case = tuple[tuple[Any, ...], str]


@dataclass(frozen=True)
class Slip:
    """A usual mistake: what to say of it, and the pieces that it replaces."""

    message: str
    pieces: tuple[str, ...]


def slip(message: str, *pieces: str) -> Slip:
    """Return the slip that replaces pieces of the solution: old, new, old, new, …"""
    return Slip(message, pieces)


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """A function that the reader writes; calling the exercise judges an answer.

    Attributes:
        solution: the text that the chapter folds; the check compares with what it
            defines last.
        inputs: makes what the answer is called with, from a case's numbers.
        cases: numbers for ``inputs``, and what is said before a later fault. The last
            differ in what a special solution would get wrong.
        slips: usual mistakes, the most helpful first.
        praise: what to say of a right answer: why it is right.
        use: calls the answer, or what it makes, with the inputs; returns the result.
        fault: what is wrong with an answer whose result is right, in words, or nothing.
        names: what the chapter imports and the solution uses.
    """

    solution: str
    cases: Sequence[Case]
    slips: Sequence[Slip]
    praise: str
    inputs: Callable[..., tuple[Any, ...]] = lambda *numbers: numbers
    names: Mapping[str, Any] = field(default_factory=dict)
    use: Callable[..., Any] = lambda answer, *given: answer(*given)
    fault: Callable[..., str] = lambda answer, *given: ""

    def __call__(self, answer: object) -> Verdict:
        """Judge an answer; never raise."""
        for numbers, so_far in self.cases:
            with torch.random.fork_rng(devices=[]):  # a reader's numbers stay
                torch.manual_seed(0)
                wrong = self._judge(answer, numbers)
            if wrong is not None:
                return after(so_far, wrong)
        return Verdict(True, self.praise)

    def made(self, *pieces: str) -> Any:
        """Return what the solution defines, with pieces of its text replaced."""
        return defined(edited(self.solution, *pieces), **self.names)

    @cached_property
    def _slipped(self) -> list[tuple[Any, str]]:
        return [(self.made(*one.pieces), one.message) for one in self.slips]

    def _judge(self, answer: object, numbers: tuple[Any, ...]) -> Verdict | None:
        given = self.inputs(*numbers)
        mistakes = self._results(lambda slipped: self.use(slipped, *given))
        own = partial(self.use, answer) if callable(answer) else answer
        wrong = judge(own, given, self.use(self.made(), *given), mistakes)
        if wrong is None and (words := run(self.fault, answer, *given)):
            return words if isinstance(words, Verdict) else Verdict(False, words)
        return wrong

    def _results(self, use: Callable[[Any], Any]) -> Iterator[tuple[Any, str]]:
        """Yield what each slip gives; one that fails on a case cannot be met there."""
        for slipped, message in self._slipped:
            with suppress(Exception):
                yield use(slipped), message


def make_object(answer: Any, *options: Any, methods: Sequence[str]) -> Any:
    """Return an object of the reader's class.

    Raises:
        Stop: nothing comes yet, or an object that lacks one of the methods.
    """
    made = answer(*options)
    if made is None or made is ...:
        raise Stop(NOT_YET)
    for name in methods:
        if not callable(getattr(made, name, None)):
            came = type(made).__name__
            raise Stop(f"Your function returns a {came}: it has no method {name}.")
    return made


@dataclass(frozen=True, kw_only=True)
class NumberExercise:
    """A number that the reader finds; calling the exercise judges an answer.

    Attributes:
        right: the number wanted.
        praise: what to say of it: why it is right.
        mistakes: numbers that usual mistakes give, and what to say then.
        otherwise: what to say of any other number.
    """

    right: int | float
    praise: str
    mistakes: Sequence[tuple[int | float, str]]
    otherwise: str

    def __call__(self, answer: object) -> Verdict:
        """Judge an answer; never raise."""
        return judge_number(
            answer, self.right, self.praise, self.mistakes, self.otherwise
        )


@dataclass(frozen=True, kw_only=True)
class LayerExercise(Exercise):
    """A layer that the reader writes: a class, made with a case's numbers as sizes.

    Attributes:
        surplus: what to say of a parameter that the solution does not have.
    """

    surplus: str = "The solution has no such parameter."

    def _judge(self, answer: object, numbers: tuple[Any, ...]) -> Verdict | None:
        layer = make_layer(answer, *numbers)
        if isinstance(layer, Verdict):
            return layer
        given = self.inputs(*numbers)
        wanted = self.made()(*numbers)
        if wrong := self._other_parameters(layer, wanted, given):
            return wrong
        state = _drawn(wanted)

        def result(kind: Any) -> Tensor:
            return _with_weights(kind(*numbers), state)(*given).detach()

        _with_weights(layer, state)
        mistakes = self._results(result)
        return judge(_detached(layer), given, result(self.made()), mistakes)

    def _other_parameters(
        self, layer: nn.Module, wanted: nn.Module, given: tuple[Any, ...]
    ) -> Verdict | None:
        """Say which parameter is missing, too many, or of a different shape."""
        shapes = {name: tuple(own.shape) for name, own in wanted.named_parameters()}
        found = {name: tuple(own.shape) for name, own in layer.named_parameters()}
        if not found and run(layer.forward, *given) is NOT_YET:
            return NOT_YET
        for name in [*shapes, *found]:
            if name not in found:
                words = (
                    f"The layer has no parameter {name}: is it an attribute of self?"
                )
            elif name not in shapes:
                words = f"Too many parameters: {name}. {self.surplus}"
            elif found[name] != shapes[name]:
                words = f"{name} is {found[name]}; it must be {shapes[name]} here."
            else:
                continue
            return Verdict(False, words)
        return None


def _drawn(layer: nn.Module) -> dict[str, Tensor]:
    rng, own = seeded(0), dict(layer.named_parameters())
    return {
        name: torch.randn(own[name].shape, generator=rng) / 2 for name in sorted(own)
    }


def _with_weights(layer: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    own = dict(layer.named_parameters())
    with torch.no_grad():
        for name, weight in state.items():
            own[name].copy_(weight)
    return layer.eval()


def _detached(layer: nn.Module) -> Callable[..., Any]:
    def forward(*given: Any) -> Any:
        came = layer.forward(*given)
        return came.detach() if isinstance(came, Tensor) else came

    return forward
