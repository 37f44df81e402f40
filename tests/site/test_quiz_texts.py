"""The quizzes of the chapters as they are written. The reader of quizzes sees to it
that every option is explained, and one is right."""

import re

import pytest

from tools.chapters import chapter_paths
from tools.quiz import read_options

QUIZ = re.compile(
    r"^:::\{quiz\} ([^\n]+)\n:name: (\S+)\n(.*?)^:::$", re.MULTILINE | re.DOTALL
)


def wrongly_marked(options):
    """Return the options that are marked as right and do not say so, or vice versa."""
    return [it.text for it in options if it.right != it.why.startswith("Right")]


def test_option_that_says_right_is_marked_and_no_other():
    body = "- [x] One.\n\n  Right: a.\n- [ ] Two.\n\n  Right: b.\n- [x] Three.\n\n  No."
    assert wrongly_marked(read_options(body)) == ["Two.", "Three."]


@pytest.mark.parametrize("path", chapter_paths(), ids=lambda path: path.stem)
def test_quizzes_end_a_chapter(path):
    text = path.read_text(encoding="utf-8")
    end = text.partition(f"\n(quiz-{path.stem[3:]})=\n## Quiz\n")[2]
    quizzes = QUIZ.findall(end)
    assert len(quizzes) == text.count(":::{quiz}"), "quizzes stand under their heading"
    assert 4 <= len(quizzes) <= 5
    number = int(path.name[:2])
    names = [f"quiz-{number}-{i}" for i in range(1, len(quizzes) + 1)]
    assert [name for _, name, _ in quizzes] == names
    for question, _, body in quizzes:
        options = read_options(body)
        assert len(options) >= 3, question
        assert wrongly_marked(options) == [], question
        # The directive says itself how many to choose.
        assert "choose" not in question.lower()
    assert end.rstrip().rpartition("\n\n")[2].startswith("**Read next.** ")


def test_quizzes_hide_the_right_option_in_turns():
    texts = [path.read_text(encoding="utf-8") for path in chapter_paths()]
    bodies = [[body for _, _, body in QUIZ.findall(text)] for text in texts]
    marks = [[[it.right for it in read_options(body)] for body in it] for it in bodies]
    first = [[right.index(True) for right in quizzes] for quizzes in marks]
    assert all(len(set(places)) > 1 for places in first), first
    places = [place for quizzes in first for place in quizzes]
    assert max(map(places.count, places)) < 0.45 * len(places)
