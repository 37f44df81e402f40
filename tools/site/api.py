"""The pages of the library, from its docstrings: a part of the Sphinx extension.

A page holds one directive, which asks autodoc for every public name that its module
defines. What is shown of a signature comes from the source, as it was written there:
at run time `Float[Tensor, "B T M"]` is a class with a long name of its own.

Run as `python -m tools.site.api` to write the pages that new modules lack.
"""

import ast
import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx import addnodes

from tools.address import repository_address
from tools.site.elsewhere import address_elsewhere
from tools.site.in_chapters import first_chapter, shown_modules
from tools.site.names import (
    PACKAGE,
    Entry,
    api_page,
    entries,
    imported,
    modules,
    parsed,
)

ROOT = Path(__file__).resolve().parents[2]
PAGE = """# {package}.{module}

```{{eval-rst}}
.. library-module:: {module}
```
"""
OPTIONS = {
    "add_module_names": False,
    "autodoc_default_options": {"show-inheritance": True, "members": True},
    "autodoc_inherit_docstrings": False,
    "autodoc_member_order": "bysource",
    "napoleon_numpy_docstring": False,
    "napoleon_use_ivar": True,
    # One parameter a line, since a phone has no room for two.
    "python_maximum_signature_line_length": 40,
    "toc_object_entries_show_parents": "hide",
}


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    for name in ("autodoc", "napoleon", "linkcode"):
        app.setup_extension(f"sphinx.ext.{name}")
    app.add_config_value("book_code_address", None, "env", [str, type(None)])
    app.add_directive("library-module", LibraryModule)
    app.add_directive("library-index", LibraryIndex)
    app.connect("config-inited", _configure)
    app.connect("autodoc-process-signature", _as_written)
    app.connect("autodoc-process-bases", _bases_as_written)
    app.connect("autodoc-skip-member", _only_written)
    app.connect("doctree-read", _double_quotes)
    app.connect("missing-reference", _find_elsewhere)


def _configure(app: Any, config: Any) -> None:
    """Set what autodoc does, and find where the code stands."""
    for name, value in OPTIONS.items():
        setattr(config, name, value)
    root = Path(app.srcdir)
    address = repository_address(root)
    # The commit that CI builds has been pushed; one of this machine need not have been.
    commit = os.environ.get("GITHUB_SHA") or "HEAD"
    config.book_code_address = f"{address}/blob/{commit}" if address else None
    config.linkcode_resolve = lambda domain, info: _source(root, config, info)


class LibraryModule(Directive):
    """``.. library-module:: masks``: what a module says, and all its names."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Ask autodoc for the module, and for each of its names."""
        env = self.state.document.settings.env
        root, module = Path(env.srcdir), self.arguments[0]
        for path in _files(root, module):
            env.note_dependency(str(path))
        # No members: autodoc would leave out data, and what a folder imports.
        lines = [f".. automodule:: {PACKAGE}.{module}", "   :no-members:", ""]
        lines += [_chapter_line(root, module), ""]
        for entry in entries(root, module):
            lines += [*_documented(entry), ""]
        return _parsed(self, lines)


class LibraryIndex(Directive):
    """``.. library-index::``: every module, in a line, and its chapter."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        env = self.state.document.settings.env
        root = Path(env.srcdir)
        rows = [("Module", "What it holds", "Chapter")]
        for module in modules(root):
            file, *_ = _files(root, module)
            env.note_dependency(str(file))
            said = ast.get_docstring(parsed(file)) or ""
            link = f":doc:`{module} </{api_page(module)}>`"
            rows.append((link, said.partition("\n")[0], _chapter_link(root, module)))
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for row in rows:
            lines += [f"   {'*' if not i else ' '} - {x}" for i, x in enumerate(row)]
        return _parsed(self, lines)


def _parsed(directive: Directive, lines: list[str]) -> list[nodes.Node]:
    """Read lines of reStructuredText."""
    box = nodes.Element()
    box.document = directive.state.document
    source = StringList(lines, source=directive.state.document["source"])
    directive.state.nested_parse(source, directive.content_offset, box)
    return list(box.children)


def _files(root: Path, module: str) -> list[Path]:
    """Return the files of a module, the one with its docstring first."""
    folder = root / PACKAGE / module
    if not folder.is_dir():
        return [folder.with_suffix(".py")]
    rest = sorted(set(folder.glob("*.py")) - {folder / "__init__.py"})
    return [folder / "__init__.py", *rest]


def _chapter_line(root: Path, module: str) -> str:
    """Say which chapter shows a module, or which one uses it first."""
    if not (chapter := first_chapter(root, module)):
        return ""
    shown = module in shown_modules(root)[chapter]
    verb = "Shown" if shown else "Used first"
    return f"{verb} in {_chapter_link(root, module)}, :doc:`/chapters/{chapter}`."


def _chapter_link(root: Path, module: str) -> str:
    """Return a link to the chapter that a module belongs to, or nothing."""
    chapter = first_chapter(root, module)
    if not chapter:
        return ""
    return f":doc:`Chapter {int(chapter.partition('-')[0])} </chapters/{chapter}>`"


def _documented(entry: Entry) -> list[str]:
    """Return the directive that documents one name."""
    name = f"{PACKAGE}.{entry.module}.{entry.name}"
    if isinstance(entry.node, ast.FunctionDef):
        return [f".. autofunction:: {name}"]
    if isinstance(entry.node, ast.ClassDef):
        return [f".. autoclass:: {name}"]
    # Autodoc would show what a value has become, and the docstring of its type.
    lines = [f".. py:data:: {entry.name}", f"   :module: {PACKAGE}.{entry.module}"]
    if isinstance(entry.node, ast.AnnAssign):
        lines.append(f"   :type: {ast.unparse(entry.node.annotation)}")
    assert isinstance(entry.node, ast.Assign | ast.AnnAssign)
    value = " ".join(ast.unparse(entry.node.value or ast.Constant(None)).split())
    return [*lines, f"   :value: {value.replace(chr(39), chr(34))}"]


# Signatures as they stand in the source.


def _as_written(
    app: Any, what: str, name: str, target: Any, *_: Any
) -> tuple[str, str] | None:
    """Return a signature from the source, the receiver left out."""
    node = _definition(target)
    if isinstance(node, ast.ClassDef):
        return _class_signature(node), ""
    if not isinstance(node, ast.FunctionDef):
        return None
    is_static = any(ast.unparse(d) == "staticmethod" for d in node.decorator_list)
    returns = ast.unparse(node.returns) if node.returns else ""
    return _arguments(node, method=what == "method" and not is_static), returns


def _class_signature(node: ast.ClassDef) -> str:
    """Return what a class is made with: of a dataclass its fields."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return _arguments(part, method=True)
    if not any("dataclass" in ast.unparse(d) for d in node.decorator_list):
        return ""
    fields = [
        ast.unparse(part) for part in node.body if isinstance(part, ast.AnnAssign)
    ]
    return f"({', '.join(fields)})"


def _arguments(node: ast.FunctionDef, *, method: bool) -> str:
    """Return the parameters of a function, in parentheses."""
    shown = ast.unparse(node.args)
    return f"({re.sub(r'^(self|cls)(, )?', '', shown) if method else shown})"


def _bases_as_written(
    app: Any, name: str, target: Any, options: Any, bases: list[Any]
) -> None:
    """Name the bases of a class as its source does."""
    node = _definition(target)
    if isinstance(node, ast.ClassDef) and node.bases:
        written = [ast.unparse(base) for base in node.bases]
        bases[:] = [re.sub(r"[\w.]+", r":py:class:`\g<0>`\\ ", w) for w in written]


def _only_written(
    app: Any, what: str, name: str, target: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what a class's source does not hold: other projects add methods."""
    foreign = inspect.isroutine(target) and _definition(target) is None
    return True if what == "class" and foreign else None


def _definition(target: Any) -> ast.AST | None:
    """Return the statement that defines a function or class of the library."""
    target = inspect.unwrap(target)
    target = getattr(target, "fget", None) or target
    module = str(getattr(target, "__module__", ""))
    if not module.startswith(PACKAGE):
        return None
    file = Path(str(sys.modules[module].__file__))
    node: ast.AST = parsed(file)
    for part in str(getattr(target, "__qualname__", "")).split("."):
        inside = ast.iter_child_nodes(node)
        found = next((n for n in inside if getattr(n, "name", None) == part), None)
        if found is None:
            return None
        node = found
    return node


def _double_quotes(app: Any, doctree: nodes.document) -> None:
    """Show shapes in double quotes, as they are written: Sphinx prints their `repr`."""
    for node in doctree.findall(addnodes.desc_signature):
        for text in list(node.findall(nodes.Text)):
            if re.fullmatch(r"'[^'\"]*'", text):
                text.parent.replace(text, nodes.Text(f'"{text[1:-1]}"'))


# Links out of signatures.


def _find_elsewhere(
    app: Any, env: Any, node: addnodes.pending_xref, contnode: nodes.Element
) -> nodes.Element | None:
    """Link a name in a signature: the library's own, or another project's."""
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"])
    module = str(node.get("py:module") or "")
    full = _meant(Path(app.srcdir), module.removeprefix(f"{PACKAGE}."), target)
    if full.startswith(f"{PACKAGE}."):
        return _own(env, str(node["refdoc"]), full, contnode)
    address = address_elsewhere(full)
    if address is None:
        return None
    return nodes.reference("", "", contnode, internal=False, refuri=address)


def _meant(root: Path, module: str, name: str) -> str:
    """Return the full name of what a module's source calls `name`."""
    if module not in modules(root):
        return name
    first, dot, rest = name.partition(".")
    for file in _files(root, module):
        known = imported(file)
        own = {entry.name: entry.address for entry in entries(root, module)}
        if meant := own.get(first) or known.get(first):
            return f"{meant}{dot}{rest}"
    return name


def _own(
    env: Any, page: str, full: str, contnode: nodes.Element
) -> nodes.Element | None:
    """Link a name of the library, whichever of its modules it was imported from."""
    objects = env.get_domain("py").objects
    last = full.rpartition(".")[2]
    places = [n for n in objects if n == full or n.endswith(f".{last}")]
    if not places:
        return None
    name = full if full in places else min(places, key=len)
    address = env.app.builder.get_relative_uri(page, objects[name].docname)
    uri = f"{address}#{objects[name].node_id}"
    return nodes.reference("", "", contnode, internal=True, refuri=uri)


def _source(root: Path, config: Any, info: dict[str, str]) -> str | None:
    """Return where a name is defined, on the repository's pages."""
    if config.book_code_address is None:
        return None
    module, (name, _, inner) = info["module"], info["fullname"].partition(".")
    offered = entries(root, module.removeprefix(f"{PACKAGE}."))
    entry = next((entry for entry in offered if entry.name == name), None)
    if entry is None:
        return None
    node: Any = entry.node
    for part in getattr(node, "body", ()) if inner else ():
        node = part if getattr(part, "name", None) == inner else node
    lines = f"#L{node.lineno}-L{node.end_lineno}"
    return f"{config.book_code_address}/{entry.file.relative_to(root)}{lines}"


def missing_pages(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the page of each module that has none, with its text."""
    for module in modules(root):
        path = root / f"{api_page(module)}.md"
        if not path.is_file():
            yield path, PAGE.format(package=PACKAGE, module=module)


def main(root: Path = ROOT) -> int:
    """Write the pages that are missing."""
    for path, text in missing_pages(root):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(root)}: add it to _toc.yml")
    return 0


if __name__ == "__main__":
    sys.exit(main())
