"""The questions and their answers, and what the page for teachers says of chapters."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

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


def read(page: str) -> str:
    """A page of the book, as it is written."""
    return (ROOT / "book" / page).read_text(encoding="utf-8")


def sections() -> dict[str, int]:
    """The labels of all headings and exercises, and the number of their chapter."""
    found = {}
    for path in chapter_paths():
        text = path.read_text(encoding="utf-8")
        labels = re.findall(r"^\(([a-z0-9-]+)\)=$", text, re.MULTILINE)
        labels += re.findall(r"^:name: (ex-[0-9-]+)$", text, re.MULTILINE)
        found |= dict.fromkeys(labels, int(path.name[:2]))
    return found


def split(text: str) -> Iterator[Question]:
    """Cut the page at its questions; a link is the paragraph that begins with →."""
    text = re.sub(r"^## .*\n", "", text, flags=re.MULTILINE)
    parts = HEADING.split(text)[1:]
    for label, title, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        answer, _, link = body.partition("\n→ ")
        yield Question(label, title, answer.strip(), link.split("\n")[0])


def complaints(text: str, chapters: dict[str, int]) -> list[str]:
    """What is wrong with a page of questions, one line each."""
    found = []
    questions = list(split(text))
    if (headings := len(re.findall(r"^### ", text, re.MULTILINE))) != len(questions):
        found.append(f"{headings - len(questions)} questions have no label")
    for name in ("label", "title", "answer"):
        values = [getattr(question, name) for question in questions]
        found += [f"{v}: twice" for v in sorted(set(values)) if values.count(v) > 1]
    for question in questions:
        if not 2 <= len(re.findall(r"[.:?](?=\s|$)", question.answer)) <= 8:
            found.append(f"{question.label}: an answer has two to a few sentences")
        if not question.label.startswith("q-") or not question.title.endswith("?"):
            found.append(f"{question.label}: not a question, or not named as one")
        found += wrong_links(question, chapters)
    return found


def wrong_links(question: Question, chapters: dict[str, int]) -> Iterator[str]:
    """Complain about a link to nowhere, or to another chapter than it says."""
    numbers = re.split(WHERE, question.link)[1:]
    if not numbers or not REFERENCE.search(question.link):
        yield f"{question.label}: no link to a chapter"
    for number, links in zip(numbers[::2], numbers[1::2], strict=True):
        for label in REFERENCE.findall(links):
            if chapters.get(label) != int(number):
                yield f"{question.label}: {label} is not in chapter {number}"


def test_questions_are_right_and_many() -> None:
    assert complaints(read("questions.md"), sections()) == []
    assert len(list(split(read("questions.md")))) >= 45


GOOD = "(q-a)=\n### What is a?\n\nIt is this. And that.\n\n→ Chapter 1: {ref}`one`\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + GOOD.replace("this", "so"), "q-a: twice"),
        (GOOD.replace("(q-a)=\n", ""), "have no label"),
        (GOOD.replace("It is this. And that.", ""), "q-a: an answer"),
        (GOOD.replace("a?", "a"), "q-a: not a question"),
        (GOOD.replace("→ Chapter 1: {ref}`one`", ""), "q-a: no link"),
        (GOOD.replace("`one`", "`gone`"), "gone is not in chapter 1"),
        (GOOD.replace("`one`", "`it <two>`"), "two is not in chapter 1"),
    ],
)
def test_questions_complain(text: str, words: str) -> None:
    assert complaints(GOOD, {"one": 1, "two": 2}) == []
    found = complaints(text, {"one": 1, "two": 2})
    assert words in "\n".join(found), found


def test_teachers_read_the_minutes_of_the_chapters() -> None:
    rows = re.findall(
        r"^\| \d+ · \{doc\}`\.\./chapters/([\w-]+)` \| (\d+) \| (\d+) \|$",
        read("teach.md"),
        re.MULTILINE,
    )
    stated = {name: (int(own), int(exercises)) for name, own, exercises in rows}
    assert stated.keys() == {path.stem for path in chapter_paths()}
    for path in chapter_paths():
        text = path.read_text(encoding="utf-8")
        own = re.findall(r"^\*\*Time:\*\* (\d+) minutes", text, re.MULTILINE)
        each = re.findall(r"\} Exercise .*?(\d+) minutes\)$", text, re.MULTILINE)
        assert stated[path.stem] == (int(own[0]), sum(map(int, each)))


@pytest.mark.parametrize(
    ("plan", "meetings"), [("four", 4), ("eight", 8), ("twelve", 12)]
)
def test_teachers_have_a_row_for_each_meeting_with_exercises_that_exist(
    plan: str, meetings: int
) -> None:
    text = read("teach.md").partition(f"(teach-{plan})=")[2].split("\n(teach-")[0]
    rows = re.findall(r"^\| (\d+) \|", text.split("\n## ")[0], re.MULTILINE)
    assert rows == [str(n) for n in range(1, meetings + 1)]
    named = set(re.findall(r"\b\d+\.[1-9]\b", text))
    exercises = {name[3:].replace("-", ".") for name in sections() if name[:3] == "ex-"}
    assert named
    assert named <= exercises
