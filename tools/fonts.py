"""Fonts cut to the glyphs that the pages show, to stand in a style sheet themselves.

Such a font is there when the style sheet is: nothing jumps, and a page that is
opened as a file needs no leave to load it.
"""

import base64
import io
from functools import cache
from pathlib import Path


def embedded_face(
    font: Path, characters: set[str], *, family: str, weight: int, style: str
) -> str:
    """Return an ``@font-face`` with those of the characters that a font has.

    It speaks for these characters only, so that others may come from a face before it;
    and for all of them, so that none which no font of the family has calls for another.
    Where the font has none of them, there is no face, and the result is "".
    """
    data = _subset(font, "".join(sorted(characters)))
    if not data:
        return ""
    ranges = ",".join(f"U+{point:X}" for point in sorted(map(ord, characters)))
    encoded = base64.b64encode(data).decode()
    return (
        f'@font-face{{font-family:"{family}";font-weight:{weight};font-style:{style};'
        f"font-display:block;unicode-range:{ranges};"
        f'src:url(data:font/woff2;base64,{encoded}) format("woff2")}}\n'
    )


@cache
def _subset(font: Path, characters: str) -> bytes:
    """Return a font with these characters only; nothing where it has none of them."""
    from fontTools import subset  # type: ignore[import-untyped]
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]

    with TTFont(font) as whole:
        points = sorted({ord(c) for c in characters} & set(whole.getBestCmap()))
        # What is there in any font does not call for this one.
        if not set(points) - {0x20, 0xA0, 0x200B}:
            return b""
        options = subset.Options(
            flavor="woff2", hinting=False, desubroutinize=True, notdef_outline=True
        )
        cutter = subset.Subsetter(options)
        cutter.populate(unicodes=points)
        cutter.subset(whole)
        whole.flavor = "woff2"
        file = io.BytesIO()
        whole.save(file)
    return file.getvalue()
