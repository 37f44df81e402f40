"""Which modules of the library each chapter shows and uses, by its code cells."""

import re
from functools import cache
from pathlib import Path

from tools.chapters import chapter_paths
from tools.record.shown import HEADER

USED = re.compile(r"^(?:from|import) attention_lib(?:\.(\w+)| import ([\w, ]+))", re.M)
SHOWN = re.compile(HEADER.pattern, re.M)


def shown_names(text: str) -> list[tuple[str, list[str]]]:
    """Return the module and the names of each cell that shows library code.

    >>> shown_names("# attention_lib.masks: causal_mask")
    [('masks', ['causal_mask'])]
    """
    return [(found[1], found[2].split(", ")) for found in SHOWN.finditer(text)]


def shown_modules(root: Path) -> dict[str, list[str]]:
    """Return the modules that each chapter shows, by the chapter's stem, in order."""
    return {
        path.stem: list(dict.fromkeys(module for module, _ in shown_names(text)))
        for path, text in _texts(root)
    }


def first_chapter(root: Path, module: str) -> str | None:
    """Return the first chapter that shows a module, or else uses it; its stem."""
    for stem, shown in shown_modules(root).items():
        if module in shown:
            return stem
    for path, text in _texts(root):
        if module in _used(text):
            return path.stem
    return None


def _used(text: str) -> set[str]:
    """Return the modules that a chapter imports from."""
    found = set()
    for match in USED.finditer(text):
        found |= {match[1]} if match[1] else set(match[2].split(", "))
    return found


def _texts(root: Path) -> list[tuple[Path, str]]:
    """Return the chapters with their texts, in the reading order."""
    return [(path, _text(path, path.stat().st_mtime)) for path in chapter_paths(root)]


@cache
def _text(path: Path, changed: float) -> str:
    """Read a chapter once, however many pages ask."""
    return path.read_text(encoding="utf-8")
