"""The questions and their answers, and what the page for teachers says of chapters."""

import re
from typing import NamedTuple

import pytest

from tests.site.labels import chapters_of_labels
from tools.chapters import ROOT, chapter_paths

HEADING = re.compile(r"^\((?P<label>[a-z0-9-]+)\)=\n### (?P<title>.+)\n", re.MULTILINE)
REFERENCE = re.compile(r"\{ref\}`(?:[^`<]*<)?([a-z0-9-]+)>?`")
WHERE = re.compile(r"[Cc]hapter (\d+)\b")


class Question(NamedTuple):
    """One question of the page."""

    label: str
    title: str
    answer: str
    link: str


def read(page):
    """A page of the book, as it is written."""
    return (ROOT / "book" / page).read_text(encoding="utf-8")


def split(text):
    """Cut the page at its questions; a link is the paragraph that begins with →."""
    text = re.sub(r"^## .*\n", "", text, flags=re.MULTILINE)
    parts = HEADING.split(text)[1:]
    for label, title, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        answer, _, link = body.partition("\n\n→ ")
        yield Question(label, title, answer.strip(), link.split("\n")[0])


def test_questions_are_many_and_lead_to_the_chapters_that_they_name():
    text, chapters = read("questions.md"), chapters_of_labels()
    questions = list(split(text))
    assert len(questions) >= 45
    # A question without a label is a part of the one before it.
    assert len(re.findall(r"^### ", text, re.MULTILINE)) == len(questions)
    for values in list(zip(*questions, strict=True))[:3]:
        assert len(set(values)) == len(values)
    for label, title, answer, link in questions:
        assert label.startswith("q-"), label
        assert title.endswith("?"), label
        assert 2 <= len(re.findall(r"[.:?](?=\s|$)", answer)) <= 8, label
        assert REFERENCE.search(link), f"{label}: no link to a chapter"
        numbers = re.split(WHERE, link)[1:]
        assert numbers, f"{label}: no link to a chapter"
        for number, links in zip(numbers[::2], numbers[1::2], strict=True):
            for name in REFERENCE.findall(links):
                assert chapters.get(name) == int(number), f"{label}: {name}"


def test_teachers_read_the_minutes_of_the_chapters():
    rows = re.findall(
        r"^\| \d+ · \{doc\}`\.\./chapters/([\w-]+)` \| (\d+) \| (\d+) \|$",
        read("teach.md"),
        re.MULTILINE,
    )
    stated = {name: (int(own), int(exercises)) for name, own, exercises in rows}
    assert stated.keys() == {path.stem for path in chapter_paths()}
    for path in chapter_paths():
        text = path.read_text(encoding="utf-8")
        times = re.search(r"Reading: (\d+) minutes\. Exercises: (\d+) minutes\.", text)
        assert times, path.stem
        own, exercises = map(int, times.groups())
        each = re.findall(r"\} Exercise .*?(\d+) minutes\)$", text, re.MULTILINE)
        assert stated[path.stem] == (own, exercises)
        assert exercises == sum(map(int, each)), path.stem


PLANS = {"four": 4, "eight": 8, "twelve": 12}


@pytest.mark.parametrize(("plan", "meetings"), PLANS.items())
def test_teachers_have_a_row_for_each_meeting_with_exercises_that_exist(plan, meetings):
    text = read("teach.md").partition(f"(teach-{plan})=")[2].split("\n(teach-")[0]
    rows = re.findall(r"^\| (\d+) \|", text.split("\n## ")[0], re.MULTILINE)
    assert rows == [str(n) for n in range(1, meetings + 1)]
    named = set(re.findall(r"\b\d+\.[1-9]\b", text))
    exercises = {
        name[3:].replace("-", ".") for name in chapters_of_labels() if name[:3] == "ex-"
    }
    assert named
    assert named <= exercises
