"""Every folded solution passes the check that readers run.

In this process, with the cells that make the names that it uses. What a cell changes
in another one's value is not followed: the slow test runs whole chapters.
"""

import ast
import builtins
import re
import symtable
from typing import Any

import nbformat
import pytest
import torch

from tools.chapters import chapter_paths, notebook_path
from tools.record.execute import execute

SOLUTION = re.compile(
    r"<summary>Solution</summary>\s+```python\n(.*?)\n```\s+</details>", re.DOTALL
)
each_chapter = pytest.mark.parametrize(
    "chapter", chapter_paths(), ids=lambda path: path.stem
)


def solved(chapter):
    """A chapter's notebook, each stub replaced by its solution; and these cells."""
    notebook = nbformat.read(notebook_path(chapter), as_version=4)
    exercises = []
    solutions = 0
    for cell in notebook.cells:
        if "exercise" in cell.metadata.get("tags", []):
            exercises.append(cell)
            # No answer yet, or a mistake to find.
            assert re.search("[○✗]", str(cell.outputs))
        elif cell.cell_type == "markdown":
            for solution in SOLUTION.findall(cell.source):
                solutions += 1
                assert solutions == len(exercises), f"no exercise for\n{solution}"
                check = exercises[-1].source.rstrip().split("\n")[-1]
                exercises[-1].source = f"{solution}\n\n{check}"
    assert solutions == len(exercises)
    assert 3 <= solutions <= 5
    return notebook, exercises


class Names(dict[str, Any]):
    """The names of a notebook: one that is missing is made by running its cell."""

    def __init__(self, cells):
        super().__init__(__name__="__main__", __builtins__=builtins)
        self.cells = cells

    def __missing__(self, name):
        for number in reversed(range(len(self.cells))):
            table = symtable.symtable(self.cells[number], "a cell", "exec")
            found = table.lookup(name) if name in table.get_identifiers() else None
            if found and (found.is_assigned() or found.is_imported()):
                # What this cell needs was made before it.
                after, self.cells = self.cells, self.cells[:number]
                exec(after[number], self, self)
                self.cells = after
                return dict.__getitem__(self, name)
        raise KeyError(name)


def verdict(cell, before):
    """What the last line of a cell shows."""
    names = Names(before)
    *lines, last = ast.parse(cell).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(lines, []), "solution", "exec"), names, names)
    return str(eval(compile(ast.Expression(last.value), "check", "eval"), names, names))


@pytest.fixture
def usual_type():
    """Chapter 8 computes in float64, and the next test must not."""
    usual = torch.get_default_dtype()
    yield
    torch.set_default_dtype(usual)


@each_chapter
@pytest.mark.usefixtures("usual_type")
def test_solutions_pass_their_checks(chapter):
    notebook, exercises = solved(chapter)
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    sources = [cell.source for cell in codes]
    told = [verdict(it.source, sources[: codes.index(it)]) for it in exercises]
    assert [it for it in told if not it.startswith("✓")] == []


@pytest.mark.slow
@each_chapter
def test_solutions_pass_in_whole_chapters(chapter):
    notebook, exercises = solved(chapter)
    assert execute(notebook, chapter) == []
    told = [cell.outputs[-1].data["text/plain"] for cell in exercises]
    assert [it for it in told if not it.startswith("✓")] == []
