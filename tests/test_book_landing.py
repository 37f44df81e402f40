"""The first page: a head at work, the reader's own place, and what it weighs."""

import json

import pytest
from playwright.sync_api import expect

from tests.browsing import PHONE
from tests.test_book_weight import total, weigh
from tools.chapters import SITE
from tools.check.pages import parsed

pytestmark = pytest.mark.usefixtures("site")
LANDING, CHAPTER = "book/index.html", "chapters/03-masks.html"
KEEP = "kept => localStorage.setItem('attention-book-progress', kept)"


@pytest.fixture
def page(browser):
    with browser.new_page(viewport={"width": PHONE, "height": 812}) as page:
        page.set_default_timeout(20_000)
        yield page


def test_landing_page_shows_the_view_of_chapter_8(page, address):
    places = [SITE / "chapters/08-training.html", SITE / LANDING]
    sent = [parsed(it).select_one("[data-kind=sentence] script") for it in places]
    assert sent[0].string == sent[1].string
    page.goto(f"{address}/{LANDING}")
    head = page.locator(".hero .attention-live")
    expect(head.locator("path").first).to_be_visible()
    head.locator("label", has_text="because").click()
    expect(head.locator(".sentence-said")).to_contain_text("after because, this head")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE


def test_landing_page_weighs_little(browser):
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        found = weigh(context, SITE / LANDING)
    assert total(found.whole) < 300_000
    assert found.absent == set()


def test_landing_page_leads_on_from_where_the_reader_was(page, address):
    page.goto(f"{address}/{LANDING}")
    start = page.locator(".ways a").first
    expect(start).to_have_text("Start with chapter 1")
    page.goto(f"{address}/{CHAPTER}")
    page.locator("#padding").evaluate("(e) => e.parentNode.scrollIntoView()")
    expect(page.locator("#pst-page-toc-nav [aria-current]")).to_contain_text("3.4")
    page.goto(f"{address}/{LANDING}")
    expect(start).to_have_text("Continue at 3.4")
    start.click()
    page.wait_for_url("**/03-masks.html#the-padding-mask-or-attention-mask")


def test_road_is_lit_by_what_was_answered(page, address):
    page.goto(f"{address}/{LANDING}")
    some = {"right": ["a"], "total": 4}
    whole = {"right": ["a", "b"], "total": 2}
    kept = {"chapters/01-toy-attention": some, "chapters/02-single-head": whole}
    page.evaluate(KEEP, json.dumps(kept))
    page.reload()
    stops = page.locator(".road ol li")
    expect(stops.nth(0)).to_contain_text("(1 of 4 answered)")
    lit = "all => all.map(e => [e.style.getPropertyValue('--done'), e.className])"
    assert stops.evaluate_all(lit)[:3] == [["0.25", ""], ["1", "road-done"], ["0", ""]]


def test_prediction_hides_what_answers_it(page, address):
    page.goto(f"{address}/chapters/08-training.html")
    card = page.locator(".cell.tag_predict").first
    answer = page.locator(".cell.tag_predict + .cell > .cell_output").first
    expect(answer).to_be_hidden()
    card.get_by_role("button", name="Show the answer").click()
    expect(answer).to_be_visible()
    box = page.locator(".admonition.predict").first
    fold = page.locator(".admonition.predict + .cell details").first
    assert not fold.evaluate("e => e.open")
    box.get_by_role("button", name="Show what comes out").click()
    assert fold.evaluate("e => e.open")
