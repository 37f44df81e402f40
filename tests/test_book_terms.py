"""The meaning of a term beside its link: by mouse, by keyboard, by touch, without."""

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from tools.chapters import SITE, site_pages
from tools.check.pages import parsed

CHAPTER = SITE / "chapters/03-masks.html"
MEANING = "A table of booleans for queries and keys, True where a query may attend"
PAGES = [page for page in site_pages(SITE) if page.name != "glossary.html"]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_page(viewport={"width": 1440, "height": 900}) as page:
        page.goto(CHAPTER.as_uri())
        yield page


@pytest.fixture
def phone(browser: Browser) -> Iterator[Page]:
    size = {"width": 375, "height": 800}
    with browser.new_context(viewport=size, has_touch=True, is_mobile=True) as context:
        page = context.new_page()
        page.goto(CHAPTER.as_uri())
        yield page


def term(page: Page, name: str = "mask") -> Locator:
    """The first link of a term in the text."""
    links = page.locator(f"section a[href$='#term-{name}']")
    return links.filter(has=page.locator(".std-term")).first


def card(page: Page) -> Locator:
    return page.locator(".term-card")


# What a page holds.


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page_holds_what_its_terms_mean_once(path: object) -> None:
    page = parsed(path)
    kept = [box["data-term"] for box in page.select("[data-term]")]
    assert len(kept) == len(set(kept))
    links = page.select("section a:has(> .std-term)")
    assert {a["href"].rpartition("#")[2] for a in links} == set(kept)
    assert all(box.get_text(strip=True) for box in page.select("[data-term]"))
    assert not page.select("#term-definitions [id]")
    loaded = [script.get("src", "") for script in page.select("script")]
    assert any("terms.js" in name for name in loaded) == bool(kept)


def test_meanings_are_not_found_by_the_search() -> None:
    index = (SITE / "searchindex.js").read_text()
    # Two pages say this word; every page with the term holds it in a meaning.
    found = re.search(r'"?perceptron"?: ?\[([\d, ]*)\]', index)
    assert found is not None
    assert len(found[1].split(",")) == 2


# By mouse.


def test_hover_shows_the_meaning_and_leaving_hides_it(page: Page) -> None:
    term(page).hover()
    expect(card(page)).to_be_visible()
    assert card(page).locator("p").inner_text().startswith(MEANING)
    page.mouse.move(5, 5)
    expect(card(page)).to_have_count(0)


def test_pointer_may_move_onto_the_card(page: Page) -> None:
    term(page).hover()
    expect(card(page)).to_be_visible()
    card(page).locator("p").hover()
    page.wait_for_timeout(400)
    expect(card(page)).to_be_visible()
    card(page).get_by_text("In the glossary").click()
    page.wait_for_url("**/glossary.html#term-mask")


def test_pointer_that_passes_shows_nothing(page: Page) -> None:
    term(page).hover()
    page.mouse.move(5, 5)
    page.wait_for_timeout(300)
    expect(card(page)).to_have_count(0)


def test_escape_hides_under_the_pointer(page: Page) -> None:
    term(page).hover()
    expect(card(page)).to_be_visible()
    page.keyboard.press("Escape")
    expect(card(page)).to_have_count(0)


def test_click_follows_the_link(page: Page) -> None:
    term(page).click()
    page.wait_for_url("**/glossary.html#term-mask")


# By keyboard.


def test_focus_shows_escape_hides(page: Page) -> None:
    page.keyboard.press("Tab")  # from here on a focus is the keyboard's
    term(page).focus()
    expect(card(page)).to_be_visible()
    assert term(page).get_attribute("aria-describedby") == "term-meaning"
    page.keyboard.press("Escape")
    expect(card(page)).to_have_count(0)
    expect(term(page)).to_be_focused()
    assert term(page).get_attribute("aria-describedby") is None


def test_tab_goes_into_the_card_and_on(page: Page) -> None:
    page.keyboard.press("Tab")
    term(page).focus()
    page.keyboard.press("Tab")
    expect(card(page).get_by_role("link").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(card(page)).to_have_count(0)
    expect(term(page)).to_be_focused()
    term(page, "causal-mask").focus()
    expect(card(page)).to_have_count(1)
    page.locator("#pst-skip-link a").first.focus()
    expect(card(page)).to_have_count(0)


# By touch.


def test_first_tap_shows_second_goes(phone: Page) -> None:
    term(phone).tap()
    expect(card(phone)).to_be_visible()
    assert phone.url.endswith("03-masks.html")
    box = card(phone).bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 375
    assert phone.evaluate("document.documentElement.scrollWidth") <= 375
    term(phone).tap()
    phone.wait_for_url("**/glossary.html#term-mask")


def test_tap_beside_hides(phone: Page) -> None:
    term(phone).tap()
    expect(card(phone)).to_be_visible()
    phone.touchscreen.tap(370, 700)
    expect(card(phone)).to_have_count(0)


def test_link_in_the_card_is_large_enough(phone: Page) -> None:
    term(phone).tap()
    box = card(phone).get_by_text("In the glossary").bounding_box()
    assert box is not None
    assert box["height"] >= 24


# The rest.


def test_terms_are_plain_links_without_scripts(browser: Browser) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(CHAPTER.as_uri())
        expect(page.locator("#term-definitions")).to_be_hidden()
        term(page).click()
        page.wait_for_url("**/glossary.html#term-mask")


def test_glossary_shows_its_own_entries(page: Page) -> None:
    page.goto((SITE / "book/glossary.html").as_uri())
    link = page.locator("dd a[href='#term-mask']").first
    link.hover()
    expect(card(page).locator("p")).to_contain_text(MEANING)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_card_has_no_accessibility_fault(page: Page, theme: str) -> None:
    page.emulate_media(color_scheme=theme)
    term(page).hover()
    expect(card(page)).to_be_visible()
    found = Axe().run(page, context="p:has(.term-card)")
    own = [
        f"{fault['id']}: {node['html'][:200]}"
        for fault in found.response["violations"]
        for node in fault["nodes"]
        if "term" in node["html"] or "book-" in node["html"]
    ]
    assert own == []


def test_script_and_style_are_small() -> None:
    sizes = [(SITE / "_static" / name).stat().st_size for name in ("terms.js",)]
    assert sum(sizes) < 4096
