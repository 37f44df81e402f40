"""Every quiz and every prediction of every chapter, answered on its page."""

import json
import re

import pytest
from bs4 import BeautifulSoup

from tests.pages import parsed
from tests.running import sample
from tests.views import predicted
from tools.chapters import SITE, chapter_paths

pytestmark = pytest.mark.usefixtures("site")
# A quiz is answered at once for each option, then with all that is right.
ASK_QUIZZES = sample("ask-quizzes.js")


def typed(answer):
    """A number as people type it: three digits of what is not whole."""
    if isinstance(answer, list):
        return str(tuple(answer))
    return f"{answer:.3g}" if answer % 1 else f"{answer:.0f}"


@pytest.fixture(scope="module")
def tab(browser):
    with browser.new_page() as page:
        yield page


@pytest.mark.parametrize("stem", [path.stem for path in chapter_paths()])
def test_quizzes_and_predictions_of_a_chapter_answer(tab, stem):
    page = SITE / f"chapters/{stem}.html"
    views = parsed(page).select('.attention-view[data-kind="predict"]')
    data = [json.loads(view.select_one("script").text) for view in views]
    assert len(data) >= 2
    asked, wanted = [], []
    for number, view in enumerate(data):
        for wrong, words in view["mistakes"]:
            asked.append((number, typed(wrong)))
            wanted.append(("false", f"✗ Not yet. {words}"))
        asked.append((number, typed(view["answer"])))
        wanted.append(("true", f"✓ Right. {view['because']}"))
    # From a place further down all of the page is laid out, and has a text to read.
    tab.goto(f"{page.as_uri()}#quiz")
    quizzes = tab.evaluate(ASK_QUIZZES)
    assert len(quizzes) >= 4
    assert [quiz for quiz in quizzes if quiz[1:] != [True, True]] == []
    for question, told, (right, html) in zip(
        asked, predicted(tab, asked), wanted, strict=True
    ):
        said = " ".join(BeautifulSoup(html, "html.parser").get_text().split())
        assert (told[0], " ".join(told[1].split())) == (right, said), question
    total = len(quizzes) + len(data)
    line = tab.locator(".learn-progress").inner_text()
    assert line.startswith(f"{total} of {total} answered."), line


@pytest.mark.parametrize("stem", [path.stem for path in chapter_paths()])
def test_chapter_asks_twice_at_least_and_folds_the_code(stem):
    html = (SITE / f"chapters/{stem}.html").read_text(encoding="utf-8")
    cells = html.split("tag_predict")[1:]
    assert len(cells) >= 2
    for cell in cells:
        parts = r"attention-view|<details class=\"[\w ]*hide|cell_input"
        assert re.findall(parts, cell)[:3] == [
            "attention-view",
            '<details class="admonition hide',
            "cell_input",
        ]
