"""Matrices with their numbers, each under its name and shape."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention_lib.plotting._figure import (
    BEHIND_NUMBERS,
    MINUS,
    PLUS,
    WIDTH,
    BookFigure,
    as_numbers,
    has_numbers,
    shades,
    styled,
    write_numbers,
)
from attention_lib.validation import require_choice, require_instance, require_positive


@styled
def show_matrices(
    matrices: Mapping[str, Any],
    *,
    words: Mapping[str, tuple[Sequence[str], Sequence[str]]] | None = None,
    columns: int = 3,
) -> BookFigure:
    """Draw matrices with their numbers, each under its name and shape.

    Args:
        matrices: from names to (rows, columns) arrays; a vector counts as one row.
        words: from names to the words of the rows and of the columns; optional.
        columns: how many matrices are in one line.

    Raises:
        TypeError: matrices that are not a mapping; columns that are not an int.
        ValueError: columns below 1; no matrix, or one with more than two axes; words
            for an unknown matrix, or not one for each row and column.
    """
    require_instance("matrices", matrices, Mapping)
    require_positive(columns=columns)
    if not matrices:
        raise ValueError("there must be at least one matrix")
    arrays = {n: np.atleast_2d(as_numbers(n, array)) for n, array in matrices.items()}
    for name, array in arrays.items():
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(f"{name} must be (rows, columns); got {array.shape}")
    for name, both in (words or {}).items():
        require_choice("a name in words", name, arrays)
        given, shape = tuple(map(len, both)), arrays[name].shape
        if any(n not in (0, size) for n, size in zip(given, shape, strict=True)):
            raise ValueError(
                f"the words of {name} must be for {shape} rows and columns; got {given}"
            )
    names = list(arrays)
    lines = [names[i : i + columns] for i in range(0, len(names), columns)]
    cell = min(
        (WIDTH - 0.6 * len(line)) / sum(arrays[name].shape[1] for name in line)
        for line in lines
    )
    cell = min(cell, 0.55)  # inches, the same for all, so that shapes can be compared
    around = 0.75 if words else 0.5  # the name above, and words below
    heights = [
        around + cell * max(arrays[name].shape[0] for name in line) for line in lines
    ]
    figure = BookFigure(figsize=(WIDTH, sum(heights)))
    figure.set_layout_engine("none")
    for index, line in enumerate(lines):
        chosen = {name: arrays[name] for name in line}
        _draw_line(figure, chosen, sum(heights[:index]) + 0.32, cell, words or {})
    return figure


def _draw_line(
    figure: BookFigure,
    arrays: Mapping[str, np.ndarray],
    top: float,
    cell: float,
    words: Mapping[str, tuple[Sequence[str], Sequence[str]]],
) -> None:
    """Draw matrices side by side, ``top`` inches below the figure's upper edge."""
    width, height = figure.get_size_inches()
    free = width - cell * sum(array.shape[1] for array in arrays.values())
    # The words of the rows are to the left of their matrix.
    left = free / len(arrays) / 2 + (0.2 if words else 0)
    for name, array in arrays.items():
        rows, cols = array.shape
        bottom = height - top - cell * rows
        ax = figure.add_axes(
            (left / width, bottom / height, cell * cols / width, cell * rows / height)
        )
        left += cell * cols + free / len(arrays)
        span = float(np.abs(array[np.isfinite(array)]).max(initial=1e-12))
        # Pale behind numbers, so that they are legible; strong without numbers.
        most = 0.8 * BEHIND_NUMBERS if has_numbers(array) else 1.0
        below = (0.0, MINUS, most), (0.5, MINUS, 0.0)
        both = shades(*below, (0.5, PLUS, 0.0), (1.0, PLUS, most))
        ax.imshow(array, cmap=both, vmin=-span, vmax=span, aspect="auto")
        if has_numbers(array):
            write_numbers(ax, array, decimals=2)
        ax.set_title(f"{name}  ({rows} × {cols})")
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        row_words, column_words = words.get(name, ([], []))
        ax.set_yticks(range(len(row_words)), row_words)
        ax.set_xticks(range(len(column_words)), column_words)
