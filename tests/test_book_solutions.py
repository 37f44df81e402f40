"""Every folded solution passes the check that readers run.

With the cells of its chapter that it needs, which takes seconds; `make test-solutions`
runs all cells of the chapters, which takes minutes.
"""

from pathlib import Path

import pytest

from tools.chapters import chapter_paths
from tools.export.needed import needed
from tools.export.solutions import exercises_of, solved_notebook
from tools.record.execute import execute

STEMS = [path.stem for path in chapter_paths()]


def chapter(stem: str) -> Path:
    return next(path for path in chapter_paths() if path.stem == stem)


@pytest.mark.parametrize("stem", STEMS)
def test_solutions_pass_their_checks(stem: str, pytestconfig: pytest.Config) -> None:
    notebook = solved_notebook(chapter(stem))
    if not pytestconfig.getoption("--whole-chapters"):
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        exercises = list(exercises_of(notebook))
        wanted = [n for n, cell in enumerate(cells) if cell in exercises]
        kept = needed([cell.source for cell in cells], wanted)
        notebook.cells = [cells[n] for n in sorted(kept)]
    assert execute(notebook, chapter(stem)) == []
    verdicts = [cell.outputs[-1].data["text/plain"] for cell in exercises_of(notebook)]
    assert [verdict for verdict in verdicts if not verdict.startswith("✓")] == []


@pytest.mark.parametrize("stem", STEMS)
def test_chapter_has_three_to_five_exercises(stem: str) -> None:
    assert 3 <= len(list(exercises_of(solved_notebook(chapter(stem))))) <= 5


CELLS = [
    "import torch",
    "seen = []",
    "def scale(x):\n    factor = torch.ones(1)\n    return factor * x * size",
    "size = 2",
    "seen.append(size)",
    "size = 3",
    "for factor in [1, 2]:\n    torch.manual_seed(factor)",
    "print(seen, scale(1))",
]


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (0, {0}),
        (4, {1, 3, 4}),  # the size of that moment
        (5, {5}),
        (6, {0, 6}),  # a name of its own, which is no use of another's
        (7, {0, 1, 2, 3, 4, 5, 7}),  # the size when it is called
    ],
)
def test_needed_cells_make_what_a_cell_uses(wanted: int, kept: set[int]) -> None:
    assert needed(CELLS, [wanted]) == kept


@pytest.mark.parametrize(
    "cell",
    ["held[0] = 1", "held.size = 1", "held += [1]", "held[0].add(1)", "held.a.b()"],
)
def test_cell_that_changes_a_value_is_needed(cell: str) -> None:
    assert needed(["held = make()", cell, "other.add(1)", "held"], [3]) == {0, 1, 3}


def test_local_names_of_a_function_are_its_own() -> None:
    cells = ["x = 1", "y = 2", "def f(x):\n    z = [y for y in x]\n    return z, w"]
    assert needed(cells, [2]) == {2}
    assert needed([*cells, "w = 3", "f([])"], [4]) == {2, 3, 4}
