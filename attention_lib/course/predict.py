"""A question to answer before the code runs: a number or a shape.

The answer is computed in the chapter, so that it cannot differ from the code's.
"""

import math
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from attention_lib.course.language import as_html
from attention_lib.course.views import Interactive

_Shape = tuple[int, ...]
_Number = int | float
_Answer = _Number | _Shape


def predict(
    question: str,
    *,
    answer: int | float | tuple[int, ...] | np.number[Any],
    because: str,
    mistakes: Mapping[Any, str] | None = None,
    within: int | float | str | None = None,
) -> Interactive:
    """Ask for a number or a shape; the reader types it, and gets feedback at once.

    Words may hold `code` in backticks and *symbols* in asterisks; all else is text.

    Args:
        question: what to predict.
        answer: the right answer: a number, or a shape as a tuple of ints.
        because: why it is right, in one or two sentences.
        mistakes: common wrong answers, and what went wrong in each.
        within: the tolerance of a number: ``0.01``, or relative, ``"1%"``. By default,
            a whole number must be exact, and any other has a tolerance of 1 %.

    Raises:
        TypeError: an answer or a mistake that is neither number nor shape, or one of
            each; ``within`` with a shape.
        ValueError: a number that is not finite; a size or ``within`` below 0; words
            that are missing; a mistake that is right.
    """
    right = _checked(answer, "answer")
    tolerance = _tolerance(right, within)
    for name, words in [("question", question), ("because", because)]:
        _check_words(name, words)
    wrong = []
    for key, words in (mistakes or {}).items():
        value = _checked(key, "a mistake")
        _check_mistake(value, right, tolerance)
        _check_words(f"mistakes[{key}]", words)
        wrong.append([_rounded(value), as_html(words)])
    shown, hint = _shown(right), _hint(right, tolerance)
    data = {
        "question": as_html(question),
        "hint": hint,
        "answer": _rounded(right),
        "shown": shown,
        "because": as_html(because),
        "mistakes": wrong,
        **tolerance,
    }
    static = (
        f"<p><strong>Predict.</strong> {as_html(question)}</p>\n"
        f"<details><summary>Answer</summary>\n"
        f"<p>{shown}. {as_html(because)}</p>\n</details>"
    )
    return Interactive("predict", data, static, f"Predict: {question} Answer: {shown}.")


def _checked(value: object, name: str) -> _Answer:
    """Return a number or a shape in Python's types."""
    if isinstance(value, tuple):  # torch.Size is one
        sizes = [size for size in value if _is_number(size, Integral)]
        if len(sizes) < len(value):
            raise TypeError(f"{name} is {value}: a shape holds whole numbers only")
        if any(size < 0 for size in sizes):
            raise ValueError(f"{name} is {tuple(value)}: a size is 0 or more")
        return tuple(int(size) for size in sizes)
    if _is_number(value, Integral):
        return int(value)  # type: ignore[call-overload]
    if not _is_number(value, Real):
        received = type(value).__name__
        raise TypeError(
            f"{name} is a {received}: give an int, a float or a tuple of ints"
        )
    number = float(value)  # type: ignore[arg-type]
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}: give a finite number")
    return number


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _tolerance(right: _Answer, within: _Number | str | None) -> dict[str, _Number]:
    """Return the tolerance, absolute or relative."""
    if isinstance(right, tuple):
        if within is not None:
            raise TypeError("within is for numbers: a shape is exact")
        return {}
    if within is None:
        return {"absolute": 0} if isinstance(right, int) else {"relative": 0.01}
    if isinstance(within, str):
        share = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", within)
        if not share:
            raise ValueError(f'within is {within!r}: give a number, or a share as "1%"')
        return {"relative": float(f"{float(share[1]) / 100:.4g}")}
    if not _is_number(within, Real):
        received = type(within).__name__
        raise TypeError(f'within is a {received}: give a number, or a share as "1%"')
    if not 0 <= within < math.inf:
        raise ValueError(f"within is {within}: give 0 or more")
    return {"absolute": within}


def _check_words(name: str, words: object) -> None:
    if not isinstance(words, str):
        raise TypeError(f"{name} is a {type(words).__name__}: give a text")
    if not words.strip():
        raise ValueError(f"{name} is empty: give a text")


def _check_mistake(
    value: _Answer, right: _Answer, tolerance: dict[str, _Number]
) -> None:
    """Refuse a mistake that would be accepted as right."""
    if isinstance(value, tuple) or isinstance(right, tuple):
        if isinstance(value, tuple) and isinstance(right, tuple):
            is_right = value == right
        else:
            raise TypeError(f"a mistake is {value}, but the answer is {right}: "
                            "both are numbers, or both are shapes")  # fmt: skip
    else:
        near = tolerance.get("absolute", tolerance.get("relative", 0) * abs(right))
        is_right = abs(value - right) <= near
    if is_right:
        raise ValueError(f"a mistake is {value}, which is right: remove it")


def _rounded(value: _Answer) -> int | float | list[int]:
    """Round for a record: to 4 decimals, or to 4 digits below 1."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, int):
        return value
    return round(value, 4) if abs(value) >= 1 else float(f"{value:.4g}")


def _shown(value: _Answer) -> str:
    """Return the answer as a reader would write it."""
    if isinstance(value, tuple):
        return str(value)
    if isinstance(value, int) or value == 0:
        return f"{value:,}"
    if abs(value) < 1e-4:
        return f"{value:.4g}"
    decimals = max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _hint(right: _Answer, tolerance: dict[str, _Number]) -> str:
    """Return a hint: what to type, and how exact it must be."""
    if isinstance(right, tuple):
        return "A shape: one size for each axis, as in (8, 5)."
    if "relative" in tolerance:
        return f"A number. Within {100 * tolerance['relative']:.4g} % is right."
    if tolerance["absolute"]:
        return f"A number. Within {tolerance['absolute']:.4g} is right."
    return (
        "A whole number, exactly." if isinstance(right, int) else "A number, exactly."
    )
