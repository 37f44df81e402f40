"""What scrolls within itself is reached by keyboard, and measuring it is cheap."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tools.chapters import SITE
from tools.site.scrolling import THEME, without_measuring

# Each block of the article that has a bar to scroll: what it is, and its tabindex.
SCROLLED = r"""() => [...document.querySelectorAll(".bd-article *")]
    .filter((e) => /auto|scroll/.test(getComputedStyle(e).overflowX)
        && e.scrollWidth > e.clientWidth && !e.querySelector("button, input"))
    .map((e) => [e.tagName, e.tabIndex])"""
REACHED = ".bd-article :is(pre, .katex-display)[tabindex]"


@pytest.fixture
def phone(browser: Browser) -> Iterator[Page]:
    """A chapter with wide formulas, also in folded parts, on a phone."""
    with browser.new_page(viewport={"width": 375, "height": 800}) as page:
        page.goto((SITE / "chapters/04-multi-head.html").as_uri())
        yield page


def test_what_scrolls_is_reached_by_keyboard(phone: Page) -> None:
    phone.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
    found = phone.evaluate(SCROLLED)
    assert {tag for tag, _ in found} >= {"PRE", "SPAN"}
    assert {index for _, index in found} == {0}
    assert phone.evaluate("document.documentElement.scrollWidth") == 375


def test_what_fits_again_is_not_reached(phone: Page) -> None:
    assert phone.locator(REACHED).count() > 3
    phone.set_viewport_size({"width": 1440, "height": 800})
    phone.wait_for_function(
        f"document.querySelectorAll({REACHED!r}).length <= 1", timeout=10_000
    )


def test_theme_no_longer_measures() -> None:
    script = (SITE / THEME).read_text(encoding="utf-8")
    assert "tabIndex" not in script
    assert without_measuring(script) == script


def test_only_the_function_that_measures_goes() -> None:
    script = (
        'function a(){b()}function O(){const e=()=>{document.querySelectorAll(["pre",'
        '".x"].join(", ")).forEach((e=>{e.tabIndex=1?0:-1}))},t=c(e);new M(t).observe('
        'document.getElementById("main-content"),{subtree:!0,childList:!0}),e()}d(O);'
    )
    left = without_measuring(script)
    assert left.startswith("function a(){b()}function O(){/*")
    assert left.endswith("*/}d(O);")


def test_unknown_script_of_the_theme_is_refused() -> None:
    with pytest.raises(ValueError, match=f"^{THEME} measures .* in 0 places"):
        without_measuring("function O(){}")
