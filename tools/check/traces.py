"""Find traces of a machine or a person in notebooks and pages, wherever they stand.

Run as `python -m tools.check.traces [FILE ...]`: the whole book by default.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tools.chapters import ROOT
from tools.record.private import details
from tools.record.rules import is_picture

READ = ("notebooks/*.ipynb", "chapters/*.md", "book/*.md", "*.md")


def book_files(root: Path = ROOT) -> list[Path]:
    """Return every notebook and page that people are given."""
    return sorted(path for pattern in READ for path in root.glob(pattern))


def file_traces(path: Path) -> list[str]:
    """Return what a notebook or a page gives away, and where in it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        notebook = json.loads(text)
        found = [f"metadata: {it}" for it in _told(notebook["metadata"])]
        cells = enumerate(notebook["cells"], 1)
        return found + [f"cell {n}: {it}" for n, cell in cells for it in _told(cell)]
    lines = enumerate(text.splitlines(), 1)
    return [f"line {number}: {it}" for number, line in lines for it in details(line)]


def _told(value: Any) -> list[str]:
    """Return what the texts inside a value give away, however deep they stand."""
    if isinstance(value, str):
        return details(value)
    if isinstance(value, dict):  # but the letters of a picture mean nothing
        kept = {key: it for key, it in value.items() if not is_picture(key)}
        value = [*kept, *kept.values()]
    if not isinstance(value, list):
        return []
    return [it for part in value for it in _told(part)]


def main() -> int:
    """Name every trace, and return the command's exit status."""
    paths = [Path(name) for name in sys.argv[1:]] or book_files()
    found = [f"{path}: {it}" for path in paths for it in file_traces(path)]
    print("\n".join(found) or f"{len(paths)} files give nothing away")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
