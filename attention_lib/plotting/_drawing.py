"""A figure as SVG for a web page: in its typeface, with light and dark colours.

Everything is where matplotlib put it with DejaVu Sans. A page's sans is narrower, so
its letters are that much larger. Colours that a page may change are variables of its
style sheet, with a notebook's colours as defaults. It contains no dates,
versions or random ids: the same figure yields the same text.
"""

import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

WIDER = 1.18  # width of DejaVu Sans relative to Source Sans 3, on average
SVG = "{http://www.w3.org/2000/svg}"
LEFT_OUT = {"metadata", "style"}
NAMELESS = dict.fromkeys(["Creator", "Date", "Format", "Type"])
STYLE: dict[Any, Any] = {
    "image.composite_image": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "the book",
}
NUMBER = re.compile(r"-?\d+\.\d+(?:e-\d+)?")


def drawing(figure: Figure, names: Mapping[str, str]) -> str:
    """Return a figure as an SVG element for use inside a page.

    Args:
        figure: already drawn, so that everything has its position; without formulas.
        names: from colours as #rrggbb to names in a style sheet.

    Raises:
        ValueError: a formula, whose letters would keep the layout of DejaVu Sans.
    """
    file = io.StringIO()
    maps = {
        f"map{index}": (ax, image)
        for index, (ax, image) in enumerate(
            (ax, image) for ax in figure.axes for image in ax.images
        )
    }
    with matplotlib.rc_context(STYLE), _prepared(figure, maps):
        figure.savefig(file, format="svg", transparent=True, metadata=NAMELESS)
    width, height = (side * 72 for side in figure.get_size_inches())
    cells = {
        name: _cells(ax, image, height, 72 / figure.dpi)
        for name, (ax, image) in maps.items()
    }
    # It was written by matplotlib, and refers to no other file.
    root = ElementTree.fromstring(file.getvalue())
    text = "".join(_written(child, cells) for child in root)
    # Matplotlib draws elements without a colour in black.
    text = f'<svg viewBox="0 0 {width:g} {height:g}" fill="#000000">{text}</svg>'
    if "<tspan" in text:
        raise ValueError("words only: a formula's letters do not fit another typeface")
    for colour, name in names.items():
        text = text.replace(colour, f"var({name},{colour})")
    # Figures of one page must not share ids.
    mark = hashlib.sha256(text.encode()).hexdigest()[:6]
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\1f{mark}-", text)
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" stroke-linejoin="round">{text}</svg>'
    )


@contextmanager
def _prepared(
    figure: Figure, maps: Mapping[str, tuple[Axes, AxesImage]]
) -> Iterator[None]:
    """Keep everything in its position, and name images so that they can be found."""
    engine = figure.get_layout_engine()
    figure.set_layout_engine("none")
    before = [image.get_gid() for _, image in maps.values()]
    for name, (_, image) in maps.items():
        image.set_gid(name)
    try:
        yield
    finally:
        figure.set_layout_engine(engine or "none")
        for gid, (_, image) in zip(before, maps.values(), strict=True):
            image.set_gid(gid)


def _cells(ax: Axes, image: AxesImage, height: float, point: float) -> str:
    """Return an image as SVG cells, those of one colour as one path."""
    colours = image.to_rgba(np.ma.asarray(image.get_array()))
    rows, cols = colours.shape[:2]
    left, right, bottom, top = image.get_extent()
    corners = ax.transData.transform([(left, top), (right, bottom)])
    (x, y), (end, foot) = corners * point
    transform = f"translate({x:.2f} {height - y:.2f})"
    transform += f"scale({(end - x) / cols:.4f} {(y - foot) / rows:.4f})"
    paths: dict[str, str] = {}
    for row, line in enumerate(colours):
        looks = [f"{to_hex(c)};fill-opacity:{c[3]:.2f}" for c in line]
        starts = [c for c in range(cols) if not c or looks[c] != looks[c - 1]]
        for start, stop in zip(starts, [*starts[1:], cols], strict=True):
            run = f"M{start} {row}h{stop - start}v1h-{stop - start}z"
            paths[looks[start]] = paths.get(looks[start], "") + run
    drawn = [
        f'<path style="fill:{look}" d="{d}"/>'
        for look, d in paths.items()
        if not look.endswith(":0.00")
    ]
    return f'<g transform="{transform}">{"".join(drawn)}</g>'


def _written(element: ElementTree.Element, cells: Mapping[str, str]) -> str:
    """Return an element as text, without its invisible parts."""
    tag, given = element.tag.removeprefix(SVG), dict(element.attrib)
    if tag == "image":
        return cells[given["id"]]
    style = given.get("style", "").replace(": ", ":").replace("; ", ";")
    if tag in LEFT_OUT or (tag == "path" and style == "fill:none"):
        return ""
    if tag == "g":
        given.pop("id", None)
    style = re.sub(r";?font-family:[^;]*", "", style)
    style = re.sub(
        r"font-size:([\d.]+)px",
        lambda size: f"font-size:{float(size[1]) * WIDER:.2f}px",
        style,
    )
    attributes = {"style": style} if style else {}
    for name, value in given.items():
        short = NUMBER.sub(
            lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), value
        )
        if name == "d":
            short = re.sub(r"\s*([A-Za-z])\s*", r"\1", short)
        if name != "style" and not short.startswith("rotate(-0 "):
            attributes[name.rpartition("}")[2]] = short
    inside = "".join(_written(child, cells) for child in element)
    inside = inside or escape((element.text or "").strip(), quote=False)
    if tag in ("g", "defs") and not inside:
        return ""
    if tag == "g" and not attributes:
        return inside
    shown = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<{tag}{shown}>{inside}</{tag}>" if inside else f"<{tag}{shown}/>"
