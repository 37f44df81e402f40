"""Numbered cells on their way into heads, step by step: `view_split`."""

from typing import Any

import numpy as np
import torch

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import SPLIT
from attention_lib.course.views._tables import plain_table
from attention_lib.multi_head import split_heads
from attention_lib.plotting._figure import COLOURS, as_array


def view_split(x: Any, num_heads: int) -> Interactive:
    """Show numbered cells from (1, T, H·D) through view and transpose to (1, H, T, D).

    The reader goes step by step, follows one number through all steps, sees what the
    separate heads of a wrapper hold, and can leave the transpose out.

    Args:
        x: (T, H·D), whole numbers that all differ, for 2 to 6 tokens.
        num_heads: how many heads the width holds; at least 2.

    Raises:
        TypeError: numbers that are not whole; a number of heads that is not an int.
        ValueError: the wrong shape; a number that occurs twice; a width that the heads
            do not divide; one head.
    """
    cells = _read_cells(x)
    batch = torch.from_numpy(cells)[None]  # (1, T, H·D)
    right = split_heads(batch.double(), num_heads).long()  # (1, H, T, D)
    if num_heads < 2:
        raise ValueError(
            f"num_heads must be 2 or more, to have a choice; got {num_heads}"
        )
    steps = {
        "cells": batch,
        "viewed": right.transpose(1, 2),  # (1, T, H, D)
        "split": right,
        "mistake": batch.view(right.shape),  # the right shape, but no transpose
    }
    # Each head of a wrapper computes its own columns.
    heads = torch.stack(batch[0].chunk(num_heads, dim=-1))  # (H, T, D)
    data = {name: array[0].tolist() for name, array in steps.items()}
    shape = tuple(right.shape)
    line = SPLIT["line"].format(before=tuple(batch.shape), after=shape)
    return Interactive(
        "split", data | {"wrapper": heads.tolist()}, _static(steps, heads), line
    )


def _static(steps: dict[str, torch.Tensor], heads: torch.Tensor) -> str:
    """Return each step as a table."""
    caption = {
        name: SPLIT[name].format(shape=tuple(step.shape))
        for name, step in steps.items()
    }
    wrapper = SPLIT["wrapper"].format(heads=len(heads))
    return "\n".join(
        [
            _table(caption["cells"], steps["cells"], "token"),
            _table(caption["viewed"], steps["viewed"][0], "token_head"),
            _table(caption["split"], steps["split"][0], "head_token"),
            _table(wrapper, heads, "head_token"),
            _table(caption["mistake"], steps["mistake"][0], "head_row"),
        ]
    )


def _table(caption: str, blocks: torch.Tensor, name: str) -> str:
    """Return blocks (A, B, N) as a table; tokens count from 1, heads from 0."""
    rows = [
        (
            SPLIT[name].format(block=a, row=b, block_from_1=a + 1, row_from_1=b + 1),
            [str(number) for number in row],
        )
        for a, block in enumerate(blocks.tolist())
        for b, row in enumerate(block)
    ]
    head = [SPLIT["row"], *map(str, range(blocks.shape[-1]))]
    return plain_table(caption, head, rows)


def _read_cells(x: Any) -> np.ndarray:
    cells = as_array(x)
    if cells.dtype.kind not in "iu":
        raise TypeError(f"x must hold whole numbers; got {cells.dtype}")
    if cells.ndim != 2 or not 2 <= len(cells) <= len(COLOURS) or not cells.size:
        raise ValueError(
            f"x must be (tokens, width), for 2 to {len(COLOURS)} tokens; got "
            f"{cells.shape}"
        )
    if len(np.unique(cells)) < cells.size:
        raise ValueError("x must hold each number once, so that it can be followed")
    return np.ascontiguousarray(cells, dtype=np.int64)
