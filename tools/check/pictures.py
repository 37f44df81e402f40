"""Compare two pictures by the block in which they differ most.

Pictures are not equal on all machines to the last bit, and a change that a reader sees
may be small: so what counts is the worst block of 16 by 16 pixels, not the whole.
Measured on this book's figures (root of the mean square, of 255, in the worst block):

    values changed by 1e-6, as another processor does       0
    a line shifted by a tenth of a pixel: antialiasing       2 to 9
    one pixel changed by 60                                  4
    one digit changed, in type of 6 to 10 points            15 to 67
    a line moved by one pixel: thin and pale, thick          20, 73

The threshold stands between these groups.

Another version of matplotlib draws letters differently. There, what the picture draws
is compared: words, bars and points, which `attention_lib.plotting` stores beside it.
"""

import base64
import io

import numpy as np
from PIL import Image

BLOCK = 16
THRESHOLD = 10.0


def decode(encoded: str) -> Image.Image:
    """Return a picture of a notebook as it looks on white paper."""
    with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        coloured = picture.convert("RGBA")
    paper = Image.new("RGBA", coloured.size, "white")
    return Image.alpha_composite(paper, coloured).convert("RGB")


def drawing(encoded: str) -> tuple[str, str]:
    """Return what drew a picture, and what it draws: "" where it does not say."""
    with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        texts = dict(picture.info)
    return str(texts.get("Drawn by", "")), str(texts.get("Contents", ""))


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
