"""Chapters in; each as a notebook, with its record and what is stale in it, out."""

import copy
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.chapters import chapter_paths, code_of, notebook_path
from tools.record.book import read_book
from tools.record.convert import plain_notebook
from tools.record.freshness import stale_causes
from tools.site.kept import Kept

PROSE = "its prose is not in step"


@dataclass(frozen=True)
class Draft:
    """A chapter as a notebook without outputs, its record, and why that is stale."""

    chapter: Path
    plain: NotebookNode
    record: NotebookNode | None
    causes: list[str]


def examine(root: Path, *, again: bool = False) -> list[Draft]:
    """Compare chapters with their records, in reading order.

    Those that were in step when last compared are left out, unless `again`.
    """
    book = read_book(root)
    kept = Kept(root / "_build/compared.json", root, book.shown())
    drafts = []
    for chapter in chapter_paths(root):
        path = notebook_path(chapter)
        if not kept.is_new(chapter.stem, chapter, path) and not again:
            continue
        plain = plain_notebook(chapter, book)
        record = read_record(path)
        causes = stale_causes(plain, record, root)
        if record is not None and not causes:
            text = path.read_text(encoding="utf-8")
            causes = [PROSE] * (_serialised(with_outputs(plain, record)) != text)
        if causes:
            del kept.now[chapter.stem]
        drafts.append(Draft(chapter, plain, record, causes))
    kept.write()
    return drafts


def strays(root: Path) -> list[str]:
    """List every notebook that belongs to no chapter of `_toc.yml`."""
    kept = {notebook_path(chapter) for chapter in chapter_paths(root)}
    return [
        f"notebooks/{path.name} has no chapter: list it in _toc.yml, or delete the file"
        for path in sorted((root / "notebooks").glob("*.ipynb"))
        if path not in kept
    ]


def with_outputs(plain: NotebookNode, record: NotebookNode) -> NotebookNode:
    """Return the chapter with the outputs of a record that has the same code cells."""
    merged = copy.deepcopy(plain)
    for cell, recorded in zip(code_of(merged), code_of(record), strict=True):
        cell.outputs = recorded.outputs
        cell.execution_count = recorded.execution_count
    merged.metadata["attention_book"] = record.metadata["attention_book"]
    return merged


def store(chapter: Path, notebook: NotebookNode) -> None:
    """Write a record atomically: an interrupted run leaves the old one."""
    path, text = notebook_path(chapter), _serialised(notebook)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return  # the site reads a page again when its record is newer
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    partial.replace(path)


def read_record(path: Path) -> NotebookNode | None:
    """Return a record, or None if there is none that can be read."""
    try:
        return nbformat.read(path, as_version=4)
    except (FileNotFoundError, ValueError):  # as after a merge with conflicts
        return None


def _serialised(notebook: NotebookNode) -> str:
    """Return the text of a notebook's file, the same on every machine."""
    return str(nbformat.writes(notebook)) + "\n"
