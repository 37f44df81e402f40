"""Attention weights and masks as grids of cells: a row is a query, a column a key."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgba

from attention_lib.plotting._figure import (
    BEHIND_NUMBERS,
    COLOURS,
    MAP,
    PAPER,
    SOFT,
    WIDTH,
    BookFigure,
    as_numbers,
    has_numbers,
    shades,
    styled,
    write_numbers,
)


@styled
def show_weights(
    weights: Any,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    *,
    title: str = "",
    rows: str = "query",
    columns: str = "key",
) -> BookFigure:
    """Draw attention weights as heatmaps: a row is a query, a column a key.

    A cell without a number holds 0, or less than a billionth.

    Args:
        weights: (Q, K), or a mapping from titles to such arrays, drawn side by side on
            one colour scale from 0 to the largest weight.
        queries: the words of the rows.
        keys: the words of the columns; the queries when left out.
        title: what a single map shows.
        rows: what a row means.
        columns: what a column means.

    Raises:
        TypeError: words that are not a list.
        ValueError: no map; weights that are NaN, infinite or below 0, as scores may be;
            words that do not match the axes.
    """
    maps = _panels(weights, title)
    for name, array in maps.items():
        if not np.isfinite(array).all() or array.min() < 0:
            raise ValueError(
                f"{name or 'weights'} must be finite and at least 0: apply softmax to "
                "scores first, or draw them with `show_matrices`"
            )
    top = max(float(array.max()) for array in maps.values())
    queries, keys = _listed(queries), _listed(queries if keys is None else keys)
    figure, axes, cell = _row_of_axes(maps, keys)
    for ax, (name, array) in zip(axes, maps.items(), strict=True):
        # Narrow cells, and maps with too many cells to read, have no numbers.
        numbers = has_numbers(array) and cell > 0.26
        most = BEHIND_NUMBERS if numbers else 1.0
        blue = shades((0.0, MAP, 0.0), (1.0, MAP, most))
        ax.imshow(array, cmap=blue, vmin=0, vmax=top or 1)
        _words(ax, array, queries, keys, cell)
        if numbers:
            write_numbers(ax, array, decimals=2, zeros=False, wide=cell > 0.4)
        ax.set(title=name, xlabel=columns, ylabel=rows)
    _label_first_only(axes)
    return figure


@styled
def show_masks(
    masks: Any,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    *,
    title: str = "",
    rows: str = "query",
    columns: str = "key",
) -> BookFigure:
    """Draw boolean masks: a filled cell is a key that the query may attend to.

    Args:
        masks: (Q, K), or a mapping from titles to such arrays, drawn side by side.
        queries: the words of the rows.
        keys: the words of the columns; the queries when left out.
        title: what a single mask shows.
        rows: what a row means.
        columns: what a column means.

    Raises:
        TypeError: a mask that is not boolean; words that are not a list.
        ValueError: no mask; words that do not match the axes.
    """
    maps = _panels(masks, title)
    for name, array in maps.items():
        if array.dtype != bool:
            raise TypeError(f"{name or 'the mask'} must be boolean; got {array.dtype}")
    queries, keys = _listed(queries), _listed(queries if keys is None else keys)
    figure, axes, cell = _row_of_axes(maps, keys)
    for ax, (name, array) in zip(axes, maps.items(), strict=True):
        both = ListedColormap([to_rgba(SOFT, 0.15), to_rgba(COLOURS[0])])
        ax.imshow(array, cmap=both, vmin=0, vmax=1)
        _words(ax, array, queries, keys, cell)
        ax.set(title=name, xlabel=columns, ylabel=rows)
    _label_first_only(axes)
    return figure


def _listed(words: Any) -> list[Any]:
    """Return the words of an axis as a list."""
    if not isinstance(words, Iterable) or isinstance(words, Set | str):
        received = repr(words) if isinstance(words, str) else type(words).__name__
        raise TypeError(f"the words of an axis must be a list; got {received}")
    return list(words)


def _panels(arrays: Any, title: str) -> dict[str, np.ndarray]:
    named = arrays if isinstance(arrays, Mapping) else {title: arrays}
    if not named:
        raise ValueError("there must be at least one map")
    panels = {n: as_numbers(n or "the map", array) for n, array in named.items()}
    for name, array in panels.items():
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(f"{name or 'a map'} must be (Q, K); got {array.shape}")
        if np.isnan(array).any():
            raise ValueError(
                f"{name or 'the map'} holds NaN: check how its rows were computed"
            )
    return panels


def _row_of_axes(
    maps: Mapping[str, np.ndarray], keys: Sequence[str]
) -> tuple[BookFigure, list[Axes], float]:
    rows, cols = next(iter(maps.values())).shape
    # Several maps share the page's width, minus an inch for the words.
    cell = min((WIDTH - 1.0) / (len(maps) * (cols + 0.3)), 0.55)
    words = 0.15 + 0.075 * _longest(keys) if _are_slanted(keys, cell) else 0.25
    titles = 0.3 if any(maps) else 0.05
    figure = BookFigure(figsize=(WIDTH, titles + cell * rows + words + 0.35))
    axes = figure.subplots(1, len(maps), squeeze=False)[0]
    return figure, list(axes), cell


def _longest(words: Sequence[str]) -> int:
    return max((len(str(word)) for word in words), default=0)


def _are_slanted(words: Sequence[str], cell: float) -> bool:
    return _longest(words) > 10 * cell  # a letter is about a tenth of an inch wide


def _label_first_only(axes: list[Axes]) -> None:
    for ax in axes[1:]:
        ax.set_ylabel("")
        ax.tick_params(labelleft=False)


def _words(
    ax: Axes,
    array: np.ndarray,
    queries: Sequence[str],
    keys: Sequence[str],
    cell: float,
) -> None:
    if (len(queries), len(keys)) != array.shape:
        raise ValueError(
            f"{len(queries)} queries and {len(keys)} keys do not name the rows and "
            f"columns of {array.shape}"
        )
    ax.set_xticks(range(len(keys)), keys)
    if _are_slanted(keys, cell):
        for word in ax.get_xticklabels():
            word.set(rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(queries)), queries)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    # White lines between the cells, so that the eye can follow a row.
    ax.set_xticks(np.arange(len(keys) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(queries) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color=PAPER, linewidth=1.5)
    ax.tick_params(which="minor", length=0)
