"""Every page of the built site in a browser, and that a visit finds each fault."""

import shutil
from unittest.mock import Mock

import pytest
from PIL import Image

from tests.browsing import (
    DESKTOP,
    PHONE,
    browser_or_skip,
    built_pages,
    empty_parts,
    listen,
    served,
    source_pages,
    visit,
)
from tests.running import sample
from tools.browser import SHELL, find_browser
from tools.chapters import ROOT, SITE
from tools.translate.catalogue import settings

pytestmark = pytest.mark.usefixtures("site")
PAGES = source_pages()
CHINESE = [f"zh/{name}.html" for name in settings(ROOT)["finished"]]
# Wide pages are laid out alike: `make test` asks these, `make test MARK=slow` all.
WIDE = ["book/index", "chapters/04-multi-head"]
# So are the pages of the library, by one template: of these one is asked in the dark.
LIBRARY, DARK = "book/api/", "book/api/attention.html"
# The ways to colour text that were examined on a page: the next one has most of them.
SEEN = {PHONE: set(), DESKTOP: set()}


@pytest.fixture(scope="module")
def windows(browser):
    """A window of each width, for all pages: scripts and fonts are fetched once."""
    phone = {"viewport": {"width": PHONE, "height": 900}, "has_touch": True}
    with (
        browser.new_page(**phone) as narrow,
        browser.new_page(viewport={"width": DESKTOP, "height": 900}) as wide,
    ):
        yield {PHONE: (narrow, listen(narrow)), DESKTOP: (wide, listen(wide))}


@pytest.mark.parametrize("page", [*PAGES, *CHINESE])
def test_page_has_no_fault_on_a_phone(windows, address, page):
    dark = page == DARK or not page.startswith(LIBRARY)
    assert visit(*windows[PHONE], f"{address}/{page}", SEEN[PHONE], dark) == []


def test_pages_without_a_source_have_no_fault(windows, address):
    others = {*built_pages()} - {*PAGES}
    assert "search.html" in others
    for page in others:
        assert visit(*windows[PHONE], f"{address}/{page}", SEEN[PHONE]) == [], page


@pytest.mark.parametrize("page", WIDE)
def test_page_has_no_fault_on_a_desktop(windows, address, page):
    assert visit(*windows[DESKTOP], f"{address}/{page}.html", SEEN[DESKTOP]) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("page", [*PAGES, "search.html", *CHINESE, "zh/search.html"])
def test_page_has_no_fault_in_both_themes(windows, address, page, width):
    assert visit(*windows[width], f"{address}/{page}") == []


def test_page_opened_as_a_file_has_no_fault(windows):
    page, heard = windows[DESKTOP]
    heard.clear()
    for name in ("book/index", "chapters/03-masks", "search"):
        page.goto((SITE / f"{name}.html").as_uri(), wait_until="load")
        assert page.locator("main").inner_text().strip()
        assert heard == [], name


# What is added to a copied page, and what is then said of it.
WIDE_FORMULA = sample("wide-formula.html")
IDLE = """<div id="view-idle"><div class="attention-live">
<p role="status" class="view-hidden"></p></div></div>
<a class="view-phrase" href="#view-idle" data-set="row=1">idle</a>"""
TINY = """<figure id="tiny"><svg class="drawing" viewBox="0 0 100 50" width="100">
<text y="20" style="font-size: 8px">tiny</text></svg></figure>"""
FAULTY = {
    "console": ("<script>console.error('oops')</script>", "oops"),
    "page error": ("<script>throw new Error('wrong')</script>", "wrong"),
    "other host": (
        '<script src="https://cdn.example.org/a.js"></script>',
        "https://cdn.example.org/a.js",
    ),
    "failed request": ('<script src="absent.js"></script>', "/absent.js"),
    "sideways scroll": ('<div style="width: 3000px">wide</div>', "HTML"),
    "sideways scroll, narrow": ('<div style="width: 340px">wide</div>', "at 320"),
    "formula": (r'<span class="math">\(\frac{1}\)</span>', r"\frac{1}"),
    "cut formula": (WIDE_FORMULA, "E = mc"),
    "image": ('<img src="absent.png" alt="nothing">', "/absent.png"),
    "figure": (TINY, "tiny: small letters"),
    "phrase": (IDLE, "idle changes nothing"),
    "phrase, unsaid": ("", "idle is not said"),
    "screen reader": ('<span class="katex">silent</span>', "silent"),
    "axe": ('<a href="#" style="color: #777; background: #888">pale</a>', "contrast"),
    "axe, folded": (
        '<details><summary>Hint</summary><button id="mute"></button></details>',
        "button-name: #mute",
    ),
    "axe, a link in a text": (
        '<p style="color: #111; background: #fff">before <a id="plain" href="#"'
        ' style="color: #333; text-decoration: none">link</a> after</p>',
        "link-in-text-block: #plain",
    ),
    "axe, in the dark": (
        '<style>[data-theme="dark"] #dim { color: #444 }</style><p id="dim">dim</p>',
        "color-contrast: #dim",
    ),
    "axe, on a shaded ground": (
        '<pre id="pale"><span style="color: #aaa">pale</span></pre>',
        "color-contrast: #pale",
    ),
}


def test_visit_finds_each_fault(browser, tmp_path):
    site = tmp_path / "html"
    shutil.copytree(SITE, site)
    page = site / "book/index.html"
    text = page.read_text(encoding="utf-8")
    added = "".join(html for html, _ in FAULTY.values())
    page.write_text(text.replace("</article>", added + "</article>"), encoding="utf-8")
    size = {"width": PHONE, "height": 900}
    with served(site) as address, browser.new_page(viewport=size) as window:
        found = visit(window, listen(window), f"{address}/book/index.html", set())
    for fault, (_, wanted) in FAULTY.items():
        kind = fault.split(",")[0]
        own = [text for text in found if text.startswith(f"{kind}: ")]
        assert any(wanted in text for text in own), fault


def test_picture_that_stops_is_seen(tmp_path):
    picture = Image.radial_gradient("L").resize((375, 15_000))
    picture.save(tmp_path / "whole.jpg")
    picture.paste(255, (0, 11_000, 375, 15_000))
    picture.save(tmp_path / "cut.jpg")
    assert empty_parts(tmp_path / "whole.jpg") == []
    found = empty_parts(tmp_path / "cut.jpg")
    assert [text.split()[3] for text in found] == ["12000", "13200", "13800"]


def test_browser_is_the_machines_own_first(monkeypatch, tmp_path):
    own = Mock(**{"chromium.executable_path": str(tmp_path / "own")})
    monkeypatch.setattr(shutil, "which", lambda name: None)
    # Without any, a test is skipped, but in CI it would look like a passed one.
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="install Debian's `chromium`"):
        browser_or_skip(own)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="install"):
        browser_or_skip(own)
    (tmp_path / "own").touch()
    assert find_browser(own) == str(tmp_path / "own")
    for names in (["chromium", "google-chrome"], [SHELL, "chromium"]):
        there = {it: f"/bin/{it}" for it in names}
        monkeypatch.setattr(shutil, "which", there.get)
        assert find_browser(own) == f"/bin/{names[0]}"
