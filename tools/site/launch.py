"""What a reader does with a page: open in Colab, download, edit, report a mistake.

The templates in book/_templates put these links where the theme's buttons were: those
hand out a page's source, a `.md`, which neither Colab nor a reader can run.
"""

import shutil
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

from tools.address import colab_folder, page_links, repository_address
from tools.site.hooks import when_built
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
    when_built(app, _copy_notebooks)


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
        title = app.env.titles[page].astext()
        tools |= page_links(app.config.book_address, source, title)
    context |= {"book_tools": tools, "say": say}


def _record(app: Any, pagename: str) -> Path | None:
    """Return a chapter's notebook, or None for other pages."""
    folder, _, stem = pagename.rpartition("/")
    path = Path(app.srcdir) / NOTEBOOKS / f"{stem}.ipynb"
    return path if folder == "chapters" and path.is_file() else None


def _copy_notebooks(app: Any) -> None:
    """Copy the chapters' records to the pages, for "Download notebook"."""
    folder = Path(app.outdir) / NOTEBOOKS
    shutil.rmtree(folder, ignore_errors=True)  # a chapter may have gone
    folder.mkdir()
    for page in app.env.found_docs:
        if record := _record(app, page):
            shutil.copyfile(record, folder / record.name)
