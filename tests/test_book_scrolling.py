"""What scrolls within itself is reached by keyboard."""

import pytest

from tools.chapters import SITE

pytestmark = pytest.mark.usefixtures("site")
# Each block of the article that has a bar to scroll: what it is, and its tabindex.
SCROLLED = r"""() => [...document.querySelectorAll(".bd-article *")]
    .filter((e) => /auto|scroll/.test(getComputedStyle(e).overflowX)
        && e.scrollWidth > e.clientWidth && !e.querySelector("button, input"))
    .map((e) => [e.tagName, e.tabIndex])"""
REACHED = ".bd-article :is(pre, .katex-display)[tabindex='0']"
WIDE = '<span class="katex-display"><span style="display:block;width:900px">x</span>'


@pytest.mark.slow
def test_what_scrolls_is_reached_by_keyboard(browser):
    with browser.new_page(viewport={"width": 375, "height": 800}) as page:
        page.goto((SITE / "chapters/04-multi-head.html").as_uri())
        # No formula of the book is too wide any more.
        page.locator(".math").first.evaluate("(e, html) => e.innerHTML = html", WIDE)
        page.locator("details").evaluate_all("(all) => all.map((d) => d.open = true)")
        page.set_viewport_size({"width": 374, "height": 800})
        page.wait_for_function(f"document.querySelectorAll({REACHED!r}).length > 3")
        found = page.evaluate(SCROLLED)
        assert {tag for tag, _ in found} >= {"PRE", "SPAN"}
        assert {index for _, index in found} == {0}
        # What fits again is not reached.
        page.set_viewport_size({"width": 1440, "height": 800})
        page.wait_for_function(f"document.querySelectorAll({REACHED!r}).length <= 2")
