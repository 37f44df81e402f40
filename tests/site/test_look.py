"""How the pages look and what their heads say: measured on the built site."""

import re
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from docutils.core import publish_doctree

from tests.browsing import IN_BOTH, built_pages
from tests.pages import parsed
from tests.running import sample
from tools.chapters import ROOT, SITE
from tools.site.head import LONGEST, describe, shorten

pytestmark = pytest.mark.usefixtures("site")
STATIC = ROOT / "book/_static"
CHAPTERS = ("01-toy-attention", "03-masks", "08-training")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in CHAPTERS[1:]]
# Average number of characters in the full lines of paragraphs: all lines but the last.
LINES = sample("lines.js")
# What can have the focus and looks as it does without, outside of the text.
UNSEEN = sample("unseen.js")
WIDE_CODE = """() => [...document.querySelectorAll("pre")]
    .filter((pre) => pre.scrollWidth > pre.clientWidth)
    .map((pre) => pre.textContent.slice(0, 60))"""


@pytest.fixture(scope="module")
def desktop(browser):
    """One window for all pages, as wide as most laptops'."""
    with browser.new_page(viewport={"width": 1440, "height": 900}) as page:
        yield page


def open_page(page, name):
    page.goto((SITE / f"{name}.html").as_uri(), wait_until="load")
    page.evaluate("document.fonts.ready")


@pytest.mark.parametrize("name", [CHAPTERS[0], *SLOW])
def test_lines_of_text_and_of_code_are_as_wide_as_is_read_well(desktop, name):
    open_page(desktop, f"chapters/{name}")
    loaded = "[...document.fonts].map((f) => f.status == 'loaded' && f.family)"
    faces = {f"Source {name}" for name in ("Serif 4", "Sans 3", "Code Pro")}
    assert faces <= {*desktop.evaluate(loaded)}
    size = "getComputedStyle(document.querySelector('.highlight pre')).fontSize"
    assert desktop.evaluate(size) == "15px"
    number, median, longest = desktop.evaluate(LINES)
    assert number > 20
    assert 60 <= median <= 75
    assert longest <= 85
    # What is folded has no width; there it is open.
    folded = "document.querySelectorAll('details').forEach((d) => (d.open = true))"
    desktop.evaluate(folded)
    for width in (1280, 1440):
        desktop.set_viewport_size({"width": width, "height": 900})
        assert desktop.evaluate(WIDE_CODE) == [], width


def test_faces_are_light_enough_and_licensed():
    files = sorted((STATIC / "fonts").glob("*.woff2"))
    assert 0 < sum(file.stat().st_size for file in files) < 105_000
    licences = [path.read_text() for path in (STATIC / "fonts").glob("LICENSE-*")]
    assert len(licences) == 3
    assert all("SIL OPEN FONT LICENSE Version 1.1" in text for text in licences)


def test_landing_page_shows_the_way_in_on_one_screen(desktop):
    open_page(desktop, "book/index")
    bottom = "(css) => document.querySelector(css).getBoundingClientRect().bottom"
    for part in ("h1 + p", ".hero", ".ways", ".road li"):
        assert desktop.evaluate(bottom, f".bd-article {part}") <= 900, part
    # The road begins inside its first stop in each column, not above it.
    tops = "all => all.map(e => getComputedStyle(e, '::before').top)"
    stops = desktop.locator(".road .part ol > li:first-child")
    assert stops.count() == 3
    assert {*stops.evaluate_all(tops)} == {"8px"}


def test_landing_page_leads_to_each_chapter_by_parts_and_numbers():
    parts = parsed(SITE / "book/index.html").select(".road > .part")
    titles = [part.strong.get_text() for part in parts if part.strong]
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    numbered = [part for part in toc["parts"] if part.get("numbered")]
    numerals = ("I", "II", "III")[: len(numbered)]
    pairs = zip(numerals, numbered, strict=True)
    names = [f"Part {numeral}. {part['caption']}." for numeral, part in pairs]
    assert titles[: len(names)] == names
    for shown, part in zip(parts, numbered, strict=False):
        stems = [Path(entry["file"]).stem for entry in part["chapters"]]
        assert [Path(str(a["href"])).stem for a in shown.select("ol a")] == stems
        for first in shown.select("ol"):
            assert int(str(first.get("start", 1))) == int(stems[0][:2])


def test_questions_list_their_themes_where_no_list_is_beside_them(desktop):
    open_page(desktop, "book/questions")
    themes = desktop.locator(".bd-article h1 ~ nav.contents")
    assert not themes.is_visible()
    desktop.set_viewport_size({"width": 800, "height": 900})
    assert themes.is_visible()
    desktop.set_viewport_size({"width": 1440, "height": 900})


def test_code_of_a_figure_stands_below_it():
    page = parsed(SITE / "chapters/03-masks.html")
    cells = [cell for cell in page.select(".cell") if cell.select("figure")]
    assert len(cells) == 3
    assert all(cell.select_one(".cell_output + details.hide") for cell in cells)


def test_pages_heading_links_show_on_focus(desktop):
    open_page(desktop, "chapters/03-masks")
    link = desktop.locator(".bd-article h2 a.headerlink").first
    desktop.mouse.move(0, 0)
    opacity = "(e) => getComputedStyle(e).opacity"
    assert link.evaluate(opacity) == "0"
    desktop.keyboard.press("Tab")  # from here on the browser shows the focus
    link.focus()
    assert link.evaluate(opacity) == "1"


def test_page_turns_name_where_they_lead():
    turns = parsed(SITE / "chapters/03-masks.html").select(".book-turn a")
    assert [tag.get_attribute_list("rel") for tag in turns] == [["prev"], ["next"]]
    texts = [" ".join(tag.get_text().split()) for tag in turns]
    assert texts[0].startswith("Previous 2 ")
    assert texts[1].startswith("Next 4 ")


def test_page_heads_say_what_each_is_about():
    said = {}
    for page in built_pages():
        text = (SITE / page).read_text(encoding="utf-8").partition("<body")[0]
        html = BeautifulSoup(text, "html.parser").html
        assert html.get("lang") == "en"
        head = html.head
        values = {
            str(tag.get("name") or tag.get("property")): str(tag.get("content"))
            for tag in head.find_all("meta")
        }
        text = values["description"]
        assert 15 < len(text) <= LONGEST, page
        assert not set(text) & set("\\{}$"), f"{page} shows the source of a formula"
        assert text not in said, f"{page} and {said.get(text)} say the same"
        said[text] = page
        assert values["og:description"] == text
        assert values["og:title"]
        icons = [str(tag["href"]) for tag in head.select("link[rel~=icon]")]
        assert {Path(icon).suffix for icon in icons} == {".svg", ".png"}


def test_description_is_the_first_paragraph_cut_between_words():
    first = "The first paragraph, which says what the page is about."
    tree = publish_doctree(f"- A list's item, long enough to count, too.\n\n{first}\n")
    assert describe(tree) == first
    assert describe(publish_doctree("- No paragraph")) == describe(None) == ""
    assert shorten("One two. Three four five.", 12) == "One two."
    assert shorten("One two, three", 10) == "One two…"
    assert shorten("Short.", 10) == "Short."


@pytest.mark.parametrize("scheme", IN_BOTH)
def test_focus_is_seen_on_all_that_frames_a_page(browser, scheme):
    size = {"width": 1440, "height": 900}
    with browser.new_page(viewport=size, color_scheme=scheme) as page:
        page.emulate_media(reduced_motion="reduce")
        page.goto((SITE / "chapters/02-single-head.html").as_uri())
        page.keyboard.press("Tab")  # from here on the browser shows the focus
        assert page.evaluate(UNSEEN) == []
        link = page.locator(".skip-link")
        ground = "e => getComputedStyle(e).backgroundColor"
        colour = "getComputedStyle(document.body).getPropertyValue('--book-accent')"
        shown = link.evaluate(ground)
        numbers = [int(it) for it in re.findall(r"\d+", shown)[:3]]
        assert "#{:02x}{:02x}{:02x}".format(*numbers) == page.evaluate(colour)


def test_page_without_scripts_can_be_read(browser):
    size = {"width": 375, "height": 800}
    with browser.new_page(java_script_enabled=False, viewport=size) as page:
        page.goto((SITE / "chapters/03-masks.html").as_uri())
        hint = page.locator("details.sd-dropdown").first
        assert not hint.locator(".sd-card-body").is_visible()
        hint.locator("summary").click()
        assert hint.locator(".sd-card-body").is_visible()
