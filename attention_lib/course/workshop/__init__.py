"""A folder in which a reader writes a language model, from an empty file.

``files/model.py`` is the solved file: the readers' own is made from it.
"""

import ast
import re
import shutil
from pathlib import Path
from typing import NamedTuple

from attention_lib.validation import require_path

FILES = Path(__file__).with_name("files")
HEAD = re.compile(
    r"^# Part (?P<number>\d+)\. (?P<title>.+) \((?P<minutes>\d+) minutes, .+\)$", re.M
)
GIVEN = "# Given:"  # what follows is not to be written


class Part(NamedTuple):
    """One part of the file: a few functions, or a class."""

    number: int
    title: str
    minutes: int


def workshop_parts() -> list[Part]:
    """Return the parts, in their order."""
    heads = HEAD.finditer((FILES / "model.py").read_text(encoding="utf-8"))
    return [Part(int(it["number"]), it["title"], int(it["minutes"])) for it in heads]


def write_workshop(folder: str | Path) -> Path:
    """Write the file with its empty parts, its tests and a README.

    Args:
        folder: a new one, or an empty one.

    Returns:
        The folder.

    Raises:
        TypeError: not a path.
        ValueError: a folder that holds something, so that no work is lost; or a file.
    """
    target = require_path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"{target} is not empty: name a new folder")
    target.mkdir(parents=True, exist_ok=True)
    for name in ("README.md", "conftest.py", "pytest.ini", "test_model.py"):
        shutil.copy(FILES / name, target / name)
    solved = (FILES / "model.py").read_text(encoding="utf-8")
    (target / "model.py").write_text(emptied(solved), encoding="utf-8")
    return target


def emptied(solved: str) -> str:
    """Return the file with ``...`` in place of what the reader writes."""
    lines = solved.splitlines()
    end = lines.index(next(line for line in lines if line.startswith(GIVEN)))
    tree = ast.parse(solved)
    nodes = [*tree.body]
    for owner in tree.body:
        nodes += owner.body if isinstance(owner, ast.ClassDef) else []
    written = [
        it for it in nodes if isinstance(it, ast.FunctionDef) and it.lineno < end
    ]
    for node in sorted(written, key=lambda node: node.lineno, reverse=True):
        first, last = node.body[1].lineno - 1, node.end_lineno  # after its docstring
        lines[first:last] = [" " * node.body[1].col_offset + "..."]
    return "\n".join(lines) + "\n"
