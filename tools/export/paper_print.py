"""Print a document for paper: by a browser, twice, since contents need page numbers."""

import os
from io import BytesIO
from pathlib import Path

import pikepdf
from playwright.sync_api import Browser, Page, sync_playwright

from tools.browser import find_browser

# Pages of the book come from files; nothing else is asked for.
FLAGS = ["--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
FLAGS += ["--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking"]
WIDTH = 628  # CSS pixels between the margins of paper.css: 166 mm
MINUTES = 5
PRINTS = 4  # two, unless filling in a number moved a line
# Every font first: one that came between two prints would move lines.
READY = """async () => {
    await Promise.allSettled([...document.fonts].map((font) => font.load()));
    await document.fonts.ready;
}"""
# Rounding moves an edge by a pixel at most.
FAULTS = """(width) => {
    const all = (css) => [...document.querySelectorAll(css)];
    const edge = document.body.getBoundingClientRect().left + width + 1.5;
    const right = (e) => {
        const box = e.getBoundingClientRect();
        return Math.max(box.right, e.closest(".katex") ? 0 : box.left + e.scrollWidth);
    };
    const wide = all("body *").filter((e) => !e.closest("svg") && right(e) > edge);
    const inner = wide.filter((e) => !wide.some((it) => it !== e && e.contains(it)));
    const words = (e) => e.textContent.trim().slice(0, 60) || e.outerHTML.slice(0, 90);
    const heading = (e) => e.closest("section")?.querySelector("h1, h2, h3, h4, h5");
    return [
        ...all("img").filter((e) => !e.naturalWidth).map((e) => `no picture ${e.src}`),
        ...inner.map((e) =>
            `over the margin, under "${heading(e)?.textContent}": ${words(e)}`),
    ];
}"""
# Fills in the numbers that are known, and returns which are wanted.
FILL = """(pages) => [...document.querySelectorAll("[data-page-of]")].map((e) => {
    e.textContent = pages[e.dataset.pageOf] ?? e.textContent;
    return e.dataset.pageOf;
})"""


def print_book(document: Path, target: Path, about: dict[str, str]) -> list[str]:
    """Print a document, and return what is wrong with how it looks.

    Args:
        document: HTML; `data-page-of` asks for the number of an anchor's page.
        target: where the PDF goes.
        about: its metadata, such as `/Author`.

    Raises:
        RuntimeError: there is no browser, or an anchor has no page.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser(playwright),
            args=FLAGS,
        )
        data, faults = _numbered(browser, document)
        browser.close()
    _write(data, target, about)
    return faults


def _numbered(browser: Browser, document: Path) -> tuple[bytes, list[str]]:
    """Print for the numbers, fill them in, and print again, until none moves.

    Raises:
        RuntimeError: an anchor has no page, or the numbers do not settle.
    """
    filled: dict[str, int] = {}
    for attempt in range(1, PRINTS + 1):
        print(f"printing the book, pass {attempt} (of 2, as a rule)", flush=True)
        # A page that was printed already breaks some lines of a second print otherwise.
        page = _opened(browser, document)
        wanted = page.evaluate(FILL, filled)
        faults: list[str] = page.evaluate(FAULTS, WIDTH)
        data = page.pdf(outline=True, tagged=True, prefer_css_page_size=True)
        page.close()
        with pikepdf.open(BytesIO(data)) as book:
            found = page_numbers(book)
        if missing := sorted(set(wanted) - set(found)):
            raise RuntimeError(f"no page for {', '.join(missing[:5])}")
        if all(filled.get(it) == found[it] for it in wanted):
            return data, faults
        filled = found
    raise RuntimeError(f"after {PRINTS} prints the page numbers still move")


def _opened(browser: Browser, document: Path) -> Page:
    """Return the document as paper has it, its fonts and pictures there."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 1000})
    page.set_default_timeout(MINUTES * 60_000)
    page.emulate_media(media="print")
    page.goto(document.as_uri())
    page.evaluate(READY)
    return page


def page_numbers(book: pikepdf.Pdf) -> dict[str, int]:
    """Return the page on which each anchor of a PDF stands, from 1."""
    places = {page.obj.objgen: n for n, page in enumerate(book.pages, 1)}
    named = book.Root.get("/Dests", pikepdf.Dictionary())
    return {
        str(name).removeprefix("/"): places[place[0].objgen]
        for name, place in named.items()
        if place[0].objgen in places
    }


def _write(data: bytes, target: Path, about: dict[str, str]) -> None:
    """Write a PDF with its metadata, which opens with its outline in sight.

    Its tags are tens of thousands of small objects: packed, they take a tenth.
    """
    partial = target.with_suffix(".partial")
    with pikepdf.open(BytesIO(data)) as book:
        for name, value in about.items():
            book.docinfo[name] = value
        book.Root.PageMode = pikepdf.Name.UseOutlines
        book.Root.ViewerPreferences = pikepdf.Dictionary(DisplayDocTitle=True)
        packed = pikepdf.ObjectStreamMode.generate
        book.save(partial, object_stream_mode=packed, recompress_flate=True)
    os.replace(partial, target)
