"""Every folded solution runs in its chapter and passes the check that readers run."""

from pathlib import Path

import pytest

from tools.chapters import chapter_paths
from tools.copies.solutions import exercises_of, solved_notebook
from tools.recording.execute import execute

STEMS = [path.stem for path in chapter_paths()]


def chapter(stem: str) -> Path:
    return next(path for path in chapter_paths() if path.stem == stem)


@pytest.mark.parametrize("stem", STEMS)
def test_solutions_pass_their_checks(stem: str) -> None:
    notebook = solved_notebook(chapter(stem))
    assert execute(notebook, chapter(stem), lambda: None) == []
    verdicts = [cell.outputs[-1].data["text/plain"] for cell in exercises_of(notebook)]
    assert [verdict for verdict in verdicts if not verdict.startswith("✓")] == []


@pytest.mark.parametrize("stem", STEMS)
def test_chapter_has_three_to_five_exercises(stem: str) -> None:
    assert 3 <= len(list(exercises_of(solved_notebook(chapter(stem))))) <= 5
