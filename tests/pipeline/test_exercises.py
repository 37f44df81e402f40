"""Every exercise of every chapter has its parts; test_exercises runs their checks."""

import re

import nbformat
import pytest

from tests.exercises import TEXTS, exercises_of
from tools.chapters import chapter_paths, notebook_path


@pytest.mark.parametrize("stem", TEXTS)
def test_exercise_has_title_minutes_stub_check_hint_and_solution(stem):
    titles = re.findall(r"\{admonition\} Exercise (\S+)", TEXTS[stem])
    complete = exercises_of(TEXTS[stem])
    assert [one["number"] for one in complete] == titles
    chapter = int(stem[:2])
    wanted = [f"{chapter}.{n}" for n in range(1, len(titles) + 1)]
    assert titles == wanted
    for one in complete:
        assert one["name"] == one["number"].replace(".", "-")
        assert 2 <= int(one["minutes"]) <= 15


def test_exercise_without_a_part_is_found():
    text = TEXTS["03-masks"]
    start = text.index("Exercise 3.2")
    for part in ("Hint", "minutes)", "exercises.check", "```python"):
        faulty = text[:start] + text[start:].replace(part, "Xx", 1)
        assert "3.2" not in [one["number"] for one in exercises_of(faulty)], part


@pytest.mark.parametrize("stem", TEXTS)
def test_exercise_is_not_solved_before_the_reader_does(stem):
    path = next(path for path in chapter_paths() if path.stem == stem)
    record = nbformat.read(notebook_path(path), as_version=4)
    for cell in record.cells:
        if "exercise" in cell.metadata.get("tags", []):
            assert cell.outputs[-1].data["text/plain"].startswith(("○", "✗"))
