"""Opening the built site in a browser, and writing down what is wrong with a page."""

import base64
import functools
import http.server
import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import axe_playwright_python
import pytest
from PIL import Image
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Playwright,
    sync_playwright,
)

from tools.browser import FLAGS, find_browser
from tools.chapters import SITE, site_pages

SCREENSHOTS = Path(__file__).resolve().parents[1] / "reports" / "screenshots"
PHONE, DESKTOP = 375, 1440
# WCAG 1.4.10: a page of 1,280 pixels at 400 %.
NARROWEST = 320
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
# WCAG 2.2 at level AA holds all of these; "best-practice" is what axe adds.
AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# The rules that ask for colours; what the others ask for is the same in the dark.
AXE_COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
# Of more pixels than this, a browser leaves the rest of a picture white.
TALLEST = 16_000
# What the page shows once its fonts are there; one list for each fault.
PROBE = r"""async () => {
    await document.fonts.ready;
    const all = (css) => [...document.querySelectorAll(css)];
    const wide = (e) => e.scrollWidth > e.clientWidth + 1;
    const frames = [document.documentElement, ...all("main, .bd-article-container")];
    const bare = all(".math").filter((e) => !e.querySelector(".katex-html"));
    const silent = all(".katex").filter((e) => !e.querySelector(".katex-mathml math"));
    // Pictures further down are fetched when the reader comes near.
    await Promise.all(all("img").map((e) => {
        e.loading = "eager";
        return e.decode().catch(() => null);
    }));
    return {
        "sideways scroll": frames.filter(wide).map((e) => e.tagName),
        "formula": [...bare, ...all(".katex-error")].map((e) => e.textContent),
        "image": all("img").filter((e) => !e.naturalWidth).map((e) => e.src),
        "screen reader": silent.map((e) => e.textContent),
    };
}"""
# Folded parts are opened first, so that what stands in them is examined, too. Of
# a formula only what is read aloud: what is drawn has the colour of its sentence, and
# thousands of parts. Of code each colour once on each ground.
EXAMINE = """async (rules) => {
    for (const part of document.querySelectorAll("details")) part.open = true;
    const seen = new Set();
    for (const token of document.querySelectorAll(".highlight span")) {
        const ground = token.closest(".highlight").parentElement.className;
        const kind = `${token.className} on ${ground}`;
        if (seen.has(kind)) token.replaceWith(...token.childNodes);
        seen.add(kind);
    }
    // It would fetch style sheets again, and look for imported ones in the wrong place.
    const asked = {runOnly: rules, resultTypes: ["violations"], preload: false};
    const found = (await axe.run({exclude: [".katex-html"]}, asked)).violations;
    return found.flatMap((rule) => rule.nodes.map(
        (node) => `${rule.id}: ${node.target.join(" ")}: ${node.html.slice(0, 160)}`
    ));
}"""
LOGGED = ("console", "page error", "other host", "failed request")
SHOWN = ("sideways scroll", "formula", "image", "screen reader", "picture", "axe")
Faults = dict[str, list[str]]


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """A browser; without one the test is skipped, but fails in CI."""
    with sync_playwright() as playwright:
        path = browser_or_skip(playwright)
        with playwright.chromium.launch(executable_path=path, args=FLAGS) as browser:
            yield browser


def browser_or_skip(playwright: Playwright) -> str:
    """Where a browser is."""
    try:
        return find_browser(playwright)
    except RuntimeError as error:
        # In CI a skipped test would look like a passed one.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, keeps connections open, and prints nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a site on a free port, from a subfolder; gives its address."""
    handler = functools.partial(QuietHandler, directory=site.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        # A connection that the browser keeps open must not hold up the end.
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{site.name}"
        server.shutdown()


def built_pages() -> list[str]:
    """The addresses of all pages, without the first, which jumps to book/index.html."""
    pages = [page.relative_to(SITE).as_posix() for page in site_pages(SITE)]
    if not pages:
        pytest.fail(f"{SITE} holds no page: run `make book` first")
    return [page for page in pages if page != "index.html"]


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
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            page.wait_for_selector(f"html[data-theme={theme}]")
            for fault, texts in page.evaluate(PROBE).items():
                faults[fault] += [f"{text} ({theme})" for text in texts]
            name = urlsplit(address).path.partition("/html/")[2].removesuffix(".html")
            picture = f"{name.replace('/', '-')}-{width}-{theme}.jpg"
            photograph(page, pictures / picture)
            faults["picture"] += empty_parts(pictures / picture)
        if width == PHONE:
            page.set_viewport_size({"width": NARROWEST, "height": 900})
            if page.evaluate("document.documentElement.scrollWidth") > NARROWEST:
                faults["sideways scroll"].append(f"at {NARROWEST} pixels")
            page.set_viewport_size({"width": PHONE, "height": 900})
        page.evaluate(AXE)
        for theme in THEMES:
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            page.wait_for_selector(f"html[data-theme={theme}]")
            rules = AXE_RULES if theme == THEMES[0] else AXE_COLOURS
            texts = page.evaluate(EXAMINE, rules)
            faults["axe"] += [f"{text} ({theme})" for text in texts]
    return faults


def photograph(page: Page, target: Path) -> None:
    """Keep a picture of a whole page; a wide one at half its size, in half the time."""
    width, height = page.evaluate("[innerWidth, document.body.scrollHeight]")
    scale = 1 if width == PHONE else 1 / 2
    session = page.context.new_cdp_session(page)
    pieces = []
    for top in range(0, height, int(TALLEST / scale)):
        size = {"width": width, "height": min(int(TALLEST / scale), height - top)}
        taken = session.send(
            "Page.captureScreenshot",
            {
                "format": "jpeg",
                "quality": 70,
                "optimizeForSpeed": True,
                "captureBeyondViewport": True,
                "clip": {"x": 0, "y": top, **size, "scale": scale},
            },
        )
        pieces.append(base64.b64decode(taken["data"]))
    session.detach()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(pieces[0] if len(pieces) == 1 else below_each_other(pieces))


def below_each_other(pieces: list[bytes]) -> bytes:
    """Make one picture of several of the same width."""
    images = [Image.open(io.BytesIO(piece)) for piece in pieces]
    whole = Image.new("RGB", (images[0].width, sum(image.height for image in images)))
    top = 0
    for image in images:
        whole.paste(image, (0, top))
        top += image.height
    file = io.BytesIO()
    whole.save(file, "JPEG", quality=70)
    return file.getvalue()


def empty_parts(picture: Path, part: int = 1200) -> list[str]:
    """Name each part of a picture, so many pixels high, that has one colour only."""
    with Image.open(picture) as image:
        # An eighth of the size is enough, and quickly read.
        image.draft("L", (image.width // 8, image.height // 8))
        grey, step = image.convert("L"), part // 8
    # The last part ends where the picture does.
    tops = [*range(0, grey.height - step, step), max(0, grey.height - step)]
    parts = [grey.crop((0, y, grey.width, y + step)).getextrema() for y in tops]
    return [
        f"{picture.name}: nothing from {8 * top} on"
        for top, (least, most) in zip(tops, parts, strict=True)
        if most - least < 9
    ]


def visit_all(width: int) -> dict[str, Faults]:
    """What is wrong with each page of the book at one width."""
    for picture in SCREENSHOTS.glob(f"*-{width}-*.jpg"):
        picture.unlink()
    viewport = {"width": width, "height": 900}
    # One context for all pages, so that scripts and fonts are read once.
    with (
        served(SITE) as address,
        opened_browser() as browser,
        browser.new_context(viewport=viewport, has_touch=width == PHONE) as context,
    ):
        return {
            page: visit(context, f"{address}/{page}", SCREENSHOTS)
            for page in built_pages()
        }
