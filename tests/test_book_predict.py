"""Predictions in a browser: typed by hand, in every front end's colours."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from attention_lib.predict import predict
from tests.browsing import axe_faults, built_pages
from tests.views import FRONT_ENDS, Theme, html_of, opened
from tools.chapters import ROOT, SITE, chapter_paths

SHAPE = predict(
    "Which shape have the weights of `x`?",
    answer=(2, 3, 5, 5),
    because="One table a head.",
    mistakes={(2, 3, 5, 4): "The width is summed over."},
)
WHOLE = predict(
    "How many parameters?",
    answer=147_648,
    because="Three *weights*, three biases.",
    mistakes={147_456: "The biases are missing."},
)
SHARE = predict("Which share?", answer=0.25, because="Half of a half.", within="2%")
LOSS = predict("Which difference?", answer=-1.5, because="It falls.", within=0.1)
NO_AXIS = predict("Which shape has a sum?", answer=(), because="It has no axis.")
BYTES = predict(
    "How many bytes has a `mask` of 1,024 × 1,024?", answer=2**20, because="One each."
)
FRESH = predict("How large is the loss?", answer=math.log(404), because="It is ln V.")
VIEWS = [SHAPE, WHOLE, SHARE, LOSS, NO_AXIS, BYTES, FRESH]
MALFORMED = ["alert(1)", "constructor", "1+", "*2", "(1", "1)", "1 2", "2(3)", "ln"]
MALFORMED += ["sqrt()", "1**", "log2(8)", "..", "__proto__", "1;2", "(" * 999]
ENDLESS = ["1/0", "ln 0", "sqrt(-1)", "9**9**9", "0/0"]
UNITS = ["1e", "3 KB", "3KB", "147648 bytes", "2*3 parameter"]


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    with opened(browser, *VIEWS) as page:
        yield page


def answered(page: Page, view: Any, typed: str) -> str:
    """What the reader is told who types this and presses Enter."""
    form = page.locator("form.predict").nth(VIEWS.index(view))
    form.locator("input").fill(typed)
    form.locator("input").press("Enter")
    return form.get_by_role("status").inner_text().replace("\n", " ")


@pytest.mark.parametrize(
    ("view", "typed"),
    [
        *((SHAPE, typed) for typed in ["(2, 3, 5, 5)", "2, 3, 5, 5", "2 3 5 5"]),
        *((SHAPE, typed) for typed in ["2×3×5×5", "2x3x5x5", "[2,3,5,5]", "2;3;5;5"]),
        *((SHAPE, typed) for typed in ["torch.Size([2, 3, 5, 5])", " (2,3,5,5,) "]),
        *((WHOLE, typed) for typed in ["147648", "147,648", "147 648", "147_648"]),
        *((WHOLE, typed) for typed in ["147648.0", "1.47648e5", "+147'648"]),
        (WHOLE, "147\u202f648"),
        *((SHARE, typed) for typed in ["0.25", ".25", "25 %", "1/4", "0.246", "25e-2"]),
        *((LOSS, typed) for typed in ["-1.5", "−1.45", "-3/2", "- 1.5"]),
        *((NO_AXIS, typed) for typed in ["()", "[]", "torch.Size([])"]),
        *((BYTES, typed) for typed in ["1024*1024", "1,024 × 1,024", "2**20", "2^20"]),
        *((BYTES, typed) for typed in ["1048576 bytes", "1 048 576bytes", "4**(2*5)"]),
        *((BYTES, typed) for typed in ["sqrt(64)*2**17", "1024·1024", "-(-2)**20*-1"]),
        *((BYTES, typed) for typed in ["2**2**4*2**4", "2**21/2/1", "2**20-1+1"]),
        (WHOLE, "(768**2*3 + 3*768)/12 - 2*1e0*0"),
        *(
            (SHARE, typed)
            for typed in ["1/2**2", "2**-2", "(1+1)/8", "√.0625", "50%/2"]
        ),
        *((FRESH, typed) for typed in ["ln 404", "log(404)", "LN(404)", "2*ln(404)/2"]),
        *((FRESH, typed) for typed in ["ln 2 + ln 202", "ln 404**2 / 2", "ln(404)**1"]),
    ],
)
def test_predict_reads_what_is_right(page: Page, view: Any, typed: str) -> None:
    assert answered(page, view, typed).startswith("✓ Right. ")


@pytest.mark.parametrize(
    ("view", "typed", "words"),
    [
        (SHAPE, "2, 3, 5, 4", "✗ Not yet. The width is summed over."),
        (SHAPE, "2, 3, 5", "✗ Not yet. Your shape has 3 axes: too few."),
        (SHAPE, "5", "Your shape has 1 axis: too few."),
        (SHAPE, "2, 3, 5, 5, 1", "Your shape has 5 axes: too many."),
        (SHAPE, "3, 2, 5, 5", "the right sizes, in another order."),
        (SHAPE, "2, 3, 7, 5", "4 axes is the right number, but axis 2 is not right."),
        (SHAPE, "2, 4, 7, 5", "but axes 1 and 2 are not right. Count from 0."),
        (SHAPE, "2, 3, T, 5", "○ “T” is no size: type whole numbers, as in (8, 5)."),
        (SHAPE, "2, , 5", "○ A size is missing: type whole numbers"),
        (SHAPE, "2, -1, 5", "○ “-1” is no size"),
        (SHAPE, " ", "○ Type a shape first."),
        (WHOLE, "147456", "✗ Not yet. The biases are missing."),
        (WHOLE, "147649", "✗ Not yet. Too high."),
        (WHOLE, "100000", "✗ Not yet. Too low."),
        (WHOLE, "12", "✗ Not yet. Far too low."),
        (WHOLE, "1e9", "✗ Not yet. Far too high."),
        (WHOLE, "", "○ Type a number first."),
        (WHOLE, "many", "○ “many” cannot be read: type one number, as in 1200, 0.25"),
        (WHOLE, "1/2/3", "✗ Not yet. Far too low."),
        *((WHOLE, typed, f"○ “{typed}” cannot be read") for typed in MALFORMED),
        *((WHOLE, typed, f"○ “{typed}” is no finite number.") for typed in ENDLESS),
        (WHOLE, "<b>1</b>", "○ “<b>1</b>” cannot be read"),
        *((WHOLE, typed, "○ Give the number alone.") for typed in UNITS),
        (BYTES, "1 MB", "○ Give the number alone."),
        (BYTES, "1024*1024 bytes", "○ Give the number alone."),
        (BYTES, "1024 bytes", "✗ Not yet. Far too low."),
        (WHOLE, "(2, 3)", "○ One number is asked for, not a shape."),
        (WHOLE, "2, 3", "○ One number is asked for, not a shape."),
        (WHOLE, "2 x 3", "○ One number is asked for, not a shape."),
        (SHARE, "0,25", "○ Write decimals with a point: 0.25."),
        (SHARE, "0.26", "✗ Not yet. Too high."),
        (LOSS, "1.5", "✗ Not yet. The sign is wrong."),
        (LOSS, "-1.2", "✗ Not yet. Too high."),
        (LOSS, "-40", "✗ Not yet. Far too low."),
        (NO_AXIS, "1", "Your shape has 1 axis: too many."),
    ],
)
def test_predict_says_what_is_wrong(
    page: Page, view: Any, typed: str, words: str
) -> None:
    assert words in answered(page, view, typed)


def test_predict_says_why(page: Page) -> None:
    assert answered(page, WHOLE, "147648") == "✓ Right. Three weights, three biases."


def test_predict_says_that_it_calculates_where_it_does(page: Page) -> None:
    forms = page.locator("form.predict")
    for view in (SHAPE, WHOLE, SHARE):
        hint = forms.nth(VIEWS.index(view)).locator(".predict-hint").inner_text()
        assert (hint.endswith(" A calculation such as 4*768**2 will do.")) == (
            view is not SHAPE
        )


def chapter_predictions() -> list[dict[str, Any]]:
    """What every prediction of the records sends to its page."""
    found = []
    for path in chapter_paths():
        record = (ROOT / "notebooks" / f"{path.stem}.ipynb").read_text(encoding="utf-8")
        for cell in json.loads(record)["cells"]:
            for output in cell.get("outputs", []):
                text = "".join(output.get("data", {}).get("text/html", ""))
                if 'data-kind="predict"' in text:
                    sent = text.split('type="application/json">')[1]
                    found.append(json.loads(sent.split("</script>")[0]))
    return found


def as_typed(value: Any) -> str:
    """A number as people type it: three digits of what is not whole."""
    if isinstance(value, list):
        return str(tuple(value))
    return f"{value:.3g}" if value % 1 else f"{value:.0f}"


JUDGE_PARTS = ["calculate.js", "answer.js"]
# The judge itself, bundled with nothing: what it imports stands before it.
JUDGE = """(all) => all.map(([typed, data]) => {
    const { value, unread } = read(typed, data);
    return unread ?? judge(value, data).html;
})"""


def test_each_mistake_of_the_chapters_gets_its_own_words(page: Page) -> None:
    source = ROOT / "explorer_source/src"
    parts = [(source / name).read_text("utf-8") for name in JUDGE_PARTS]
    program = re.sub(r"^(export |import .*$)", "", "\n".join(parts), flags=re.MULTILINE)
    asked, wanted = [], []
    for data in chapter_predictions():
        for value, words in [[data["answer"], data["because"]], *data["mistakes"]]:
            asked.append([as_typed(value), data])
            wanted.append(words)
    assert len(wanted) > 60
    assert page.evaluate(
        f"(all) => {{ {program}\n return ({JUDGE})(all); }}", asked
    ) == (wanted)


def test_predict_takes_the_nearest_mistake(browser: Browser) -> None:
    mistakes = {1 / 404: "That is 1/V.", 8.6: "Base 2.", 0: "Nothing is sure."}
    loss = predict("?", answer=6.0, because="!", mistakes=mistakes, within=0.1)
    with opened(browser, loss) as page:
        for typed, words in [("0", "Nothing"), ("0.0025", "1/V"), ("1/404", "1/V")]:
            page.locator("input").fill(typed)
            page.locator("input").press("Enter")
            expect(page.get_by_role("status")).to_contain_text(words)


def test_predict_gives_nothing_away_before(browser: Browser) -> None:
    with opened(browser, WHOLE) as page:
        text = page.locator(".attention-live").inner_text()
    assert "147" not in text
    assert "biases" not in text


def test_predict_shows_the_answer_when_asked(browser: Browser) -> None:
    with opened(browser, WHOLE) as page:
        page.get_by_role("button", name="Show the answer").click()
        said = page.get_by_role("status").inner_text()
    assert said == "→ 147,648. Three weights, three biases."


def test_predict_works_by_keyboard(browser: Browser) -> None:
    with opened(browser, WHOLE) as page:
        page.keyboard.press("Tab")
        expect(page.get_by_label("How many parameters?")).to_be_focused()
        page.keyboard.type("147456")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_contain_text("The biases are missing.")
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        expect(page.get_by_role("status")).to_contain_text("147,648.")


def test_predict_tells_the_page(browser: Browser) -> None:
    with opened(browser, WHOLE) as page:
        page.evaluate("""() => {
            window.told = [];
            addEventListener("attention-answered", (event) =>
                told.push(event.detail.right));
        }""")
        form = page.locator("form.predict")
        for typed in ["1", "147648"]:
            form.locator("input").fill(typed)
            form.get_by_role("button", name="Check").click()
        form.get_by_role("button", name="Show the answer").click()
        assert page.evaluate("told") == [False, True, False]


def test_predict_without_scripts_folds_the_answer(browser: Browser) -> None:
    with opened(browser, WHOLE, java_script_enabled=False) as page:
        expect(page.get_by_text("How many parameters?")).to_be_visible()
        expect(page.get_by_text("147,648")).to_be_hidden()
        page.get_by_text("Answer", exact=True).click()
        expect(page.get_by_text("147,648")).to_be_visible()


def test_predict_on_paper_is_readable(browser: Browser) -> None:
    with opened(browser, WHOLE) as page:
        page.emulate_media(media="print")
        expect(page.locator(".attention-live")).to_be_hidden()
        expect(page.locator(".attention-static").get_by_text("147,648")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_predict_is_accessible(browser: Browser, front_end: str, theme: Theme) -> None:
    phone = {"viewport": {"width": 375, "height": 800}}
    with opened(browser, *VIEWS, front_end=front_end, theme=theme, **phone) as page:
        answered(page, SHAPE, "2, 3, 5")
        answered(page, WHOLE, "147648")
        assert axe_faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        for control in page.locator(".predict :is(input, button)").all():
            box = control.bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) >= 24


def test_predict_twice_on_a_page_has_labels_of_its_own(browser: Browser) -> None:
    with opened(browser, WHOLE, WHOLE) as page:
        ids = page.locator(".predict input").evaluate_all("all => all.map(e => e.id)")
    assert len(set(ids)) == 2


def test_predict_says_the_same_each_time() -> None:
    assert html_of(WHOLE) == html_of(WHOLE)


@pytest.mark.parametrize("stem", [path.stem for path in chapter_paths()])
def test_chapter_asks_twice_at_least_and_folds_the_code(stem: str) -> None:
    assert f"chapters/{stem}.html" in built_pages()
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
