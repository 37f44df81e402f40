"""Opening the built site in a browser, and writing down what is wrong with a page."""

import base64
import functools
import http.server
import os
import threading
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import axe_playwright_python
import pytest
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.running import sample
from tools.browser import FLAGS, find_browser
from tools.chapters import ROOT, SITE, chapter_paths, site_pages

SCREENSHOTS = ROOT / "reports" / "screenshots"
PHONE, DESKTOP = 375, 1440
# WCAG 1.4.10: a page of 1,280 pixels at 400 %.
NARROWEST = 320
THEMES = ("light", "dark")
# For what is tried in both: in the dark by `make test MARK=slow` alone.
IN_BOTH = ["light", pytest.param("dark", marks=pytest.mark.slow)]
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
# WCAG 2.2 at level AA holds all of these; "best-practice" is what axe adds.
AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# The rules that ask for colours; what the others ask for is the same in the dark.
AXE_COLOURS = ["color-contrast", "link-in-text-block"]
# Of more pixels than this, a browser leaves the rest of a picture white.
TALLEST = 16_000
# What the page shows once its fonts are there; one list for each fault. Folded parts
# are open while they are measured.
PROBE = sample("probe.js")
# Folded parts are opened first, so that what stands in them is examined, too. Formulas
# become text: they have the colour of their sentence, and thousands of parts. Of code
# each colour stays once on each ground. The shaded edges of what scrolls go: they would
# keep axe from knowing the ground.
PREPARE = sample("prepare.js")
# One element for each way in which text is coloured that is not among those `seen`:
# axe takes a second for the colours of a page, and most pages have the same. They are
# asked for together with all else: where things stand is found out once for each run.
PICK = sample("pick.js")
EXAMINE = sample("examine.js")
# How each figure reads: its letters' size and contrast, and what stands in its way.
FIGURES = sample("figures.js")
# A visit sets each view as the text does: another phrase of a page sets it again.
FOLLOW = sample("phrases.js")
# How wide a page is, once a window that was made narrower has been laid out, and its
# scripts have heard of it.
WIDTH = """async (wanted) => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    do await frame(); while (innerWidth !== wanted);
    await frame();
    return document.documentElement.scrollWidth;
}"""


# Scripts come after the page, if at all, and some when somebody is there
# (webpack-macros.html). A page may lead on.
READ = """() => {
    if (!("unpackLetters" in window)) return true;
    const { scripts } = document.documentElement.dataset;
    if (scripts === "run") dispatchEvent(new Event("scroll"));
    return scripts === "read";
}"""


def begun(leave):
    """A call that leads to a page, and waits until all scripts run there.

    `Page.goto.__wrapped__` leaves them waiting for a reader.
    """

    @functools.wraps(leave)
    def go(page, *address, **options):
        answer = leave(page, *address, **options)
        page.wait_for_function(READ)
        return answer

    return go


Page.goto, Page.reload = begun(Page.goto), begun(Page.reload)


@contextmanager
def opened_browser():
    """A browser; without one the test is skipped, but fails in CI."""
    with sync_playwright() as playwright:
        path = browser_or_skip(playwright)
        with playwright.chromium.launch(executable_path=path, args=FLAGS) as browser:
            yield browser


def browser_or_skip(playwright):
    """Where a browser is."""
    try:
        return find_browser(playwright)
    except RuntimeError as error:
        # In CI a skipped test would look like a passed one.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, keeps connections open, and prints nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


@contextmanager
def served(site):
    """Serve a site on a free port, from a subfolder; gives its address."""
    handler = functools.partial(QuietHandler, directory=site.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        # A connection that the browser keeps open must not hold up the end.
        server.block_on_close = False
        # And one that it breaks off, since it has left the page, is no news.
        server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{site.name}"
        server.shutdown()


def source_pages():
    """The addresses of all pages that have a source, in the site or not yet."""
    paths = [*(ROOT / "book").rglob("*.md"), *chapter_paths()]
    return sorted(f"{path.relative_to(ROOT).with_suffix('')}.html" for path in paths)


def built_pages():
    """The addresses of all pages, without the first, which jumps to book/index.html."""
    pages = [page.relative_to(SITE).as_posix() for page in site_pages(SITE)]
    if not pages:
        pytest.fail(f"{SITE} holds no page: run `make book` first")
    return [page for page in pages if page != "index.html"]


def listen(page):
    """Write down from now on what a page complains about and what it asks for."""
    faults = []

    def note(fault, text):
        faults.append(f"{fault}: {text}")

    def request(address):
        if urlsplit(address).hostname not in {"127.0.0.1", None}:
            note("other host", address)

    page.on("pageerror", lambda error: note("page error", str(error)))
    page.on("request", lambda sent: request(sent.url))

    def failed(sent):
        if sent.failure != "net::ERR_ABORTED":  # the test went on to the next page
            note("failed request", sent.url)

    page.on("requestfailed", failed)

    def answered(got):
        if got.status >= 400:
            note("failed request", got.url)

    def said(line):
        if line.type in {"error", "warning"}:
            note("console", line.text)

    page.on("response", answered)
    page.on("console", said)
    return faults


def lay_out(page):
    """Have all of a page laid out, with its letters; it would wait for a reader."""
    page.evaluate("""async () => {
        delete document.documentElement.dataset.from;
        document.body.getBoundingClientRect();
        await document.fonts.ready;
    }""")


def visit(page, heard, address, seen=None, dark=True):
    """Open a page and say what is wrong with it; `heard` is what `listen` gave.

    With `seen`, a way to colour text that another page had is not examined again, and
    the dark is left out where it is not asked for. Without, the page is also measured
    and photographed light and dark; what axe says of a phone is known by then.
    """
    heard.clear()
    faults = []
    width = page.evaluate("innerWidth")
    themes = THEMES[:1] if seen is not None else THEMES[::-1]
    # Said before the page comes: else all of it is coloured twice.
    page.emulate_media(color_scheme=themes[0], reduced_motion="reduce")
    page.goto(address)
    lay_out(page)
    for theme in themes:
        wear(page, theme)
        for fault, texts in page.evaluate(PROBE).items():
            faults += [f"{fault}: {text} ({theme})" for text in texts]
        faults += figure_faults(page, theme)
        if seen is None:
            name = urlsplit(address).path.partition("/html/")[2].removesuffix(".html")
            name = f"{name.replace('/', '-')}-{width}-{theme}"
            for picture in photograph(page, SCREENSHOTS / name):
                faults += [f"picture: {text}" for text in empty_parts(picture)]
    if width == PHONE:
        page.set_viewport_size({"width": NARROWEST, "height": 900})
        if page.evaluate(WIDTH, NARROWEST) > NARROWEST:
            faults.append(f"sideways scroll: at {NARROWEST} pixels")
        page.set_viewport_size({"width": PHONE, "height": 900})
    if seen is not None:
        # A control or a value that a view has not is an error in the console, too.
        faults += [f"phrase: {text}" for text in page.evaluate(FOLLOW)]
    if width != PHONE or seen is not None:
        known = set[str]() if seen is None else seen
        faults += [f"axe: {text} (light)" for text in axe_faults(page, known)]
        if dark:
            wear(page, "dark")
            faults += [f"axe: {text} (dark)" for text in colour_faults(page, known)]
            faults += figure_faults(page, "dark") if seen is not None else []
    return faults + heard


def figure_faults(page, theme):
    """What keeps the figures of a page from being read, in these colours."""
    faults = []
    for figure in page.evaluate(FIGURES):
        found = [*figure["faults"]]
        found += ["small letters"] if figure["smallest"] < 11 else []
        if {name[1:14] for name in figure["families"]} != {"Source Sans 3"}:
            found.append("another typeface")
        if figure["filter"] == "none":  # else what is seen has other colours
            found += ["pale letters"] if figure["palest"] < 4.5 else []
            found += ["pale lines"] if min(figure["series"], default=3) < 3 else []
        faults += [f"figure: {figure['name']}: {text} ({theme})" for text in found]
    return faults


def axe_faults(page, seen=None):
    """What axe finds wrong with a page as it is, by all rules."""
    page.evaluate(AXE)
    page.evaluate(PREPARE)
    pick(page, set() if seen is None else seen)
    return list(page.evaluate(EXAMINE, AXE_RULES))


def colour_faults(page, seen):
    """What axe finds wrong with the colours of a page which has been prepared."""
    return list(page.evaluate(EXAMINE, AXE_COLOURS)) if pick(page, seen) else []


def pick(page, seen):
    """Mark whose colours axe is to ask for: each way that is not among those `seen`."""
    fresh = page.evaluate(PICK, [*seen])
    seen.update(fresh)
    return fresh


def wear(page, theme):
    """Have a page of the site in these colours."""
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    page.wait_for_selector(f"html[data-theme={theme}]")


def photograph(page, target):
    """Keep pictures of a whole page; a wide one at half its size, in half the time."""
    width, height = page.evaluate("[innerWidth, document.body.scrollHeight]")
    scale = 1 if width == PHONE else 1 / 2
    step = int(TALLEST / scale)
    session = page.context.new_cdp_session(page)
    target.parent.mkdir(parents=True, exist_ok=True)
    pictures = []
    for top in range(0, height, step):
        clip = {"x": 0, "y": top, "width": width, "height": min(step, height - top)}
        how = {"format": "jpeg", "quality": 70, "optimizeForSpeed": True}
        how |= {"captureBeyondViewport": True, "clip": {**clip, "scale": scale}}
        taken = session.send("Page.captureScreenshot", how)
        pictures.append(target.with_name(f"{target.name}-{top // step + 1}.jpg"))
        pictures[-1].write_bytes(base64.b64decode(taken["data"]))
    session.detach()
    return pictures


def empty_parts(picture, part=1200):
    """Name each part of a picture, so many pixels high, that has one colour only."""
    with Image.open(picture) as image:
        # An eighth of the size is enough, and quickly read.
        image.draft("L", (image.width // 8, max(1, image.height // 8)))
        grey, step = image.convert("L"), part // 8
    # The last part ends where the picture does.
    tops = [*range(0, grey.height - step, step), max(0, grey.height - step)]
    parts = [grey.crop((0, y, grey.width, y + step)).getextrema() for y in tops]
    return [
        f"{picture.name}: nothing from {8 * top} on"
        for top, (least, most) in zip(tops, parts, strict=True)
        if most - least < 9
    ]


def own_seconds(page, *kinds):
    """Give a clock of the page's own thread: other work is not in it."""
    kinds = kinds or ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
    session = page.context.new_cdp_session(page)
    session.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
    session.send("Performance.enable")

    def seconds():
        metrics = session.send("Performance.getMetrics")["metrics"]
        return sum(it["value"] for it in metrics if it["name"] in kinds)

    return seconds
