"""Outcomes of a probe and their words: numbers, errors, and lines of the layer."""

import linecache
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

OWN_FILES = str(Path(__file__).parent)
_TORCH = str(Path(torch.__file__).parent)
# From Python 3.12 on, comprehensions have no frame: each is named by its function.
_INLINED = {"<listcomp>", "<dictcomp>", "<setcomp>", "<locals>"}


class FaultError(Exception):
    """Raised by a probe: what the layer does wrong."""


class NotApplicableError(Exception):
    """Raised by a probe: why it cannot judge this layer."""


def size(number: float | Tensor) -> str:
    """Return the words for a change; all that rounding does reads the same."""
    number = float(number)
    if number != number or number == float("inf"):
        return "nan"
    return "0" if number < 1e-5 else f"{number:.2f}" if number >= 0.01 else "below 0.01"


def apart(found: Tensor, wanted: Tensor) -> float:
    """Return the largest difference as a share of the largest number wanted."""
    if found.shape != wanted.shape:
        return float("inf")
    scale = wanted.detach().abs().max().clamp(min=1.0)
    change = (found.detach().to(wanted.dtype) - wanted.detach()).abs().max() / scale
    return float("inf") if bool(change.isnan()) else float(change)


def first_line(error: Exception) -> str:
    """Return the first line of an error, or the line of code that raised it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines and (steps := traceback.extract_tb(error.__traceback__)):
        lines = [f"in {steps[-1].name} {steps[-1].line}".strip()]
    return lines[0][:120] if lines else "without words"


def error_words(error: Exception) -> str:
    """Return what was raised, and at which line of the layer."""
    return f"{type(error).__name__} ({first_line(error)}{raised_at(error)})"


def raised_at(error: Exception) -> str:
    """Return which line of the layer raised an error, "" where none did."""
    for frame, number in reversed([*traceback.walk_tb(error.__traceback__)]):
        file = frame.f_code.co_filename
        if not (file.startswith(OWN_FILES) or is_between(file)):
            return f", in {line_words(frame, number)}"
    return ""


def is_between(file: str) -> bool:
    """Return whether a file is PyTorch's, Python's or a checker of shapes."""
    wraps = "jaxtyping" in file or "beartype" in file
    return file.startswith((_TORCH, "<frozen")) or wraps


def line_words(frame: Any, number: int) -> str:
    """Return the function, the number and the text of a line."""
    code = frame.f_code
    line = linecache.getline(code.co_filename, number).strip()
    names = [it for it in code.co_qualname.split(".") if it not in _INLINED]
    where = f"{names[-1] if names else '<module>'}, line {number}"
    return f"{where}: {line}" if line else where


def or_else(default: Any, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return what a call returns, or a default where the layer refuses it."""
    try:
        return call(*args, **options)
    except Exception:
        return default


def listed(words: list[str]) -> str:
    """Name the first four, and how many more there are."""
    more = len(words) - 4
    return ", ".join(words[:4]) + (f" and {more} more" if more > 0 else "")
