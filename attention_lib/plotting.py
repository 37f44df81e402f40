"""The book's figures: weights, masks, matrices with their numbers, curves and bars.

Every function gives a ``BookFigure``, which notebooks show as the last line of a cell.
Figures stand on a light ground of their own, so they read the same in a light and in a
dark page. Arrays may come from NumPy or torch, from any device.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from PIL import Image

_WIDTH = 5.6  # inches: a phone shows it at two thirds, and its words can be read
_DPI = 160
_INK, _SOFT = "#1f2430", "#8a91a0"
# Colours that differ for every kind of colour vision (Okabe and Ito), darkest first.
_LINES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"]
_DASHES: list[Any] = ["-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1))]
_STYLE: dict[Any, Any] = {
    "axes.edgecolor": _SOFT,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "figure.facecolor": "#ffffff",
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


class BookFigure(Figure):
    """A figure that draws the same bytes on every run, at the width of the page."""

    def png(self) -> bytes:
        """Draws the figure."""
        drawn, packed = io.BytesIO(), io.BytesIO()
        with matplotlib.rc_context(_STYLE):
            self.savefig(drawn, format="png", dpi=_DPI)
        # A palette of 256 colours makes a figure a quarter of the size, and no other.
        palette = (
            Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        )
        palette.save(packed, format="png", optimize=True)
        return packed.getvalue()

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        # The width in CSS pixels: dense screens get the picture's full sharpness.
        size = {"width": round(self.get_figwidth() * 100)}
        return {"image/png": self.png(), "text/plain": repr(self)}, {"image/png": size}

    def __repr__(self) -> str:
        return f"<BookFigure: {len(self.axes)} axes>"


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

    A cell without a number is exactly 0.

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
            _numbers(ax, array, dark=array > 0.6 * top, decimals=2, zeros=False)
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
        ax.imshow(array, cmap=ListedColormap(["#f1f3f6", _LINES[0]]), vmin=0, vmax=1)
        _words(ax, array, queries, queries if keys is None else keys)
        ax.set(title=name, xlabel=columns, ylabel=rows)
    _label_first_only(axes)
    return figure


def show_matrices(
    matrices: Mapping[str, Any],
    *,
    words: Mapping[str, tuple[Sequence[str], Sequence[str]]] | None = None,
    columns: int = 3,
) -> BookFigure:
    """Draws matrices with their numbers, each under its name and shape.

    Args:
        matrices: from names to (rows, columns) arrays; a vector counts as one row.
        words: from names to the words of the rows and of the columns, where wanted.
        columns: matrices in one line.
    """
    arrays = {name: np.atleast_2d(_array(array)) for name, array in matrices.items()}
    names = list(arrays)
    lines = [names[i : i + columns] for i in range(0, len(names), columns)]
    cell = min(
        (_WIDTH - 0.6 * len(line)) / sum(arrays[name].shape[1] for name in line)
        for line in lines
    )
    cell = min(cell, 0.55)  # inches, the same for all, so that shapes compare by eye
    heights = [
        0.75 + cell * max(arrays[name].shape[0] for name in line) for line in lines
    ]
    with matplotlib.rc_context(_STYLE):
        figure = BookFigure(figsize=(_WIDTH, sum(heights)))
        figure.set_layout_engine("none")
        for index, line in enumerate(lines):
            chosen = {name: arrays[name] for name in line}
            _draw_line(figure, chosen, sum(heights[:index]) + 0.4, cell, words or {})
    return figure


def show_curves(
    x: Any,
    curves: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    log_x: bool = False,
    log_y: bool = False,
) -> BookFigure:
    """Draws curves over one x axis, told apart by colour, dash and marker.

    Args:
        x: (N,).
        curves: from names to (N,) arrays.
        xlabel: the x axis in words, with its unit.
        ylabel: the y axis in words, with its unit.
        log_x: whether the x axis counts in factors; its ticks are then the x given.
        log_y: whether the y axis counts in factors.
    """
    x = _array(x)
    figure, ax = _one_axes()
    for index, (name, y) in enumerate(curves.items()):
        marker = "o" if len(x) <= 12 else None
        ax.plot(
            x,
            _array(y),
            color=_LINES[index],
            ls=_DASHES[index],
            marker=marker,
            label=name,
        )
    if log_x:
        ax.set_xscale("log", base=2)
        ax.set_xticks(x, [f"{value:g}" for value in x])
    if log_y:
        ax.set_yscale("log")
    elif min(float(_array(y).min()) for y in curves.values()) >= 0:
        ax.set_ylim(bottom=0)  # heights can be compared by eye
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.grid(axis="y", color="#e6e8ec")
    ax.legend(frameon=False)
    return figure


def show_bars(
    bars: Mapping[str, Any], labels: Sequence[Any], *, xlabel: str, ylabel: str
) -> BookFigure:
    """Draws groups of bars side by side, one group a label.

    Args:
        bars: from names to (N,) arrays.
        labels: N words or numbers below the groups.
        xlabel: the x axis in words.
        ylabel: the y axis in words, with its unit.
    """
    figure, ax = _one_axes()
    width = 0.8 / len(bars)
    for index, (name, heights) in enumerate(bars.items()):
        places = np.arange(len(labels)) - 0.4 + width * (index + 0.5)
        hatch = [None, "///", "...", "xxx"][index % 4]
        ax.bar(
            places, _array(heights), width, label=name, color=_LINES[index],
            hatch=hatch, edgecolor="white",
        )  # fmt: skip
    ax.set_xticks(np.arange(len(labels)), [str(label) for label in labels])
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.legend(frameon=False)
    return figure


def _draw_line(
    figure: BookFigure,
    arrays: Mapping[str, np.ndarray],
    top: float,
    cell: float,
    words: Mapping[str, tuple[Sequence[str], Sequence[str]]],
) -> None:
    """Draws matrices side by side, ``top`` inches below the figure's upper edge."""
    width, height = figure.get_size_inches()
    free = width - cell * sum(array.shape[1] for array in arrays.values())
    # The words of the rows stand to the left of their matrix.
    left = free / len(arrays) / 2 + (0.2 if words else 0)
    for name, array in arrays.items():
        rows, cols = array.shape
        bottom = height - top - cell * rows
        ax = figure.add_axes(
            (left / width, bottom / height, cell * cols / width, cell * rows / height)
        )
        left += cell * cols + free / len(arrays)
        span = float(np.abs(array[np.isfinite(array)]).max(initial=1e-12))
        # Pale behind numbers, so that they read; strong where colour is all there is.
        limit = span * (2.2 if _has_numbers(array) else 1.1)
        ax.imshow(array, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
        _numbers(ax, array, dark=np.zeros(array.shape, bool), decimals=2)
        ax.set_title(f"{name}  ({rows} × {cols})", size=10.5)
        ax.tick_params(length=0, labelsize=9)
        ax.spines[:].set_visible(False)
        row_words, column_words = words.get(name, ([], []))
        ax.set_yticks(range(len(row_words)), row_words)
        ax.set_xticks(range(len(column_words)), column_words)


def _array(array: Any) -> np.ndarray:
    if not hasattr(array, "detach"):
        return np.asarray(array)
    array = array.detach().cpu()
    # NumPy has no bfloat16.
    return np.asarray(array.float() if "bfloat16" in str(array.dtype) else array)


def _panels(arrays: Any, title: str) -> dict[str, np.ndarray]:
    named = arrays if isinstance(arrays, Mapping) else {title: arrays}
    panels = {name: _array(array) for name, array in named.items()}
    for name, array in panels.items():
        if array.ndim != 2:
            raise ValueError(f"{name or 'a map'} must be (Q, K); got {array.shape}")
        if np.isnan(array).any():
            raise ValueError(f"{name or 'the map'} holds NaN: see what made its rows")
    return panels


def _one_axes() -> tuple[BookFigure, Axes]:
    with matplotlib.rc_context(_STYLE):
        figure = BookFigure(figsize=(_WIDTH, 3.2))
        return figure, figure.subplots()


def _row_of_axes(maps: Mapping[str, np.ndarray]) -> tuple[BookFigure, list[Axes]]:
    rows, cols = next(iter(maps.values())).shape
    # Several maps share the page's width, of which the words take an inch.
    cell = min((_WIDTH - 1.0) / (len(maps) * (cols + 0.3)), 0.55)
    with matplotlib.rc_context(_STYLE):
        figure = BookFigure(figsize=(_WIDTH, cell * rows + 1.3))
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


def _numbers(
    ax: Axes,
    array: np.ndarray,
    *,
    dark: np.ndarray,
    decimals: int,
    zeros: bool = True,
) -> None:
    if not _has_numbers(array):
        return
    if np.array_equal(array, np.round(array)) and zeros:
        decimals = 0
    for (row, col), number in np.ndenumerate(array):
        if not zeros and abs(number) < 1e-9:
            continue
        shown = round(float(number), decimals) + 0.0  # turns -0.0 into 0.0
        color = "white" if dark[row, col] else _INK
        ax.text(
            col,
            row,
            f"{shown:.{decimals}f}",
            ha="center",
            va="center",
            size=8.5,
            c=color,
        )


def _has_numbers(array: np.ndarray) -> bool:
    return bool(max(array.shape) <= 8)
