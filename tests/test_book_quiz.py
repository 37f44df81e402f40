"""Quizzes and progress: read, made plain, built, and answered in a browser."""

import re
import shutil
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from attention_lib.predict import predict
from tests.browsing import axe_faults, served
from tools.chapters import ROOT
from tools.quiz import QuizError, read_options
from tools.record.convert import FOLDED, plain_notebook, unfolded
from tools.record.execute import PROGRAM
from tools.site.scripts import VIEWS

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
FAULTY = ONE.replace("\n\n  Then every real token still looks at it.", "")
ASKED = "```{code-cell} ipython3\n:tags: [predict]\n1\n```\n\n"
ASKED += ASKED.replace("predict", "hide-input")
FAULT = f"chapters/03-faulty.md:{HEAD.count(chr(10)) + 5}: "
TEXT = f"(toy)=\n# Toy\n\n{ASKED}## Quiz\n\n{ONE}\n{SEVERAL}"
ASK = predict("How many?", answer=24, because="Four times six.")
CONF = """
extensions = ["myst_nb", "tools.site.scripts", "tools.site.learn"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
exclude_patterns = ["_build", "notebooks"]
html_theme = "sphinx_book_theme"
html_static_path = ["book/_static"]
html_css_files = ["book.css"]
html_context = {"default_mode": "auto"}
nb_execution_mode = "off"
"""
PHONE, DESKTOP = 375, 1440


def chapter(root: Path, name: str, text: str) -> Path:
    """Write a chapter, and return it."""
    path = root / "chapters" / name
    path.write_text(HEAD + text)
    return path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book of two chapters, with quizzes and with a prediction, and a faulty one."""
    root = tmp_path_factory.mktemp("quiz")
    for folder in ("book", "chapters", "attention_lib/explorer"):
        (root / folder).mkdir(parents=True)
    view = PROGRAM.sub("", ASK._repr_mimebundle_()["text/html"])
    chapter(root, "01-toy.md", TEXT)
    chapter(root, "02-head.md", f"(head)=\n# Head\n\n```{{raw}} html\n{view}```\n")
    chapter(root, "03-faulty.md", f"# Faulty\n\n{FAULTY.replace('1-1', '3-1')}")
    names = ["chapters/01-toy", "chapters/02-head"]
    listed = ", ".join(f"{{file: {name}}}" for name in names)
    (root / "_toc.yml").write_text(f"root: book/index\nchapters: [{listed}]\n")
    (root / "_config.yml").write_text(
        "parse: {myst_enable_extensions: [colon_fence, dollarmath]}"
    )
    toc = "\n".join(["```{toctree}", *(f"../{name}" for name in names), "```"])
    (root / "book/index.md").write_text(f"# Book\n\n{toc}\n")
    (root / "conf.py").write_text(f"{CONF}root_doc = 'book/index'\n")
    shutil.copytree(ROOT / "book/_static", root / "book/_static")
    shutil.copy(ROOT / VIEWS, root / VIEWS)
    return root


FAULTS = [
    ("- [x] A\n\n  Why.", "two options at least", 0),
    ("- [ ] A\n\n  Why.\n- [ ] B\n\n  Why.", "no option is right", 0),
    ("- [x] A\n\n  Why.\n- [ ] B", "an option has no explanation", 3),
    ("- [x] A\n\n  Why.\n- [ ]\n\n  Why.", "an option is empty", 3),
    ("- [x] A\n\n  Why.\n- [y] B\n\n  Why.", "an option starts with a box", 3),
    ("- [x] A\n\n  Why.\n\nWhy.", "a quiz is one list", 4),
]


@pytest.mark.parametrize(("body", "words", "line"), FAULTS)
def test_read_options_refuses_what_is_not_complete(
    body: str, words: str, line: int
) -> None:
    with pytest.raises(QuizError, match=re.escape(words)) as caught:
        read_options(body)
    assert caught.value.line == line


PLAIN = """<a id="quiz-1-1"></a>

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

</details>

**What changes the weights?** (Choose all that are right.)
"""


def test_notebook_folds_answers_and_the_code_of_a_prediction(root: Path) -> None:
    cells = plain_notebook(root / "chapters/01-toy.md").cells
    assert PLAIN in cells[-1].source
    predict, other = [cell for cell in cells if cell.cell_type == "code"]
    assert predict.metadata == {"tags": ["predict"], **FOLDED}
    assert unfolded(predict) == {"tags": ["predict"]}
    assert unfolded(other) == {"tags": ["hide-input"]}


@pytest.fixture(scope="module")
def site(root: Path) -> Path:
    """Build the book with Sphinx, which names file and line of the one fault."""
    said = StringIO()
    folders = map(str, (root, root, root / "_build", root / "_build"))
    with patch_docutils(), docutils_namespace():
        Sphinx(*folders, "html", status=None, warning=said).build()
    (error,) = re.findall(".*ERROR.*", said.getvalue())
    assert f"{FAULT}ERROR: quiz: an option has no explanation" in error
    return root / "_build"


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
    return " ".join(asked.get_by_role("status").inner_text().split())


def progress(page: Page) -> str:
    return page.locator(".learn-progress span").first.inner_text()


def ticks(page: Page) -> list[str]:
    return page.locator(".learn-tick").all_text_contents()


def test_quiz_is_a_group_of_radio_buttons_that_explains_each_option(
    page: Page,
) -> None:
    group = page.get_by_role("group", name="Which axis does padding hide?")
    assert group.get_by_role("radio").count() == 3
    expect(page.get_by_text("a hidden key gets weight 0")).to_be_hidden()
    assert answer(page) == "Choose an option first."
    wrong = "✗ Not this one. Then every real token still looks at it."
    assert answer(page, "The rows") == wrong
    assert progress(page).startswith("0 of 2 answered")
    said = answer(page, "The columns")
    assert said == "✓ Right: a hidden key gets weight 0. From every query."


@pytest.mark.slow
def test_quiz_with_several_right_options(page: Page) -> None:
    for chosen, words in (
        (["The scale."], "One more is right."),
        (["The scale.", "A mask.", "Adding"], "✗ Not this one. The softmax"),
    ):
        assert words in answer(page, *chosen, number=1)
        assert progress(page).startswith("0 of 2 answered")
    assert "It shares out" in answer(page, "The scale.", "A mask.", number=1)
    assert progress(page).startswith("1 of 2 answered")


def test_quiz_works_by_keyboard_and_answers_on_paper(page: Page) -> None:
    form(page).get_by_role("radio").first.focus()
    page.keyboard.press("ArrowDown")
    expect(form(page).get_by_role("status")).to_be_empty()
    page.keyboard.press("Enter")
    expect(form(page).get_by_role("status")).to_contain_text("a hidden key")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    expect(form(page)).to_be_hidden()
    expect(page.locator(".learn-progress")).to_be_hidden()
    expect(page.locator(".quiz").first.get_by_text("still looks at it")).to_be_visible()


def test_quiz_without_scripts_folds_the_answers(browser: Browser, address: str) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{address}/01-toy.html")
        assert page.locator(".quiz input, .quiz button").count() == 0
        quiz = page.locator(".quiz").first
        expect(quiz.get_by_text("still looks at it")).to_be_hidden()
        quiz.get_by_text("Answers").click()
        expect(quiz.get_by_text("still looks at it")).to_be_visible()
        marks = quiz.get_by_role("img").evaluate_all("all => all.map(e => e.ariaLabel)")
        assert marks == ["Not right", "Right", "Not right"]


def test_progress_is_kept_here_alone_and_forgotten_by_one_button(page: Page) -> None:
    forget = page.get_by_role("button", name="Forget all of it")
    expect(forget).to_be_hidden()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    before = page.evaluate("[document.cookie, ...Object.keys(localStorage)]")
    answer(page, "The columns")
    assert sent == []
    after = page.evaluate("[document.cookie, ...Object.keys(localStorage)]")
    assert sorted(after) == sorted([*before, "attention-book-progress"])
    page.reload()
    assert progress(page) == "1 of 2 answered. Kept in this browser only."
    mark = page.get_by_text("✓ Answered")
    expect(mark).to_be_visible()
    answer(page, "The rows")
    expect(mark).to_have_count(0)  # beside "✗ Not this one"
    assert progress(page).startswith("1 of 2 answered.")
    forget.click()
    assert progress(page).startswith("0 of 2 answered.")
    assert ticks(page) == []
    expect(page.locator(".learn-progress")).to_be_focused()
    assert sorted(page.evaluate("Object.keys(localStorage)")) == sorted(before[1:])


def test_progress_stands_in_the_contents_of_every_page(
    page: Page, address: str
) -> None:
    answer(page, "The columns")
    page.goto(f"{address}/02-head.html")
    assert ticks(page) == ["1/2 (1 of 2 answered)"]
    box = page.locator("form.predict input")
    box.fill("24")
    box.press("Enter")
    assert progress(page).startswith("1 of 1 answered.")
    assert ticks(page) == ["1/2 (1 of 2 answered)", "✓ (1 of 1 answered)"]
    program = re.compile(r"/views\.js")  # which may come late
    page.route(program, lambda route: route.fulfill(body="", content_type="text/js"))
    page.reload()
    expect(page.get_by_text("✓ Answered")).to_be_visible()
    page.unroute(program)
    page.add_script_tag(path=ROOT / VIEWS)
    mark = page.locator(".attention-view .attention-live").get_by_text("✓ Answered")
    expect(mark).to_be_visible()
    expect(page.get_by_text("✓ Answered")).to_have_count(1)


CLOSED = """Object.defineProperty(window, "localStorage", {
    get() { throw new DOMException("closed", "SecurityError"); } });"""
FULL = """Storage.prototype.setItem = () => {
    throw new DOMException("full", "QuotaExceededError"); };"""


@pytest.mark.slow
@pytest.mark.parametrize("script", [CLOSED, FULL], ids=["closed", "full"])
def test_progress_without_storage_lasts_as_long_as_the_page(
    site: Path, context: BrowserContext, script: str
) -> None:
    faults: list[str] = []
    page = context.new_page()
    # The theme keeps its own settings there, and does not ask first.
    page.on("pageerror", lambda error: faults.append(error.stack or ""))
    page.add_init_script(script)
    page.goto((site / "chapters/01-toy.html").as_uri())
    assert answer(page, "The columns").startswith("✓")
    assert progress(page) == (
        "1 of 2 answered. This browser keeps nothing: it is gone with the page."
    )
    assert [fault for fault in faults if "learn.js" in fault] == []


@pytest.mark.slow
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
