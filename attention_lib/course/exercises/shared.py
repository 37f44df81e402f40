"""Parts that exercises of several chapters share: numbers as answers, and finders."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attention_lib.course.exercises.verdict import NOT_YET, Verdict, one_number, run

#: What is tested, in words; the function; what is true of it.
Suspects = Sequence[tuple[str, Callable[[Tensor], Tensor], bool]]


def as_number(answer: Any, *given: Any) -> Any:
    """Return the number that an answer gives, of any type, as a tensor."""
    came = answer(*given)
    return came if came is None or came is ... else torch.tensor(one_number(came))


@dataclass(frozen=True, kw_only=True)
class FinderExercise:
    """A function ``found(f, x)`` that judges functions, and is judged by a call.

    Attributes:
        inputs: makes ``x``, what it is given beside each function.
        suspects: what it is asked about.
        patterns: what the usual mistakes say of all of them (1: True), and what to
            say then.
        claims: what False and True say of a function.
        changed: what to say where the finder changes ``x``.
    """

    inputs: Callable[[], Tensor]
    suspects: Suspects
    patterns: Mapping[str, str]
    claims: tuple[str, str]
    changed: str

    def __call__(self, answer: object) -> Verdict:
        """Judge an answer; never raise."""
        said: list[bool] = []
        x = self.inputs()
        for name, function, _ in self.suspects:
            given = x.clone()
            came = run(answer, function, given)
            if came is NOT_YET and said:
                words = f"Nothing comes back for {name}: is a return missing?"
                return Verdict(False, words)
            if isinstance(came, Verdict):
                return came
            if not torch.equal(given, x):
                return Verdict(False, self.changed)
            if not _is_boolean(came):
                words = f"for {name} came a {type(came).__name__}."
                return Verdict(False, f"Give one True or False; {words}")
            said.append(bool(came))
        pattern = "".join("01"[found] for found in said)
        if pattern in self.patterns:
            return Verdict(False, self.patterns[pattern])
        for (name, _, truth), found in zip(self.suspects, said, strict=True):
            if found != truth:
                words = f"Your answer is wrong: {name} {self.claims[truth]}."
                return Verdict(False, words)
        return Verdict(True, f"All {len(said)} functions are judged rightly.")


def _is_boolean(came: Any) -> bool:
    if isinstance(came, Tensor):
        return came.dtype == torch.bool and came.numel() == 1
    return isinstance(came, bool | np.bool_)
