"""Fonts cut to the glyphs that the pages show, to stand in a style sheet themselves.

Such a font is there when the style sheet is: nothing jumps, and a page that is
opened as a file needs no leave to load it. Cutting takes seconds, and most edits need
no new glyph, so what was cut is kept for the next build.
"""

import base64
import hashlib
import io
import os
from functools import cache
from pathlib import Path
from typing import Any

KEPT = Path(__file__).resolve().parents[2] / "_build/fonts"
MOST = 60  # files kept, a few builds' worth


def embedded_face(
    font: Path,
    characters: set[str],
    *,
    family: str,
    weight: int | str,
    style: str,
    limits: tuple[int, int] | None = None,
) -> str:
    """Return an ``@font-face`` with those of the characters that a font has.

    It speaks for these characters only, so that others may come from a face before it;
    and for all of them, so that none which no font of the family has calls for another.
    Where the font has none of them, there is no face, and the result is "". A variable
    font keeps the weights within `limits`.
    """
    data = _subset(font, "".join(sorted(characters)), limits)
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
def _subset(font: Path, characters: str, limits: tuple[int, int] | None) -> bytes:
    """Return a font with these characters only; nothing where it has none of them."""
    import fontTools  # type: ignore[import-untyped]

    asked = (
        fontTools.version,
        hashlib.sha256(font.read_bytes()).hexdigest(),
        characters,
        limits,
    )
    path = KEPT / f"{hashlib.sha256(repr(asked).encode()).hexdigest()[:32]}.woff2"
    if not path.is_file():
        KEPT.mkdir(parents=True, exist_ok=True)
        for old in sorted(KEPT.iterdir(), key=lambda p: p.stat().st_mtime)[:-MOST]:
            old.unlink()
        # Whole or not at all, also where two builds run at once.
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_bytes(_cut(font, characters, limits))
        partial.replace(path)
    return path.read_bytes()


def _cut(font: Path, characters: str, limits: tuple[int, int] | None) -> bytes:
    """Cut a font, which takes a second."""
    from fontTools import subset
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]

    with TTFont(font, recalcTimestamp=False) as whole:
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
        if limits is not None and "fvar" in whole:
            return _woff2(_limited(whole, limits))
        return _woff2(whole)


def _limited(font: Any, limits: tuple[int, int]) -> Any:
    """Return a variable font with fewer weights; it is read anew after it was cut."""
    from fontTools.ttLib import TTFont
    from fontTools.varLib import instancer  # type: ignore[import-untyped]

    font.flavor = None
    file = io.BytesIO()
    font.save(file)
    file.seek(0)
    return instancer.instantiateVariableFont(
        TTFont(file, recalcTimestamp=False), {"wght": limits}
    )


def _woff2(font: Any) -> bytes:
    """Return a font as a file for the web."""
    font.flavor = "woff2"
    file = io.BytesIO()
    font.save(file)
    return file.getvalue()
