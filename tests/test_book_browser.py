"""The built site in a browser: what moves on a page, and that `visit` finds faults."""

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

from tests.browsing import (
    LOGGED,
    PHONE,
    Faults,
    below_each_other,
    browser_or_skip,
    built_pages,
    empty_parts,
    listen,
    served,
    visit,
)
from tools.browser import find_browser
from tools.chapters import SITE


@pytest.fixture(scope="module")
def chapter() -> str:
    return next(page for page in built_pages() if page.startswith("chapters/"))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(SITE) as address:
        yield address


@pytest.fixture
def phone(browser: Browser, address: str, chapter: str) -> Iterator[Page]:
    """A chapter on a phone."""
    with browser.new_page(viewport={"width": PHONE, "height": 800}) as page:
        page.emulate_media(reduced_motion="reduce")
        page.goto(f"{address}/{chapter}")
        yield page


def test_sidebar_opens_and_closes_on_a_phone(phone: Page) -> None:
    link = phone.locator(".bd-sidebar-primary nav a").first
    assert not link.is_visible()
    phone.locator("button.primary-toggle:visible").first.click()
    link.wait_for(state="visible", timeout=10_000)
    phone.keyboard.press("Escape")
    link.wait_for(state="hidden", timeout=10_000)


def test_sidebar_leads_to_another_chapter_on_a_phone(phone: Page) -> None:
    phone.locator("button.primary-toggle:visible").first.click()
    phone.locator(".bd-sidebar-primary nav a", has_text="Masks: who").click()
    phone.wait_for_url("**/03-masks.html", timeout=10_000)


def test_contents_of_the_page_open_on_a_phone(phone: Page) -> None:
    links = phone.locator(".bd-sidebar-secondary nav a:visible")
    assert links.count() == 0
    phone.locator("button.secondary-toggle:visible").first.click()
    links.first.wait_for(timeout=10_000)


def test_theme_switch_is_remembered(phone: Page) -> None:
    def theme() -> str:
        return str(phone.evaluate("document.documentElement.dataset.theme"))

    seen = set()
    for _ in range(3):  # light, dark, and as the system has it
        phone.locator("button.theme-switch-button:visible").first.click()
        seen.add(theme())
        kept = theme()
        phone.reload()
        assert theme() == kept
    assert seen == {"light", "dark"}


def test_jump_leads_to_the_first_page(browser: Browser, address: str) -> None:
    with browser.new_page() as page:
        page.goto(address)
        page.wait_for_url("**/book/index.html", timeout=10_000)


@pytest.mark.parametrize("name", ["book/index", "chapters/03-masks", "search"])
def test_page_opened_as_a_file_has_no_fault(browser: Browser, name: str) -> None:
    faults: Faults = {fault: [] for fault in LOGGED}
    with browser.new_page() as page:
        listen(page, faults)
        page.goto((SITE / f"{name}.html").as_uri(), wait_until="load")
        assert page.locator("main").inner_text().strip()
    assert not any(faults.values()), faults


# What is added to a copied page, and what is then said of it.
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
    "image": ('<img src="absent.png" alt="nothing">', "/absent.png"),
    "screen reader": ('<span class="katex">silent</span>', "silent"),
    "axe": ('<a href="#" style="color: #777; background: #888">pale</a>', "contrast"),
    "axe, folded": (
        '<details><summary>Hint</summary><button id="mute"></button></details>',
        "button-name: #mute",
    ),
}


@pytest.fixture(scope="module")
def faulty(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Faults:
    """What is found on a copied page that has every fault."""
    site = tmp_path_factory.mktemp("site") / "html"
    shutil.copytree(SITE, site)
    page = site / "book/index.html"
    text = page.read_text(encoding="utf-8")
    added = "".join(html for html, _ in FAULTY.values())
    page.write_text(text.replace("</article>", added + "</article>"), encoding="utf-8")
    size = {"width": PHONE, "height": 900}
    with served(site) as address, browser.new_context(viewport=size) as context:
        return visit(context, f"{address}/book/index.html", site.parent)


@pytest.mark.parametrize("fault", FAULTY)
def test_visit_finds_fault(faulty: Faults, fault: str) -> None:
    wanted = FAULTY[fault][1]
    assert any(wanted in text for text in faulty[fault.split(",")[0]])


def test_picture_that_stops_is_seen(tmp_path: Path) -> None:
    lines = Image.radial_gradient("L").resize((375, 16000))
    pieces = [lines, Image.new("L", (375, 4000), 255)]
    data = [io.BytesIO(), io.BytesIO()]
    for image, file in zip(pieces, data, strict=True):
        image.save(file, "JPEG")
    whole, cut = tmp_path / "whole.jpg", tmp_path / "cut.jpg"
    whole.write_bytes(data[0].getvalue())
    cut.write_bytes(below_each_other([file.getvalue() for file in data]))
    assert empty_parts(whole) == []
    found = empty_parts(cut)
    assert [text.split()[3] for text in found] == ["16800", "18000", "18800"]


def test_browser_missing_skips_but_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    none = SimpleNamespace(chromium=SimpleNamespace(executable_path="missing"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="install"):
        browser_or_skip(none)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="install"):
        browser_or_skip(none)


def test_browser_of_the_machine_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = SimpleNamespace(chromium=SimpleNamespace(executable_path=tmp_path / "own"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match="install Debian's `chromium`, or run"):
        find_browser(own)
    (tmp_path / "own").touch()
    assert find_browser(own) == str(tmp_path / "own")
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    assert find_browser(own) == "/bin/chromium"
