"""The built site in a browser: every page, on a phone and a desktop, light and dark."""

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    ViewportSize,
    sync_playwright,
)

from tools.pages import SITE, site_pages

SCREENSHOTS = Path(__file__).resolve().parents[1] / "reports" / "screenshots"
WIDTHS = (375, 1440)
THEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NO_BROWSER = (
    "no browser for the tests of the pages: install Debian's `chromium`, or run "
    "`.venv/bin/playwright install chromium`"
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # The same result with and without a network: nothing but this machine is found.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
# What the page shows once its formulas and fonts are there; one list for each fault.
PROBE = r"""async () => {
    // Pictures wait until they are near.
    const pictures = [...document.images];
    for (const picture of pictures) picture.loading = "eager";
    await Promise.allSettled(pictures.map((picture) => picture.decode()));
    await document.fonts.ready;
    const all = (css) => [...document.querySelectorAll(css)];
    const wide = (e) => e.scrollWidth > e.clientWidth + 1;
    const frames = [document.documentElement, ...all("main, .bd-article-container")];
    const bare = all(".math").filter((e) => !e.querySelector(".katex-html"));
    const wrong = all(".katex-error").map((e) => e.title || e.textContent);
    return {
        "sideways scroll": frames.filter(wide).map((e) => e.tagName),
        "formula": [...bare.map((e) => e.textContent), ...wrong],
        "image": all("img").filter((e) => !e.naturalWidth).map((e) => e.src),
        "screen reader": all(".katex")
            .filter((e) => !e.querySelector(".katex-mathml math"))
            .map((e) => e.textContent),
    };
}"""
LOGGED = ("console", "page error", "other host", "failed request")
SHOWN = ("sideways scroll", "formula", "image", "screen reader")
Faults = dict[str, list[str]]


def find_browser(own: Path) -> str:
    """The browser of this machine, or else Playwright's own download."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found or own.is_file():
        return found or str(own)
    if os.environ.get("CI"):
        # There a skipped test would look like a passed one.
        pytest.fail(NO_BROWSER)
    pytest.skip(NO_BROWSER)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = find_browser(Path(playwright.chromium.executable_path))
        with playwright.chromium.launch(executable_path=path, args=FLAGS) as browser:
            yield browser


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, keeps connections open, and prints nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port; gives its address."""
    handler = functools.partial(QuietHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        # A connection that the browser keeps open must not hold up the end.
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def listen(page: Page, faults: Faults) -> None:
    """Write down what the page complains about and what it asks for."""

    def note(fault: str, text: str) -> None:
        faults[fault].append(text)

    def request(address: str) -> None:
        if urlsplit(address).hostname not in {"127.0.0.1", None}:
            note("other host", address)

    page.on("pageerror", lambda error: note("page error", str(error)))
    page.on("request", lambda sent: request(sent.url))
    page.on("requestfailed", lambda sent: note("failed request", sent.url))
    page.on(
        "response",
        lambda got: note("failed request", got.url) if got.status >= 400 else None,
    )
    page.on(
        "console",
        lambda line: (
            note("console", line.text) if line.type in {"error", "warning"} else None
        ),
    )


def visit(context: BrowserContext, address: str, pictures: Path) -> Faults:
    """Open a page, look at it light and dark; gives what is wrong, by kind."""
    faults: Faults = {fault: [] for fault in LOGGED + SHOWN}
    with context.new_page() as page:
        width = page.evaluate("innerWidth")
        listen(page, faults)
        page.goto(address)
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            page.wait_for_selector(f"html[data-theme={theme}]")
            for fault, texts in page.evaluate(PROBE).items():
                faults[fault] += texts
            name = urlsplit(address).path.strip("/").removesuffix(".html")
            picture = f"{name.replace('/', '-')}-{width}-{theme}.jpg"
            page.screenshot(
                path=pictures / picture, type="jpeg", quality=70, full_page=True
            )
    return faults


@pytest.fixture(scope="module")
def pages() -> list[str]:
    pages = [page.relative_to(SITE).as_posix() for page in site_pages(SITE)]
    if not pages:
        pytest.fail(f"{SITE} holds no page: run `make book` first")
    # The first is nothing but a jump to book/index.html.
    return [page for page in pages if page != "index.html"]


@pytest.fixture(scope="module")
def chapter(pages: list[str]) -> str:
    return next(page for page in pages if page.startswith("chapters/"))


@pytest.fixture(scope="module")
def address(pages: list[str]) -> Iterator[str]:
    with served(SITE) as address:
        yield address


@pytest.fixture(scope="module")
def found(browser: Browser, address: str, pages: list[str]) -> dict[str, Faults]:
    """What is wrong with each page at each width."""
    shutil.rmtree(SCREENSHOTS, ignore_errors=True)
    found = {}
    for width in WIDTHS:
        # One context for all pages, so that scripts and fonts are read once.
        with browser.new_context(viewport={"width": width, "height": 900}) as context:
            for page in pages:
                faults = visit(context, f"{address}/{page}", SCREENSHOTS)
                found[f"{page} at {width}"] = faults
    return found


@pytest.mark.parametrize("fault", LOGGED + SHOWN)
def test_pages_have_no_fault(found: dict[str, Faults], fault: str) -> None:
    lines = {f"{page}: {text}" for page in found for text in found[page][fault]}
    assert not lines, "\n".join(sorted(lines))


def test_sidebar_opens_on_a_phone(browser: Browser, address: str, chapter: str) -> None:
    with browser.new_page(viewport={"width": 375, "height": 800}) as page:
        page.goto(f"{address}/{chapter}")
        link = page.locator(".bd-sidebar-primary nav a").first
        assert not link.is_visible()
        page.locator("button.primary-toggle:visible").first.click()
        link.wait_for(state="visible", timeout=10_000)


def test_jump_leads_to_the_first_page(browser: Browser, address: str) -> None:
    with browser.new_page() as page:
        page.goto(address)
        page.wait_for_url("**/book/index.html", timeout=10_000)


# What is added to a copied chapter, and what is then said of it.
FAULTY = {
    "console": ("<script>console.error('oops')</script>", "oops"),
    "page error": ("<script>throw new Error('wrong')</script>", "wrong"),
    "other host": (
        '<script src="https://cdn.example.org/a.js"></script>',
        "https://cdn.example.org/a.js",
    ),
    "failed request": ('<script src="absent.js"></script>', "/absent.js"),
    "sideways scroll": ('<div style="width: 3000px">wide</div>', "HTML"),
    "formula": (r'<span class="math">\(\frac{1}\)</span>', r"\(\frac{1}\)"),
    "image": ('<img src="absent.png" alt="nothing">', "/absent.png"),
    "screen reader": ('<span class="katex">silent</span>', "silent"),
}


@pytest.fixture(scope="module")
def faulty(
    browser: Browser, chapter: str, tmp_path_factory: pytest.TempPathFactory
) -> Faults:
    """What is found on a copied chapter that has every fault."""
    site = tmp_path_factory.mktemp("site") / "html"
    shutil.copytree(SITE, site)
    page = site / chapter
    text = page.read_text(encoding="utf-8")
    added = "".join(html for html, _ in FAULTY.values())
    page.write_text(text.replace("</article>", added + "</article>"), encoding="utf-8")
    size: ViewportSize = {"width": 375, "height": 900}
    with served(site) as address, browser.new_context(viewport=size) as context:
        return visit(context, f"{address}/{chapter}", site.parent)


@pytest.mark.parametrize("fault", FAULTY)
def test_visit_finds_fault(faulty: Faults, fault: str) -> None:
    assert any(FAULTY[fault][1] in text for text in faulty[fault])


def test_browser_missing_skips_but_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="install"):
        find_browser(Path("missing"))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="install"):
        find_browser(Path("missing"))
