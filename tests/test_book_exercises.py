"""Every exercise of every chapter: its parts, and what its check may cost and say."""

import re
import time
from importlib import import_module

import nbformat
import pytest
import torch

from attention_lib import exercises
from tools.chapters import chapter_paths, notebook_path

TESTED = ["first", "block", "grouped_query", "model", "multi_head", "positions"]
TESTED += ["rope", "training", "weights"]
FILES = [import_module(f"tests.mistakes.{name}") for name in TESTED]
MISTAKES = [
    (name, *case)
    for file in FILES
    for name, cases in file.MISTAKES.items()
    for case in cases
]
RIGHT = [
    (name, answer)
    for file in FILES
    for name, answers in file.RIGHT.items()
    for answer in answers
]
SECONDS = 2.0  # of one processor: what else a machine does makes no difference

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


def check(name, answer):
    return getattr(exercises, f"check_{name}")(answer)


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


def test_every_check_has_its_exercise_its_mistakes_and_right_answers():
    checks = {name for name in exercises.__all__ if name.startswith("check_")}
    assert {f"check_{name}" for name in SOLUTIONS} == checks
    assert len(FOUND) == len(SOLUTIONS)
    assert {name for name, *_ in MISTAKES} == set(SOLUTIONS)
    assert {name for name, *_ in RIGHT} == set(SOLUTIONS)


@pytest.mark.parametrize("stem", TEXTS)
def test_exercise_is_not_solved_before_the_reader_does(stem):
    path = next(path for path in chapter_paths() if path.stem == stem)
    record = nbformat.read(notebook_path(path), as_version=4)
    for cell in record.cells:
        if "exercise" in cell.metadata.get("tags", []):
            assert cell.outputs[-1].data["text/plain"].startswith(("○", "✗"))


@pytest.mark.parametrize("name", SOLUTIONS)
def test_check_takes_no_time(name):
    answers = [answer for called, answer, *_ in [*MISTAKES, *RIGHT] if called == name]
    for answer in [..., *answers]:
        start = time.process_time()
        check(name, answer)
        assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("name", SOLUTIONS)
def test_check_works_in_the_chapters_number_type(name):
    # Chapters 6 and 8 compute in float64 throughout.
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        for called, answer in RIGHT:
            assert called != name or check(name, answer).passed
    finally:
        torch.set_default_dtype(before)


def steps_of(solution):
    """What a solution computes: its lines, without names, comments and returns."""
    lines = [line.split("  #")[0].strip() for line in solution.splitlines()]
    lines = [x for x in lines if not x.startswith(("#", "def ", "for ", "if "))]
    steps = {re.sub(r"^(return|[\w, ]+=) +", "", line) for line in lines}
    return {step for step in {*steps, *lines} if len(step) > 7}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_verdict_holds_no_line_of_the_solution(name):
    steps = steps_of(SOLUTIONS[name])
    assert steps
    rights = [answer for called, answer in RIGHT if called == name]
    rights = [answer for answer in rights if isinstance(answer, int | float)]
    numbers = {form for right in rights for form in (f"{right:g}", f"{right:,}")}
    for called, answer, _ in MISTAKES:
        if called == name:
            # A line of the reader's own may be the right one.
            message = re.sub(r" in `.*`", "", check(name, answer).message)
            assert [step for step in steps if step in message] == []
            told = set(re.findall(r"\d[\d,]*(?:\.\d+)?", message))
            assert not told & numbers, message
