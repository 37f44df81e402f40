"""Numbered cells, so that a reshape can be followed number by number."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgba

from attention_lib.plotting._figure import (
    COLOURS,
    INK,
    PAPER,
    WIDTH,
    BookFigure,
    as_numbers,
    styled,
)
from attention_lib.validation import require_instance, require_positive

SHARES = (0.2, 0.45)  # opacities of even and odd heads: numbers stay legible


@styled
def show_cells(lines: Sequence[Mapping[str, Any]], *, head_dim: int) -> BookFigure:
    """Draw arrays of numbered cells; colour shows the token, and shade the head.

    Args:
        lines: mappings from names to (rows, columns) arrays, which are drawn side by
            side, one line per mapping. Cell 25 is token 2, feature 5.
        head_dim: how many consecutive features belong to one head.

    Raises:
        TypeError: lines that are not a list of mappings; cells that are not numbers.
        ValueError: no lines; a line without arrays; an array without two axes, or of
            fractions; a token without a colour: 1 to 6 have one; ``head_dim`` below 1.
    """
    require_positive(head_dim=head_dim)
    require_instance("lines", lines, Sequence)
    for line in lines:
        require_instance("each of lines", line, Mapping)
    if not lines or not all(lines):
        raise ValueError("there must be at least one line, and an array in each")
    arrays = [{n: as_numbers(n, cells) for n, cells in it.items()} for it in lines]
    for name, cells in (pair for line in arrays for pair in line.items()):
        if cells.ndim != 2 or 0 in cells.shape:
            raise ValueError(f"{name} must be (rows, columns); got {cells.shape}")
        if (cells != np.round(cells)).any():
            raise ValueError(
                f"{name} must hold whole numbers: 25 is token 2, feature 5"
            )
    rows = [max(cells.shape[0] for cells in line.values()) for line in arrays]
    cols = [sum(cells.shape[1] for cells in line.values()) for line in arrays]
    gaps = [0.3 * (len(line) + 1) for line in arrays]
    cell = min(
        0.42, *((WIDTH - gap) / col for gap, col in zip(gaps, cols, strict=True))
    )
    height = sum(0.5 + cell * row for row in rows)
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
            ax.set_title(name)
            left += wide + gap
        top -= cell * row + 0.1
    return figure


def _draw(ax: Axes, cells: np.ndarray, head_dim: int) -> None:
    looks = [[_colour_index(int(number), head_dim) for number in row] for row in cells]
    pairs = [to_rgba(colour, share) for colour in COLOURS for share in SHARES]
    ax.imshow(
        looks, cmap=ListedColormap(pairs), vmin=0, vmax=len(pairs) - 1, aspect="auto"
    )
    for (row, col), number in np.ndenumerate(cells):
        ax.text(col, row, f"{number}", ha="center", va="center", c=INK)
    ax.set_xticks(np.arange(cells.shape[1] + 1) - 0.5, [])
    ax.set_yticks(np.arange(cells.shape[0] + 1) - 0.5, [])
    ax.grid(color=PAPER, linewidth=1.5)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _colour_index(number: int, head_dim: int) -> int:
    """Return the index of a cell's colour among all colours and opacities."""
    token, feature = divmod(number, 10)
    if not 1 <= token <= len(COLOURS):
        raise ValueError(f"tokens 1 to {len(COLOURS)} have a colour; got cell {number}")
    return 2 * (token - 1) + feature // head_dim % 2
