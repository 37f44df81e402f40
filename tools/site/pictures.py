"""Pictures as WebP of known size, which wait until the reader comes near.

A picture keeps its source (a notebook's PNG); the site shows the same pixels as
lossless WebP, without the list of what is drawn that a record carries in its picture.
"""

import re
from pathlib import Path
from typing import Any

from PIL import Image

IMAGE = re.compile(r'<img\b[^>]*?\bsrc="([^":]+)"[^>]*?>')
VIEW_BOX = re.compile(r'<svg\b[^>]*\bviewBox="[\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)"')


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.connect("html-page-context", _lighten)


def _lighten(
    app: Any, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Rewrite the tags of a page's pictures."""
    sources = {name: source for source, name in app.builder.images.items()}
    folder = Path(app.outdir) / app.builder.imagedir
    count = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        path = Path(match[1])
        source = sources.get(path.name)
        if path.parent.name != app.builder.imagedir or source is None:
            return match[0]
        count += 1
        file = Path(app.srcdir) / source
        return lighter(match[0], match[1], file, folder, lazy=count > 1)

    if isinstance(context.get("body"), str):
        context["body"] = IMAGE.sub(replace, context["body"])


def lighter(tag: str, address: str, source: Path, folder: Path, lazy: bool) -> str:
    """Return an image's tag with its size, and a lighter picture put into a folder."""
    size: tuple[float, float] | None = None
    if source.suffix == ".png":
        name = f"{Path(address).stem}.webp"
        size = to_webp(source, folder / name)
        tag = tag.replace(address, address.removesuffix(Path(address).name) + name)
    elif source.suffix == ".svg":
        found = VIEW_BOX.search(source.read_text(encoding="utf-8"))
        size = (float(found[1]), float(found[2])) if found else None
    added = ' decoding="async"'
    if lazy and "loading=" not in tag:
        added += ' loading="lazy"'
    if size and " width=" not in tag and "height" not in tag:
        added += f' width="{round(size[0])}" height="{round(size[1])}"'
    return re.sub(r"\s*/?>$", f"{added} />", tag)


def to_webp(source: Path, target: Path) -> tuple[int, int]:
    """Write a picture as WebP with the same pixels; return its width and height."""
    with Image.open(source) as picture:
        size = picture.size
        current = target.is_file() and target.stat().st_mtime > source.stat().st_mtime
        if not current:
            target.parent.mkdir(parents=True, exist_ok=True)
            clear = "transparency" in picture.info or picture.mode in {"RGBA", "LA"}
            pixels = picture.convert("RGBA" if clear else "RGB")
            pixels.save(target, "WEBP", lossless=True, exact=True, quality=100)
    return size
