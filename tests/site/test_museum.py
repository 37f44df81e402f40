"""The page of the bugs: an address for each, found by the search, also on a phone."""

import pytest
from playwright.sync_api import expect

from attention_lib.course.museum import BUGS
from tests.browsing import PHONE
from tests.pages import parsed
from tests.site.searching import READY, missed
from tools.chapters import SITE

pytestmark = pytest.mark.usefixtures("site")
MUSEUM, SMALL = "book/museum.html", {"width": PHONE, "height": 812}
FIRST, OTHER = BUGS[0], BUGS[40]


@pytest.fixture
def page(browser):
    with browser.new_page(viewport=SMALL) as page:
        page.set_default_timeout(20_000)
        yield page


def address_of(bug):
    """As somebody sends it; the page is opened as a file."""
    return f"{(SITE / MUSEUM).as_uri()}#{bug.anchor}"


def shows(page, bug):
    expect(page.locator(".museum-symptom")).to_have_text(bug.symptom)
    expect(page.locator(".museum-symptom")).to_be_in_viewport()
    assert page.evaluate("location.hash") == f"#{bug.anchor}"


def test_address_leads_to_its_bug_and_follows_the_reader(page):
    page.goto(address_of(OTHER))
    shows(page, OTHER)
    page.evaluate("hash => { location.hash = hash }", FIRST.anchor)
    shows(page, FIRST)
    page.get_by_role("button", name="Next bug").click()
    shows(page, BUGS[1])
    link = page.get_by_role("link", name="Link to this bug")
    expect(link).to_have_attribute("href", f"#{BUGS[1].anchor}")
    page.reload()
    shows(page, BUGS[1])


def test_page_without_a_bug_in_its_address_stays_at_its_top(page):
    page.goto((SITE / MUSEUM).as_uri())
    expect(page.locator(".museum-symptom")).to_have_text(FIRST.symptom)
    assert page.evaluate("location.hash + scrollY") == "0"


def test_phone_folds_the_filters(page):
    page.goto((SITE / MUSEUM).as_uri())
    tag = page.get_by_role("button", name="loss falls too fast")
    expect(tag).to_be_hidden()
    page.locator(".museum-tags summary").click()
    expect(tag).to_be_visible()
    # The room that a program needs is its own.
    assert page.locator(".view-goal").bounding_box()["height"] < 60
    page.set_viewport_size({"width": 1440, "height": 900})
    page.reload()
    expect(tag).to_be_visible()


def test_phone_shows_the_lines_of_each_bug_whole(page):
    page.goto((SITE / MUSEUM).as_uri())
    code = page.locator(".museum-code")
    # Not a click, which waits until the page stands still.
    show, following = (
        page.get_by_role("button", name=name) for name in ("Show me", "Next bug")
    )
    for bug in BUGS:
        expect(page.locator(".museum-symptom")).to_have_text(
            bug.symptom.replace("`", "")
        )
        show.dispatch_event("click")
        assert code.evaluate("(e) => e.scrollWidth <= e.clientWidth"), bug.name
        following.dispatch_event("click")


@pytest.mark.parametrize("width", [PHONE, 1440])
def test_line_that_is_right_keeps_its_indent(page, width):
    page.set_viewport_size({"width": width, "height": 812})
    page.goto((SITE / MUSEUM).as_uri())
    page.get_by_role("button", name="Show me").click()
    codes = page.locator(".museum-line code")
    assert codes.count() > 5
    kept = codes.evaluate_all("(all) => all.map((e) => getComputedStyle(e).whiteSpace)")
    assert {*kept} <= {"pre", "pre-wrap"}


def test_bug_is_read_without_a_script(browser):
    with browser.new_page(viewport=SMALL, java_script_enabled=False) as page:
        page.goto(address_of(OTHER))
        exhibit = page.locator(f"#{OTHER.anchor}")
        expect(exhibit.get_by_role("heading")).to_be_in_viewport()
        for text in (OTHER.symptom, OTHER.why, OTHER.fix[0][1]):
            expect(exhibit).to_contain_text(text)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE


def test_search_finds_each_bug_by_its_name(page):
    page.goto(address_of(OTHER))
    page.keyboard.press("Control+k")
    page.wait_for_function(READY)
    assert missed(page, [(bug.name, f"{MUSEUM}#{bug.anchor}") for bug in BUGS]) == []


@pytest.mark.parametrize("edition", ["", "zh/"])
def test_first_page_and_contents_lead_to_the_museum(edition):
    first = parsed(SITE / edition / "book/index.html")
    for place in (".ways", ".bd-sidebar-primary"):
        assert first.select_one(f"{place} a[href='museum.html']"), place
