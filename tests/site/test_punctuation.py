"""A formula and the comma, or the bracket, that belongs to it stand on one line."""

import pytest
from bs4 import BeautifulSoup

from tests.running import sample
from tools.chapters import SITE, chapter_paths
from tools.site.punctuation import CLASS

pytestmark = pytest.mark.usefixtures("site")
# How many formulas are followed by punctuation, and those whose punctuation is a line
# further down or up.
APART = sample("apart.js")


@pytest.mark.slow
def test_punctuation_stays_with_its_formula(browser):
    count, apart = 0, []
    with browser.new_page() as page:
        for chapter in chapter_paths():
            page.goto((SITE / f"chapters/{chapter.stem}.html").as_uri())
            for width in (320, 375, 1440):
                page.set_viewport_size({"width": width, "height": 900})
                followed, found = page.evaluate(APART)
                count += followed
                apart += found
    assert count > 300
    assert apart == []


def test_long_formula_still_breaks():
    html = (SITE / "chapters/04-multi-head.html").read_text(encoding="utf-8")
    joined = BeautifulSoup(html, "lxml").select(f"span.{CLASS}")
    boxes = [len(span.select(".katex-base")) for span in joined]
    assert max(boxes) > 1
    assert [len(span.select("wbr")) for span in joined] == [n - 1 for n in boxes]
