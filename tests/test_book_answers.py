"""Every quiz and every prediction of every chapter, answered on its page."""

import json

import pytest
from playwright.sync_api import Browser

from tests.views import predicted
from tools.chapters import SITE, chapter_paths
from tools.check.pages import parsed

pytestmark = pytest.mark.usefixtures("site")
# A quiz is answered at once for each option, then with all that is right.
ASK_QUIZZES = """() => [...document.querySelectorAll(".quiz")].map((quiz) => {
    const inputs = [...quiz.querySelectorAll("input")];
    const answers = [...quiz.querySelectorAll(":scope > details li")];
    const right = answers.map((answer) => answer.dataset.right === "true");
    const told = [];
    const answer = (chosen) => {
        let is = null;
        const hear = (event) => { is = event.detail.right; };
        quiz.addEventListener("attention-answered", hear);
        inputs.forEach((input, n) => { input.checked = chosen[n]; });
        quiz.querySelector("form").requestSubmit();
        quiz.removeEventListener("attention-answered", hear);
        return [is, quiz.querySelector(".quiz-verdict").textContent.length > 20];
    };
    inputs.forEach((_, one) => told.push(answer(inputs.map((_, n) => n === one))));
    const only = right.filter(Boolean).length === 1;
    const wanted = right.map((it) => [it && only, true]);
    const all = answer(right);
    return [quiz.id, JSON.stringify(told) === JSON.stringify(wanted), all[0]];
})"""


@pytest.mark.parametrize("stem", [path.stem for path in chapter_paths()])
def test_quizzes_and_predictions_of_a_chapter_answer(
    browser: Browser, stem: str
) -> None:
    page = SITE / f"chapters/{stem}.html"
    views = parsed(page).select('.attention-view[data-kind="predict"]')
    data = [json.loads(view.select_one("script").text) for view in views]  # type: ignore[union-attr]
    assert len(data) >= 2
    asked = [
        (number, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
        for number, view in enumerate(data)
        for value in [*(wrong for wrong, _ in view["mistakes"]), view["answer"]]
    ]
    last = dict(asked)
    wanted = ["true" if last[number] == text else "false" for number, text in asked]
    with browser.new_page() as tab:
        tab.goto(page.as_uri())
        quizzes = tab.evaluate(ASK_QUIZZES)
        assert len(quizzes) >= 4
        assert [quiz for quiz in quizzes if quiz[1:] != [True, True]] == []
        told = predicted(tab, asked)
        assert [right for right, _ in told] == wanted, [*zip(asked, told, strict=True)]
        total = len(quizzes) + len(data)
        line = tab.locator(".learn-progress").inner_text()
        assert line.startswith(f"{total} of {total} answered."), line
