"""Phrases of the text that set a view: each names what there is, and changes it."""

import pytest
from playwright.sync_api import expect
from sphinx.errors import ExtensionError

from tests.browsing import PHONE
from tests.pages import parsed
from tools.chapters import ROOT, SITE, chapter_paths
from tools.site.scripts import with_phrases
from tools.translate.catalogue import settings

pytestmark = pytest.mark.usefixtures("site")
# Chapters of the Chinese edition; its other pages are the English ones.
FINISHED = [it for it in settings(ROOT)["finished"] if it.startswith("chapters/")]
CHAPTERS = [f"chapters/{path.stem}" for path in chapter_paths()]
ROPE = "chapters/10-rotary-positions.html"
SLIDER = "() => +document.querySelector('#view-rope input').value"


@pytest.mark.parametrize("name", [*CHAPTERS, *(f"zh/{it}" for it in FINISHED)])
def test_chapter_with_a_view_has_three_phrases(name):
    """What each of them does is seen when its page is visited: test_visits."""
    page = parsed(SITE / f"{name}.html")
    kinds = {str(it["data-kind"]) for it in page.select(".attention-view")}
    least = 3 if kinds - {"predict"} else 0
    assert len(page.select("a.view-phrase[data-set]")) >= least


@pytest.mark.parametrize("by", ["finger", "keys"])
def test_view_out_of_sight_is_led_to_and_one_in_sight_is_not(browser, by):
    size = {"width": PHONE, "height": 800}
    with browser.new_page(viewport=size, has_touch=True) as page:
        page.goto((SITE / ROPE).as_uri())
        view = page.locator("#view-rope[data-live]")
        for text, value in [("far apart", 40), ("a fast pair", 7)]:
            phrase = page.locator(".view-phrase", has_text=text)
            phrase.scroll_into_view_if_needed()
            view.evaluate("e => scrollBy(0, e.getBoundingClientRect().top - 2000)")
            phrase.evaluate("e => e.focus({ preventScroll: true })")
            before = page.evaluate("scrollY")
            if by == "keys":
                page.keyboard.press("Enter")
            else:
                phrase.tap()
            page.wait_for_function(f"{SLIDER} === {value}")
            expect(view).to_be_in_viewport(ratio=0.3)
            assert page.url.endswith("#view-rope")
            page.go_back()
            page.wait_for_function("!location.hash")
            if by == "keys":
                page.wait_for_function(f"Math.abs(scrollY - {before}) < 200")
        # In sight: neither the page nor its address moves.
        view.evaluate("e => e.scrollIntoView()")
        before = page.evaluate("scrollY")
        page.locator(".view-phrase", has_text="near").evaluate("e => e.click()")
        page.wait_for_function(f"{SLIDER} === 2")
        assert page.evaluate("[scrollY, location.hash]") == [before, ""]


def test_phrase_is_a_link_to_the_view_without_scripts(browser):
    with browser.new_page(java_script_enabled=False) as page:
        page.goto((SITE / ROPE).as_uri())
        page.locator(".view-phrase").first.click()
        assert page.url.endswith("#view-rope")
        expect(page.locator("#view-rope")).to_be_in_viewport()


def test_phrase_for_a_view_that_a_page_has_not_stops_the_build():
    link = '<a class="reference external" href="view:rope?query=2&amp;amp;key=1">x</a>'
    view = '<div class="attention-view" data-kind="rope"></div>'
    assert 'data-set="query=2&amp;key=1"' in with_phrases(link + view, "p")
    with pytest.raises(ExtensionError, match="p: there is no view 'rope' to set"):
        with_phrases(link, "p")
