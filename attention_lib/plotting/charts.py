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
    as_array,
    styled,
)


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
        ValueError: more curves than there are colours, or none.
    """
    x = as_array(x)
    _check_few(curves)
    figure, ax = _one_axes()
    for index, (name, y) in enumerate(curves.items()):
        runs = np.atleast_2d(as_array(y))
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
    elif min(float(as_array(y).min()) for y in curves.values()) >= 0:
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
        ValueError: more curves in a panel than there are colours, or none; no panel.
    """
    if not panels:
        raise ValueError("there must be at least one panel")
    rows = -(-len(panels) // 2)
    figure = BookFigure(figsize=(WIDTH, 0.8 + 1.6 * rows))
    axes = figure.subplots(rows, 2, sharex=True, squeeze=False).flatten()
    for ax, (title, curves) in zip(axes, panels.items(), strict=False):
        _check_few(curves)
        for index, (name, y) in enumerate(curves.items()):
            colour, dash = COLOURS[index], DASHES[index]
            ax.plot(as_array(x), as_array(y), color=colour, ls=dash, label=name)
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
        ValueError: more groups than there are colours, or none.
    """
    _check_few(bars)
    figure, ax = _one_axes()
    width = 0.8 / len(bars)
    for index, (name, heights) in enumerate(bars.items()):
        positions = np.arange(len(labels)) - 0.4 + width * (index + 0.5)
        hatch = [None, "///", "---", "xxx"][index % 4]
        ax.bar(
            positions, as_array(heights), width, label=name, color=COLOURS[index],
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


def _check_few(series: Mapping[str, Any]) -> None:
    if not 0 < len(series) <= len(COLOURS):
        raise ValueError(
            f"a figure can distinguish 1 to {len(COLOURS)} series; got {len(series)}: "
            "draw several figures"
        )


def _one_axes() -> tuple[BookFigure, Axes]:
    figure = BookFigure(figsize=(WIDTH, 3.4))
    return figure, figure.subplots()


def _legend_above(ax: Axes, names: Sequence[str]) -> None:
    """Put the legend above the axes, where there are no curves or bars."""
    fit = 62 // (max(map(len, names)) + 8)  # the handle is as wide as eight letters
    columns = max(1, min(len(names), fit))
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns)
