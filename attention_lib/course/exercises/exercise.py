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

import numpy as np
import torch
from torch import Tensor, nn

from attention_lib.course.edits import defined, edited
from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Stop,
    Verdict,
    after,
    is_nan,
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
    """A usual mistake: what to say of it, and the pieces that it replaces.

    Attributes:
        overflows: whether the message is about NaN. Any other slip is not compared
            where it gives nothing but NaN: too many mistakes do.
    """

    message: str
    pieces: tuple[str, ...]
    overflows: bool = False


def slip(message: str, *pieces: str, overflows: bool = False) -> Slip:
    """Return the slip that replaces pieces of the solution: old, new, old, new, …"""
    return Slip(message, pieces, overflows)


def _call(answer: Any, *given: Any) -> Any:
    return answer(*given)


def _nothing(*answer_and_inputs: Any) -> None:
    return None


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
        use: calls the answer, or what it makes, with the inputs; what it returns is
            compared. A verdict says at once what is wrong.
        also: edits of the solution whose results are right, too.
        fault: what is wrong with an answer whose result is right, in words, or nothing.
        lastly: what else is asked of an answer that is right in all cases.
        otherwise: what to say of a result that no slip gives, from it, the right one
            and the inputs; None: what differs first.
        names: what the chapter imports and the solution uses.
    """

    solution: str
    cases: Sequence[Case]
    slips: Sequence[Slip]
    praise: str
    inputs: Callable[..., tuple[Any, ...]] = lambda *numbers: numbers
    names: Mapping[str, Any] = field(default_factory=dict)
    use: Callable[..., Any] = _call
    also: Sequence[tuple[str, ...]] = ()
    fault: Callable[..., str | None] = _nothing
    lastly: Callable[[Any], Verdict | None] = _nothing
    otherwise: Callable[..., str] | None = None

    def __call__(self, answer: object) -> Verdict:
        """Judge an answer; never raise."""
        for numbers, so_far in self.cases:
            with torch.random.fork_rng(devices=[]):  # a reader's numbers stay
                torch.manual_seed(0)
                wrong = self._judge(answer, numbers)
            if wrong is not None:
                return after(so_far, wrong)
        wrong = run(self.lastly, answer)  # None, which `run` takes for a stub, is good
        return Verdict(True, self.praise) if wrong is NOT_YET else wrong

    def made(self, *pieces: str) -> Any:
        """Return what the solution defines, with pieces of its text replaced."""
        return defined(edited(self.solution, *pieces), **self.names)

    @cached_property
    def mistakes(self) -> list[tuple[Any, str]]:
        """What the slips define, and what to say of each."""
        return [(self.made(*one.pieces), one.message) for one in self.slips]

    def _judge(self, answer: object, numbers: tuple[Any, ...]) -> Verdict | None:
        given = self.inputs(*numbers)

        def result(function: Any) -> Any:
            return self.use(function, *given)

        asked = partial(self.use, answer) if callable(answer) else answer
        wrong = self._compare(asked, given, result)
        for pieces in self.also if wrong else ():
            if judge(asked, given, result(self.made(*pieces))) is None:
                wrong = None
        if wrong is None:
            words = run(self.fault, answer, *given)
            if words and words is not NOT_YET:
                wrong = words if isinstance(words, Verdict) else Verdict(False, words)
        return wrong

    def _compare(
        self, asked: object, given: tuple[Any, ...], result: Callable[[Any], Any]
    ) -> Verdict | None:
        """Compare what is asked with what the solution and the slips give."""
        right = result(self.made())
        words = self.otherwise
        otherwise = words and (lambda came: words(came, right, *given))
        return judge(asked, given, right, self._results(result), otherwise=otherwise)

    def _results(self, use: Callable[[Any], Any]) -> Iterator[tuple[Any, str]]:
        """Yield what each slip gives; one that fails on a case cannot be met there."""
        for (slipped, message), one in zip(self.mistakes, self.slips, strict=True):
            with suppress(Exception), np.errstate(all="ignore"):
                result = use(slipped)
                if isinstance(result, Verdict) or (
                    is_nan(result) and not one.overflows
                ):
                    continue
                yield result, message


def make_object(answer: Any, *options: Any, methods: Sequence[str]) -> Any:
    """Return an object of the reader's class, for an exercise's ``use``.

    Raises:
        Stop: the class is not written yet, or lacks one of the methods.
    """
    made = answer(*options)
    if made is None or made is ...:
        raise Stop(NOT_YET)
    for name in methods:
        if not callable(getattr(made, name, None)):
            came, wanted = type(made).__name__, " and ".join(methods)
            words = f"Write a class with {wanted}; your {came} has no {name}."
            raise Stop(words)
    return made


@dataclass(frozen=True, kw_only=True)
class NumberExercise:
    """A number that the reader finds; calling the exercise judges an answer.

    Attributes:
        right: the number wanted, unless ``solution`` defines it.
        solution: the text that the chapter folds, if it is code.
        names: what the solution uses.
        mistakes: numbers that usual mistakes give, and what to say then.
        otherwise: what to say of any other number.
        praise: what to say of the right one: why it is right.
    """

    mistakes: Sequence[tuple[int | float, str]]
    praise: str
    otherwise: str
    right: int | float | None = None
    solution: str = ""
    names: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, answer: object) -> Verdict:
        """Judge an answer; never raise."""
        return judge_number(
            answer, self.made(), self.praise, self.mistakes, self.otherwise
        )

    def made(self) -> Any:
        """Return the number wanted."""
        return defined(self.solution, **self.names) if self.solution else self.right


@dataclass(frozen=True, kw_only=True)
class LayerExercise(Exercise):
    """A layer that the reader writes: a class, made with a case's numbers as sizes.

    Attributes:
        surplus: what to say of a parameter that the solution does not have.
        sizes: how many of a case's numbers make the layer; by default, all of them.
    """

    surplus: str = "The solution has no such parameter."
    sizes: int | None = None

    def _judge(self, answer: object, numbers: tuple[Any, ...]) -> Verdict | None:
        sizes, given = numbers[: self.sizes], self.inputs(*numbers)
        layer = make_layer(answer, *sizes)
        if isinstance(layer, Verdict):
            return layer
        wanted = self.made()(*sizes)
        if wrong := self._other_parameters(layer, wanted, given):
            return wrong
        state = _drawn(wanted)

        def result(kind: Any) -> Tensor:
            return _with_weights(kind(*sizes), state)(*given).detach()

        _with_weights(layer, state)
        wrong = self._compare(_detached(layer), given, result)
        return wrong or _no_gradient(layer, given)

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
                words = f"The layer has no parameter {name}: is it an attribute of "
                words += "self, and not in a plain list?"
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


def _no_gradient(layer: nn.Module, given: tuple[Any, ...]) -> Verdict | None:
    """Say which parameter no gradient reaches, where the numbers are right."""
    output = layer.forward(*given)
    if output.requires_grad and output.is_floating_point():
        output.sum().backward()
    for name, weight in layer.named_parameters():
        if weight.grad is None:
            words = f"no gradient reaches {name}: it would never learn."
            return Verdict(False, f"The numbers are right, but {words}")
    return None
