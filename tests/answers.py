"""Readers' answers: made from a solution by replacing text, numbers of every kind."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

# What the first cell of a chapter imports.
USUAL = {"F": F, "math": math, "nn": nn, "np": np, "torch": torch}


def solution(text, **names):
    """Gives ``edited(old, new, …)``: what the text defines, with these pieces new."""

    def edited(*pieces):
        code = text
        for old, new in zip(pieces[::2], pieces[1::2], strict=True):
            if old not in code:
                raise ValueError(f"{old!r} does not stand in {code}")
            code = code.replace(old, new)
        made = USUAL | names
        exec(code, made)
        return list(made.values())[-1]

    return edited


def silent_at(place, otherwise):
    """A finder that says nothing of one of the functions that it is asked about."""
    asked = iter(range(16))
    return lambda function, x: None if next(asked) == place else otherwise


def broken(*inputs, **options):
    """An answer that raises, whatever it is given."""
    raise ValueError


def as_numbers(right):
    """One number, as each kind that a reader may give."""
    kinds = [int, float, np.int64, np.float32, np.float64, np.array, torch.tensor]
    return [kind(right) for kind in kinds]
