"""The faces of the text, cut to the characters of the pages, in one style sheet.

Each face stands there twice: as the address of the whole font, and, inside the sheet
itself, with what the pages show. So the first line is set in its own face, and nothing
moves when a font arrives. A character that no page had comes from the whole font; one
that the font lacks must not call for it, so the two share no character.
"""

from html import unescape
from pathlib import Path
from typing import Any

from tools.site.fonts import embedded_face

STYLE = "fonts.css"
# Family, weights, slope, and file in book/_static/fonts.
FACES = (
    ("Source Serif 4", "400", "normal", "source-serif-4-latin-400-normal"),
    ("Source Serif 4", "400", "italic", "source-serif-4-latin-400-italic"),
    ("Source Serif 4", "600 700", "normal", "source-serif-4-latin-600-normal"),
    ("Source Sans 3", "200 900", "normal", "source-sans-3-latin-wght-normal"),
)
# The weights of a variable font that the style sheets ask for.
WEIGHTS = (400, 700)
# Before there is any text, so that the first line does not wait for its font. Cut faces
# have the space; whole ones, whose range begins elsewhere, must not be fetched.
LOAD = """\
for (const face of document.fonts)
  if (/Source|Awesome/.test(face.family) && /^U\\+(9|20)\\b/i.test(face.unicodeRange))
    face.load();"""
HEAD = """\
/* Source Serif 4 and Source Sans 3 by Adobe, cut to what the pages show. SIL Open Font
   License 1.1: fonts/LICENSE-source-serif-4, fonts/LICENSE-source-sans-3. */
"""


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.add_css_file(STYLE, priority=400)
    # With its type it is no module, which would wait for the whole page.
    app.add_js_file(None, body=LOAD, type="text/javascript", priority=100)
    app.connect("build-finished", _write_style)


def _write_style(app: Any, error: Exception | None) -> None:
    """Write the style sheet for all characters of the built pages."""
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir)
    static = folder / "_static"
    # Every space too: one that is missing would call for the whole font.
    characters = {
        " ",
        "\xa0",
        *map(chr, range(0x2000, 0x2010)),
        *map(chr, range(33, 127)),
    }
    for path in (*folder.rglob("*.html"), *static.glob("*.js"), *static.glob("*.css")):
        characters.update(unescape(path.read_text(encoding="utf-8")))
    text = style(characters, static / "fonts")
    (static / STYLE).write_text(text, encoding="utf-8")


def style(characters: set[str], folder: Path) -> str:
    """Return the style sheet with these characters of each font in a folder."""
    rest = others(characters)
    whole, cut = [], []
    for family, weight, slope, name in FACES:
        file = f"{name}.woff2"
        whole.append(
            f'@font-face{{font-family:"{family}";font-weight:{weight};font-style:{slope};'
            f"font-display:swap;unicode-range:{rest};"
            f'src:url(fonts/{file}) format("woff2")}}\n'
        )
        cut.append(
            embedded_face(
                folder / file,
                characters,
                family=family,
                weight=weight,
                style=slope,
                limits=WEIGHTS,
            )
        )
    return HEAD + "".join(whole + cut)


def others(characters: set[str]) -> str:
    """Return all characters but these, as the ranges of a style sheet.

    >>> others({"!", "#"})
    'U+0-20,U+22-22,U+24-10FFFF'
    """
    ranges, start = [], 0
    for point in [*sorted(map(ord, characters)), 0x110000]:
        if point > start:
            ranges.append(f"U+{start:X}-{point - 1:X}")
        start = point + 1
    return ",".join(ranges)
