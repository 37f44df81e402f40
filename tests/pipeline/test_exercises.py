"""Every exercise of every chapter has its parts; test_exercises runs their checks."""

import re

import nbformat
import pytest

from tools.chapters import chapter_paths, notebook_path

# Title with kind and minutes, task; stub that ends with the check; hint; solution.
EXERCISE = re.compile(
    r":::\{admonition\} Exercise (?P<number>\d+\.\d+) · (?P<title>[^\n]+) "
    r"\((?:write|break|predict|modify|measure|predict, then measure), "
    r"(?P<minutes>\d+) minutes\)\n"
    r":class: exercise\n:name: ex-(?P<name>\d+-\d+)\n(?P<task>.+?)\n:::\n\n"
    r"```\{code-cell\} ipython3\n:tags: \[exercise\]\n(?P<stub>.+?)\n"
    r"exercises\.check_(?P<check>\w+)\(\w+\)\n```\n\n"
    r":::\{dropdown\} Hint\n(?P<hint>.+?)\n:::\n\n"
    r":{3,4}\{dropdown\} Solution\n(?P<rest>.*?)```python\n(?P<solution>.+?)\n```\n",
    re.DOTALL,
)


def exercises_of(text):
    """The exercises of a chapter, each with all of its parts."""
    # One at a time: a part that is missing must not be found in the next one.
    each = re.split(r"(?=:::\{admonition\} Exercise )", text)[1:]
    return [match.groupdict() for one in each if (match := EXERCISE.match(one))]


TEXTS = {path.stem: path.read_text("utf-8") for path in chapter_paths()}
FOUND = [(stem, one) for stem, text in TEXTS.items() for one in exercises_of(text)]
SOLUTIONS = {one["check"]: one["solution"] for _, one in FOUND}


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
