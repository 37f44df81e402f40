"""The pages of the library: what Sphinx's autodoc lacks. A part of the extension.

The chapter that shows a module, the table of all, and links to source and to others.
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

from tools.address import repository_address
from tools.chapters import chapter_paths
from tools.words import say

EXAMPLES = "book/api/examples.txt"
# A folder of packages, and what exercises are made with, and say.
NO_PAGE = "course", "edits.py", "language.py"
PACKAGE, INDEX, LISTS = "attention_lib", "book/api/index", "book/elsewhere"
SHOWN = re.compile(rf"^# {PACKAGE}\.(\w+): \w", re.M)
# The fields of an entry in their order; parameters and their types become one list.
PARAMETERS = ("param", "type")
FIELDS = (*PARAMETERS, "ivar", "var", "vartype", "returns", "yields", "rtype", "raises")
BASE = re.compile(r"(?:Bases|基类)\W+object")  # as every class has
USED = re.compile(rf"^from {PACKAGE}\.([\w.]+) import ", re.M)


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.add_config_value("book_code_address", None, "env", [str, type(None)])
    app.connect("config-inited", _configure)
    app.connect("source-read", _add_table)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _finish)
    app.connect("autodoc-process-signature", _mend)
    # After autodoc has put the types there, at 500.
    app.connect("object-description-transform", _as_code, priority=600)


def _configure(app: Any, config: Any) -> None:
    """Find the folder of the code, and pack the names that others document.

    A list's first line is its project's address; what follows is an inventory, which
    intersphinx reads only when packed. Nothing is fetched.
    """
    root, folder = Path(app.srcdir), Path(app.doctreedir)
    address = repository_address(root)
    # The commit that CI builds has been pushed; one of this machine need not have been.
    base = address and f"{address}/blob/{os.environ.get('GITHUB_SHA') or 'HEAD'}"
    config.book_code_address = base
    config.linkcode_resolve = lambda domain, info: base and source(root, base, **info)
    config.intersphinx_mapping = {}
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((root / LISTS).glob("*.txt")):
        address, _, names = path.read_text(encoding="utf-8").partition("\n")
        packed = folder / f"{path.stem}.inv"
        head = f"# Sphinx inventory version 2\n# Project: {path.stem}\n#\n# zlib\n"
        packed.write_bytes(head.encode() + zlib.compress(names.encode()))
        config.intersphinx_mapping[path.stem] = (address, str(packed))


def source(root: Path, base: str, module: str, fullname: str) -> str | None:
    """Return where a name is defined, on the repository's pages; None for a value."""
    target = attrgetter(fullname)(import_module(module))
    target = inspect.unwrap(getattr(target, "fget", None) or target)
    try:
        lines, first = inspect.getsourcelines(target)
    except TypeError:
        return None
    file = Path(inspect.getfile(target)).relative_to(root).as_posix()
    return f"{base}/{file}#L{first}-L{first + len(lines) - 1}"


def _add_table(app: Any, page: str, text: list[str]) -> None:
    """Write every module into the index, with its contents and its chapter."""
    root, rows = Path(app.srcdir), []
    for name, file in documented(root).items() if page == INDEX else ():
        app.env.note_dependency(str(file))
        said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        # A module without a page is a broken reference, so an error.
        rows.append(f"   * - :mod:`{name} <{PACKAGE}.{name}>`")
        rows[-1] += f"\n     - {said.partition(chr(10))[0]}"
        rows[-1] += f"\n     - {taught(root, name)}"
    text[0] = text[0].replace("ROWS", "\n".join(sorted(rows)))


def documented(root: Path) -> dict[str, Path]:
    """Return the modules and packages that have a page, with their files."""
    paths = [*root.glob(f"{PACKAGE}/[!_]*"), *root.glob(f"{PACKAGE}/course/[!_]*")]
    files = [path / "__init__.py" if path.is_dir() else path for path in paths]
    return {
        ".".join(path.relative_to(root / PACKAGE).with_suffix("").parts): file
        for path, file in zip(paths, files, strict=True)
        if file.is_file() and file.suffix == ".py" and path.name not in NO_PAGE
    }


def taught(root: Path, module: str) -> str:
    """Return which chapter is the first to show a module, or else to use it."""
    for words, pattern in (("library.shown", SHOWN), ("library.used", USED)):
        for stem, names in modules(root, pattern).items():
            if module in names:
                name = say("page.chapter", number=int(stem.partition("-")[0]))
                return say(words, chapter=f":doc:`{name} </chapters/{stem}>`")
    return ""


@cache
def modules(root: Path, pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """Return the modules that each chapter shows, or uses, by its stem, in order."""
    texts = {p.stem: p.read_text(encoding="utf-8") for p in chapter_paths(root)}
    return {stem: list(dict.fromkeys(pattern.findall(texts[stem]))) for stem in texts}


@cache
def examples(root: Path) -> dict[str, str]:
    """Return the example of each name: the lines below it in one file for all."""
    found = re.split(r"^# ([\w.]+)\n", (root / EXAMPLES).read_text("utf-8"), flags=re.M)
    return dict(zip(found[1::2], found[2::2], strict=True))


def _as_code(app: Any, domain: str, kind: str, content: nodes.Element) -> None:
    """Show types as they are written: Sphinx would treat a shape as a name."""
    for field in content.findall(nodes.field):
        if re.match("type |rtype", field[0].astext()):
            text = re.sub(r"~?\b(?:\w+\.)+(?=\w)", "", field[1].astext())
            text = text.replace("[[...],", "[...,")
            field[1].children = [nodes.paragraph("", "", nodes.literal(text, text))]
    for line in [it for it in content if BASE.fullmatch(it.astext())]:
        content.remove(line)
    for fields in [it for it in content if isinstance(it, nodes.field_list)]:
        fields.children.sort(key=lambda it: (*FIELDS, _kind(it)).index(_kind(it)))
        _leave_out_bare(fields)


def _kind(field: nodes.Node) -> str:
    """Return the first word of a field's name, such as "param"."""
    return str(field.children[0].astext().split()[0].lower())


def _of(field: nodes.Node) -> str:
    """Return the name that a field is about: the last word of the field's own."""
    return str(field.children[0].astext().split()[-1])


def _leave_out_bare(fields: nodes.field_list) -> None:
    """Leave out parameters that say no more than the signature: no text, no shape.

    And those that a class lists again as its variables, in words.
    """
    listed = [it for it in fields if _kind(it) in PARAMETERS]
    told = {_of(it) for it in fields if _kind(it) in ("ivar", "var")}
    if any(it.children[1].astext() for it in listed if _kind(it) == "param"):
        return
    rest = [it for it in listed if _of(it) not in told]
    has_shape = any("[" in it.children[1].astext() for it in rest)
    for field in listed:
        if not has_shape or field not in rest:
            fields.remove(field)
    if not fields.children:
        fields.parent.remove(fields)


def _skip(app: Any, what: str, name: str, target: Any, *_: Any) -> bool | None:
    """Leave out the fields of a named tuple, which its own entry lists."""
    doc = getattr(target, "__doc__", "") or ""
    return True if doc.startswith("Alias for field number") else None


def _finish(app: Any, what: str, name: str, target: Any, _: Any, lines: Any) -> None:
    """Finish an entry: add an example and a chapter, leave out a value's type."""
    app.env.note_dependency(str(Path(app.srcdir) / EXAMPLES))
    found, key = examples(Path(app.srcdir)), name.partition(".")[2]
    if example := found.get(key, found.get(key.rpartition(".")[2])):
        lines += f"\n.. rubric:: {say('library.example')}\n\n{example}\n".splitlines()
    if what == "module":
        lines += [taught(Path(app.srcdir), name.partition(".")[2]), ""]
    elif what == "data" and "\n".join(lines).strip() == inspect.getdoc(type(target)):
        lines.clear()


def _mend(app: Any, what: str, name: str, target: Any, *_: Any) -> Any:
    """Remove another project's constructor."""
    origin = getattr(getattr(target, "__init__", None), "__module__", "")
    if what == "class" and not origin.startswith(PACKAGE):
        return "", ""
    return None
