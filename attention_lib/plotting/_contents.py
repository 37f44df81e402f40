"""The contents of a figure, in words and numbers: stored in its picture.

A different version of matplotlib draws the same figure with different letters, some
pixels to the side. Its pixels cannot be compared then, but its contents can: panels,
words, lines, bars, maps and colours. Grids, frames and automatic ticks are left out.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator

DIGITS = 3  # after the first digit of a series' largest number: more than is visible


def contents(figure: Figure) -> str:
    """Return the contents of a figure as JSON: words, numbers, colours, in fixed order.

    Raises:
        TypeError: a kind of drawing that this function cannot describe yet.
        ValueError: words or dates instead of numbers.
    """
    if figure.legends or figure.lines or figure.patches or figure.images:
        raise TypeError("artists of the figure itself are not supported yet")
    # A layout engine moves panels to make room for letters; without one they stay.
    engine = figure.get_layout_engine()
    placed = engine is None or isinstance(engine, PlaceHolderLayoutEngine)
    described = {
        "size": _numbers(figure.get_size_inches()),
        "axes": [_describe(ax, placed=placed) for ax in figure.axes],
        "texts": _texts(figure.texts),
    }
    return json.dumps(described, ensure_ascii=False, indent=0)


def _describe(ax: Axes, *, placed: bool) -> dict[str, Any]:
    if ax.collections or ax.artists or ax.tables or ax.child_axes:
        raise TypeError("lines, patches, images and texts only; describe others here")
    legend = ax.get_legend()
    log_x, log_y = ax.get_xscale() == "log", ax.get_yscale() == "log"
    return {
        "title": ax.get_title(),
        "place": _numbers(ax.get_position().bounds) if placed else "",
        "x": _axis(ax.xaxis, ax.get_xlim()),
        "y": _axis(ax.yaxis, ax.get_ylim()),
        "legend": [text.get_text() for text in legend.texts] if legend else [],
        "texts": _texts(ax.texts),
        "images": [_image(image) for image in ax.images],
        "lines": [
            {
                "look": f"{line.get_color()} {line.get_linestyle()}{line.get_marker()}",
                "width": f"{line.get_linewidth():.1f}",
                "x": _numbers(line.get_xdata(), log=log_x),
                "y": _numbers(line.get_ydata(), log=log_y),
            }
            for line in ax.lines
        ],
        "patches": [
            {"look": f"{to_hex(patch.get_facecolor(), True)} {patch.get_hatch()}"}
            | {"corners": _numbers(patch.get_patch_transform().transform(corners))}
            for patch in ax.patches
            for corners in [patch.get_path().vertices]
        ],
    }


def _axis(axis: Axis, limits: tuple[float, float]) -> dict[str, Any]:
    """Describe an axis. Ticks chosen by matplotlib are left out."""
    fixed = isinstance(axis.get_major_locator(), FixedLocator)
    words = [text.get_text() for text in axis.get_ticklabels()] if fixed else "chosen"
    label, log = axis.get_label().get_text(), axis.get_scale() == "log"
    return {"label": label, "limits": _numbers(limits, log=log), "ticks": words}


def _image(image: AxesImage) -> dict[str, Any]:
    colours = image.get_cmap()(np.linspace(0, 1, 5))  # names differ between versions
    array = np.ma.filled(np.ma.asarray(image.get_array()).astype(float), np.nan)
    return {
        "colours": " ".join(to_hex(colour, True) for colour in colours),
        "range": _numbers(image.get_clim()),
        "rows": [_numbers(row, like=array) for row in array],
    }


def _texts(texts: Sequence[Text]) -> list[list[str]]:
    return [
        [
            text.get_text(),
            _numbers(text.get_position()),
            f"{to_hex(text.get_color())} {text.get_fontsize():.1f}",
            f"{text.get_rotation():.0f}°",
        ]
        for text in texts
    ]


def _numbers(values: Any, *, log: bool = False, like: Any = None) -> str:
    """Format numbers with the decimals that are visible next to the largest of all."""
    array = np.asarray(values, dtype=float).ravel()
    if log:
        with np.errstate(divide="ignore", invalid="ignore"):  # 0 becomes -inf
            array = np.log10(array)
    sizes = np.abs(array if like is None else like)
    largest = float(np.max(sizes, initial=0, where=np.isfinite(sizes)))
    # 0.9999999 and 1 have the same size.
    exponent = math.floor(math.log10(largest * (1 + 1e-6))) if largest else 0
    scale = max(exponent, 0)
    decimals = DIGITS + scale - exponent
    rounded = np.round(array / 10.0**scale, decimals) + 0.0  # no -0.0
    words = [f"{number:.{decimals}f}" for number in rounded]
    return " ".join([f"1e{scale}:", *words] if scale else words)
