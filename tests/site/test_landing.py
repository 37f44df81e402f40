"""The first page: a head at work, and the reader's own place."""

import json

import pytest
from playwright.sync_api import expect

from tests.browsing import PHONE
from tests.pages import parsed
from tests.running import sample
from tools.chapters import SITE

pytestmark = pytest.mark.usefixtures("site")
LANDING, CHAPTER = "book/index.html", "chapters/03-masks.html"
# Where a line ends, from the left of the window.
END = """line => line.getPointAtLength(line.getTotalLength())
  .matrixTransform(line.getScreenCTM()).x"""
SHIFT = sample("shift.js")
PLACES = """all => all.map(e => e.getBoundingClientRect())
  .map(({ x, y, width, height }) => [x, y, width, height].map(Math.round))"""
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
    # In its chapter it is a view among others; here it says by itself what to do.
    assert head.locator(".view-title").count() == 0
    page.goto(f"{address}/chapters/08-training.html")
    expect(page.locator(".view-title").first).to_contain_text("View 8.1")


@pytest.mark.parametrize("width", [PHONE, 1440])
def test_lines_of_the_head_cross_no_word_above_it(browser, width):
    with browser.new_page(viewport={"width": width, "height": 900}) as page:
        page.goto((SITE / LANDING).as_uri())
        page.locator(".attention-live .sentence-lines path").first.wait_for()
        page.get_by_role("radio", name="had").check(force=True)
        tops = page.evaluate(
            """() => [...document.querySelectorAll(".attention-live path")].map(
                (path) => path.getBBox().y - parseFloat(path.style.strokeWidth) / 2)"""
        )
        assert len(tops) >= 4
        assert min(tops) >= 0
        assert len({round(top) for top in tops}) >= 3  # and they are told apart


@pytest.mark.parametrize("width", [PHONE, 1440])
def test_landing_page_does_not_jump_when_its_scripts_come(browser, width):
    heights = []
    for scripts in (False, True):
        with browser.new_page(viewport={"width": width, "height": 900}) as page:
            if not scripts:  # as while they are on their way
                page.route("**/*.js*", lambda route: route.abort())
            page.goto((SITE / LANDING).as_uri())
            if scripts:
                assert page.evaluate(SHIFT) < 0.02
            heights.append(page.locator(".hero").bounding_box()["height"])
    assert heights[0] == heights[1]


@pytest.mark.parametrize("width", [PHONE, 1440])
def test_head_draws_its_lines_without_a_script(browser, width):
    size = {"width": width, "height": 900}
    with browser.new_page(viewport=size, java_script_enabled=False) as page:
        page.goto((SITE / LANDING).as_uri())
        words = page.locator(".hero .sentence-key:not(.sentence-query)")
        lines = page.locator(".hero svg:visible path")
        assert lines.count() == words.count() > 0
        for line, word in zip(lines.all(), words.all(), strict=True):
            below = word.bounding_box()
            middle = below["x"] + below["width"] / 2
            assert line.evaluate(END) == pytest.approx(middle, abs=2)
        assert page.evaluate("document.documentElement.scrollWidth") == width


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


@pytest.mark.parametrize("width", [PHONE, 1440])
@pytest.mark.parametrize("edition", ["", "zh/"])
def test_what_was_done_moves_nothing(browser, address, edition, width):
    place = {"page": CHAPTER[:-5], "hash": "", "number": "26.12", "title": ""}
    done = {"chapters/01-toy-attention": {"right": ["a"], "total": 4}, "place": place}
    with browser.new_page(viewport={"width": width, "height": 900}) as page:
        page.goto(f"{address}/{edition}{LANDING}")
        expect(page.locator(".road-done")).to_have_count(0)
        seen = page.locator(".ways a, .road, .road a").evaluate_all(PLACES)
        page.evaluate(KEEP, json.dumps(done))
        page.reload()
        expect(page.locator(".ways a").first).to_contain_text("26.12")
        assert page.locator(".ways a, .road, .road a").evaluate_all(PLACES) == seen


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


def test_goal_that_was_reached_is_kept_until_all_is_forgotten(page, address):
    page.goto(f"{address}/chapters/10-rotary-positions.html")
    view = page.locator('.attention-view[data-kind="rope"]')
    goal = view.locator(".view-goal")
    expect(goal).to_contain_text("Try it.")
    together = view.get_by_role("slider").last
    together.fill(str(int(together.input_value()) + 1))
    expect(goal).to_contain_text("Reached.")
    page.reload()
    expect(goal).to_contain_text("Reached.")
    page.get_by_role("button", name="Forget all of it").click()
    expect(goal).to_contain_text("Try it.")
