"""Which line of a layer made a call, or raised an error."""

import linecache
import traceback
from pathlib import Path
from typing import Any

import torch

_OWN = str(Path(__file__).parent)
_TORCH = str(Path(torch.__file__).parent)
# From Python 3.12 on, comprehensions have no frame: each is named by its function.
_INLINED = {"<listcomp>", "<dictcomp>", "<setcomp>", "<locals>"}


def place_of(frame: Any) -> str:
    """Says which line of the layer made a call; "" where an examination made it."""
    while frame is not None:
        file = frame.f_code.co_filename
        own = file.endswith("examine/trace.py")
        if own or file.startswith((_TORCH, "<frozen")) or _wraps(file):
            frame = frame.f_back
            continue
        if file.startswith(_OWN):
            return ""
        return _at(frame, frame.f_lineno)
    return ""


def raised_at(error: Exception) -> str:
    """Says which line of the layer raised an error, where one did."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    lines = [line for _, line in traceback.walk_tb(error.__traceback__)]
    for frame, line in zip(frames[::-1], lines[::-1], strict=True):
        file = frame.f_code.co_filename
        if not (file.startswith((_TORCH, _OWN, "<frozen")) or _wraps(file)):
            return f", in {_at(frame, line)}"
    return ""


def _wraps(file: str) -> bool:
    """Whether a file is of a library that checks shapes around a function."""
    return "jaxtyping" in file or "beartype" in file


def _at(frame: Any, number: int) -> str:
    code = frame.f_code
    line = linecache.getline(code.co_filename, number).strip()
    names = [it for it in code.co_qualname.split(".") if it not in _INLINED]
    place = f"{names[-1] if names else '<module>'}, line {number}"
    return f"{place}: {line}" if line else place
