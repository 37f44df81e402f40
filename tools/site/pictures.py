"""Figures as drawings inside the page: its typeface, its colours by day and by night.

A record's picture carries the drawing that `attention_lib.plotting` made of it; a
diagram's file is one. Other pictures stay as they are, and say their size.
"""

import re
from pathlib import Path
from typing import Any

from PIL import Image

# A figure of set width is a link to its file, of which a drawing has no need.
IMAGE = re.compile(r'(?:<a\b[^>]*>)?(<img\b[^>]*?\bsrc="([^":]+)"[^>]*?>)(?:\s*</a>)?')
ALT = re.compile(r'\balt="([^"]*)"')
VIEW_BOX = re.compile(r'viewBox="[\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)"')
HEAD = re.compile(r"<svg\b[^>]*>\s*(<title.*?</title>)?", re.DOTALL)
KEPT = re.compile(r'\b(?:fill|font-size|text-anchor)="[^"]*"')
NAMED = re.compile(r'(\bid="|url\(#)')
POINT = 1.24  # pixels of a page to a point of a figure: letters as large as a caption's


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.connect("html-page-context", _draw)


def _draw(
    app: Any, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Rewrite the tags of a page's pictures."""
    sources = {name: source for source, name in app.builder.images.items()}

    def replace(match: re.Match[str]) -> str:
        path = Path(match[2])
        source = sources.get(path.name)
        if path.parent.name != app.builder.imagedir or source is None:
            return match[0]
        return drawn(match[0], Path(app.srcdir) / source)

    if isinstance(context.get("body"), str):
        context["body"] = IMAGE.sub(replace, context["body"])


def drawn(tag: str, source: Path) -> str:
    """Return the drawing in a picture's file, or else the picture's tag and size."""
    kind, scale, text = "diagram", 1.0, ""
    if source.suffix == ".svg":
        text = source.read_text(encoding="utf-8").strip()
        text = NAMED.sub(rf"\1{source.stem}-", text)
    else:
        with Image.open(source) as picture:
            kind, scale, size = "drawing", POINT, picture.size
            text = str(picture.info.get("Drawing", ""))
    if not text:
        size_told = f' loading="lazy" width="{size[0]}" height="{size[1]}"'
        return re.sub(r"(<img\b[^>]*?)\s*/?>", rf"\1{size_told} />", tag)
    box, head, label = VIEW_BOX.search(text), HEAD.match(text), ALT.search(tag)
    if not (box and head and label):
        raise ValueError(f"{source.name} is no drawing with a viewBox, or has no words")
    width, height = (round(scale * float(side)) for side in box.groups())
    kept = " ".join([box[0], *KEPT.findall(head[0])])
    return (
        f'<svg class="{kind}" role="img" aria-label="{label[1]}" {kept} '
        f'width="{width}" height="{height}">{text[head.end() :]}'
    )
