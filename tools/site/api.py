"""The pages of the library: what Sphinx's autodoc lacks. A part of the extension.

A page asks autodoc for its module, by the settings of `_config.yml`. Here stand the
chapter that shows a module, the table of all of them, the lines of the source on the
repository's pages, and the names in other projects' documentation.
"""

import ast
import inspect
import os
import re
import zlib
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

from tools.address import repository_address
from tools.chapters import chapter_paths
from tools.record.shown import HEADER

PACKAGE = "attention_lib"
SHOWN = re.compile(HEADER.pattern, re.M)
USED = re.compile(rf"^from {PACKAGE}\.(\w+) import ", re.M)
LISTS = "book/elsewhere"
INVENTORY = "# Sphinx inventory version 2\n# Project: {}\n# Version:\n# zlib\n"


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.add_config_value("book_code_address", None, "env", [str, type(None)])
    app.add_directive("library-index", LibraryIndex)
    app.connect("config-inited", _find_source)
    app.connect("config-inited", _pack_lists)
    app.connect("autodoc-process-docstring", _finish)
    app.connect("autodoc-skip-member", _leave_out)


class LibraryIndex(Directive):
    """``.. library-index::``: every module, in a line, and its chapter."""

    def run(self) -> list[nodes.Node]:
        """Make the table, from the sources alone."""
        env = self.state.document.settings.env
        root = Path(env.srcdir)
        lines = [".. list-table::", "   :header-rows: 1", ""]
        lines += ["   * - Module", "     - What it holds", "     - Chapter"]
        found = [*(root / PACKAGE).glob("*.py"), *(root / PACKAGE).glob("*/__init__.py")]
        modules = {p.parent.name if p.stem == "__init__" else p.stem: p for p in found}
        for module, path in sorted(modules.items()):
            if module.startswith("_") or module == PACKAGE:
                continue
            env.note_dependency(str(path))
            said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            # A module without a page has no such target, which is an error.
            lines += [f"   * - :mod:`{module} <{PACKAGE}.{module}>`"]
            lines += [f"     - {said.partition(chr(10))[0]}"]
            lines += [f"     - {taught(root, module)[1]}"]
        box = nodes.Element()
        box.document = self.state.document
        source = StringList(lines, source=self.state.document["source"])
        self.state.nested_parse(source, self.content_offset, box)
        return list(box.children)


@cache
def taught(root: Path, module: str) -> tuple[str, str]:
    """Return how the first chapter that shows a module, or else uses it, takes it up.

    With a link to that chapter; both are empty where there is none.
    """
    for verb, pattern in (("Shown", SHOWN), ("First used", USED)):
        for path in chapter_paths(root):
            if module in shown_modules(path, pattern):
                number = int(path.stem.partition("-")[0])
                return verb, f":doc:`Chapter {number} </chapters/{path.stem}>`"
    return "", ""


@cache
def shown_modules(chapter: Path, pattern: re.Pattern[str] = SHOWN) -> list[str]:
    """Return the modules whose code a chapter shows, in order."""
    text = chapter.read_text(encoding="utf-8")
    return list(dict.fromkeys(found[1] for found in pattern.finditer(text)))


def _finish(
    app: Any, what: str, name: str, target: Any, options: Any, lines: list[str]
) -> None:
    """Add a module's chapter; of a value, leave out the docstring of its type."""
    if what == "module":
        verb, link = taught(Path(app.srcdir), name.removeprefix(f"{PACKAGE}."))
        lines += ["", f"{verb} in {link}." if verb else "", ""]
    elif what == "data" and "\n".join(lines).strip() == inspect.getdoc(type(target)):
        lines.clear()


def _leave_out(
    app: Any, what: str, name: str, target: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out the methods that other projects add to a class of the library."""
    origin = getattr(target, "__module__", None) or PACKAGE
    return True if what == "class" and not origin.startswith(PACKAGE) else None


def _find_source(app: Any, config: Any) -> None:
    """Have each name lead to its lines, where the repository's address is known."""
    root = Path(app.srcdir)
    address = repository_address(root)
    # The commit that CI builds has been pushed; one of this machine need not have been.
    commit = os.environ.get("GITHUB_SHA") or "HEAD"
    base = f"{address}/blob/{commit}" if address else None
    config.book_code_address = base
    config.linkcode_resolve = lambda domain, info: (
        base and _with_lines(root, base, info["module"], info["fullname"])
    )


def _with_lines(root: Path, base: str, module: str, name: str) -> str | None:
    """Return where a name is defined; None for a value."""
    target = attrgetter(name)(import_module(module))
    target = inspect.unwrap(getattr(target, "fget", None) or target)
    try:
        lines, first = inspect.getsourcelines(target)
    except TypeError:
        return None
    file = Path(inspect.getfile(target)).relative_to(root).as_posix()
    return f"{base}/{file}#L{first}-L{first + len(lines) - 1}"


def _pack_lists(app: Any, config: Any) -> None:
    """Pack each list of another project's names as intersphinx reads it.

    Its first line is the project's address, the others those of an inventory. Nothing
    is fetched, since the book is built without a network; `make links` visits the
    addresses that pages lead to.
    """
    folder = Path(app.doctreedir)
    folder.mkdir(parents=True, exist_ok=True)
    config.intersphinx_mapping = {}
    for path in sorted((Path(app.srcdir) / LISTS).glob("*.txt")):
        address, _, names = path.read_text(encoding="utf-8").partition("\n")
        packed = folder / f"{path.stem}.inv"
        head = INVENTORY.format(path.stem).encode()
        packed.write_bytes(head + zlib.compress(names.encode()))
        config.intersphinx_mapping[path.stem] = (address, str(packed))
