"""Numbered cells, so that a reshape can be followed number by number."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from attention_lib.plotting._figure import (
    COLOURS,
    INK,
    STYLE,
    WIDTH,
    BookFigure,
    as_array,
)


def show_cells(lines: Sequence[Mapping[str, Any]], *, head_dim: int) -> BookFigure:
    """Draws arrays of numbered cells; colour tells the token, and shade the head.

    Args:
        lines: below each other, mappings from names to (rows, columns) arrays, which
            stand side by side. Cell 25 is token 2, feature 5.
        head_dim: how many features in turn belong to one head.

    Raises:
        ValueError: a token for which there is no colour: 1 to 6 have one.
    """
    arrays = [{name: as_array(cells) for name, cells in line.items()} for line in lines]
    rows = [max(cells.shape[0] for cells in line.values()) for line in arrays]
    cols = [sum(cells.shape[1] for cells in line.values()) for line in arrays]
    gaps = [0.3 * (len(line) + 1) for line in arrays]
    cell = min(
        0.42, *((WIDTH - gap) / col for gap, col in zip(gaps, cols, strict=True))
    )
    height = sum(0.5 + cell * row for row in rows)
    with matplotlib.rc_context(STYLE):
        figure = BookFigure(figsize=(WIDTH, height))
        figure.set_layout_engine("none")
        top = height
        for line, row, col in zip(arrays, rows, cols, strict=True):
            top -= 0.4
            gap = (WIDTH - cell * col) / (len(line) + 1)
            left = gap
            for name, cells in line.items():
                wide, high = cell * cells.shape[1], cell * cells.shape[0]
                ax = figure.add_axes(
                    (left / WIDTH, (top - high) / height, wide / WIDTH, high / height)
                )
                _draw(ax, cells, head_dim)
                ax.set_title(name, size=10.5)
                left += wide + gap
            top -= cell * row + 0.1
    return figure


def _draw(ax: Axes, cells: np.ndarray, head_dim: int) -> None:
    ax.imshow(
        [[_colour(int(n), head_dim) for n in row] for row in cells], aspect="auto"
    )
    for (row, col), number in np.ndenumerate(cells):
        ax.text(col, row, f"{number}", ha="center", va="center", size=9, c=INK)
    ax.set_xticks(np.arange(cells.shape[1] + 1) - 0.5, [])
    ax.set_yticks(np.arange(cells.shape[0] + 1) - 0.5, [])
    ax.grid(color="white", linewidth=1.5)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _colour(number: int, head_dim: int) -> np.ndarray:
    """Mixes a token's colour with white: little for odd heads, much for even ones."""
    token, feature = divmod(number, 10)
    if not 1 <= token <= len(COLOURS):
        raise ValueError(f"tokens 1 to {len(COLOURS)} have a colour; got cell {number}")
    strength = 0.55 if feature // head_dim % 2 else 0.25
    return 1 - strength * (1 - np.array(to_rgb(COLOURS[token - 1])))
