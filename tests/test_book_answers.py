"""Every quiz and every prediction of every chapter, answered on its page."""

import json
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator

from tests.browsing import built_pages
from tools.chapters import SITE
from tools.check.pages import parsed

CHAPTERS = [page for page in built_pages() if page.startswith("chapters/")]
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


def typed(answer: Any) -> str:
    """A number or a shape as a reader types it."""
    return ", ".join(map(str, answer)) if isinstance(answer, list) else str(answer)


def verdict(view: Locator, answer: Any) -> tuple[str | None, str]:
    """Whether an answer is right, and what is said of it."""
    view.locator("input").fill(typed(answer))
    view.locator("input").press("Enter")
    said = view.locator(".predict-verdict")
    return said.get_attribute("data-right"), said.inner_text()


@pytest.mark.parametrize("page", CHAPTERS)
def test_quizzes_and_predictions_of_a_chapter_answer(
    browser: Browser, page: str
) -> None:
    views = parsed(SITE / page).select('.attention-view[data-kind="predict"]')
    data = [json.loads(view.select_one("script").text) for view in views]  # type: ignore[union-attr]
    assert len(data) >= 2
    with browser.new_page() as tab:
        tab.goto((SITE / page).as_uri())
        quizzes = tab.evaluate(ASK_QUIZZES)
        assert len(quizzes) >= 4
        assert [quiz for quiz in quizzes if quiz[1:] != [True, True]] == []
        for number, asked in enumerate(data):
            view = tab.locator('.attention-view[data-kind="predict"]').nth(number)
            for wrong, _ in asked["mistakes"]:
                right, said = verdict(view, wrong)
                assert right == "false", f"{asked['question']} {wrong}: {said}"
            right, said = verdict(view, asked["answer"])
            assert right == "true", f"{asked['question']}: {said}"
        total = len(quizzes) + len(data)
        line = tab.locator(".learn-progress").inner_text()
        assert line.startswith(f"{total} of {total} answered."), line
