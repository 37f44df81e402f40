"""Figures on the built site: drawings in the page's typeface, by day and by night."""

import re

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.browsing import THEMES, wear
from tests.pages import parsed
from tools.chapters import SITE, chapter_paths
from tools.site.pictures import drawn

pytestmark = pytest.mark.usefixtures("site")
PAGES = [*(f"chapters/{path.stem}" for path in chapter_paths()), "book/speed"]
MASKS = (SITE / "chapters/03-masks.html").as_uri()
TITLE = re.compile(r'^  code_prompt_show: "(.+)"$', re.MULTILINE)
# The colours of a figure's words, of its first cell, and of the page's heading.
COLOURS = """() => [
    ...["text", "[style*=figure-]"].map((css) => getComputedStyle(
        document.querySelector(`svg.drawing ${css}`)).fill),
    getComputedStyle(document.querySelector(".bd-article h1")).color,
]"""


@pytest.fixture(scope="module")
def window(browser):
    with browser.new_page() as page:
        yield page


def test_figure_has_the_ink_of_its_page_and_prints_as_by_day(window):
    window.goto(MASKS)
    seen = {}
    for theme in THEMES:
        wear(window, theme)
        seen[theme] = window.evaluate(COLOURS)
        assert seen[theme][0] == seen[theme][2]
    assert all(one != two for one, two in zip(*seen.values(), strict=True))
    window.emulate_media(media="print", color_scheme="dark")
    ink, series, _ = window.evaluate(COLOURS)
    window.emulate_media(media="screen")
    assert ink != seen["dark"][0]
    assert series == seen["light"][1]


@pytest.mark.parametrize("page", PAGES)
def test_figures_are_drawings_that_say_what_they_show(page):
    found = parsed(SITE / f"{page}.html").select(".bd-article figure")
    assert found
    for figure in found:
        (svg,) = figure.select("svg[role=img]")
        label = str(svg["aria-label"])
        assert len(label) > 20
        assert not label.endswith((".png", ".svg")), "that is its file: write alt:"
        assert {"width", "height"} <= {*svg.attrs}


@pytest.mark.parametrize("page", PAGES)
def test_parts_of_a_page_have_names_of_their_own(page):
    text = (SITE / f"{page}.html").read_text(encoding="utf-8")
    text = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    ids = re.findall(r'<[^>]*\sid="([^"]+)"', text)
    assert len(ids) == len({*ids})


def test_picture_without_a_drawing_stays_and_says_its_size(tmp_path):
    tag, path = '<a href="a.png"><img alt="A" src="a.png"/></a>', tmp_path / "a.png"
    picture = Image.new("L", (30, 20))
    picture.save(path)
    assert drawn(tag, path) == tag.replace(
        "<img", '<img loading="lazy" width="30" height="20"'
    )
    info = PngInfo()
    info.add_itxt("Drawing", '<svg viewBox="0 0 100 50"><path/></svg>', zip=True)
    picture.save(path, pnginfo=info)
    assert drawn(tag, path) == (
        '<svg class="drawing" role="img" aria-label="A" width="124" height="62" '
        'viewBox="0 0 100 50"><path/></svg>'
    )


@pytest.mark.parametrize("path", chapter_paths(), ids=lambda path: path.stem)
def test_folded_code_says_what_it_is(path):
    page = parsed(SITE / f"chapters/{path.stem}.html")
    folds = page.select("details.hide > summary")
    found = [fold.get_text("|", strip=True).split("|")[0] for fold in folds]
    assert found[0] == "Show the set-up"
    own = {*TITLE.findall(path.read_text(encoding="utf-8"))}
    assert {*found} <= own | {
        "Show the set-up", "Show the library’s code", "Show the drawing code",
        "Show the output", "Show the question’s code", "Show the view’s code",
        "Show code",
    }  # fmt: skip
    if path.stem == "05-positions":
        assert "How contexts are counted" in {*found} & own
    if path.stem == "03-masks":
        figures = page.select(".cell figure")
        assert found.count("Show the drawing code") == len(figures) == 3


def test_folded_code_opens_by_keyboard_and_tells_its_words(window):
    window.goto(MASKS)
    summary = window.locator("details.hide > summary").first
    assert window.get_by_text("Show the set-up").count() == 1
    assert summary.get_attribute("aria-label") is None
    summary.focus()
    window.keyboard.press("Enter")
    assert summary.inner_text().strip() == "Hide the set-up"
    assert window.locator("details.hide pre").first.is_visible()
    window.keyboard.press("Space")
    assert not window.locator("details.hide pre").first.is_visible()
