"""Quizzes and progress: read, made plain, built, and answered in a browser."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from attention_lib.predict import predict
from tests.browsing import axe_faults, served
from tools.chapters import ROOT
from tools.record.convert import plain_notebook
from tools.record.folded import FOLDED, fold, unfolded
from tools.site.program import BUILT, PROGRAM
from tools.site.quiz import QuizError, read_options

HEAD = """---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

"""
ONE = r""":::{quiz} Which axis does *padding* hide?
:name: quiz-1-1
- [ ] The rows, $(B, Q, 1)$.

  Then every real token still looks at it.
- [x] The columns, $(B, 1, K)$.

  Right: a hidden key gets weight 0.

  - From every query.
- [ ] Both.

  See {ref}`chapter 1 <toy>`.
:::
"""
SEVERAL = """:::{quiz} What changes the weights?
- [x] The scale.

  It changes the contrast.
- [x] A mask.

  It shares out what it hides.
- [ ] Adding 100 to all scores.

  The softmax takes it out again.
:::
"""
TEXT = f"(toy)=\n# Toy\n\n## Quiz\n\n{ONE}\n{SEVERAL}"
ASK = predict("How many?", answer=24, because="Four times six.")
CONF = """
extensions = ["myst_nb", "tools.site.program", "tools.site.learn"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
exclude_patterns = ["_build", "notebooks"]
html_theme = "sphinx_book_theme"
html_static_path = ["book/_static"]
html_css_files = ["book.css"]
html_context = {"default_mode": "auto"}
nb_execution_mode = "off"
"""
PHONE, DESKTOP = 375, 1440


def book(root: Path, text: str = TEXT) -> Path:
    """A book of two chapters, the first of which holds a text."""
    for folder in ("book", "chapters", "attention_lib/explorer"):
        (root / folder).mkdir(parents=True)
    (root / "chapters/01-toy.md").write_text(HEAD + text)
    view = PROGRAM.sub("", ASK._repr_mimebundle_()["text/html"])
    second = f"(head)=\n# Head\n\n```{{raw}} html\n{view}```\n"
    (root / "chapters/02-head.md").write_text(HEAD + second)
    (root / "_toc.yml").write_text(
        "root: book/index\nparts:\n"
        "- chapters: [{file: chapters/01-toy}, {file: chapters/02-head}]\n"
    )
    (root / "_config.yml").write_text(
        "parse: {myst_enable_extensions: [colon_fence, dollarmath]}"
    )
    toc = "```{toctree}\n../chapters/01-toy\n../chapters/02-head\n```\n"
    (root / "book/index.md").write_text(f"# Book\n\n{toc}")
    (root / "book/references.bib").touch()
    (root / "conf.py").write_text(f"{CONF}root_doc = 'book/index'\n")
    shutil.copytree(ROOT / "book/_static", root / "book/_static")
    shutil.copy(ROOT / BUILT, root / BUILT)
    return root


def built(root: Path, builder: str = "html") -> str:
    """Build a book with Sphinx; gives what it says."""
    command = [sys.executable, "-m", "sphinx", "-q", "-b", builder, str(root)]
    command.append(str(root / f"_build/{builder}"))
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment
    )
    return run.stdout + run.stderr


def notebook_text(root: Path) -> str:
    cells = plain_notebook(root / "chapters/01-toy.md").cells
    return "\n\n".join(cell.source for cell in cells)


# How a quiz is read


def test_read_options_gives_texts_and_their_lines() -> None:
    body = "\n- [ ] One\n  goes on\n\n  Why.\n\n  More.\n- [X] Two\n\n  Why not."
    one, two = read_options(body)
    assert (one.right, one.text, one.line) == (False, "One\ngoes on", 1)
    assert (one.why, one.why_line) == ("Why.\n\nMore.", 4)
    assert (two.right, two.text, two.why, two.why_line) == (True, "Two", "Why not.", 9)


FAULTS = [
    ("- [x] A\n\n  Why.", "two options at least", 0),
    ("- [ ] A\n\n  Why.\n- [ ] B\n\n  Why.", "no option is right", 0),
    ("- [x] A\n\n  Why.\n- [ ] B", "an option has no explanation", 3),
    ("- [x] A\n\n  Why.\n- [ ]\n\n  Why.", "an option is empty", 3),
    ("- [x] A\n\n  Why.\n- B\n\n  Why.", "an option starts with a box", 3),
    ("- [x] A\n\n  Why.\n- [y] B\n\n  Why.", "an option starts with a box", 3),
    ("Choose:\n\n- [x] A\n\n  Why.", "a quiz is one list", 0),
    ("- [x] A\n\n  Why.\n\nWhy.", "a quiz is one list", 4),
    ("", "two options at least", 0),
]


@pytest.mark.parametrize(("body", "words", "line"), FAULTS)
def test_read_options_refuses_what_is_not_complete(
    body: str, words: str, line: int
) -> None:
    with pytest.raises(QuizError, match=re.escape(words)) as caught:
        read_options(body)
    assert caught.value.line == line


FAULTY = ONE.replace("\n\n  Then every real token still looks at it.", "")


def test_notebook_names_file_and_line_of_a_fault(tmp_path: Path) -> None:
    root = book(tmp_path, f"(toy)=\n# Toy\n\n{FAULTY}")
    line = HEAD.count("\n") + 6
    with pytest.raises(ValueError, match=f"^chapters/01-toy.md:{line}: quiz: an opt"):
        plain_notebook(root / "chapters/01-toy.md")


def test_site_names_file_and_line_of_a_fault(tmp_path: Path) -> None:
    said = built(book(tmp_path, f"(toy)=\n# Toy\n\n{FAULTY}"))
    line = HEAD.count("\n") + 6
    assert f"chapters/01-toy.md:{line}: ERROR: quiz: an option has no expl" in said


# What a notebook holds


def test_notebook_holds_question_options_and_folded_answers(tmp_path: Path) -> None:
    text = notebook_text(book(tmp_path))
    wanted = """<a id="quiz-1-1"></a>

**Which axis does *padding* hide?**

1. The rows, $(B, Q, 1)$.
2. The columns, $(B, 1, K)$.
3. Both.

<details>
<summary>Answers</summary>

1. ✗ Then every real token still looks at it.
2. ✓ Right: a hidden key gets weight 0.

   - From every query.
3. ✗ See [chapter 1](#toy).

</details>"""
    assert wanted in text


def test_notebook_says_when_several_are_right(tmp_path: Path) -> None:
    assert "weights?** (Choose all that are right.)" in notebook_text(book(tmp_path))


@pytest.mark.parametrize("tags", [["hide-input", "predict"], ["hide-input"], []])
def test_notebook_folds_the_code_of_a_prediction(
    tmp_path: Path, tags: list[str]
) -> None:
    code = f"```{{code-cell}} ipython3\n:tags: {tags}\n1\n```\n"
    root = book(tmp_path, f"(toy)=\n# Toy\n\n{code}")
    cell = plain_notebook(root / "chapters/01-toy.md").cells[-1]
    folded = {name: cell.metadata.get(name) for name in FOLDED}
    assert (folded == FOLDED) is ("predict" in tags)
    assert unfolded(cell) == {"tags": tags}
    fold(cell)
    assert unfolded(cell) == {"tags": tags}


# What a page does


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = book(tmp_path_factory.mktemp("quiz"))
    assert built(root) == ""
    return root / "_build/html"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with served(site) as address:
        yield f"{address}/chapters"


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    size: Any = {"width": DESKTOP, "height": 900}
    with browser.new_context(viewport=size) as context:
        yield context


@pytest.fixture
def page(context: BrowserContext, address: str) -> Iterator[Page]:
    """The chapter of two quizzes; nothing may fail while a test looks at it."""
    faults: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{address}/01-toy.html")
    yield page
    assert not faults


def form(page: Page, number: int = 0) -> Locator:
    return page.locator(".quiz-form").nth(number)


def answer(page: Page, *labels: str, number: int = 0) -> str:
    """Choose options and check; gives the verdict."""
    asked = form(page, number)
    for box in asked.locator("input[type=checkbox]").all():
        box.set_checked(False)
    for label in labels:
        asked.get_by_label(label).check()
    asked.get_by_role("button", name="Check").click()
    return asked.get_by_role("status").inner_text()


def test_quiz_is_a_group_of_radio_buttons(page: Page) -> None:
    group = page.get_by_role("group", name="Which axis does padding hide?")
    assert group.get_by_role("radio").count() == 3
    assert group.get_by_role("radio", name="Both.").is_visible()
    assert page.locator("#quiz-1-1").count() == 1
    expect(page.get_by_text("a hidden key gets weight 0")).to_be_hidden()


def test_quiz_explains_the_wrong_option(page: Page) -> None:
    said = answer(page, "The rows")
    wanted = "✗ Not this one. Then every real token still looks at it."
    assert " ".join(said.split()) == wanted


def test_quiz_explains_the_right_option_once(page: Page) -> None:
    said = " ".join(answer(page, "The columns").split())
    assert said.startswith("✓ Right: a hidden key gets weight 0.")
    assert said.lower().count("right") == 1
    assert "From every query." in said


def test_quiz_asks_for_an_option_first(page: Page) -> None:
    assert answer(page) == "Choose an option first."
    assert "0 of 2 answered" in page.locator(".learn-progress").inner_text()


@pytest.mark.parametrize(
    ("chosen", "words", "done"),
    [
        (["The scale.", "A mask."], "It shares out", 1),
        (["The scale."], "One more is right.", 0),
        (["Adding"], "2 more are right.", 0),
        (["The scale.", "A mask.", "Adding"], "✗ Not this one. The softmax", 0),
    ],
)
def test_quiz_with_several_right_options(
    page: Page, chosen: list[str], words: str, done: int
) -> None:
    assert form(page, 1).get_by_role("checkbox").count() == 3
    assert words in " ".join(answer(page, *chosen, number=1).split())
    assert f"{done} of 2 answered" in page.locator(".learn-progress").inner_text()


def test_quiz_works_by_keyboard(page: Page) -> None:
    form(page).get_by_role("radio").first.focus()
    page.keyboard.press("ArrowDown")
    expect(form(page).get_by_role("status")).to_be_empty()
    page.keyboard.press("Enter")
    expect(form(page).get_by_role("status")).to_contain_text("a hidden key")


def test_quiz_without_scripts_folds_the_answers(browser: Browser, address: str) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{address}/01-toy.html")
        assert page.locator(".quiz input, .quiz button").count() == 0
        quiz = page.locator(".quiz").first
        expect(quiz.get_by_text("The rows")).to_be_visible()
        expect(quiz.get_by_text("still looks at it")).to_be_hidden()
        quiz.get_by_text("Answers").click()
        expect(quiz.get_by_text("still looks at it")).to_be_visible()
        marks = quiz.get_by_role("img").evaluate_all("all => all.map(e => e.ariaLabel)")
        assert marks == ["Not right", "Right", "Not right"]


def test_quiz_on_paper_gives_the_answers(page: Page) -> None:
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    expect(form(page)).to_be_hidden()
    expect(page.locator(".learn-progress")).to_be_hidden()
    expect(page.locator(".quiz").first.get_by_text("still looks at it")).to_be_visible()


def test_quiz_on_one_page_is_unfolded(tmp_path: Path) -> None:
    root = book(tmp_path)
    assert built(root, "singlehtml") == ""
    html = (root / "_build/singlehtml/book/index.html").read_text()
    quizzes = html[html.index('class="quiz') :]
    assert re.findall("<details[^>]*>", quizzes)[:2] == ['<details open="">'] * 2


# Progress


def progress(page: Page) -> str:
    return page.locator(".learn-progress span").first.inner_text()


def ticks(page: Page) -> list[str]:
    return page.locator(".learn-tick").all_text_contents()


def test_progress_survives_a_reload(page: Page) -> None:
    answer(page, "The columns")
    page.reload()
    assert progress(page) == "1 of 2 answered. Kept in this browser only."
    expect(page.locator(".quiz").first.get_by_text("✓ Answered")).to_be_visible()
    assert page.get_by_text("✓ Answered").count() == 1


def test_progress_is_not_lost_by_a_wrong_answer(page: Page) -> None:
    answer(page, "The columns")
    answer(page, "The rows")
    expect(page.get_by_text("✓ Answered")).to_have_count(0)  # beside "✗ Not this one"
    assert progress(page).startswith("1 of 2 answered.")
    answer(page, "The columns")
    expect(page.get_by_text("✓ Answered")).to_have_count(1)
    assert progress(page).startswith("1 of 2 answered.")


def test_progress_stands_in_the_contents_of_every_page(
    page: Page, address: str
) -> None:
    answer(page, "The columns")
    page.goto(f"{address}/02-head.html")
    assert ticks(page) == ["1/2 (1 of 2 answered)"]
    form_of_view = page.locator("form.predict")
    form_of_view.locator("input").fill("24")
    form_of_view.locator("input").press("Enter")
    assert progress(page).startswith("1 of 1 answered.")
    assert ticks(page) == ["1/2 (1 of 2 answered)", "✓ (1 of 1 answered)"]
    page.reload()
    mark = page.locator(".attention-view .attention-live").get_by_text("✓ Answered")
    expect(mark).to_be_visible()
    expect(page.get_by_text("✓ Answered")).to_have_count(1)
    page.get_by_role("button", name="Show the answer").click()
    expect(mark).to_be_visible()
    form_of_view.locator("input").fill("25")
    form_of_view.locator("input").press("Enter")
    expect(page.get_by_text("✓ Answered")).to_have_count(0)
    assert progress(page).startswith("1 of 1 answered.")


def test_mark_moves_into_a_card_that_comes_late(page: Page, address: str) -> None:
    page.goto(f"{address}/02-head.html")
    page.locator("form.predict input").fill("24")
    page.locator("form.predict input").press("Enter")
    program = re.compile(r"/views\.js")
    page.route(program, lambda route: route.fulfill(body="", content_type="text/js"))
    page.reload()
    expect(page.get_by_text("✓ Answered")).to_be_visible()
    page.unroute(program)
    page.add_script_tag(path=ROOT / BUILT)
    expect(page.locator(".attention-live").get_by_text("✓ Answered")).to_be_visible()
    expect(page.get_by_text("✓ Answered")).to_have_count(1)


def test_progress_leaves_with_one_button(page: Page) -> None:
    forget = page.get_by_role("button", name="Forget all of it")
    expect(forget).to_be_hidden()
    answer(page, "The columns")
    forget.click()
    assert progress(page).startswith("0 of 2 answered.")
    assert ticks(page) == []
    assert page.evaluate("Object.keys(localStorage)") == (
        page.evaluate("Object.keys(localStorage).filter(k => !k.includes('attention'))")
    )
    expect(page.locator(".learn-progress")).to_be_focused()
    page.reload()
    assert progress(page).startswith("0 of 2 answered.")


def test_progress_is_kept_under_one_name_and_sent_nowhere(
    page: Page, address: str
) -> None:
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    before = page.evaluate("document.cookie")
    answer(page, "The columns")
    assert sent == []
    assert page.evaluate("document.cookie") == before
    names = page.evaluate("Object.keys(localStorage)")
    assert "attention-book-progress" in names


def test_progress_of_a_question_written_anew_is_gone(
    page: Page, context: BrowserContext, address: str, site: Path
) -> None:
    answer(page, "The columns")

    def rewritten(route: Any) -> None:
        text = (site / "chapters/01-toy.html").read_text()
        route.fulfill(body=text.replace("padding</em> hide", "padding</em> show"))

    page.route("**/01-toy.html", rewritten)
    page.reload()
    assert progress(page).startswith("0 of 2 answered.")


CLOSED = """Object.defineProperty(window, "localStorage", {
    get() { throw new DOMException("closed", "SecurityError"); } });"""
FULL = """Storage.prototype.setItem = () => {
    throw new DOMException("full", "QuotaExceededError"); };"""


@pytest.mark.parametrize("script", [CLOSED, FULL], ids=["closed", "full"])
def test_progress_without_storage_lasts_as_long_as_the_page(
    site: Path, context: BrowserContext, script: str
) -> None:
    faults: list[str] = []
    page = context.new_page()
    page.on(
        "pageerror",
        # The theme keeps its own settings there, and does not ask first.
        lambda e: faults.append(e.stack or "") if "learn.js" in str(e.stack) else None,
    )
    page.add_init_script(script)
    page.goto((site / "chapters/01-toy.html").as_uri())
    assert answer(page, "The columns").startswith("✓")
    assert progress(page) == (
        "1 of 2 answered. This browser keeps nothing: it is gone with the page."
    )
    page.get_by_role("button", name="Forget all of it").click()
    assert progress(page).startswith("0 of 2 answered.")
    assert faults == []


def test_progress_that_cannot_be_read_is_none(
    page: Page, context: BrowserContext
) -> None:
    page.evaluate("localStorage.setItem('attention-book-progress', '{broken')")
    page.reload()
    assert progress(page).startswith("0 of 2 answered. Kept in this")
    answer(page, "The columns")
    assert progress(page).startswith("1 of 2 answered.")


# For everyone


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_quiz_is_accessible(
    browser: Browser, address: str, width: int, theme: Any
) -> None:
    size: Any = {"width": width, "height": 900}
    with browser.new_context(
        viewport=size, color_scheme=theme, reduced_motion="reduce"
    ) as context:
        page = context.new_page()
        page.goto(f"{address}/01-toy.html")
        page.wait_for_selector(f"html[data-theme={theme}]")
        answer(page, "The rows")
        answer(page, "The scale.", number=1)
        answer(page, "The columns")
        faults = axe_faults(page)
        assert [fault for fault in faults if "quiz" in fault or "learn" in fault] == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for control in page.locator(".quiz-option, .quiz button").all():
            box = control.bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) >= 24


def test_learn_is_small() -> None:
    for name in ("learn.js", "learn.css"):
        assert (ROOT / "book/_static" / name).stat().st_size < 8_000
