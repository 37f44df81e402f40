"""Compare two pictures by the block in which they differ most.

Pictures are not equal on all machines to the last bit, and a change that a reader sees
may be small: so what counts is the worst block of 16 by 16 pixels, not the whole.
Measured on this book's figures (root of the mean square, of 255, in the worst block):

    values changed by 1e-6, as another processor does       0
    a line shifted by a tenth of a pixel: antialiasing       2 to 9
    one pixel changed by 60                                  4
    one digit changed, in type of 6 to 10 points            15 to 67
    a line moved by one pixel: thin and pale, thick          20, 73

The threshold is between these groups.

A page shows a drawing instead, which is in the picture's file: it is compared too.

Another version of matplotlib draws letters differently. There, what the picture draws
is compared: words, bars and points, which `attention_lib.plotting` stores with it.
"""

import base64
import io
import re
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
from PIL import Image

BLOCK = 16
THRESHOLD = 10.0
APART = Decimal("0.5")  # points of a drawing: less is not seen
# A map's cells, those of one colour as one path: `attention_lib.plotting._drawing`.
CELLS = re.compile(
    r'<path style="fill:([^";]*);fill-opacity:([\d.]+)" d="(M\d+ \d+h[^"]*)"/>'
)
RUN = re.compile(r"M(\d+) (\d+)h(\d+)")
PATH = re.compile(r' d="([^"]*\d[^"]*)"')
NAMES = re.compile(r' id="[^"]*"| href="#[^"]*"|url\(#[^)]*\)')
NUMBER = re.compile(r"(?<![\w.#-])-?\d+(?:\.\d*)?")


def decode(encoded: str) -> Image.Image:
    """Return a picture of a notebook as it looks on white paper."""
    with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        coloured = picture.convert("RGBA")
    paper = Image.new("RGBA", coloured.size, "white")
    return Image.alpha_composite(paper, coloured).convert("RGB")


def drawn(one: str, two: str) -> Iterator[tuple[str, str, Decimal | None]]:
    """Yield the contents of two drawings as pairs of texts, each with its tolerance."""
    yield _words(one), _words(two), None
    cells = [_cells(it) for it in (one, two)]
    # What is transparent is not drawn; rounding may make it so.
    clear = {
        place: (colour, "0.00") for it in cells for place, (colour, _) in it.items()
    }
    old, new = (
        "\n".join(f"{n} {(clear | it)[n]}" for n in sorted(clear)) for it in cells
    )
    yield old, new, None
    yield _places(one), _places(two), APART


def _words(drawing: str) -> str:
    """Return a drawing's words and the opacities of its parts, without maps."""
    found = re.findall(r">([^<]+)<", drawing)
    opacities = re.findall(r"opacity:([\d.]+)", CELLS.sub("", drawing))
    return "\n".join([*found, *(f"opacity {float(it):.2f}" for it in opacities)])


def _cells(drawing: str) -> dict[str, tuple[str, str]]:
    """Return the colour and the opacity of each cell of a drawing's maps."""
    return {
        f"map {n}, row {row}, column {column}": (colour, opacity)
        for n, part in enumerate(drawing.split("<g transform"))
        for colour, opacity, path in CELLS.findall(part)
        for start, row, width in RUN.findall(path)
        for column in range(int(start), int(start) + int(width))
    }


def _places(drawing: str) -> str:
    """Return a drawing's parts without words and names, one per line.

    Of a path stand its ends and its box: points between them that lie on a line come
    and go with rounding.
    """
    text = re.sub(r">[^<]+<", "><", NAMES.sub("", CELLS.sub("", drawing)))
    text = NUMBER.sub(lambda it: f"{float(it[0]):.2f}", PATH.sub(_extent, text))
    return text.replace("><", ">\n<")


def _extent(path: re.Match[str]) -> str:
    """Return a path's ends and its box."""
    numbers = [float(it) for it in re.findall(r"-?\d+(?:\.\d+)?", path[1])]
    x, y = numbers[::2], numbers[1::2]
    ends = x[0], y[0], x[-1], y[-1], min(x), min(y), max(x), max(y)
    return f' d="{" ".join(map(str, ends))}"'


def worst_block(reference: Image.Image, result: Image.Image) -> tuple[float, int, int]:
    """Return the largest RMS difference of a block, and that block's left and top.

    The pictures must have the same size.
    """
    squares = (_pixels(reference) - _pixels(result)) ** 2
    rms = np.sqrt(_block_sums(squares) / _block_sums(np.ones_like(squares)))
    row, column = np.unravel_index(rms.argmax(), rms.shape)
    return float(rms.max()), int(column) * BLOCK, int(row) * BLOCK


def difference(reference: Image.Image, result: Image.Image) -> Image.Image:
    """Return a picture that is darker where two pictures of one size differ more."""
    apart = np.abs(_pixels(reference) - _pixels(result)).max(axis=2)
    return Image.fromarray((255 - apart).astype(np.uint8))


def _pixels(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture, dtype=float)


def _block_sums(squares: np.ndarray) -> np.ndarray:
    """Sum over blocks and colours; blocks at the right and bottom may be smaller."""
    rows, columns = (np.arange(0, size, BLOCK) for size in squares.shape[:2])
    return np.add.reduceat(
        np.add.reduceat(squares.sum(axis=2), rows, axis=0), columns, axis=1
    )
