"""Programs as text, and the same programs with pieces replaced.

Solutions of exercises, exhibits of the museum and layers in tests are texts of this
package, never foreign code; a mistake is an edit of one.
"""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

#: The imports of a chapter's first cell.
USUAL = {"F": F, "math": math, "nn": nn, "np": np, "torch": torch}


def edited(text: str, *pieces: str) -> str:
    """Return a text with pieces replaced: old, new, old, new, …

    Raises:
        ValueError: a piece that is not in the text.
    """
    for old, new in zip(pieces[::2], pieces[1::2], strict=True):
        if old not in text:
            raise ValueError(f"{old!r} is not in {text}")
        text = text.replace(old, new)
    return text


def defined(text: str, **names: Any) -> Any:
    """Return the last object that a text defines, given its chapter's imports."""
    scope = USUAL | names
    exec(compile(text, "<a program>", "exec"), scope)
    return list(scope.values())[-1]
