"""Formulas, typeset by KaTeX when the site is built: HTML for eyes, MathML for ears.

`katex`, beside this file, holds KaTeX's script, style sheet and fonts, all of one
version, as its package on npm has them; the style sheet names woff2 fonts only. The
script runs here, in V8 (mini-racer), never in a page. A formula that KaTeX cannot read
is a warning with its place, so it fails the build.

The style sheet of the site holds the glyphs that its formulas need, so that no formula
waits for a font or moves when it comes. A glyph that is missing there comes from the
font's own file.
"""

import atexit
import json
import re
import shutil
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

from docutils import nodes

from tools.site.fonts import embedded_face
from tools.site.punctuation import CLASS

KATEX = Path(__file__).with_name("katex")
STYLE = "katex.css"
OPTIONS = {"output": "htmlAndMathml", "throwOnError": True, "strict": "error"}
TYPESET = """(tex, options) => {
    try { return JSON.stringify([katex.renderToString(tex, options), ""]); }
    catch (error) { return JSON.stringify(["", error.message]); }
}"""
# Environments that number their lines: here Sphinx numbers, and only what has a label.
NUMBERED = re.compile(r"\\(begin|end)\{(equation|align|gather|alignat)\}")
# What has lines of its own, such as a matrix.
INNER = re.compile(r"\\begin\{(\w+\*?)\}.*?\\end\{\1\}", re.DOTALL)
# What only a screen reader reads must not call for a font.
UNDRAWN = ".katex .katex-mathml{font-family:math}\n"
PIECE = re.compile(r"<(/?span|[^>]*)([^>]*)>|[^<]+")
# What a line that is too long may be broken between.
BOX = '<span class="katex-base">'
# A font belongs in the style sheet when a formula has one of its classes.
CLASSES = {
    "Main-Regular": {"katex-html"},
    "Main-Bold": {"mathbf", "textbf"},
    "Main-Italic": {"mathit", "textit"},
    "Math-Italic": {"mathnormal"},
    "Math-BoldItalic": {"boldsymbol"},
    "AMS-Regular": {"amsrm", "mathbb", "textbb"},
    "Caligraphic-Regular": {"mathcal"},
    "SansSerif-Regular": {"mathsf", "textsf"},
    "Typewriter-Regular": {"mathtt", "texttt"},
    "Size1-Regular": {"size1", "delim-size1", "small-op"},
    "Size2-Regular": {"size2", "large-op"},
    "Size3-Regular": {"size3"},
    "Size4-Regular": {"size4", "delim-size4"},
}


@cache
def _engine() -> Any:
    """Return KaTeX, ready to be called."""
    from py_mini_racer import MiniRacer

    engine = MiniRacer()
    # Without it, V8's thread would keep Python from ending.
    atexit.register(engine.close)
    engine.eval((KATEX / "katex.min.js").read_text(encoding="utf-8"))
    engine.eval(f"var typeset = {TYPESET}")
    return engine


def version() -> str:
    """Return the version of KaTeX's script."""
    return str(_engine().eval("katex.version"))


@cache
def typeset(tex: str, display: bool) -> tuple[str, str]:
    """Return a formula's HTML, or "" and what is wrong with the formula."""
    options = {**OPTIONS, "displayMode": display}
    html, error = json.loads(_engine().call("typeset", tex, options))
    return html, error


def display_source(tex: str, nowrap: bool) -> str:
    r"""Return what KaTeX gets for a block: as Sphinx does it, ``\\`` breaks a line.

    But not the ``\\`` of a matrix: a formula in ``split`` could not break on a phone.
    """
    if nowrap:
        return NUMBERED.sub(r"\\\1{\2*}", tex)
    parts = [part for part in tex.split("\n\n") if part.strip()]
    parts = [
        rf"\begin{{split}}{part}\end{{split}}"
        if r"\\" in INNER.sub("", part)
        else part
        for part in parts
    ]
    if len(parts) > 1:
        return r"\begin{aligned}" + r"\\".join(parts) + r"\end{aligned}"
    return "".join(parts)


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.add_html_math_renderer("katex", (_visit_inline, None), (_visit_display, None))
    app.add_css_file(STYLE, priority=400)
    app.connect("build-finished", _write_style)


def _html(translator: Any, node: nodes.Element, tex: str, display: bool) -> str:
    """Return a formula's HTML; complain with its place where there is none."""
    from sphinx.util import logging

    html, error = typeset(tex, display)
    if error:
        place: Any = node
        while place.parent is not None and place.line is None:
            place = place.parent
        # A combining line marks the place in KaTeX's message.
        words = error.replace("\u0332", "")
        logging.getLogger(__name__).warning(
            "a formula cannot be typeset: %s", words, location=place, type="katex"
        )
        return str(translator.encode(tex))
    return html


def _visit_inline(self: Any, node: nodes.math) -> None:
    html = _html(self, node, node.astext(), display=False)
    if CLASS in node.parent["classes"]:
        first, *others = html.split(BOX)
        html = first + BOX + f"<wbr>{BOX}".join(others) if others else html
    self.body.append(self.starttag(node, "span", "", CLASS="math notranslate"))
    self.body.append(html + "</span>")
    raise nodes.SkipNode


def _visit_display(self: Any, node: nodes.math_block) -> None:
    from sphinx.locale import _
    from sphinx.util.math import get_node_equation_number

    self.body.append(self.starttag(node, "div", CLASS="math notranslate"))
    if node.get("number"):
        number = get_node_equation_number(self, node)
        self.body.append(f'<span class="eqno">({number})')
        self.add_permalink_ref(node, _("Link to this equation"))
        self.body.append("</span>")
    tex = display_source(node.astext(), bool(node.get("nowrap")))
    self.body.append(_html(self, node, tex, display=True) + "</div>\n")
    raise nodes.SkipNode


def drawn(html: str) -> tuple[set[str], set[str]]:
    """Return the characters and the classes of what the formulas of a page draw."""
    characters, classes = {" ", "\xa0", "\u200b"}, set[str]()
    for start in re.finditer('<span class="katex-html"', html):
        for tag, text in _pieces(html, start.start()):
            characters.update(unescape(text))
            for names in re.findall(r'class="([^"]*)"', tag):
                classes.update(names.split())
    return characters, classes


def _pieces(html: str, start: int) -> Iterator[tuple[str, str]]:
    """Yield the tags and texts of the element that begins here, a span of spans."""
    depth = 0
    for piece in PIECE.finditer(html, start):
        text = piece[0]
        depth += text.startswith("<span") - text.startswith("</span")
        yield (text, "") if text.startswith("<") else ("", text)
        if depth == 0:
            return


def _write_style(app: Any, error: Exception | None) -> None:
    """Write the style sheet, with the glyphs that the formulas of all pages need."""
    if error is not None or app.builder.format != "html":
        return
    characters, classes = set[str](), set[str]()
    for page in sorted(Path(app.outdir).rglob("*.html")):
        found = drawn(page.read_text(encoding="utf-8"))
        characters |= found[0]
        classes |= found[1]
    static = Path(app.outdir) / "_static"
    shutil.copytree(KATEX / "fonts", static / "katex/fonts", dirs_exist_ok=True)
    shutil.copy(KATEX / "LICENSE", static / "katex")
    (static / STYLE).write_text(style(characters, classes), encoding="utf-8")


def style(characters: set[str], classes: set[str]) -> str:
    """Return the style sheet for formulas with these characters and classes."""
    css = (KATEX / "katex.min.css").read_text(encoding="utf-8")
    css = css.replace("url(fonts/", "url(katex/fonts/")
    faces = []
    for name, wanted in CLASSES.items():
        if not wanted & classes:
            continue
        family, cut = f"KaTeX_{name.split('-')[0]}", name.split("-")[1]
        faces.append(
            embedded_face(
                KATEX / f"fonts/KaTeX_{name}.woff2",
                characters,
                family=family,
                weight=700 if "Bold" in cut else 400,
                style="italic" if "Italic" in cut else "normal",
            )
        )
    head = f"/* KaTeX {version()}, MIT License: katex/LICENSE. Its fonts, cut to what "
    head += "these pages draw, stand at the end. */\n"
    return head + css + UNDRAWN + "".join(faces)
