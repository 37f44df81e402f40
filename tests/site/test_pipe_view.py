"""The pipeline in a browser: by mouse, finger and keys, attention_lib's numbers."""

import itertools
from urllib.parse import urlencode

import numpy as np
import pytest
from playwright.sync_api import expect

from attention_lib.course.views.pipeline import MASKS, mask_of, steps_of, view_pipeline
from attention_lib.course.views.sentence_model import train_sentence_model
from tests.browsing import IN_BOTH, axe_faults
from tests.running import sample
from tests.views import PHONE, live, opened, set_temperature, showing

SENTENCE = "the cat slept because it was tired"
READ, LIT = sample("pipe.js"), sample("lit.js")
GOAL = ("Make “it” look at “robot”.", "it", "robot", 0.5)


@pytest.fixture(scope="module")
def model(unchecked):
    with unchecked():  # most of the time otherwise
        return train_sentence_model()


@pytest.fixture(scope="module")
def whole(model):
    options = {"masks": MASKS, "heads": 2, "flips": True, "block": True}
    return view_pipeline(model, SENTENCE, query=4, **options)


def test_every_setting_gives_the_library_s_numbers(browser, model, whole):
    padded = "because it was ill the pad dog ran"
    settings = [
        *itertools.product(
            [SENTENCE], MASKS, [0, 1], [True, False], [0.3, 1.0, 5.0], "w"
        ),
        *itertools.product([padded], MASKS, [1], [False], [2.0], "rxqkvsdmwocpafy"),
    ]
    moments, wanted = [], []
    for text, mask, head, scaled, heat, stage in settings:
        parts = {"pipe": f"4..{stage}", "mask": mask, "head": head, "t": f"{heat:g}"}
        parts |= {"text": text, "scale": "on" if scaled else "off"}
        moments.append(urlencode(parts))
        given = {"head": head, "scaled": scaled, "temperature": heat}
        allowed = mask_of(mask, text.split())
        wanted.append(steps_of(model, model.encode(text), allowed, **given)[stage])
    with opened(browser, whole) as page:
        live(page)
        found = page.evaluate(READ, moments)
    for moment, numbers, own in zip(moments, found, wanted, strict=True):
        np.testing.assert_allclose(numbers, own, rtol=0, atol=5.01e-4, err_msg=moment)


def said(view):
    return view.locator(".pipe-said").inner_text()


def cell(view, matrix, row, column):
    """Where the middle of a cell is."""
    shape = view.locator(f"[data-matrix={matrix}] > g").nth(7 * row + column)
    # Above what is said of it, which stays at the lower edge.
    shape.evaluate("(e) => e.scrollIntoView({ block: 'center' })")
    box = shape.locator("rect, path").first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def lit(view):
    return view.locator(".pipe-asks input").get_attribute("aria-label")


def test_mouse_lights_a_row_and_shows_two_vectors(browser, model):
    steps = steps_of(model, model.encode(SENTENCE), mask_of("none", SENTENCE.split()))
    with showing(browser, view_pipeline(model, SENTENCE, query=4)) as (page, view):
        view.locator(".pipe-sentence label").nth(1).hover()
        assert lit(view) == "cat"
        assert said(view).startswith("“cat” looks at")
        page.mouse.move(*cell(view, "s", 6, 1))
        assert lit(view) == "tired"
        assert "score of “tired” and “cat”: q(tired) · k(cat)" in said(view)
        products = view.locator(".pipe-meeting li b").all_inner_texts()
        shown = [float(text.strip("= ").replace("−", "-")) for text in products]
        np.testing.assert_allclose(shown, steps["q"][6] * steps["k"][1], atol=0.0051)
        page.mouse.move(*cell(view, "d", 6, 1))
        score, half = steps["s"][6, 1], steps["d"][6, 1]
        assert f"{score:.2f} ÷ 2 (√D) = {half:.2f}." in said(view)
        page.mouse.move(*cell(view, "s", 6, 1))
        # Its formula and its line of code are lit; a line lights its matrix.
        assert "query @ key.T" in view.locator(".pipe-lit").inner_text()
        view.get_by_text("weights @ value").hover()
        assert view.locator("[data-matrix=o] .pipe-ring").count() == 1
        page.mouse.move(0, 0)
        assert lit(view) == "it"


def test_step_lights_its_code_and_formula_in_the_page(browser, model):
    listing = "<pre><span>scores</span> = query <b>@</b> key.mT\n</pre>"
    with showing(browser, view_pipeline(model, SENTENCE)) as (page, view):
        around = (
            f"<div class=highlight>{listing}</div><p id=equation-eq-attention>f</p>"
        )
        page.evaluate(
            """html => document.body.insertAdjacentHTML(
            "beforeend", `<div class="bd-article">${html}</div>`)""",
            around,
        )
        view.get_by_text("scores = query @ key.T").hover()
        lit_part = "[...CSS.highlights.get('pipe-step')].map(String).join()"
        assert page.evaluate(lit_part) == "query @ key.mT"
        assert page.locator(".pipe-formula").inner_text() == "f"
        view.get_by_text("weights @ value").hover()
        assert page.evaluate(lit_part) == ""


def test_finger_holds_a_cell_on_a_phone(browser, whole):
    with showing(browser, whole, **PHONE) as (page, view):
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        view.locator("svg").scroll_into_view_if_needed()
        view.locator(".pipe-stage", has_text="softmax").tap()
        assert "weight of “it” on “cat”: e^" in said(view)
        view.locator(".pipe-sentence label").nth(6).tap()
        assert lit(view) == "tired"
        # A cell of the mask is turned over: the word is hidden.
        x, y = cell(view, "m", 6, 1)
        page.touchscreen.tap(x, y)
        assert "the mask hides “cat” from “tired”" in said(view)
        expect(view.locator(".pipe-share").nth(1)).to_have_text("hidden")
        for box in view.locator("label:has(input), button, summary").all():
            assert box.bounding_box()["height"] >= 24, box.inner_text()


def test_finger_steps_from_cell_to_cell(browser, whole):
    # At this width a cell is 15 pixels wide: what is beside it is reached by buttons.
    with showing(browser, whole, **PHONE) as (_, view):
        view.locator(".pipe-stage", has_text="mask").tap()
        for name in ("up", "left"):
            view.get_by_role("button", name=name, exact=True).tap()
        assert "“because” and “the”: “because” may look at “the”" in said(view)
        view.get_by_role("button", name="turn it over").tap()
        assert "the mask hides “the” from “because”" in said(view)


def test_keyboard_reaches_every_cell(browser, whole):
    with showing(browser, whole) as (page, view):
        view.get_by_role("radio", name="it", exact=True).focus()
        page.keyboard.press("ArrowRight")
        assert lit(view) == "was"
        view.get_by_role("radio", name="mask who may look").focus()
        page.keyboard.press("Space")
        view.get_by_role("application").focus()
        for key in ("ArrowUp", "ArrowLeft"):
            page.keyboard.press(key)
        assert "“it” and “was”: “it” may look at “was”" in said(view)
        page.keyboard.press("Space")
        assert "the mask hides “was” from “it”" in said(view)


def test_sentence_names_what_it_does_not_know(browser, model):
    with showing(browser, view_pipeline(model, SENTENCE, goal=GOAL)) as (_, view):
        field, status = (
            view.get_by_label("another sentence"),
            view.locator("form [role]"),
        )
        for text, words in [
            ("the cow ran", "does not know “cow”: it has no row for it"),
            ("the " * 9, "Eight words at most"),
            (" ", "Type at least one word"),
        ]:
            field.fill(text)
            field.press("Enter")
            expect(status).to_contain_text(words)
            assert view.locator(".pipe-word").count() == 7
        assert "Try it." in view.locator(".view-goal").inner_text()
        field.fill("The robot ran, because it was ill.")
        field.press("Enter")
        expect(view.locator(".view-goal")).to_contain_text("Reached.")
        assert status.inner_text() == ""


def test_link_leads_to_the_same_moment(browser, whole):
    with showing(browser, whole, whole) as (page, view):
        view.get_by_role("radio", name="causal", exact=True).check(force=True)
        view.get_by_role("radio", name="2: word before").check(force=True)
        set_temperature(view, 0.5)
        page.mouse.click(*cell(view, "w", 3, 2))
        page.mouse.move(0, 0)
        words = said(view)
        assert "weight of “because” on “slept”" in words
        href = view.get_by_role("link", name="link to this moment").get_attribute(
            "href"
        )
        page.evaluate(
            "Object.defineProperty(navigator, 'clipboard',"
            " {value: {writeText: async (text) => { window.pasted = text; }}})"
        )
        view.get_by_role("link", name="link to this moment").click()
        expect(view.locator(".pipe-foot [role=status]")).to_have_text("copied")
        assert page.evaluate("pasted") == page.url == page.url.split("#")[0] + href
        view.get_by_role("button", name="start again").click()
        expect(view.locator(".pipe-foot [role=status]")).to_have_text("")
        assert said(view) != words
        page.evaluate("href => { location.hash = ''; location.hash = href }", href)
        expect(view.locator(".pipe-said")).to_have_text(words, use_inner_text=True)
        page.reload()
        expect(view.locator(".pipe-said")).to_have_text(words, use_inner_text=True)
        assert lit(live(page, 1)) == "it"  # an address is the first view's


def test_address_or_column_that_is_not_there_leads_to_one_that_is(browser, whole):
    with showing(browser, whole) as (page, view):
        for moment, words in [
            ("4..o.9", "number 4 of the mix of “it”"),
            ("4.7.k.9", "number 4 of k(cat)"),
            ("4.1.w&t=7", "weight of “it” on “cat”: e^4.89"),  # not on the slider
        ]:
            page.evaluate("moment => { location.hash = `pipe=${moment}` }", moment)
            expect(view.locator(".pipe-said")).to_contain_text(words)
            assert view.locator(".pipe-controls output").inner_text() == "1"
        # X is wider than a head: its last column is held, then Q is pointed at.
        page.evaluate("location.hash = 'pipe=4..x.7'")
        expect(view.locator(".pipe-said")).to_contain_text("number 8 of x(it)")
        view.get_by_text("x @ w_q").hover()
        expect(view.locator(".pipe-said")).to_contain_text("number 4 of q(it)")


def test_cache_computes_one_row_and_keeps_keys_and_values(browser, model):
    view_of = view_pipeline(model, SENTENCE, cache=True)
    with showing(browser, view_of) as (_, view):
        for step in range(7):
            drawn = {
                name: view.locator(f"[data-matrix={name}] > g").count()
                for name in "qkvw"
            }
            rows = {"q": 4, "k": 4 * (step + 1), "v": 4 * (step + 1), "w": step + 1}
            assert drawn == rows
            view.get_by_role("button", name="Next").click(force=True)
        assert "“tired” looks at cat" in said(view)
        view.get_by_role("radio", name="off").first.check(force=True)
        assert view.locator("[data-matrix=q] > g").count() == 28


@pytest.mark.parametrize("theme", IN_BOTH)
def test_axe_finds_nothing_and_lit_numbers_are_read(browser, model, whole, theme):
    cached = view_pipeline(model, SENTENCE, query=4, cache=True)
    with showing(browser, whole, cached, theme=theme) as (page, view):
        for head, word in itertools.product((0, 1), range(7)):
            page.evaluate(READ, [f"pipe={word}..w&head={head}"])
            contrasts = page.evaluate(LIT)
            assert len(contrasts) > 30
            assert min(contrasts) >= 4.5, (head, word, view.inner_text())
        assert axe_faults(page) == []  # takes bare shapes from the page
