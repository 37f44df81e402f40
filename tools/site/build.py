"""Build the site from the records, with nothing executed.

Run as `python -m tools.site [--check]`: records what is stale, then runs Jupyter Book.
The module is also a Sphinx extension, so that `jupyter-book build .` finds the records
too: it fills the cache of MyST-NB from them, and refuses to build what is stale.
"""

import argparse
import contextlib
import hashlib
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.address import repository_address

# The heavy imports stand inside the functions: a run that has nothing to do stays fast.

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("attention_lib", "book", "chapters", "notebooks", "tools")
INDEX, STAMP = "_build/html/index.html", "_build/site.sha256"
# In the order in which they hook in; the last look at the pages that are written.
PARTS: tuple[str, ...]
PARTS = ("site.head", "site.launch", "site.program", "site.learn", "site.formulas")
PARTS += ("site.punctuation", "site.terms", "site.search", "site.api")
PARTS += ("site.code_links",)
PARTS += ("site.accessible", "site.icons", "site.lightness", "site.typefaces")
PARTS += ("site.purge", "site.bundle", "site.scrolling")
SETTINGS = ("_config.yml", "_toc.yml", "requirements.txt")


def main(root: Path = ROOT) -> int:
    """Bring the site up to date, and return the command's exit status."""
    parser = argparse.ArgumentParser(prog="tools.site.build", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="build every page anew; record nothing"
    )
    check = parser.parse_args().check
    if not check and is_current(root):
        print(f"The book is ready. Open {root / INDEX}")
        return 0
    if not check and not _records_are_ready(root):
        return 1
    # A page with warnings is not read again by the next run, which would pass; so the
    # stamp stands for a build without any, and where it is missing, all pages are read.
    everything = check or not (root / STAMP).is_file()
    (root / STAMP).unlink(missing_ok=True)
    if check:  # pages whose source is gone must not stay
        shutil.rmtree((root / INDEX).parent, ignore_errors=True)
    status = _build(root, everything)
    if status == 0:
        (root / STAMP).write_text(digest(root), encoding="utf-8")
        print(f"The book is ready. Open {root / INDEX}")
    return status


def digest(root: Path) -> str:
    """Return one hash of everything that the site is made from, its address too."""
    found = hashlib.sha256(str(repository_address(root)).encode())
    for path in _inputs(root):
        found.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def _inputs(root: Path) -> Iterator[Path]:
    """Yield the files that the site is made from, in a fixed order."""
    yield from (root / name for name in SETTINGS)
    for folder in SOURCES:
        paths = sorted((root / folder).rglob("*"))
        yield from (p for p in paths if p.is_file() and p.suffix != ".pyc")


def is_current(root: Path) -> bool:
    """Say whether the last build was without warnings, and from the same files."""
    if not ((root / INDEX).is_file() and (root / STAMP).is_file()):
        return False
    return (root / STAMP).read_text(encoding="utf-8") == digest(root)


def _records_are_ready(root: Path) -> bool:
    """Record what is stale, and report what fails."""
    from tools.record.drafts import examine, strays
    from tools.record.update import update

    try:
        faults = update(examine(root)) + strays(root)
    except (ValueError, FileNotFoundError) as error:
        faults = [str(error)]
    for fault in faults:
        print(fault, file=sys.stderr)
    return not faults


def _build(root: Path, everything: bool) -> int:
    """Run Jupyter Book in this process, which has most of it imported already."""
    from jupyter_book.cli.main import main as jupyter_book

    command = ["build", str(root), "-W", "-n", "--keep-going"]
    command += ["--all"] if everything else []
    log = root / "_build/site.log"
    log.parent.mkdir(exist_ok=True)
    try:
        # Warnings go to standard error, and stay visible.
        with log.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
            jupyter_book(command)
    except SystemExit as end:
        return int(end.code or 0)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def setup(app: Any) -> dict[str, bool]:
    """Hook into Sphinx."""
    for part in PARTS:
        import_module(f"tools.{part}").setup(app)
    # "env": when a part of this extension changes, every page is read anew.
    app.add_config_value("book_extension", _extension(), "env", [str])
    app.connect("builder-inited", _fill_cache)
    app.connect("source-read", _depend_on_record)
    app.connect("env-get-outdated", _depend_on_static)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _extension() -> str:
    """Return one hash of the extension's code."""
    found = hashlib.sha256()
    for path in sorted((ROOT / "tools").rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def _fill_cache(app: Any) -> None:
    """Put every record into the cache that MyST-NB looks into.

    Raises:
        ExtensionError: a record is stale; the build would execute its chapter.
    """
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn
    from nbformat import NotebookNode
    from sphinx.errors import ExtensionError

    from tools.chapters import chapter_paths, notebook_path, read_chapter
    from tools.record.convert import unfolded
    from tools.record.drafts import read_record
    from tools.record.freshness import stale_causes

    root = Path(app.srcdir)
    cache = get_cache(app.env.mystnb_config.execution_cache_path)
    for chapter in chapter_paths(root):
        path = notebook_path(chapter)
        record = read_record(path)
        causes = stale_causes(read_chapter(chapter), record, root)
        if record is None or causes:
            text = f"{chapter.stem}: {', '.join(causes)}: run `make notebooks`"
            raise ExtensionError(text)
        for cell in record.cells:
            cell.metadata = NotebookNode(unfolded(cell))
        bundle = CacheBundleIn(record, str(path))
        cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def _depend_on_record(app: Any, docname: str, source: list[str]) -> None:
    """Have a page built again when its record changes, though its chapter did not."""
    folder, _, stem = docname.rpartition("/")
    if folder == "chapters":
        app.env.note_dependency(str(Path(app.srcdir) / "notebooks" / f"{stem}.ipynb"))


def _depend_on_static(app: Any, *_: Any) -> list[str]:
    """Have one page built again when something that pages load changed.

    Sphinx copies styles and pictures only when it has a page to write.
    """
    source, built = Path(app.srcdir) / "book/_static", Path(app.outdir) / "_static"
    for path in (path for path in source.rglob("*") if path.is_file()):
        copy = built / path.relative_to(source)
        if not copy.is_file() or copy.read_bytes() != path.read_bytes():
            return [str(app.config.root_doc)]
    return []


if __name__ == "__main__":
    sys.exit(main())
