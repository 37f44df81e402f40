"""Figures as drawings inside the page: its typeface, with light and dark colours.

A record's picture carries the drawing that `attention_lib.plotting` made of it; a
diagram's file is one. Other pictures stay as they are, and say their size. In another
language a drawing's words are those of its edition.
"""

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from tools.site.languages import edition

# A figure of set width is a link to its file, of which a drawing has no need.
IMAGE = re.compile(r'(?:<a\b[^>]*>)?(<img\b[^>]*?\bsrc="([^":]+)"[^>]*?>)(?:\s*</a>)?')
HEAD = re.compile(r"<svg\b[^>]*>(?:\s*<title.*?</title>)?", re.DOTALL)
KEPT = re.compile(r'\b(?:fill|font-size|text-anchor|viewBox)="[^"]*"')
SIDES = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
WORDS = re.compile(r"(?<=>)[^<>]+(?=</text>)")
POINT = 1.24  # pixels of a page to a point of a figure: letters as large as a caption's


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    # "html": when words of an edition's figures change, all pages are written again.
    words = edition(app.srcdir).get("figures", {})
    app.add_config_value("figure_words", words, "html", [dict])
    app.connect("html-page-context", _draw)


def _draw(app: Any, page: str, template: str, context: Any, tree: Any) -> None:
    """Rewrite the tags of a page's pictures."""
    sources = {name: source for source, name in app.builder.images.items()}
    known = edition(app.srcdir)
    words = {} if page in known.get("english", ()) else known.get("figures", {})

    def replace(match: re.Match[str]) -> str:
        source = sources.get(Path(match[2]).name, "")
        tag = drawn(match[0], Path(app.srcdir, source)) if source else match[0]
        return WORDS.sub(lambda it: said(it[0], words), tag) if words else tag

    if isinstance(context.get("body"), str):
        context["body"] = IMAGE.sub(replace, context["body"])


def drawn(tag: str, source: Path) -> str:
    """Return the drawing in a picture's file, or else the picture's tag and size."""
    if source.suffix == ".svg":
        kind, scale, text = "diagram", 1.0, source.read_text(encoding="utf-8")
    else:
        with Image.open(source) as picture:
            width, height = picture.size
        kind, scale, text = "drawing", POINT, str(picture.info.get("Drawing", ""))
    if not (head := HEAD.search(text)):
        size = f'<img loading="lazy" width="{width}" height="{height}"'
        return tag.replace("<img", size, 1)
    look, alt = " ".join(KEPT.findall(head[0])), re.search(r'\balt="[^"]*"', tag)
    across, down = (round(scale * float(n)) for n in SIDES.findall(look)[0])
    label = alt[0].replace("alt", "aria-label", 1) if alt else ""
    return (
        f'<svg class="{kind}" role="img" {label} width="{across}" height="{down}" '
        f"{look}>{text[head.end() :]}"
    )


def said(text: str, words: Mapping[str, str]) -> str:
    """Return the words of a figure in the page's language; what has none stays."""
    new = words.get(" ".join(html.unescape(text).split()))
    return text if new is None else html.escape(new, quote=False)
