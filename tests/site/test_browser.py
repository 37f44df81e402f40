"""What moves on a page of the built site: contents, drawers, colours, edges."""

import pytest
from playwright.sync_api import expect

from tests.browsing import PHONE, lay_out
from tests.running import sample

pytestmark = pytest.mark.usefixtures("site")
CHAPTER = "chapters/03-masks.html"
# For places all over a page: the entries of its contents that are marked.
MARKED = sample("marked.js")
# How many shades and grounds a box has.
SHADE = "(e) => getComputedStyle(e).backgroundImage.split('linear-gradient').length"


@pytest.fixture(scope="module")
def window(browser):
    size = {"width": PHONE, "height": 800}
    with browser.new_page(viewport=size, has_touch=True) as page:
        page.emulate_media(reduced_motion="reduce")
        page.set_default_timeout(20_000)
        yield page


@pytest.fixture
def phone(window, address):
    """A chapter on a phone."""
    window.goto(f"{address}/{CHAPTER}")
    lay_out(window)
    return window


@pytest.mark.parametrize(
    ("name", "of"),
    [("primary", "Pages of the book"), ("secondary", "Sections of this page")],
)
def test_drawer_opens_and_closes_on_a_phone(phone, name, of):
    link = phone.locator(f".bd-sidebar-{name} nav a").first
    expect(link).to_be_hidden()
    for by in ("key", "button"):
        phone.locator(f"button.{name}-toggle:visible").first.tap()
        expect(link).to_be_visible()
        expect(phone.get_by_role("dialog", name=of)).to_be_visible()
        if by == "key":
            phone.keyboard.press("Escape")
        else:
            phone.get_by_role("button", name="Close").tap()
        expect(link).to_be_hidden()


def test_tap_in_the_contents_leads_there_and_closes_them(phone):
    phone.locator("button.secondary-toggle:visible").first.tap()
    phone.locator("#pst-page-toc-nav a:visible").nth(5).tap()
    expect(phone.locator("dialog[open]")).to_have_count(0)
    place = "document.querySelector(':target').getBoundingClientRect().top"
    assert 0 <= phone.evaluate(place) < 150


def test_sidebar_leads_to_another_chapter_on_a_phone(phone):
    phone.locator("button.primary-toggle:visible").first.tap()
    phone.locator(".bd-sidebar-primary nav a", has_text="Several heads").tap()
    phone.wait_for_url("**/04-multi-head.html")


def test_contents_mark_the_section_that_is_read(phone, address):
    phone.set_viewport_size({"width": 1440, "height": 900})
    phone.goto(f"{address}/chapters/02-single-head.html")  # 2.3.1 is inside 2.3
    lay_out(phone)
    *marked, end = phone.evaluate(MARKED)
    assert [(n, found) for found, read, n in marked if found != [read]] == []
    last = phone.locator("#pst-page-toc-nav a").last.get_attribute("href")
    assert [f"#{name}" for name in end[0]] == [last]
    phone.set_viewport_size({"width": PHONE, "height": 800})


def test_long_contents_are_as_high_as_the_window(window, address):
    window.set_viewport_size({"width": 1440, "height": 900})
    window.goto(f"{address}/chapters/04-multi-head.html")
    contents = window.locator(".bd-sidebar-secondary")
    expect(contents.locator("a")).not_to_have_count(0)
    cut = "it => Math.min(it.scrollHeight, innerHeight) - it.clientHeight"
    assert contents.evaluate(cut) == 0
    window.set_viewport_size({"width": PHONE, "height": 800})


def test_wide_view_stays_in_the_window_when_that_was_scrolled_sideways(window, address):
    window.set_viewport_size({"width": 1440, "height": 900})
    window.goto(f"{address}/chapters/02-single-head.html")
    view = window.locator("[data-kind=pipe][style*='--column']")
    view.scroll_into_view_if_needed()
    view.screenshot()  # a tool's picture of what is higher than the window scrolls it
    width = window.evaluate("document.documentElement.scrollWidth")
    window.set_viewport_size({"width": PHONE, "height": 800})
    assert width == 1440


def test_list_of_pages_shows_the_one_that_is_open(window, address):
    window.set_viewport_size({"width": 1440, "height": 900})
    for page in (CHAPTER, "book/glossary.html", "book/api/training.html", CHAPTER):
        window.goto(f"{address}/{page}")
        here = window.locator(".bd-sidebar-primary .current > a").last
        expect(here).to_be_in_viewport(timeout=1000)
    window.set_viewport_size({"width": PHONE, "height": 800})


def test_what_goes_on_sideways_has_a_shaded_edge(phone):
    # Two grounds that move with the text cover two shades that do not.
    for kind in ("pre", ".katex-display", ".pst-scrollable-table-container"):
        assert phone.locator(f".bd-article {kind}").first.evaluate(SHADE) == 5, kind


def test_theme_switch_is_remembered(window, address):
    theme = "document.documentElement.dataset.theme"
    window.goto(f"{address}/search.html")  # a page that is soon there again
    seen = set()
    for _ in range(3):  # light, dark, and as the system has it
        window.locator("button.theme-switch-button:visible").first.click()
        seen.add(kept := window.evaluate(theme))
        window.reload()
        assert window.evaluate(theme) == kept
    assert seen == {"light", "dark"}


def test_jump_leads_to_the_first_page_which_has_no_contents(window, address):
    window.goto(address)
    window.wait_for_url("**/book/index.html")
    expect(window.locator("button.primary-toggle:visible")).to_have_count(1)
    expect(window.locator("button.secondary-toggle:visible")).to_have_count(0)
