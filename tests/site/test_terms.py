"""The meaning of a term beside its link: by mouse, by keyboard, by touch, without."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browsing import THEMES, wear
from tools.chapters import SITE, site_pages
from tools.site.scripts import meanings

pytestmark = pytest.mark.usefixtures("site")
CHAPTER = SITE / "chapters/03-masks.html"
GLOSSARY = SITE / "book/glossary.html"
LINK = re.compile(r'href="[^"]*#(term-[^"]*)"[^>]*><span class="[^"]*std-term')
MEANING = "A table of booleans for queries and keys, True where a query may attend"


@pytest.fixture
def page(browser):
    with browser.new_page(viewport={"width": 1440, "height": 900}) as page:
        page.goto(CHAPTER.as_uri())
        yield page


@pytest.fixture
def phone(browser):
    size = {"width": 375, "height": 800}
    with browser.new_page(viewport=size, has_touch=True, is_mobile=True) as page:
        page.goto(CHAPTER.as_uri())
        yield page


def term(page, name="mask"):
    """The first link of a term in the text."""
    links = page.locator(f"section a[href$='{GLOSSARY.name}#term-{name}']")
    return links.filter(has=page.locator(".std-term")).first


def card(page):
    return page.locator(".term-card")


def test_every_term_has_a_meaning_and_its_page_the_script():
    known, count = meanings(GLOSSARY.read_text(encoding="utf-8")), 0
    for path in site_pages(SITE):
        html = path.read_text(encoding="utf-8")
        names = set(LINK.findall(html))
        assert names <= known.keys(), path.name
        assert ("_static/terms.js" in html) == bool(names), path.name
        count += len(names)
    assert count > 50


def test_hover_shows_the_meaning_and_leaving_hides_it(page):
    term(page).hover()  # a pointer that only passes shows nothing
    page.mouse.move(5, 5)
    page.wait_for_timeout(300)
    expect(card(page)).to_have_count(0)
    term(page).hover()
    expect(card(page)).to_be_visible()
    assert card(page).locator("p").inner_text().startswith(MEANING)
    card(page).locator("p").hover()  # the pointer may move onto the card
    page.wait_for_timeout(400)
    expect(card(page)).to_be_visible()
    page.mouse.move(5, 5)
    expect(card(page)).to_have_count(0)
    term(page).hover()
    expect(card(page)).to_be_visible()
    page.keyboard.press("Escape")
    expect(card(page)).to_have_count(0)


def test_links_of_a_meaning_lead_where_the_glossarys_do(page):
    page.evaluate("bookTerms['term-mask'] += '<a href=\"#term-key\">key</a>'")
    term(page).hover()
    link = card(page).get_by_role("link", name="key", exact=True).last
    assert link.evaluate("(a) => a.href") == f"{GLOSSARY.as_uri()}#term-key"
    card(page).get_by_text("In the glossary").click()
    page.wait_for_url("**/glossary.html#term-mask")
    # There, too, an entry's links show what they mean.
    page.locator("dd a[href='#term-mask']").first.hover()
    expect(card(page).locator("p")).to_contain_text(MEANING)


def test_focus_shows_tab_goes_in_and_escape_hides(page):
    page.keyboard.press("Tab")  # from here on a focus is the keyboard's
    term(page).focus()
    expect(card(page)).to_be_visible()
    assert term(page).get_attribute("aria-describedby") == "term-meaning"
    page.keyboard.press("Tab")
    expect(card(page).get_by_role("link").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(card(page)).to_have_count(0)
    expect(term(page)).to_be_focused()
    assert term(page).get_attribute("aria-describedby") is None
    term(page, "causal-mask").focus()
    expect(card(page)).to_have_count(1)
    page.locator("#pst-skip-link a").first.focus()
    expect(card(page)).to_have_count(0)


def test_first_tap_shows_second_goes(phone):
    term(phone).tap()
    expect(card(phone)).to_be_visible()
    assert phone.url.endswith("03-masks.html")
    box = card(phone).bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 375
    assert phone.evaluate("document.documentElement.scrollWidth") <= 375
    box = card(phone).get_by_text("In the glossary").bounding_box()
    assert box["height"] >= 24
    phone.touchscreen.tap(370, 700)  # beside it
    expect(card(phone)).to_have_count(0)
    term(phone).tap()
    term(phone).tap()
    phone.wait_for_url("**/glossary.html#term-mask")


def test_terms_are_plain_links_without_scripts(browser):
    with browser.new_page(java_script_enabled=False) as page:
        page.goto(CHAPTER.as_uri())
        term(page).click()
        page.wait_for_url("**/glossary.html#term-mask")


@pytest.mark.slow
def test_card_has_no_accessibility_fault(page):
    term(page).hover()
    expect(card(page)).to_be_visible()
    for theme in THEMES:
        wear(page, theme)
        found = Axe().run(page, context="p:has(.term-card)")
        own = [
            f"{fault['id']}: {node['html'][:200]}"
            for fault in found.response["violations"]
            for node in fault["nodes"]
            if "term" in node["html"] or "book-" in node["html"]
        ]
        assert own == [], theme
