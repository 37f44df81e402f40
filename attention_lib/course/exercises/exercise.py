"""One exercise as data: a solution, inputs to try it on, and slips.

The solution is the text that the chapter folds. A slip is an edit of it that readers
make, and the sentence that helps them. A check compares an answer with the solution on
each case; where they differ, it reports the first slip that gives the same result.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attention_lib.course.edits import defined, edited
from attention_lib.course.exercises.verdict import (
    NOT_YET,
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
        inputs: makes what the answer is called with, from a case's numbers; by
            default, these are the inputs.
        cases: numbers for ``inputs``, and what is said before a later fault. The last
            differ in what a special solution would get wrong.
        slips: usual mistakes, the most helpful first.
        praise: what to say of a right answer: why it is right.
        names: what the chapter imports and the solution uses.
        also: edits of the solution whose results are right, too.
    """

    solution: str
    cases: Sequence[Case]
    slips: Sequence[Slip]
    praise: str
    inputs: Callable[..., tuple[Any, ...]] = lambda *numbers: numbers
    names: Mapping[str, Any] = field(default_factory=dict)
    also: Sequence[tuple[str, ...]] = ()

    def __call__(self, answer: object) -> Verdict:
        """Judge an answer; never raise."""
        for numbers, so_far in self.cases:
            wrong = self._judge(answer, numbers)
            if wrong is not None:
                return (
                    wrong if wrong is NOT_YET and not so_far else after(so_far, wrong)
                )
        return Verdict(True, self.praise)

    def made(self, *pieces: str) -> Any:
        """Return what the solution defines, with pieces of its text replaced."""
        return defined(edited(self.solution, *pieces), **self.names)

    @cached_property
    def _slipped(self) -> list[tuple[Any, str]]:
        return [(self.made(*one.pieces), one.message) for one in self.slips]

    def _judge(self, answer: object, numbers: tuple[Any, ...]) -> Verdict | None:
        given = self.inputs(*numbers)
        mistakes = self._results(lambda slipped: slipped(*given))
        wrong = judge(answer, given, self.made()(*given), mistakes)
        for pieces in self.also if wrong else ():
            if judge(answer, given, self.made(*pieces)(*given)) is None:
                return None
        return wrong

    def _results(self, use: Callable[[Any], Any]) -> Iterator[tuple[Any, str]]:
        """Yield what each slip gives; one that fails on a case cannot be met there."""
        for slipped, message in self._slipped:
            try:
                with np.errstate(all="ignore"):
                    result = use(slipped)
            except Exception:
                continue
            yield result, message


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
        with torch.random.fork_rng(devices=[]):  # a reader's numbers stay as they were
            return self._judge_layer(answer, numbers)

    def _judge_layer(self, answer: object, numbers: tuple[Any, ...]) -> Verdict | None:
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
        mistakes = self._results(result)
        wrong = judge(layer.forward, given, result(self.made()), mistakes)
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


@dataclass(frozen=True, kw_only=True)
class NumberExercise:
    """A number that the reader works out; calling the exercise judges an answer.

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


def _no_gradient(layer: nn.Module, given: tuple[Any, ...]) -> Verdict | None:
    """Say which parameter no gradient reaches, where the numbers are right."""
    output = layer.forward(*given)
    if output.requires_grad:
        output.sum().backward()
    for name, weight in layer.named_parameters():
        if weight.grad is None:
            words = f"no gradient reaches {name}: it would never learn."
            return Verdict(False, f"The numbers are right, but {words}")
    return None
