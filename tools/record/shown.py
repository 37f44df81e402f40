"""Chapters in; their copies of library code, brought up to date, out.

A cell that shows library code begins with a line like
`# attention_lib.masks: causal_mask`. A folded solution is the one that the check of its
exercise compares with.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.chapters import ROOT, chapter_paths, read_chapter

HEADER = re.compile(r"# attention_lib\.([\w.]+): (\w+(?:, \w+)*)")
# The call of a check; then, of the same exercise, its folded solution.
SOLUTION = re.compile(
    r"^exercises\.check_(\w+)\((?:(?!^:::\{admonition\} Exercise ).)*?"
    r"^:{3,4}\{dropdown\} Solution\n.*?^```python\n(.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


def shown_cells(chapter: Path) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield each such cell's first line, from 0, its code, and the library's code."""
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
            module = library.joinpath(*match[1].split("."))
            code = library_code(module.with_suffix(".py"), match[2].split(", "))
        except (ValueError, FileNotFoundError) as error:
            where = f"chapters/{chapter.name}:{start + 1}"
            raise ValueError(f"{where}: {error}; correct the cell's header") from error
        yield start, old, [match[0], *code.split("\n")]


def library_code(module: Path, names: list[str]) -> str:
    """Return the source of a module's objects, decorators included."""
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


def solutions(chapter: Path) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield each folded solution's first line, its code, and the exercise's own."""
    folder = chapter.parent.parent / "attention_lib/course/exercises"
    module = folder / f"ch{chapter.name[:2]}.py"
    known = solution_texts(module) if module.is_file() else {}
    text = chapter.read_text(encoding="utf-8")
    for match in SOLUTION.finditer(text):
        if solution := known.get(f"check_{match[1]}"):
            start = text.count("\n", 0, match.start(2))
            yield start, match[2].split("\n")[:-1], solution.strip("\n").split("\n")


def solution_texts(module: Path) -> dict[str, str]:
    """Return the solutions of a module's exercises by the names of their checks."""
    texts: dict[str, str] = {}
    found: dict[str, str] = {}
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        name, value = node.targets[0].id, node.value
        if isinstance(value, ast.Constant):
            texts[name] = str(value.value)
        for word in value.keywords if isinstance(value, ast.Call) else ():
            if word.arg == "solution":
                text = ast.unparse(word.value)
                found[name] = texts.get(text) or str(ast.literal_eval(text))
    return found


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Fill all chapters, or with `--check` only report which cells differ."""
    parser = argparse.ArgumentParser("tools.record.shown", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    check = parser.parse_args(arguments).check
    status = 0
    for path in chapter_paths(root):
        lines = path.read_text(encoding="utf-8").split("\n")
        filled = [*shown_cells(path), *solutions(path)]
        for start, old, new in sorted(filled, reverse=True):
            if check and old != new:
                place = f"chapters/{path.name}:{start + 1}: {new[0]}"
                said = "differs from the library; run `python -m tools.record.shown`"
                print(f"{place} {said}", file=sys.stderr)
                status = 1
            lines[start : start + len(old)] = new
        if not check:
            path.write_text("\n".join(lines), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
