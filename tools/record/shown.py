"""Chapters in; the cells that show library code filled with what it is now, out.

Such a cell begins with a line like `# attention_lib.masks: causal_mask`.
"""

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
    library = chapter.parent.parent / "attention_lib"
    for number, cell in enumerate(notebook.cells):
        old = cell.source.split("\n")
        match = HEADER.fullmatch(old[0].rstrip())
        if cell.cell_type != "code" or match is None:
            continue
        start = lines.index(old[0], notebook.metadata.source_map[number])
        try:
            code = library_code(library / f"{match[1]}.py", match[2].split(", "))
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
    lines = text.split("\n")
    found = {}
    for node in ast.parse(text).body:
        first = min(it.lineno for it in [node, *getattr(node, "decorator_list", [])])
        named = getattr(node, "targets", [getattr(node, "target", node)])
        for it in named:  # a function or a class by its name, a variable by its id
            name = getattr(it, "name", getattr(it, "id", ""))
            found[name] = "\n".join(lines[first - 1 : node.end_lineno])
    if missing := [name for name in names if name not in found]:
        raise ValueError(f"attention_lib/{module.name} defines no {missing[0]}")
    code = "\n\n\n".join(found[name] for name in names)
    if "```" in code:
        raise ValueError(f"attention_lib/{module.name} holds ```, which ends a cell")
    return code


def differences(chapter: Path) -> Iterator[str]:
    """Yield, for each cell that shows other code than the library's, what differs."""
    for number, start, old, new in shown_cells(chapter):
        if old != new:
            place = f"chapters/{chapter.name}:{start + 1}: cell {number}"
            shown = new[0].removeprefix("# ").replace(": ", ".", 1)
            said = f"{place} differs from the library's {shown}; run `python -m"
            diff = difflib.unified_diff(old, new, "chapter", "library", lineterm="")
            yield "\n".join([f"{said} tools.record.shown`", *diff])


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Fill all chapters, or with `--check` say which cells differ."""
    parser = argparse.ArgumentParser("tools.record.shown", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    check = parser.parse_args(arguments).check
    try:
        reports = [it for path in chapter_paths(root) for it in differences(path)]
        for report in reports if check else ():
            print(report, file=sys.stderr)
        for path in () if check else chapter_paths(root):
            if (text := filled(path)) != path.read_text(encoding="utf-8"):
                path.write_text(text, encoding="utf-8")
                print(f"filled chapters/{path.name}")
    except (ValueError, FileNotFoundError) as error:
        sys.exit(str(error))
    return int(check and bool(reports))


if __name__ == "__main__":
    sys.exit(main())
