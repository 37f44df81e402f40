"""The style sheet is light, and does what the whole ones do of which it is made."""

import re
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont
from sphinx.errors import ExtensionError

from tests.browsing import lay_out
from tests.pages import css_addresses, parsed
from tools.chapters import SITE
from tools.site import sheets
from tools.site.sheets import FONTS, SHEET, embedded, purged, with_silent_icons

pytestmark = pytest.mark.usefixtures("site")
FONT = SITE / "_static/vendor/fontawesome/webfonts/fa-solid-900.woff2"
STATIC = SITE / "_static"
# Where each element is, and how it looks.
LOOK = """() => [...document.querySelectorAll("body *")].map((e) => {
    const box = e.getBoundingClientRect(), look = getComputedStyle(e);
    const kept = ["color", "backgroundColor", "fontFamily", "fontSize", "borderColor"];
    return [e.tagName, e.className, box.x, box.y, box.width, box.height,
        ...kept.map((name) => look[name])].join(" ");
})"""
SWAP = """(addresses) => {
    const one = document.querySelector("link[href*='site.css']");
    const all = addresses.map((href) =>
        Object.assign(document.createElement("link"), { rel: "stylesheet", href }));
    const come = all.map((link) => new Promise((done) => { link.onload = done; }));
    one.after(...all);
    return Promise.all(come).then(() => one.remove()).then(() => document.fonts.ready);
}"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chapters/01-toy-attention", "book/index", "search"])
def test_pages_look_as_with_the_whole_sheets(browser, name):
    css = (STATIC / SHEET).read_text(encoding="utf-8")
    names = re.findall(r"^/\*! (\S+\.css) \*/$", css, re.MULTILINE)
    assert len(names) > 10
    with browser.new_page() as page:
        page.goto((SITE / f"{name}.html").as_uri())
        page.wait_for_load_state("load")
        page.evaluate("document.activeElement.blur()")
        lay_out(page)
        if name == "search":  # It reads its index at once, and then adds its list.
            page.locator(".book-found").first.wait_for(state="attached")
        before = page.evaluate(LOOK)
        page.evaluate(SWAP, [(STATIC / it).as_uri() for it in names])
        assert page.evaluate(LOOK) == before


def test_programs_find_their_styles_in_the_page(browser):
    chapter = SITE / "chapters/03-masks.html"
    sent = [str(it["id"]) for it in parsed(chapter).select("style[id^=attention-]")]
    with browser.new_page() as page:
        page.goto(chapter.as_uri())
        page.locator(".attention-view[data-live]").first.wait_for()
        ids = "all => all.map(style => style.id)"
        assert page.locator("style[id^=attention-]").evaluate_all(ids) == sent != []


def test_sheet_holds_its_fonts_and_leads_to_the_others():
    path = STATIC / SHEET
    css = path.read_text(encoding="utf-8")
    assert css.count("url(data:font/woff2") == len(FONTS)
    # Bootstrap has drawings inside; what else is named must be there.
    named = [it for it in css_addresses(css) if not it.startswith("data")]
    assert [it for it in named if not (path.parent / it).is_file()] == []


@pytest.mark.parametrize(
    ("css", "left"),
    [
        (".a{x:1}.gone{x:1}", ".a{x:1}"),
        (".a .gone,.a>b,#gone{x:1}", ".a>b{x:1}"),
        (":is(.gone,.a) b,[c=gone]{x:1}", ":is(.gone,.a) b,[c=gone]{x:1}"),
        ("@media print{.gone{x:1}p{x:1}}b{x:1}", "@media print{p{x:1}}b{x:1}"),
        ('@charset "UTF-8";@font-face{src:b}', '@charset "UTF-8";@font-face{src:b}'),
        (".tooltip-arrow{x:1}/* .b */i{x:1}", ".tooltip-arrow{x:1}i{x:1}"),
        ("/*! MIT .com */.a{x:1}", "/*! MIT .com */\n.a{x:1}"),
    ],
)
def test_purged_keeps_what_a_page_can_need(css, left):
    assert purged(css, {"a"}).strip() == left


def test_theme_that_changed_is_refused():
    assert '/""' in with_silent_icons('.fa-bars:before{content:"\\f0c9"}')
    with pytest.raises(ExtensionError, match="shows no icon"):
        with_silent_icons('.fa-bars:before{content:var(--fa-bars)}p{content:"a"}')
    css = "@font-face{src:url(fonts/icons.woff2)}"
    with pytest.raises(ExtensionError, match=r"t\.css names no fa-solid-900\.woff2"):
        embedded(css, Path("t.css"), FONTS[:1], {"a"})


def test_font_has_what_is_shown_and_is_cut_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sheets, "KEPT", tmp_path / "kept")
    sheets._cut_once(FONT, {"\uf0c9"})
    first = sheets._cut_once(FONT, {"\uf0c9", "\uf186"})
    monkeypatch.setattr(sheets, "cut", None)
    assert sheets._cut_once(FONT, {"\uf0c9", "\uf186"}) == first
    (kept,) = (tmp_path / "kept").iterdir()
    with TTFont(kept) as font:
        assert set(font.getBestCmap()) == {0xF0C9, 0xF186}
