"""Quizzes and progress: read, made plain, and answered on a page of the site."""

import re

import pytest
from playwright.sync_api import expect

from tests.browsing import axe_faults, wear
from tools.chapters import CHAPTERS, code_of
from tools.quiz import QuizError, read_options
from tools.record.convert import FOLDED, plain_notebook, unfolded

PAGE = "chapters/01-toy-attention"
RIGHT, WRONG = "Nothing.", "They become flatter."  # of the first question
WHY = "✓ Right: only differences between scores matter."
WHY_NOT = "✗ Not this one. That is what dividing the scores"
PHONE, DESKTOP = 375, 1440

FAULTS = [
    ("- [x] A\n\n  Why.", "two options at least", 0),
    ("- [ ] A\n\n  Why.\n- [ ] B\n\n  Why.", "no option is right", 0),
    ("- [x] A\n\n  Why.\n- [ ] B", "an option has no explanation", 3),
    ("- [x] A\n\n  Why.\n- [ ]\n\n  Why.", "an option is empty", 3),
    ("- [x] A\n\n  Why.\n- [y] B\n\n  Why.", "an option starts with a box", 3),
    ("- [x] A\n\n  Why.\n\nWhy.", "a quiz is one list", 4),
]


@pytest.mark.parametrize(("body", "words", "line"), FAULTS)
def test_read_options_refuses_what_is_not_complete(body, words, line):
    with pytest.raises(QuizError, match=re.escape(words)) as caught:
        read_options(body)
    assert caught.value.line == line


def test_notebook_folds_answers_and_the_code_that_the_page_folds():
    notebook = plain_notebook(CHAPTERS.parent / f"{PAGE}.md")
    text = "\n".join(cell.source for cell in notebook.cells)
    question, _, rest = text.partition('<a id="quiz-1-1"></a>')[2].partition("<details")
    assert question.startswith("\n\n**You add 5 to every score of one row.")
    assert f"?**\n\n1. They all grow.\n2. {WRONG}\n3. {RIGHT}\n" in question
    assert rest.startswith(">\n<summary>Answers</summary>\n\n1. ✗ They cannot all grow")
    assert f"\n3. {WHY}" in rest
    assert "(Choose all that are right.)" in rest.partition("quiz-1-5")[2]
    for cell in code_of(notebook):
        folded = bool({"hide-input", "hide-cell"} & {*cell.metadata.get("tags", [])})
        assert (cell.metadata == {**unfolded(cell), **FOLDED}) == folded
        assert not unfolded(cell).keys() & FOLDED.keys()


@pytest.fixture
def page(browser, address):
    """A chapter; nothing may fail while a test looks at it."""
    faults = []
    with browser.new_page(viewport={"width": DESKTOP, "height": 900}) as page:
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{address}/{PAGE}.html")
        yield page
    assert not faults


def form(page, number=0):
    return page.locator(".quiz-form").nth(number)


def answer(page, *labels, number=0):
    """Choose options and check; gives the verdict."""
    asked = form(page, number)
    for box in asked.locator("input[type=checkbox]").all():
        box.set_checked(False)
    for label in labels:
        asked.get_by_label(label).check()
    asked.get_by_role("button", name="Check").click()
    return " ".join(asked.get_by_role("status").inner_text().split())


def progress(page):
    return page.locator(".learn-progress span").first.text_content()


def ticks(page):
    return page.locator(".learn-tick").all_text_contents()


def test_quiz_is_a_group_of_radio_buttons_that_explains_each_option(page):
    group = page.get_by_role("group", name="You add 5 to every score of one row.")
    assert group.get_by_role("radio").count() == 4
    expect(page.get_by_text("so it cancels")).to_be_hidden()
    assert answer(page) == "Choose an option first."
    assert answer(page, WRONG).startswith(WHY_NOT)
    assert progress(page).startswith("0 of ")
    assert answer(page, RIGHT).startswith(WHY)
    assert progress(page).startswith("1 of ")


def test_quiz_works_by_keyboard_and_answers_on_paper(page):
    form(page).get_by_role("radio").first.focus()
    page.keyboard.press("ArrowDown")
    expect(form(page).get_by_role("status")).to_be_empty()
    page.keyboard.press("Enter")
    expect(form(page).get_by_role("status")).to_contain_text("✗ Not this one.")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    expect(form(page)).to_be_hidden()
    expect(page.locator(".quiz").first.get_by_text("so it cancels")).to_be_visible()


def test_quiz_without_scripts_folds_the_answers(browser, address):
    with browser.new_page(java_script_enabled=False) as page:
        page.goto(f"{address}/{PAGE}.html")
        assert page.locator(".quiz input, .quiz button").count() == 0
        quiz = page.locator(".quiz").first
        expect(quiz.get_by_text("so it cancels")).to_be_hidden()
        quiz.get_by_text("Answers").click()
        expect(quiz.get_by_text("so it cancels")).to_be_visible()
        marks = quiz.get_by_role("img").evaluate_all("all => all.map(e => e.ariaLabel)")
        assert marks == ["Not right", "Not right", "Right", "Not right"]


def test_progress_is_kept_here_alone_and_forgotten_by_one_button(page):
    forget = page.get_by_role("button", name="Forget all of it")
    expect(forget).to_be_hidden()
    page.mouse.move(99, 99)  # what waits for a reader comes now
    page.locator(".copybtn").first.wait_for(state="attached")
    page.wait_for_load_state("networkidle")
    sent = []
    page.on("request", lambda request: sent.append(request.url))
    before = page.evaluate("[document.cookie, ...Object.keys(localStorage)]")
    answer(page, RIGHT)
    # A browser fetches the icon of a page when it likes.
    assert [url for url in sent if "favicon" not in url] == []
    after = page.evaluate("[document.cookie, ...Object.keys(localStorage)]")
    assert sorted(after) == sorted([*before, "attention-book-progress"])
    page.reload()
    assert re.fullmatch(r"1 of \d+ answered. Kept in this browser.*", progress(page))
    mark = page.get_by_text("✓ Answered")
    expect(mark).to_be_visible()
    answer(page, WRONG)
    expect(mark).to_have_count(0)  # beside "✗ Not this one"
    assert progress(page).startswith("1 of ")
    forget.click()
    assert progress(page).startswith("0 of ")
    assert ticks(page) == []
    expect(page.locator(".learn-progress")).to_be_focused()
    assert sorted(page.evaluate("Object.keys(localStorage)")) == sorted(before[1:])


def test_progress_stands_in_the_contents_of_every_page(page, address):
    answer(page, RIGHT)
    page.goto(f"{address}/chapters/02-single-head.html")
    (tick,) = ticks(page)
    assert re.fullmatch(r"1/(\d+) \(1 of \1 answered\)", tick)
    box = page.locator("form.predict input").first
    box.fill("2, 5, 5")
    box.press("Enter")
    assert progress(page).startswith("1 of ")
    assert len(ticks(page)) == 2
    page.reload()
    expect(page.get_by_text("✓ Answered")).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_quiz_is_accessible(browser, address, width, theme):
    with browser.new_page(viewport={"width": width, "height": 900}) as page:
        page.goto(f"{address}/{PAGE}.html")
        wear(page, theme)
        answer(page, WRONG)
        answer(page, "The shape", number=4)
        answer(page, RIGHT)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        faults = axe_faults(page)  # shows all code at full width
        assert [fault for fault in faults if "quiz" in fault or "learn" in fault] == []
        for control in page.locator(".quiz-option, .quiz button").all():
            box = control.bounding_box()
            assert min(box["width"], box["height"]) >= 24
