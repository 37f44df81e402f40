"""Code in, the files of `attention_lib` that it reaches through its imports out.

Read from the syntax alone. If that is not conclusive, it returns too much rather than
too little.
"""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

LIBRARY = "attention_lib"


def reached_files(sources: Iterable[str], root: Path) -> set[Path]:
    """Return the files that a notebook's cells import, directly or indirectly."""
    found: set[Path] = set()
    todo = _imported(tuple(sources), root)
    while todo:
        found |= todo
        texts = [path.read_text(encoding="utf-8") for path in todo]
        todo = set().union(*(_imported((text,), root) for text in texts)) - found
    return found


@cache
def _imported(sources: tuple[str, ...], root: Path) -> set[Path]:
    """Return the files that code imports itself; cached, as many chapters share it."""
    try:
        nodes = [node for text in sources for node in _nodes(text)]
    except SyntaxError:  # a magic or a shell line: anything may be behind it
        return _everything(root)
    found: set[Path] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            if any(alias.name.split(".")[0] == LIBRARY for alias in node.names):
                return _everything(root)
        elif isinstance(node, ast.ImportFrom):
            if node.level:  # the library imports by full names; so this says too much
                return _everything(root)
            for alias in node.names:
                found |= _name(node.module or "", alias.name, root)
    return found


@cache
def _nodes(source: str) -> tuple[ast.AST, ...]:
    """Return a code's imports; cached, since many chapters share a file."""
    found: list[ast.AST] = []
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:  # no expression holds an import, and most of a tree is expressions
        node = todo.pop()
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, name, ())
            todo += inner if isinstance(inner, list) else ()
        found += [node] * isinstance(node, ast.Import | ast.ImportFrom)
    return tuple(found)


def _name(module: str, name: str, root: Path) -> set[Path]:
    """Return the files behind `from module import name`."""
    package = _path(module, root)
    if package is None:
        return set()
    path = _path(f"{module}.{name}", root)
    if path or package.name != "__init__.py":
        return {path or package}
    for node in _nodes(package.read_text(encoding="utf-8")):
        if isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _name(node.module or "", alias.name, root)
    return _everything(root) if module == LIBRARY else {package}


def _path(module: str, root: Path) -> Path | None:
    """Return the file of a module of the library; None for any other module."""
    base = root.joinpath(*module.split("."))
    files = (base.with_suffix(".py"), base / "__init__.py")
    ours = module.split(".")[0] == LIBRARY
    return next((path for path in files if ours and path.is_file()), None)


def _everything(root: Path) -> set[Path]:
    return set((root / LIBRARY).rglob("*.py"))
