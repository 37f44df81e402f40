"""Find traces of a machine or a person in notebooks and pages, wherever they stand.

Run as `python -m tools.check.traces [FILE ...]`: the whole book by default.
"""

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from tools.record.private import details
from tools.record.rules import is_picture

ROOT = Path(__file__).resolve().parents[2]
READ = ("notebooks/*.ipynb", "chapters/*.md", "book/*.md", "*.md")


def book_files(root: Path = ROOT) -> list[Path]:
    """Return every notebook and page that people are given."""
    return sorted(path for pattern in READ for path in root.glob(pattern))


def file_traces(path: Path) -> list[str]:
    """Return what a notebook or a page gives away, and where in it."""
    if path.suffix == ".ipynb":
        return notebook_traces(nbformat.read(path, as_version=4))
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return [f"line {number}: {it}" for number, line in lines for it in details(line)]


def notebook_traces(notebook: NotebookNode) -> list[str]:
    """Return what a notebook gives away: in text, code, outputs or metadata."""
    found = [f"metadata: {it}" for it in _told(notebook.metadata)]
    for number, cell in enumerate(notebook.cells, 1):
        outputs = [_without_pictures(output) for output in cell.get("outputs", [])]
        parts = {**cell, "outputs": outputs}
        found += [
            f"cell {number}, {name}: {it}"
            for name, value in parts.items()
            for it in _told(value)
        ]
    return found


def _told(value: Any) -> list[str]:
    """Return what the texts inside a value give away, however deep they stand."""
    if isinstance(value, str):
        return details(value)
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if not isinstance(value, list):
        return []
    return [it for part in value for it in _told(part)]


def _without_pictures(output: NotebookNode) -> dict[str, Any]:
    """Return an output without its pictures, whose letters mean nothing."""
    data = output.get("data", {})
    return {**output, "data": {m: v for m, v in data.items() if not is_picture(m)}}


def main() -> int:
    """Name every trace, and return the command's exit status."""
    paths = [Path(name) for name in sys.argv[1:]] or book_files()
    found = [f"{path}: {it}" for path in paths for it in file_traces(path)]
    print("\n".join(found) or f"{len(paths)} files give nothing away")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
