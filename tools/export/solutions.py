"""The chapters with every exercise solved, as CI runs them."""

import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from tools.record.convert import plain_notebook

SOLUTION = re.compile(
    r"<summary>Solution</summary>\s+```python\n(.*?)\n```\s+</details>", re.DOTALL
)


def solved_notebook(chapter: Path) -> NotebookNode:
    """Return a chapter's notebook with each stub replaced by its solution.

    Raises:
        ValueError: an exercise without a solution, or a solution without an exercise.
    """
    notebook = plain_notebook(chapter)
    waiting: list[NotebookNode] = []
    for cell in notebook.cells:
        if cell.cell_type == "code" and "exercise" in cell.metadata.get("tags", []):
            waiting.append(cell)
        for solution in _solutions(cell):
            if len(waiting) != 1:
                raise ValueError(
                    f"chapters/{chapter.name}: {len(waiting)} exercise cells stand "
                    f"before the solution\n{solution}"
                )
            exercise = waiting.pop()
            check = exercise.source.rstrip().split("\n")[-1]
            exercise.source = f"{solution}\n\n{check}"
    if waiting:
        raise ValueError(
            f"chapters/{chapter.name}: no solution for {waiting[0].source}"
        )
    return notebook


def exercises_of(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """Yield the exercise cells of a notebook."""
    for cell in notebook.cells:
        if "exercise" in cell.metadata.get("tags", []):
            yield cell


def _solutions(cell: NotebookNode) -> list[str]:
    return SOLUTION.findall(cell.source) if cell.cell_type == "markdown" else []
