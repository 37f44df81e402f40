"""Attention weights and masks as grids of cells: a row is a query, a column a key."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from attention_lib.plotting._figure import (
    COLOURS,
    STYLE,
    WIDTH,
    BookFigure,
    as_array,
    write_numbers,
)


def show_weights(
    weights: Any,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    *,
    title: str = "",
    rows: str = "query",
    columns: str = "key",
) -> BookFigure:
    """Draws attention weights as heatmaps: a row is a query, a column a key.

    A cell without a number holds 0, or less than a billionth.

    Args:
        weights: (Q, K), or a mapping from titles to such arrays, drawn side by side on
            one colour scale from 0 to the largest weight.
        queries: the words of the rows.
        keys: the words of the columns; the queries when left out.
        title: what a single map shows.
        rows: what a row stands for.
        columns: what a column stands for.

    Raises:
        ValueError: NaN among the weights; words that do not match the axes.
    """
    maps = _panels(weights, title)
    top = max(float(array.max()) for array in maps.values())
    figure, axes = _row_of_axes(maps)
    for ax, (name, array) in zip(axes, maps.items(), strict=True):
        ax.imshow(array, cmap="Blues", vmin=0, vmax=top or 1)
        _words(ax, array, queries, queries if keys is None else keys)
        if len(maps) * array.shape[1] <= 16:  # else the numbers would overlap
            write_numbers(ax, array, dark=array > 0.6 * top, decimals=2, zeros=False)
        ax.set(title=name, xlabel=columns, ylabel=rows)
    _label_first_only(axes)
    return figure


def show_masks(
    masks: Any,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    *,
    title: str = "",
    rows: str = "query",
    columns: str = "key",
) -> BookFigure:
    """Draws boolean masks: a filled cell is a key that the query may attend to.

    Args:
        masks: (Q, K), or a mapping from titles to such arrays, drawn side by side.
        queries: the words of the rows.
        keys: the words of the columns; the queries when left out.
        title: what a single mask shows.
        rows: what a row stands for.
        columns: what a column stands for.

    Raises:
        TypeError: a mask that is not boolean.
        ValueError: words that do not match the axes.
    """
    maps = _panels(masks, title)
    for name, array in maps.items():
        if array.dtype != bool:
            raise TypeError(f"{name or 'the mask'} must be boolean; got {array.dtype}")
    figure, axes = _row_of_axes(maps)
    for ax, (name, array) in zip(axes, maps.items(), strict=True):
        ax.imshow(array, cmap=ListedColormap(["#f1f3f6", COLOURS[0]]), vmin=0, vmax=1)
        _words(ax, array, queries, queries if keys is None else keys)
        ax.set(title=name, xlabel=columns, ylabel=rows)
    _label_first_only(axes)
    return figure


def _panels(arrays: Any, title: str) -> dict[str, np.ndarray]:
    named = arrays if isinstance(arrays, Mapping) else {title: arrays}
    panels = {name: as_array(array) for name, array in named.items()}
    for name, array in panels.items():
        if array.ndim != 2:
            raise ValueError(f"{name or 'a map'} must be (Q, K); got {array.shape}")
        if np.isnan(array).any():
            raise ValueError(f"{name or 'the map'} holds NaN: see what made its rows")
    return panels


def _row_of_axes(maps: Mapping[str, np.ndarray]) -> tuple[BookFigure, list[Axes]]:
    rows, cols = next(iter(maps.values())).shape
    # Several maps share the page's width, of which the words take an inch.
    cell = min((WIDTH - 1.0) / (len(maps) * (cols + 0.3)), 0.55)
    with matplotlib.rc_context(STYLE):
        figure = BookFigure(figsize=(WIDTH, cell * rows + 1.3))
        return figure, list(figure.subplots(1, len(maps), squeeze=False)[0])


def _label_first_only(axes: list[Axes]) -> None:
    for ax in axes[1:]:
        ax.set_ylabel("")
        ax.tick_params(labelleft=False)


def _words(
    ax: Axes, array: np.ndarray, queries: Sequence[str], keys: Sequence[str]
) -> None:
    if (len(queries), len(keys)) != array.shape:
        raise ValueError(
            f"{len(queries)} queries and {len(keys)} keys do not name the rows and "
            f"columns of {array.shape}"
        )
    ax.set_xticks(
        range(len(keys)), keys, rotation=45, ha="right", rotation_mode="anchor"
    )
    ax.set_yticks(range(len(queries)), queries)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    # White lines between the cells, so that a row can be followed with the eye.
    ax.set_xticks(np.arange(len(keys) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(queries) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1.5)
    ax.tick_params(which="minor", length=0)
