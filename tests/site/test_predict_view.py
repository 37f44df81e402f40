"""Predictions in a browser: typed by hand, in every front end's colours."""

import math

import pytest
from playwright.sync_api import expect

from attention_lib.course.predict import predict
from tests.browsing import IN_BOTH, axe_faults
from tests.views import opened, predicted

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
MEGA = "How many bytes has a `mask` of 1,024 × 1,024?"
BYTES = predict(MEGA, answer=2**20, because="One each.")
FRESH = predict("How large is the loss?", answer=math.log(404), because="It is ln V.")
NEAREST = predict(
    "Which loss?",
    answer=6.0,
    because="!",
    mistakes={1 / 404: "That is 1/V.", 8.6: "Base 2.", 0: "Nothing is sure."},
    within=0.1,
)
VIEWS = [SHAPE, WHOLE, SHARE, LOSS, NO_AXIS, BYTES, FRESH, NEAREST]
MALFORMED = "alert(1)|constructor|1+|*2|(1|1)|1 2|2(3)|ln|sqrt()|1**|log2(8)|..|1;2"
MALFORMED += "|__proto__|<b>1</b>|many|" + "(" * 999
# For each view what is typed, with | between, and how all that is answered begins.
RIGHT = "✓ Right. "
ANSWERS = [
    (SHAPE, "(2, 3, 5, 5)|2, 3, 5, 5|2 3 5 5|2×3×5×5|2x3x5x5|[2,3,5,5]", RIGHT),
    (SHAPE, "2;3;5;5|torch.Size([2, 3, 5, 5])| (2,3,5,5,) ", RIGHT),
    (SHAPE, "2, 3, 5, 4", "✗ Not yet. The width is summed over."),
    (SHAPE, "2, 3, 5", "✗ Not yet. Your shape has 3 axes: too few."),
    (SHAPE, "5", "✗ Not yet. Your shape has 1 axis: too few."),
    (SHAPE, "2, 3, 5, 5, 1", "✗ Not yet. Your shape has 5 axes: too many."),
    (SHAPE, "3, 2, 5, 5", "the right sizes, in another order."),
    (SHAPE, "2, 3, 7, 5", "4 axes is the right number, but axis 2 is not right."),
    (SHAPE, "2, 4, 7, 5", "but axes 1 and 2 are not right. Count from 0."),
    (SHAPE, "2, 3, T, 5", "○ “T” is no size: type whole numbers, as in (8, 5)."),
    (SHAPE, "2, , 5", "○ A size is missing: type whole numbers"),
    (SHAPE, "2, -1, 5", "○ “-1” is no size"),
    (SHAPE, " ", "○ Type a shape first."),
    (WHOLE, "147,648|147 648|147_648|147648.0|1.47648e5|+147'648", RIGHT),
    (WHOLE, "147\u202f648|(768**2*3 + 3*768)/12 - 2*1e0*0", RIGHT),
    (WHOLE, "147648", "✓ Right. Three weights, three biases."),
    (WHOLE, "147456", "✗ Not yet. The biases are missing."),
    (WHOLE, "147649", "✗ Not yet. Too high."),
    (WHOLE, "100000", "✗ Not yet. Too low."),
    (WHOLE, "12|1/2/3", "✗ Not yet. Far too low."),
    (WHOLE, "1e9", "✗ Not yet. Far too high."),
    (WHOLE, "", "○ Type a number first."),
    (WHOLE, MALFORMED, "○ “{}” cannot be read: type one number, as in 1200, 0.25"),
    (WHOLE, "1/0|ln 0|sqrt(-1)|9**9**9|0/0", "○ “{}” is no finite number."),
    (WHOLE, "1e|3 KB|3KB|147648 bytes|2*3 parameter", "○ Give the number alone."),
    (WHOLE, "(2, 3)|2, 3|2 x 3", "○ One number is asked for, not a shape."),
    (SHARE, "0.25|.25|25 %|1/4|0.246|25e-2|1/2**2|2**-2|(1+1)/8|√.0625|50%/2", RIGHT),
    (SHARE, "0,25", "○ Write decimals with a point: 0.25."),
    (SHARE, "0.26", "✗ Not yet. Too high."),
    (LOSS, "-1.5|−1.45|-3/2|- 1.5", RIGHT),
    (LOSS, "1.5", "✗ Not yet. The sign is wrong."),
    (LOSS, "-1.2", "✗ Not yet. Too high."),
    (LOSS, "-40", "✗ Not yet. Far too low."),
    (NO_AXIS, "()|[]|torch.Size([])", RIGHT),
    (NO_AXIS, "1", "✗ Not yet. Your shape has 1 axis: too many."),
    (BYTES, "1024*1024|1,024 × 1,024|2**20|2^20|1048576 bytes|1 048 576bytes", RIGHT),
    (BYTES, "4**(2*5)|sqrt(64)*2**17|1024·1024|-(-2)**20*-1|2**2**4*2**4", RIGHT),
    (BYTES, "2**21/2/1|2**20-1+1", RIGHT),
    (BYTES, "1 MB|1024*1024 bytes", "○ Give the number alone."),
    (BYTES, "1024 bytes", "✗ Not yet. Far too low."),
    (FRESH, "ln 404|log(404)|LN(404)|2*ln(404)/2|ln 2 + ln 202|ln(404)**1", RIGHT),
    (FRESH, "ln 404**2 / 2", RIGHT),
    (NEAREST, "0", "✗ Not yet. Nothing is sure."),
    (NEAREST, "0.0025|1/404", "✗ Not yet. That is 1/V."),
]


def test_predict_judges_what_is_typed(browser):
    asked = [
        (VIEWS.index(view), text, words.format(text))
        for view, texts, words in ANSWERS
        for text in texts.split("|")
    ]
    with opened(browser, *VIEWS) as page:
        page.locator("form.predict").nth(len(VIEWS) - 1).wait_for()
        said = predicted(page, [one[:2] for one in asked])
        hints = page.locator(".predict-hint").all_inner_texts()
    wrong = [
        (text, told)
        for (_, text, words), (right, told) in zip(asked, said, strict=True)
        if words not in told or (right == "true") != told.startswith(RIGHT)
    ]
    assert wrong == []
    calculates = " A calculation such as 4*768**2 will do."
    shapes = [view in (SHAPE, NO_AXIS) for view in VIEWS]
    assert [not hint.endswith(calculates) for hint in hints] == shapes


def test_predict_works_by_keyboard_and_tells_the_page(browser):
    with opened(browser, WHOLE, WHOLE) as page:
        page.evaluate("""() => {
            window.told = [];
            addEventListener("attention-answered", (event) =>
                told.push(event.detail.right));
        }""")
        field = page.get_by_label("How many parameters?").first
        said = page.locator(".predict-verdict").first
        # Nothing is given away before, and each view has labels of its own.
        text = page.locator(".attention-live").first.inner_text()
        assert "147" not in text
        assert "biases" not in text
        ids = page.locator(".predict input").evaluate_all("all => all.map(e => e.id)")
        assert len(set(ids)) == 2
        page.keyboard.press("Tab")
        expect(field).to_be_focused()
        page.keyboard.type("147456")
        page.keyboard.press("Enter")
        expect(said).to_contain_text("The biases are missing.")
        field.fill("147648")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(said).to_have_text("✓ Right. Three weights, three biases.")
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        expect(said).to_have_text("→ 147,648. Three weights, three biases.")
        assert page.evaluate("told") == [False, True, False]
        page.emulate_media(media="print")
        expect(page.locator(".attention-live").first).to_be_hidden()
        static = page.locator(".attention-static").first
        expect(static.get_by_text("147,648")).to_be_visible()


def test_predict_without_scripts_folds_the_answer(browser):
    with opened(browser, WHOLE, java_script_enabled=False) as page:
        expect(page.get_by_text("How many parameters?")).to_be_visible()
        expect(page.get_by_text("147,648")).to_be_hidden()
        page.get_by_text("Answer", exact=True).click()
        expect(page.get_by_text("147,648")).to_be_visible()


# The colours of other front ends are those of all views: test_book_views.py.
@pytest.mark.parametrize("theme", IN_BOTH)
def test_predict_is_accessible(browser, theme):
    phone = {"viewport": {"width": 375, "height": 800}}
    with opened(browser, *VIEWS, theme=theme, **phone) as page:
        for number, typed in enumerate(["2, 3, 5", "147648"]):
            form = page.locator("form.predict").nth(number)
            form.locator("input").fill(typed)
            form.get_by_role("button", name="Check").click()
            expect(form.get_by_role("status")).not_to_be_empty()
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        boxes = page.locator(".predict :is(input, button)").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect())"
            ".map(({ width, height }) => Math.min(width, height))"
        )
        assert min(boxes) >= 24
        assert axe_faults(page) == []
