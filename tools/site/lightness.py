"""Pages that are light: pictures as WebP of known size, scripts that do not wait.

A picture keeps its source (a notebook's PNG); the site shows the same pixels as
lossless WebP, without the list of what is drawn that a record carries in its picture.
"""

import re
from pathlib import Path
from typing import Any

from PIL import Image

IMAGE = re.compile(r'<img\b[^>]*?\bsrc="([^":]+)"[^>]*?>')
VIEW_BOX = re.compile(r'<svg\b[^>]*\bviewBox="[\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)"')
SIZE = re.compile(
    r'<svg\b[^>]*\bwidth="([\d.]+)(?:px)?"[^>]*\bheight="([\d.]+)(?:px)?"'
)


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    # After every part has put its own scripts there.
    app.connect("html-page-context", _lighten, priority=900)


def _lighten(
    app: Any, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Rewrite what a page is made from."""
    # The page of the search has a script of its own that does not wait for these.
    if template != "search.html":
        context["script_files"] = [*map(deferred, context.get("script_files", ()))]
    sources = {name: source for source, name in app.builder.images.items()}
    count = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        path = Path(match[1])
        source = sources.get(path.name)
        if path.parent.name != app.builder.imagedir or source is None:
            return match[0]
        count += 1
        lazy = count > 1 and app.builder.name != "singlehtml"
        folder = Path(app.outdir) / app.builder.imagedir
        return lighter(match[0], match[1], Path(app.srcdir) / source, folder, lazy)

    if isinstance(context.get("body"), str):
        context["body"] = IMAGE.sub(replace, context["body"])


def deferred(script: Any) -> Any:
    """Return a script of a page's head that runs when the page is read, in order."""
    attributes = dict(script.attributes)
    if script.filename:
        if not {"async", "defer"} & attributes.keys():
            attributes["defer"] = "defer"
    else:
        # A script without a file can wait only as a module.
        attributes.setdefault("type", "module")
    # Another page has the same object.
    return type(script)(script.filename, priority=script.priority, **attributes)


def lighter(tag: str, address: str, source: Path, folder: Path, lazy: bool) -> str:
    """Return an image's tag with its size, and a lighter picture where there is one.

    `source` is the picture, `folder` where pages find theirs.
    """
    if source.suffix == ".png":
        name = f"{Path(address).stem}.webp"
        size: tuple[float, float] | None = to_webp(source, folder / name)
        tag = tag.replace(address, address.removesuffix(Path(address).name) + name)
    else:
        size = svg_size(source) if source.suffix == ".svg" else None
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
            pixels.save(target, "WEBP", lossless=True, exact=True)
    return size


def svg_size(source: Path) -> tuple[float, float] | None:
    """Return the width and height that a drawing asks for."""
    text = source.read_text(encoding="utf-8")
    found = SIZE.search(text) or VIEW_BOX.search(text)
    return (float(found[1]), float(found[2])) if found else None
