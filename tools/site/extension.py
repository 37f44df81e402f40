"""The Sphinx extension that makes the site, and its parts in their order.

`jupyter-book build .` finds the records by it, too: it fills the cache of MyST-NB from
them, and refuses to build what is stale.
"""

import logging
import re
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

from tools.site.build import ROOT, digest
from tools.site.hooks import when_built
from tools.site.kept import WORDS, Kept

# They work on a page, and on the finished site, in this order: the last writes the
# style sheets for all of it.
PARTS = (
    *("progress", "languages", "head", "launch", "learn", "scripts", "formulas"),
    *("punctuation", "api", "code_links", "listings", "pictures", "accessible"),
    *("finding", "sheets"),
)


def setup(app: Any) -> dict[str, bool]:
    """Hook into Sphinx."""
    # Only the first such call counts. The theme imports a package that makes one on
    # import, and would have every library print what it notes at level INFO.
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    when_built(app, _copy_static)
    for part in PARTS:
        import_module(f"tools.site.{part}").setup(app)
    # "env": when a part of this extension changes, every page is read anew.
    read = digest(ROOT, "tools", *WORDS)
    app.add_config_value("book_extension", read, "env", [str])
    app.connect("builder-inited", _fill_cache)
    app.connect("source-read", _depend_on_record)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _fill_cache(app: Any) -> None:
    """Put every record into the cache that MyST-NB reads."""
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn
    from nbformat import NotebookNode

    from tools.chapters import chapter_paths, notebook_path, read_chapter
    from tools.record.convert import unfolded
    from tools.record.drafts import read_record
    from tools.record.freshness import stale_causes

    root, folder = Path(app.srcdir), Path(app.env.mystnb_config.execution_cache_path)
    cache, kept = get_cache(str(folder)), Kept(folder / "filled.json", root)
    for chapter in chapter_paths(root):
        path = notebook_path(chapter)
        if not kept.is_new(chapter.stem, chapter, path):
            continue
        record = read_record(path)
        causes = stale_causes(read_chapter(chapter), record, root)
        if record is None or causes:
            text = f"{chapter.stem}: {', '.join(causes)}: run `make notebooks`"
            raise ExtensionError(text)
        for cell in record.cells:
            cell.metadata = NotebookNode(unfolded(cell))
        bundle = CacheBundleIn(record, str(path))
        cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    kept.write()


def _depend_on_record(app: Any, docname: str, source: list[str]) -> None:
    """Rebuild a page when a record that it shows changes."""
    shown = r"^(?::doc: \.\./)?chapters/([\w-]+)"
    for stem in re.findall(shown, f"{docname}\n{source[0]}", re.MULTILINE):
        app.env.note_dependency(str(Path(app.srcdir, f"notebooks/{stem}.ipynb")))


def _copy_static(app: Any) -> None:
    """Copy what pages load; Sphinx does so only when it has a page to write."""
    target = Path(app.outdir) / "_static"
    shutil.copytree(Path(app.srcdir) / "book/_static", target, dirs_exist_ok=True)
    shutil.copy(Path(app.srcdir) / "explorer_source/src/sentence.css", target)
