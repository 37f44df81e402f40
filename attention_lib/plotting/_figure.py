"""What all figures share: one style, one width, the same bytes on every run."""

import contextlib
import io
from typing import Any

import matplotlib
import numpy as np
from matplotlib import ft2font
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from attention_lib.plotting._contents import contents
from attention_lib.plotting._drawing import drawing

WIDTH = 5.6  # inches
# Points. A phone shows a figure 343 pixels wide, and letters of this size 11 pixels.
SIZE = 11
DPI = 160
INK, SOFT, PALE, PAPER = "#1f2430", "#8a91a0", "#e6e8ec", "#ffffff"
# Blue, vermilion, green, mauve, grey, gold: with the dashes distinguishable with every
# kind of colour vision, and each at least 3:1 on white.
COLOURS = ["#0072b2", "#d55e00", "#00875f", "#b35a8c", "#5f6670", "#a87000"]
# Of maps: a weight, a positive number, a negative one. Opacity shows the size.
MAP, PLUS, MINUS = "#08519c", "#542788", "#b35806"
# The highest opacity of a cell behind a number, so that the number is legible.
BEHIND_NUMBERS = 0.55
# Names in the style sheet of the site, which has a second set for dark mode.
NAMES = {INK: "--book-ink", "#000000": "--book-ink", SOFT: "--book-soft"}
NAMES |= {PALE: "--book-rule", PAPER: "--book-paper", MAP: "--figure-map"}
NAMES |= {PLUS: "--figure-plus", MINUS: "--figure-minus"}
NAMES |= {colour: f"--figure-{n}" for n, colour in enumerate(COLOURS, start=1)}
DASHES: list[Any] = ["-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1))]
STYLE: dict[Any, Any] = {
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": SIZE,
    "figure.facecolor": PAPER,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    "font.family": "DejaVu Sans",
    "font.size": SIZE,
    "text.color": INK,
    "xtick.color": INK,
    "xtick.labelsize": SIZE,
    "ytick.color": INK,
    "ytick.labelsize": SIZE,
    "legend.fontsize": SIZE,
}


styled = matplotlib.rc_context(STYLE)  # decorates a function that makes a figure


class BookFigure(Figure):
    """A figure that draws the same bytes on every run, at the width of the page."""

    def draw(self, renderer: Any) -> None:
        """Draw the figure; enlarge letters that would be too small on a phone."""
        for text in self.findobj(Text):
            text.set_fontsize(max(text.get_fontsize(), SIZE))
        super().draw(renderer)

    def png(self) -> bytes:
        """Return the figure as a PNG."""
        drawn, packed = io.BytesIO(), io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.savefig(drawn, format="png", dpi=DPI)
        # A palette of 256 colours makes a file a quarter of the size, nothing else.
        palette = (
            Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        )
        # Compared if a different matplotlib drew the picture; see _contents.
        info = PngInfo()
        letters = f"FreeType {ft2font.__freetype_version__}"
        info.add_text("Drawn by", f"matplotlib {matplotlib.__version__}, {letters}")
        with contextlib.suppress(TypeError, ValueError):  # a reader's own additions
            info.add_itxt("Contents", contents(self), zip=True)
        # The site shows this instead of the pixels.
        with contextlib.suppress(ValueError), matplotlib.rc_context(STYLE):
            info.add_itxt("Drawing", drawing(self, NAMES), zip=True)
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


def as_numbers(name: str, array: Any) -> np.ndarray:
    """Return an array of numbers or booleans; refuse others by name."""
    try:
        found = as_array(array)
    except ValueError:  # of rows with different lengths
        raise ValueError(f"{name} must have rows of equal lengths") from None
    if found.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers; got {found.dtype}")
    return found


def shades(*ends: tuple[float, str, float]) -> Colormap:
    """Return a colour map through points from 0 to 1 with a colour and an opacity."""
    colours = [(point, to_rgba(colour, opacity)) for point, colour, opacity in ends]
    return LinearSegmentedColormap.from_list("", colours, N=257)


def write_numbers(
    ax: Axes, array: np.ndarray, *, decimals: int, zeros: bool = True, wide: bool = True
) -> None:
    """Write each cell's number; in narrow cells without the 0 before the point."""
    if np.array_equal(array, np.round(array)) and zeros:
        decimals = 0
    for (row, col), number in np.ndenumerate(array):
        if not zeros and abs(number) < 1e-9:
            continue
        shown = round(float(number), decimals) + 0.0  # turns -0.0 into 0.0
        word = f"{shown:.{decimals}f}"
        if not wide:
            word = f"{shown:.{decimals - (abs(shown) >= 1)}f}".replace("0.", ".", 1)
        ax.text(col, row, word, ha="center", va="center", c=INK)


def has_numbers(array: np.ndarray) -> bool:
    return bool(max(array.shape) <= 8)
