"""Find traces of a machine or a person in notebooks and pages, wherever they stand."""

from pathlib import Path
from typing import Any

import nbformat

from tools.chapters import ROOT
from tools.record.private import details
from tools.record.rules import is_picture, picture_texts

READ = ("notebooks/*.ipynb", "chapters/*.md", "book/*.md", "*.md")


def book_files(root: Path = ROOT) -> list[Path]:
    """Return every notebook and page that people are given."""
    return sorted(path for pattern in READ for path in root.glob(pattern))


def file_traces(path: Path) -> list[str]:
    """Return what a notebook or a page gives away, and where in it."""
    if path.suffix == ".ipynb":
        notebook = nbformat.read(path, as_version=4)
        cells = [(f"cell {n}", cell) for n, cell in enumerate(notebook.cells, 1)]
        parts = [("metadata", notebook.metadata), *cells]
    else:
        lines = path.read_text(encoding="utf-8").splitlines()
        parts = [(f"line {n}", line) for n, line in enumerate(lines, 1)]
    return [f"{place}: {it}" for place, value in parts for it in told(value)]


def told(value: Any) -> list[str]:
    """Return what the texts inside a value give away, however deep they stand."""
    if isinstance(value, str):
        return details(value)
    if isinstance(value, dict):
        value = [*value, *(_read(key, part) for key, part in value.items())]
    if not isinstance(value, list):
        return []
    return [it for part in value for it in told(part)]


def _read(key: str, part: Any) -> Any:
    """Return a part, or the texts inside a picture, whose letters mean nothing."""
    return picture_texts(part) if is_picture(key) and isinstance(part, str) else part
