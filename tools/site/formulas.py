"""Formulas, typeset by KaTeX at build time: HTML for eyes, MathML for ears.

`katex`, next to this file, is KaTeX's package on npm, its style sheet with woff2 fonts
only. Its script runs here, in V8 (mini-racer), never in a page. A formula that it
cannot read is a warning with its line, so it fails the build.
"""

import asyncio
import atexit
import json
import re
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

from docutils import nodes

from tools.site.punctuation import CLASS

KATEX = Path(__file__).with_name("katex")
OPTIONS = {"output": "htmlAndMathml", "throwOnError": True, "strict": "error"}
# Environments that number their lines: here Sphinx numbers, and only what has a label.
NUMBERED = re.compile(r"\\(begin|end)\{(equation|align|gather|alignat)\}")
# What has lines of its own, such as a matrix.
INNER = re.compile(r"\\begin\{(\w+\*?)\}.*?\\end\{\1\}", re.DOTALL)
# What a line that is too long may be broken between.
BOX = '<span class="katex-base">'


@cache
def engine() -> Any:
    """Return KaTeX and `style.js`, ready to be called."""
    from py_mini_racer import mini_racer

    # A loop of its own: else it takes the caller's, if one runs (Playwright's does),
    # and ends with it.
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True).start()
    context = mini_racer(loop)
    started = context.__enter__()
    # Without it, V8's thread would keep Python from ending.
    atexit.register(context.__exit__, None, None, None)
    for path in (KATEX / "katex.min.js", KATEX.with_name("style.js")):
        started.eval(path.read_text(encoding="utf-8"))
    return started


@cache
def typeset(tex: str, display: bool) -> tuple[str, str]:
    """Return a formula's HTML, or "" and what is wrong with the formula."""
    options = {**OPTIONS, "displayMode": display}
    html, error = json.loads(engine().call("typeset", tex, options))
    return html, error


def display_source(tex: str, nowrap: bool) -> str:
    r"""Return what KaTeX gets for a block: as Sphinx does it, ``\\`` breaks a line.

    But not the ``\\`` of a matrix: a formula in ``split`` could not break on a phone.
    """
    if nowrap:
        return NUMBERED.sub(r"\\\1{\2*}", tex)
    breaks = r"\\" in INNER.sub("", tex)
    return rf"\begin{{split}}{tex}\end{{split}}" if breaks else tex


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.add_html_math_renderer("katex", (_visit_inline, None), (_visit_display, None))


def _html(translator: Any, node: nodes.Element, tex: str, display: bool) -> str:
    """Return a formula's HTML; report a formula that cannot be typeset."""
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
