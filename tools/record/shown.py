"""Fill the cells that show library code: `# attention_lib.masks: causal_mask`."""

import argparse
import ast
import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.chapters import ROOT, chapter_paths, read_chapter

HEADER = re.compile(r"# attention_lib\.(\w+): (\w+(?:, \w+)*)")


def filled(chapter: Path) -> str:
    """Return a chapter's text with every cell that shows library code as it is now."""
    lines = chapter.read_text(encoding="utf-8").split("\n")
    for _, start, old, new in reversed(list(shown_cells(chapter))):
        lines[start : start + len(old)] = new
    return "\n".join(lines)


def shown_cells(chapter: Path) -> Iterator[tuple[int, int, list[str], list[str]]]:
    """Yield each such cell's number, first line in the file, code, and the library's.

    Raises:
        ValueError: the library has no such module or object.
    """
    notebook = read_chapter(chapter)
    lines = chapter.read_text(encoding="utf-8").split("\n")
    root = chapter.parent.parent
    for number, cell in enumerate(notebook.cells):
        old = cell.source.split("\n")
        match = HEADER.fullmatch(old[0].rstrip())
        if cell.cell_type != "code" or match is None:
            continue
        start = lines.index(old[0], notebook.metadata.source_map[number])
        module = root / "attention_lib" / f"{match[1]}.py"
        try:
            code = library_code(module, match[2].split(", "))
        except (ValueError, FileNotFoundError) as error:
            where = f"chapters/{chapter.name}:{start + 1}"
            raise ValueError(f"{where}: {error}; correct the cell's header") from error
        yield number, start, old, [match[0], *code.split("\n")]


def library_code(module: Path, names: list[str]) -> str:
    """Return the source of a module's objects, decorators included, without importing.

    Raises:
        ValueError: the module does not define one of them.
    """
    text = module.read_text(encoding="utf-8")
    found = {name: node for node in ast.parse(text).body for name in _defined(node)}
    if missing := [name for name in names if name not in found]:
        raise ValueError(f"attention_lib/{module.name} defines no {missing[0]}")
    lines = text.split("\n")
    parts = []
    for node in (found[name] for name in names):
        first = min([node.lineno, *(d.lineno for d in _decorators(node))])
        parts.append("\n".join(lines[first - 1 : node.end_lineno]))
    code = "\n\n\n".join(parts)
    if "```" in code:
        raise ValueError(f"attention_lib/{module.name} holds ```, which ends a cell")
    return code


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Fill all chapters, or with `--check` say which cells differ."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.record.shown", description=__doc__
    )
    parser.add_argument("--check", action="store_true", help="change nothing")
    check = parser.parse_args(arguments).check
    try:
        reports = [r for path in chapter_paths(root) for r in differences(path)]
        if check:
            print("\n".join(reports), end="\n" if reports else "", file=sys.stderr)
            return int(bool(reports))
        for path in chapter_paths(root):
            if (text := filled(path)) != path.read_text(encoding="utf-8"):
                path.write_text(text, encoding="utf-8")
                print(f"filled chapters/{path.name}")
    except (ValueError, FileNotFoundError) as error:
        sys.exit(str(error))
    return 0


def differences(chapter: Path) -> Iterator[str]:
    """Yield, for each cell that shows other code than the library's, what differs."""
    for number, start, old, new in shown_cells(chapter):
        if old == new:
            continue
        line = f"chapters/{chapter.name}:{start + 1}: cell {number} differs from the"
        diff = difflib.unified_diff(old, new, "chapter", "library", lineterm="")
        shown = new[0].removeprefix("# ").replace(": ", ".", 1)
        yield "\n".join(
            [f"{line} library's {shown}; run `python -m tools.record.shown`", *diff]
        )


def _defined(node: ast.stmt) -> list[str]:
    """Return the names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _decorators(node: ast.stmt) -> list[ast.expr]:
    """Return what decorates a definition."""
    return list(getattr(node, "decorator_list", []))


if __name__ == "__main__":
    sys.exit(main())
