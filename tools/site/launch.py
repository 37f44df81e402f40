"""What a reader does with a page: open in Colab, download, edit, report a mistake.

The templates in book/_templates put these links where the theme's buttons were: those
hand out a page's source, a `.md`, which neither Colab nor a reader can run.
"""

import base64
import mimetypes
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from sphinx.errors import ExtensionError

from tools.address import (
    colab_folder,
    page_links,
    repository_address,
    site_address,
)
from tools.export.copies import PICTURES, TARGET, copied, origin, stamp
from tools.site.hooks import when_built
from tools.site.languages import FOLDER, edition
from tools.words import say

TEMPLATES = Path(__file__).resolve().parents[2] / "book/_templates"
NOTEBOOKS = "notebooks"
OURS = {"404.html"}  # a page of its own, in place of none of the theme's


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    # "html": when the address changes, every page is written anew.
    app.add_config_value("book_address", None, "html", [str, type(None)])
    app.connect("config-inited", _configure)
    app.connect("builder-inited", _compare_templates)
    # Before the theme tries its templates, at 500, to leave out those that are empty.
    app.connect("html-page-context", _add_tools, priority=400)
    when_built(app, _write_notebooks)


def _configure(app: Any, config: Any) -> None:
    """Keep the address, or None; look for templates here before the theme's."""
    config.book_address = repository_address(Path(app.srcdir))
    config.templates_path = [str(TEMPLATES), *config.templates_path]


def _compare_templates(app: Any) -> None:
    """Refuse a template that no longer replaces one of the theme's."""
    if app.builder.format != "html":
        return
    folders = [Path(folder) for folder in app.builder.theme.get_theme_dirs()]
    for path in TEMPLATES.rglob("*.html"):
        name = path.relative_to(TEMPLATES)
        if path.name not in OURS and not any([*f.glob(f"**/{name}")] for f in folders):
            raise ExtensionError(f"the theme has no {name}: mend book/_templates")


def _add_tools(app: Any, page: str, template: str, context: Any, tree: Any) -> None:
    """Pass `book_tools` to the templates: a page's links, and their words."""
    tools: dict[str, str] = {}
    if record := _record(app, page):
        tools["notebook"] = context["pathto"](f"{NOTEBOOKS}/{record.name}", 1)
        if folder := colab_folder(app.config.book_address):
            tools["colab"] = f"{folder}/{record.name}"
    if page in app.env.found_docs:
        source = str(app.env.doc2path(page, base=False))
        known = edition(app.srcdir)
        if page in known.get("ids", {}).keys() - known.get(
            "english", ()
        ):  # its Chinese is in a catalogue
            source = f"{FOLDER}/{page}.po"
        title = app.env.titles[page].astext()
        tools |= page_links(app.config.book_address, source, title)
    context |= {"book_tools": tools, "say": say}


def _record(app: Any, pagename: str) -> Path | None:
    """Return a chapter's notebook, or None for other pages."""
    folder, _, stem = pagename.rpartition("/")
    path = Path(app.srcdir) / NOTEBOOKS / f"{stem}.ipynb"
    return path if folder == "chapters" and path.is_file() else None


def _write_notebooks(app: Any) -> None:
    """Write the chapters for "Download notebook": copies that work alone.

    Where no commit of a known repository has these files, nothing can be fetched; then
    a record's first line says what it needs. Its pictures come along; what leads to
    other files leads to the published pages, or is no link if there are none.
    """
    root, folder = Path(app.srcdir), Path(app.outdir) / NOTEBOOKS
    try:
        commit = origin(root)
    except ValueError:
        commit = None
    copies = copied(root, *commit, scrolls=False) if commit else {}
    shutil.rmtree(folder, ignore_errors=True)  # a chapter may have gone
    folder.mkdir()
    for record in filter(None, (_record(app, page) for page in app.env.found_docs)):
        book = copies.get(record.name)
        if book is None:
            book = nbformat.read(record, as_version=4)
            book.cells.insert(0, new_markdown_cell(say("copies.needs"), id="needs"))
            for cell in (it for it in book.cells if it.cell_type == "markdown"):
                _let_go(cell, root / NOTEBOOKS, site_address(app.config.book_address))
            stamp(book, "")
        nbformat.write(book, folder / record.name)


def _let_go(cell: NotebookNode, folder: Path, site: str | None) -> None:
    """Make a cell's links work, or be none, where only its notebook is."""
    text = cell.source
    for found in reversed([*TARGET.finditer(text)]):
        target, bracket = found["target"] or "#", found.start() - 2
        path, _, label = target.partition("#")
        if not path or ":" in path:
            continue
        if path.endswith(PICTURES):
            name, data = Path(path).name, (folder / path).read_bytes()
            kind, encoded = mimetypes.guess_type(name)[0], base64.b64encode(data)
            cell.setdefault("attachments", {})[name] = {kind: encoded.decode()}
            target = f"attachment:{name}"
        elif site:
            page = path.removeprefix("../") if "/" in path else f"chapters/{path}"
            page = re.sub(r"\.(md|ipynb)$", ".html", page)
            target = f"{site}{page}#{label}".removesuffix("#")
        else:
            start, depth = bracket, 1
            while depth:
                start -= 1
                depth += {"]": 1, "[": -1}.get(text[start], 0)
            words = text[start + 1 : bracket]
            text = text[:start] + words + text[found.end() + 1 :]
            continue
        text = text[: found.start()] + target + text[found.end() :]
    cell.source = text
