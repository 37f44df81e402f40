"""What all figures share: one style, one width, the same bytes on every run."""

import contextlib
import io
from typing import Any

import matplotlib
import numpy as np
from matplotlib import ft2font
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from attention_lib.plotting._contents import contents

WIDTH = 5.6  # inches: a phone shows it at two thirds, and its words can be read
DPI = 160
INK, SOFT = "#1f2430", "#8a91a0"
# Colours that differ for every kind of colour vision (Okabe and Ito), darkest first.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"]
DASHES: list[Any] = ["-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1))]
STYLE: dict[Any, Any] = {
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "figure.facecolor": "#ffffff",
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


class BookFigure(Figure):
    """A figure that draws the same bytes on every run, at the width of the page."""

    def png(self) -> bytes:
        """Draws the figure."""
        drawn, packed = io.BytesIO(), io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.savefig(drawn, format="png", dpi=DPI)
        # A palette of 256 colours makes a figure a quarter of the size, and no other.
        palette = (
            Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        )
        # Compared where another matplotlib drew the picture; see _contents.
        info = PngInfo()
        letters = f"FreeType {ft2font.__freetype_version__}"
        info.add_text("Drawn by", f"matplotlib {matplotlib.__version__}, {letters}")
        with contextlib.suppress(TypeError, ValueError):  # a reader's own additions
            info.add_itxt("Contents", contents(self), zip=True)
        palette.save(packed, format="png", optimize=True, pnginfo=info)
        return packed.getvalue()

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        # The width in CSS pixels: dense screens get the picture's full sharpness.
        size = {"width": round(self.get_figwidth() * 100)}
        return {"image/png": self.png(), "text/plain": repr(self)}, {"image/png": size}

    def __repr__(self) -> str:
        return f"<BookFigure: {len(self.axes)} axes>"


def as_array(array: Any) -> np.ndarray:
    if not hasattr(array, "detach"):
        return np.asarray(array)
    array = array.detach().cpu()
    # NumPy has no bfloat16.
    return np.asarray(array.float() if "bfloat16" in str(array.dtype) else array)


def write_numbers(
    ax: Axes,
    array: np.ndarray,
    *,
    dark: np.ndarray,
    decimals: int,
    zeros: bool = True,
) -> None:
    if not has_numbers(array):
        return
    if np.array_equal(array, np.round(array)) and zeros:
        decimals = 0
    for (row, col), number in np.ndenumerate(array):
        if not zeros and abs(number) < 1e-9:
            continue
        shown = round(float(number), decimals) + 0.0  # turns -0.0 into 0.0
        color = "white" if dark[row, col] else INK
        ax.text(
            col,
            row,
            f"{shown:.{decimals}f}",
            ha="center",
            va="center",
            size=8.5,
            c=color,
        )


def has_numbers(array: np.ndarray) -> bool:
    return bool(max(array.shape) <= 8)
