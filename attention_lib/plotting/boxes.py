"""Boxes with words, and arrows down from box to box: what is made from what."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Polygon, Rectangle

from attention_lib.plotting._figure import (
    COLOURS,
    INK,
    PALE,
    SOFT,
    WIDTH,
    BookFigure,
    styled,
)

LINE = 0.19  # inches from one line of words to the next
GAP = 0.06  # columns left free on each side of a box
LOOKS = {  # edge, fill, width of the edge, dashes
    "plain": (SOFT, to_rgba(PALE, 0.5), 1.0, "-"),
    "kept": (COLOURS[2], to_rgba(COLOURS[2], 0.2), 2.0, "-"),
    "weight": (COLOURS[1], to_rgba(COLOURS[1], 0.15), 1.5, "--"),
    "words": ("none", "none", 0.0, "-"),
}
Number = int | float
Box = tuple[str, Number, Number, Number, str]
Ends = tuple[Number, Number, Number, Number]


@styled
def show_boxes(
    boxes: Mapping[str, Box], paths: Sequence[str], *, columns: Number
) -> BookFigure:
    """Draw boxes with words, and arrows straight down between them.

    Args:
        boxes: from names to words, left end (in columns), upper end (in lines of
            words), width (in columns) and look: ``plain``; ``kept``, for what a cache
            keeps; ``weight``, for a matrix; ``words``, without a frame.
        paths: names in order, as in "token, query, scores"; an arrow goes from the
            lower end of each box to the upper end of the next, in the middle of what
            they have in common.
        columns: how many columns are as wide as the page.

    Raises:
        ValueError: an unknown look; an arrow between boxes of which neither is above
            the other.
    """
    ends = {name: _ends(box) for name, box in boxes.items()}
    lowest = max(bottom for *_, bottom in ends.values())
    figure = BookFigure(figsize=(WIDTH, LINE * (lowest + 0.4)))
    figure.set_layout_engine("none")
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, columns), ylim=(lowest + 0.2, -0.2))
    ax.axis("off")
    for name, (words, *_, look) in boxes.items():
        left, right, top, bottom = ends[name]
        if look not in LOOKS:
            raise ValueError(f"look must be one of {', '.join(LOOKS)}; got {look!r}")
        edge, fill, width, dashes = LOOKS[look]
        ax.add_patch(
            Rectangle(
                (left, top), right - left, bottom - top,
                ec=edge, fc=fill, lw=width, ls=dashes,
            )
        )  # fmt: skip
        for index, line in enumerate(words.split("\n"), start=1):
            height = top + _padding(look) + index - 0.28  # of the letters' feet
            ax.text((left + right) / 2, height, line, ha="center", c=INK)
    for path in paths:
        for start, end in pairwise(path.split(", ")):
            _arrow(ax, ends[start], ends[end], f"{start} → {end}")
    return figure


def _ends(box: Box) -> Ends:
    """Return where a box ends: left, right, above and below."""
    words, left, top, width, look = box
    lines = words.count("\n") + 1 + 2 * _padding(look)
    return left + GAP, left + width - GAP, top, top + lines


def _padding(look: str) -> float:
    """Return how many lines are free between a frame and its words."""
    return 0.0 if look == "words" else 0.3


def _arrow(
    ax: Axes,
    start: Ends,
    end: Ends,
    name: str,
) -> None:
    left, right = max(start[0], end[0]), min(start[1], end[1])
    above, below = start[3], end[2]
    if left >= right or above >= below:
        raise ValueError(f"an arrow goes straight down; {name} cannot")
    x = (left + right) / 2
    ax.plot([x, x], [above, below - 0.4], color=INK, lw=1.2, solid_capstyle="butt")
    head = [(x - 0.07, below - 0.5), (x + 0.07, below - 0.5), (x, below)]
    ax.add_patch(Polygon(head, fc=INK, lw=0))
