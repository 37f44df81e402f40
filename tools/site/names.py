"""What the library calls its things: every public name, found without importing it."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = "attention_lib"


class Entry(NamedTuple):
    """A public name: who offers it, and the statement that defines it."""

    module: str  # that offers it, such as `masks`
    name: str
    file: Path
    node: ast.stmt

    @property
    def address(self) -> str:
        """The full name, which is also the anchor on the module's page."""
        return f"{PACKAGE}.{self.module}.{self.name}"

    @property
    def page(self) -> str:
        """The page that documents it, as Sphinx names pages."""
        return api_page(self.module)


def api_page(module: str) -> str:
    """Return the page of a module, as Sphinx names pages."""
    return f"book/api/{module.replace('_', '-')}"


def modules(root: Path) -> list[str]:
    """Return the library's public modules, by their names."""
    found = [p for p in (root / PACKAGE).iterdir() if _file(p).is_file()]
    return sorted(p.stem for p in found if not p.stem.startswith("_"))


def module_file(root: Path, module: str) -> Path:
    """Return the file that holds a module; of a folder its first."""
    folder = root / PACKAGE / module
    return _file(folder if folder.is_dir() else folder.with_suffix(".py"))


def public_names(root: Path) -> dict[str, Entry]:
    """Return every public name of the library; no two modules share one."""
    return {e.name: e for module in modules(root) for e in entries(root, module)}


def entries(root: Path, module: str) -> list[Entry]:
    """Return the public names of a module: in the order of its source, or of `__all__`.

    Raises:
        ValueError: a folder's `__all__` holds a name that none of its files defines.
    """
    file = module_file(root, module)
    if file.name != "__init__.py":
        return [Entry(module, name, file, node) for name, node in _defined(file)]
    inside = sorted(file.parent.glob("*.py"))
    found = {name: Entry(module, name, f, n) for f in inside for name, n in _defined(f)}
    offered = next(
        ast.literal_eval(node.value)
        for node in parsed(file).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    if missing := [name for name in offered if name not in found]:
        raise ValueError(f"{PACKAGE}.{module} offers {missing[0]}, which is nowhere")
    return [found[name] for name in offered]


def imported(file: Path) -> dict[str, str]:
    """Return what each imported name of a file stands for: `nn` for `torch.nn`."""
    names: dict[str, str] = {}
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            names |= {a.asname: a.name for a in node.names if a.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return names


def parsed(file: Path) -> ast.Module:
    """Parse a file; once, as long as it does not change."""
    return _parsed(file, file.stat().st_mtime_ns)


@cache
def _parsed(file: Path, changed: int) -> ast.Module:
    """Parse a file."""
    return ast.parse(file.read_text(encoding="utf-8"))


def _file(path: Path) -> Path:
    """Return the file that a module is: of a folder its first."""
    return path if path.suffix == ".py" else path / "__init__.py"


def _defined(file: Path) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the public names that a file defines, each with its statement."""
    for node in parsed(file).body:
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [t.id for t in node.targets if isinstance(t, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        yield from ((name, node) for name in names if not name.startswith("_"))
