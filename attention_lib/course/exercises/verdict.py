"""What a check says, and how it finds out.

A check runs the answer on small inputs and compares what comes with what is right.
Where the two differ, it looks for the usual mistake that gives the same there.
"""

import sys
import traceback
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import torch
from torch import Tensor, nn

from attention_lib.course.language import in_words

# What a mistake gives, and what to say of it.
Mistakes = Iterable[tuple[Any, str]]

CHANGED = "Your code changes its input: work on a copy."
_KINDS = {"Tensor": "torch tensor", "ndarray": "NumPy array"}
_TOLERANCE = 1e-4, 1e-5  # relative, absolute: float32 is enough
# What comes of an array that holds no numbers.
_NO_NUMBERS = NotImplementedError, RuntimeError, TypeError, ValueError
# Where code lies that is not the reader's; jaxtyping wraps ours in tests.
_OWN = tuple(str(Path(file).parent) for file in (__file__, jaxtyping.__file__))


@dataclass(frozen=True)
class Verdict:
    """What a check found; a notebook shows it as one line of text.

    Attributes:
        passed: True or False, and None while there is no answer yet.
        message: what is right, or what is wrong and where to look.
    """

    passed: bool | None
    message: str

    def __repr__(self) -> str:
        mark = {True: "✓", False: "✗", None: "○"}[self.passed]
        # The words of an error may run over many lines.
        return " ".join([mark, *in_words(self.message).split()])


NOT_YET = Verdict(
    None, "No answer yet: replace the ... above, then run this cell again."
)


class Stop(Exception):  # noqa: N818
    """Ends the use of an answer, whose verdict is known."""

    def __init__(self, words: str | Verdict) -> None:
        super().__init__(words)
        self.verdict = Verdict(False, words) if isinstance(words, str) else words


def judge(
    answer: object,
    inputs: tuple[Any, ...],
    right: Any,
    mistakes: Mistakes = (),
    *,
    so_far: str = "",
    otherwise: Callable[[Any], str] | None = None,
) -> Verdict | None:
    """Run the reader's function on copies of the inputs; return None if all is right.

    Args:
        answer: what the reader wrote.
        inputs: what it is called with.
        right: the result wanted, as the kind of array wanted.
        mistakes: what else may come, and what to say then.
        so_far: what earlier runs have shown, said before what is wrong now.
        otherwise: what to say of any other result; None: what differs first.
    """
    given = deepcopy(inputs)
    came = run(answer, *given)
    changed = not all(map(_unchanged, given, inputs))
    if isinstance(came, Verdict):
        wrong: Verdict | None = came
    elif changed:
        wrong = _compare(came, right, mistakes, lambda _: CHANGED)
        wrong = wrong or Verdict(False, f"The result is right. {CHANGED}")
    else:
        wrong = _compare(came, right, mistakes, otherwise)
    return wrong and after(so_far, wrong)


def after(so_far: str, wrong: Verdict) -> Verdict:
    """Put what earlier runs have shown before a verdict."""
    if not so_far:
        return wrong
    message = "your code gives nothing back." if wrong is NOT_YET else wrong.message
    return Verdict(False, f"{so_far} {message}")


def run(answer: object, *inputs: Any) -> Any:
    """Return what the reader's function returns, or a verdict if it fails or waits."""
    if answer is None or answer is ...:
        return NOT_YET
    if not callable(answer):
        kind = type(answer).__name__
        return Verdict(False, f"Give the function itself, not a result ({kind}).")
    try:
        # What overflows is found in the result, and said in words.
        with np.errstate(all="ignore"):
            came = answer(*inputs)
    except Stop as stop:
        return stop.verdict
    except Exception as error:
        return _failed(error)
    return NOT_YET if came is None or came is ... else came


def make_layer(answer: object, *options: Any) -> nn.Module | Verdict:
    """Make a layer of the reader's class, from one seed, or return a verdict."""
    if isinstance(answer, nn.Module):
        return Verdict(False, "Give the class itself, not a layer that it makes.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = run(answer, *options)
    if isinstance(made, nn.Module | Verdict):
        return made
    came = type(made).__name__
    return Verdict(False, f"Your function returns a {came}: a layer is wanted.")


def judge_number(
    answer: object, right: int | float, praise: str, mistakes: Mistakes, otherwise: str
) -> Verdict:
    """Compare a number with the right one, then with those that mistakes give.

    Args:
        answer: what the reader gave.
        right: the number wanted.
        praise: what to say of it: why it is right.
        mistakes: numbers that may come instead, and what to say then.
        otherwise: what to say of any other number.
    """
    number = positive_number(answer)
    if isinstance(number, Verdict):
        return number
    # Two decimals, so that a root may be given rounded.
    for wanted, message in [(right, praise), *mistakes]:
        if abs(number - wanted) < 0.006:
            return Verdict(wanted == right, message)
    return Verdict(False, otherwise)


def positive_number(answer: object) -> float | Verdict:
    """Return the answer as a number, or a verdict if it is not above 0."""
    if answer is None or answer is ...:
        return NOT_YET
    answer = _plain(answer)
    if isinstance(answer, int | float) and not isinstance(answer, bool):
        if 0 < answer <= sys.float_info.max:
            return float(answer)
        return Verdict(False, f"The answer is a number above 0, not {answer}.")
    comma = " Is there a comma in it?" if isinstance(answer, tuple) else ""
    came = type(answer).__name__
    return Verdict(False, f"The answer is one number, not a {came}.{comma}")


def one_number(came: object) -> float:
    """Return what a reader's function returns as a number.

    Raises:
        Stop: it is not one number.
    """
    number = _plain(came)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise Stop(f"Your function returns a {type(came).__name__}: give a number.")
    return float(number)


def _plain(came: Any) -> Any:
    """Return the number of an array that holds one, and all else as it is."""
    if isinstance(came, np.generic | np.ndarray | Tensor) and came.shape in [(), (1,)]:
        return came.item()
    return came


def _failed(error: Exception) -> Verdict:
    """Say where the reader's code failed: its own line, not one of a library."""
    # The first levels are our own; where the call itself failed, all of them are.
    level = error.__traceback__
    while level and level.tb_frame.f_code.co_filename.startswith(_OWN):
        level = level.tb_next
    where = ""
    if level:
        if any(value is ... for value in level.tb_frame.f_locals.values()):
            return NOT_YET
        line = traceback.extract_tb(level)[0].line
        where = f" in `{line}`" if line else ""
    words = f": {error}".rstrip() if str(error) else "."
    return Verdict(False, f"Your code raised {type(error).__name__}{where}{words}")


def _compare(
    came: Any,
    right: Any,
    mistakes: Mistakes,
    otherwise: Callable[[Any], str] | None,
) -> Verdict | None:
    """Return None if the result is right, otherwise the verdict that fits."""
    if _same(came, right):
        return None
    fits = (message for mistaken, message in mistakes if _same(came, mistaken))
    words = next(fits, "") or _other_kind(came, right)
    words = words or (otherwise(came) if otherwise else _difference(came, right))
    return Verdict(False, words)


def _other_kind(came: Any, right: Any) -> str:
    """Say what was returned if it is not the kind of array wanted, or nothing."""
    if isinstance(came, tuple):
        return f"Your function returns {len(came)} things: only one is asked for."
    if not isinstance(came, type(right)):
        names = [type(thing).__name__ for thing in (came, right)]
        kind, wanted = (_KINDS.get(name, name) for name in names)
        return f"Your function returns a {kind}; it must be a {wanted}."
    if isinstance(right, str):
        return f"{came}. Wanted: {right}."
    try:
        _numbers(came)
    except _NO_NUMBERS:
        return "Your function returns an array that does not hold plain numbers."
    return ""


def _difference(came: Any, right: Any) -> str:
    """Say how a result differs: type, shape, NaN, or the first wrong number."""
    yours, wanted = _numbers(came), _numbers(right)
    if yours.dtype != wanted.dtype:
        kind = "True and False" if wanted.dtype == bool else "numbers"
        return f"The result must hold {kind}; yours is of type {came.dtype}."
    if yours.shape != wanted.shape:
        return f"The shape must be {wanted.shape} here; yours is {yours.shape}."
    if not np.isfinite(yours).all():
        return "There is NaN or infinity in the result: print each step."
    first = tuple(np.argwhere(~np.isclose(yours, wanted, *_TOLERANCE))[0].tolist())
    return f"The shape is right, the content is not: look at {list(first)} first."


def _same(came: Any, wanted: Any) -> bool:
    """Return whether two texts, or two arrays to float32's precision, are equal."""
    if isinstance(came, str) and isinstance(wanted, str):
        return came == wanted
    if not isinstance(came, type(wanted)):
        return False
    try:
        a, b = _numbers(came), _numbers(wanted)
    except _NO_NUMBERS:
        return False
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return np.allclose(a, b, *_TOLERANCE, equal_nan=True)


def is_nan(came: Any) -> bool:
    """Return whether an array holds numbers, and all of them are NaN."""
    if not isinstance(came, Tensor | np.ndarray):
        return False
    numbers = _numbers(came)
    return numbers.size > 0 and bool(np.isnan(numbers).all())


def _unchanged(now: Any, before: Any) -> bool:
    if isinstance(now, dict):
        return _unchanged([*now.items()], [*before.items()])
    if isinstance(now, list | tuple):
        return len(now) == len(before) and all(map(_unchanged, now, before))
    if isinstance(now, Tensor | np.ndarray):
        return np.array_equal(_numbers(now), _numbers(before))
    # A function or a layer among the inputs holds no numbers of its own to compare.
    return callable(before) or bool(now == before)


def _numbers(array: Any) -> np.ndarray:
    """Return the content of any array, as booleans or in float64.

    Raises:
        TypeError: it holds complex numbers.
    """
    content = np.asarray(array.tolist() if isinstance(array, Tensor) else array)
    if np.iscomplexobj(content):
        raise TypeError(type(array))
    return content if content.dtype == bool else content.astype(float)
