"""The quizzes of the chapters as they are written: every option explains itself."""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.chapters import chapter_paths

QUIZ = re.compile(
    r"^:::\{quiz\} ([^\n]+)\n:name: (\S+)\n(.*?)^:::$", re.MULTILINE | re.DOTALL
)
OPTION = re.compile(r"^- \[([ x])\] (.+)\n((?:\n|  .+\n)*)", re.MULTILINE)


class Quiz(NamedTuple):
    """One quiz: its options are (right, text, explanation)."""

    question: str
    name: str
    options: list[tuple[bool, str, str]]


def read(text: str) -> list[Quiz]:
    """The quizzes of a chapter."""
    return [
        Quiz(
            question,
            name,
            [(mark == "x", option, why.strip()) for mark, option, why in parts],
        )
        for question, name, body in QUIZ.findall(text)
        for parts in [OPTION.findall(body)]
    ]


def complaints(quiz: Quiz) -> list[str]:
    """What is wrong with a quiz, one line each."""
    right = [why for is_right, _, why in quiz.options if is_right]
    found = [f"{option}: no explanation" for _, option, why in quiz.options if not why]
    found += [f"{why}: no “Right”" for why in right if not why.startswith("Right")]
    if not right:
        found.append("no option is right")
    if len(quiz.options) < 3:
        found.append("fewer than three options")
    if "choose" in quiz.question.lower():
        found.append("the directive says itself how many to choose")
    return [f"{quiz.name}: {line}" for line in found]


@pytest.mark.parametrize("path", chapter_paths(), ids=lambda path: path.stem)
def test_quizzes_explain_every_option(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    quizzes = read(text)
    number = int(path.name[:2])
    names = [f"quiz-{number}-{i}" for i in range(1, len(quizzes) + 1)]
    assert [quiz.name for quiz in quizzes] == names
    assert 4 <= len(quizzes) <= 5
    assert [line for quiz in quizzes for line in complaints(quiz)] == []
    end = text.partition(f"\n(quiz-{path.stem[3:]})=\n## Quiz\n")[2]
    assert len(read(end)) == len(quizzes), "quizzes stand under their heading"
    assert end.rstrip().rpartition("\n\n")[2].startswith("**Read next.** ")


def test_quizzes_hide_the_right_option_in_turns() -> None:
    quizzes = [
        quiz
        for path in chapter_paths()
        for quiz in read(path.read_text(encoding="utf-8"))
    ]
    first = Counter(
        [right for right, *_ in quiz.options].index(True) for quiz in quizzes
    )
    assert max(first.values()) < len(quizzes) / 2


GOOD = """:::{quiz} What?
:name: quiz-1-1
- [ ] This.

  No.
- [x] That.

  Right: that.
- [ ] Both.

  No.
:::
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace("\n  No.\n", ""), "no explanation"),
        (GOOD.replace("[x]", "[ ]"), "no option is right"),
        (GOOD.replace("Right:", "Yes:"), "no “Right”"),
        (GOOD.replace("- [ ] Both.\n\n  No.\n", ""), "fewer than three"),
        (GOOD.replace("What?", "What? Choose all."), "how many to choose"),
    ],
)
def test_quizzes_complain(text: str, words: str) -> None:
    assert complaints(read(GOOD)[0]) == []
    assert words in "\n".join(complaints(read(text)[0]))
