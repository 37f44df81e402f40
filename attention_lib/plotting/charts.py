"""Curves and bars."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from attention_lib.plotting._figure import (
    COLOURS,
    DASHES,
    PALE,
    PAPER,
    WIDTH,
    BookFigure,
    as_numbers,
    styled,
)
from attention_lib.validation import require_instance, require_positive


@styled
def show_curves(
    x: Any,
    curves: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    log_x: bool = False,
    log_y: bool = False,
) -> BookFigure:
    """Draw curves over one x axis, distinguished by colour, dash and marker.

    Args:
        x: (N,).
        curves: from names to (N,) arrays, or to (R, N): R runs, each a thin line.
        xlabel: the x axis in words, with its unit.
        ylabel: the y axis in words, with its unit.
        log_x: whether the x axis is logarithmic; its ticks are then the given x.
        log_y: whether the y axis is logarithmic.

    Raises:
        TypeError: curves that are not a mapping.
        ValueError: more curves than there are colours, or none; a curve without one
            number for each x, or of nan only; numbers that a logarithmic axis cannot
            show.
    """
    x = as_numbers("x", x)
    arrays = _arrays("curves", curves, x, runs=True)
    for log, axis in ((log_x, {"x": x}), (log_y, arrays)):
        if log and (wrong := [name for name, y in axis.items() if (y <= 0).any()]):
            raise ValueError(f"{wrong[0]} must be above 0 on a logarithmic axis")
    figure, ax = _one_axes()
    for index, (name, y) in enumerate(arrays.items()):
        runs = np.atleast_2d(y)
        lines = ax.plot(x, runs.T, color=COLOURS[index], ls=DASHES[index])
        lines[0].set_label(name)  # one entry of the legend for all runs
        for line in lines:
            if len(runs) > 1:
                line.set_linewidth(0.8)
            elif len(x) <= 12:
                line.set_marker("o")
    if log_x:
        ax.set_xscale("log", base=2)
        ax.set_xticks(x, [f"{value:g}" for value in x])
    if log_y:
        ax.set_yscale("log")
        # Words: letters of a formula would keep the layout of a different typeface.
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
    elif min(float(y.min()) for y in arrays.values()) >= 0:
        ax.set_ylim(bottom=0)  # heights can be compared by eye
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.grid(axis="y", color=PALE)
    _legend_above(ax, list(curves))
    return figure


@styled
def show_panels(
    x: Any, panels: Mapping[str, Mapping[str, Any]], *, xlabel: str, ylabel: str
) -> BookFigure:
    """Draw small charts of curves, two a row, each with its own y axis from 0 on.

    Args:
        x: (N,), the same for all.
        panels: from titles to curves, which are from names to (N,) arrays; the same
            names in each.
        xlabel: the x axis in words, with its unit.
        ylabel: the y axis in words, with its unit.

    Raises:
        TypeError: panels, or the curves in one, that are not a mapping.
        ValueError: more curves in a panel than there are colours, or none; no panel; a
            curve without one number for each x, or with one below 0.
    """
    require_instance("panels", panels, Mapping)
    x = as_numbers("x", x)
    if not panels:
        raise ValueError("there must be at least one panel")
    rows = -(-len(panels) // 2)
    figure = BookFigure(figsize=(WIDTH, 0.8 + 1.6 * rows))
    axes = figure.subplots(rows, 2, sharex=True, squeeze=False).flatten()
    for ax, (title, curves) in zip(axes, panels.items(), strict=False):
        for index, (name, y) in enumerate(_arrays(title, curves, x).items()):
            if (y < 0).any():
                raise ValueError(f"{name} must not be below 0, where the y axis begins")
            colour, dash = COLOURS[index], DASHES[index]
            ax.plot(x, y, color=colour, ls=dash, label=name)
        ax.set(title=title)
        ax.set_ylim(bottom=0)
        ax.grid(axis="y", color=PALE)
    for ax in axes[len(panels) :]:
        ax.remove()
    for ax in axes[: len(panels)][-2:]:
        ax.set_xlabel(xlabel)
        ax.tick_params(labelbottom=True)
    for ax in axes[: len(panels) : 2]:
        ax.set_ylabel(ylabel)
    axes[0].legend(frameon=False)
    return figure


@styled
def show_bars(
    bars: Mapping[str, Any], labels: Sequence[Any], *, xlabel: str, ylabel: str
) -> BookFigure:
    """Draw groups of bars side by side, one group per label.

    Args:
        bars: from names to (N,) arrays.
        labels: N words or numbers below the groups.
        xlabel: the x axis in words.
        ylabel: the y axis in words, with its unit.

    Raises:
        TypeError: bars that are not a mapping; labels in a single string.
        ValueError: more groups than there are colours, or none; not one height for each
            label; only nan; inf.
    """
    if isinstance(labels, str):
        raise TypeError(f"labels must be a list; got {labels!r}")
    require_positive(**{"the number of labels": len(labels)})
    arrays = _arrays("bars", bars, np.arange(len(labels)))
    figure, ax = _one_axes()
    width = 0.8 / len(bars)
    for index, (name, heights) in enumerate(arrays.items()):
        if np.isinf(heights).any():  # it would be drawn as a bar of height 0
            raise ValueError(f"{name} holds inf: leave it out, or write nan")
        positions = np.arange(len(labels)) - 0.4 + width * (index + 0.5)
        hatch = [None, "///", "---", "xxx"][index % 4]
        ax.bar(
            positions, heights, width, label=name, color=COLOURS[index],
            hatch=hatch, edgecolor=PAPER,
        )  # fmt: skip
    words = [str(label) for label in labels]
    ax.set_xticks(np.arange(len(words)), words)
    if max(map(len, words)) * len(words) > 56:  # they would overlap
        ax.tick_params(axis="x", labelrotation=45)
        for word in ax.get_xticklabels():
            word.set(ha="right", rotation_mode="anchor")
    ax.set(xlabel=xlabel, ylabel=ylabel)
    _legend_above(ax, list(bars))
    return figure


def _arrays(
    argument: str, series: Mapping[str, Any], x: np.ndarray, runs: bool = False
) -> dict[str, np.ndarray]:
    """Return named series as arrays as long as x, or with an axis for runs before."""
    require_instance(argument, series, Mapping)
    if x.ndim != 1 or not x.size:
        raise ValueError(f"x must be (N,), with at least one number; got {x.shape}")
    if not 0 < len(series) <= len(COLOURS):
        raise ValueError(
            f"a figure can distinguish 1 to {len(COLOURS)} series; got {len(series)}: "
            "draw several figures"
        )
    arrays = {name: as_numbers(name, array) for name, array in series.items()}
    for name, array in arrays.items():
        got = array.shape[1:] if runs and array.ndim == 2 else array.shape
        if got != x.shape:
            raise ValueError(
                f"{name} must have one number for each of {len(x)} on the x axis; got "
                f"{array.shape}"
            )
        if array.dtype.kind == "f" and np.isnan(array).all():
            raise ValueError(f"{name} holds only nan: there is nothing to draw")
    return arrays


def _one_axes() -> tuple[BookFigure, Axes]:
    figure = BookFigure(figsize=(WIDTH, 3.4))
    return figure, figure.subplots()


def _legend_above(ax: Axes, names: Sequence[str]) -> None:
    """Put the legend above the axes, where there are no curves or bars."""
    fit = 62 // (max(map(len, names)) + 8)  # the handle is as wide as eight letters
    columns = max(1, min(len(names), fit))
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns)
