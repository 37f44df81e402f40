"""Which line of a layer made a call, or raised an error."""

import linecache
import traceback
from pathlib import Path
from typing import Any

import torch

_OWN = str(Path(__file__).parent)
_TORCH = str(Path(torch.__file__).parent)


def place_of(frame: Any) -> str:
    """Says which line of the layer made a call; "" where an examination made it."""
    while frame is not None:
        file = frame.f_code.co_filename
        own = file.endswith("checks/steps.py")
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
    line = linecache.getline(frame.f_code.co_filename, number).strip()
    name = f"{frame.f_code.co_name}, line {number}"
    return f"{name}: {line}" if line else name
