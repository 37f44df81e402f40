"""Weigh the pages: what a reader's browser fetches for each.

Run as `python -m tools.check.weight`: prints a table. Files count as they travel: text
packed with gzip, pictures and fonts as they are.

- *first*: what Chromium asks for when the page opens, nothing cached, nothing scrolled;
- *whole*: that, and the pictures that come when the reader scrolls to them;
- *next*: what of *first* is left for a reader who has read another chapter, the worst.
"""

import gzip
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tools.browser import FLAGS, find_browser
from tools.chapters import SITE, site_pages
from tools.check.pages import loaded_addresses, target

ORIGIN = "http://book.example"
PACKED = {".html", ".css", ".js", ".json", ".svg", ".txt", ".map"}
# More pictures are near on a desktop than on a phone.
SCREEN = {"width": 1440, "height": 900}


@dataclass(frozen=True)
class Weight:
    """What a page loads: at once, and in the end; and what was not found."""

    first: frozenset[Path]
    whole: frozenset[Path]
    absent: frozenset[str]


@cache
def travelling(file: Path) -> int:
    """Return the bytes of a file as it travels."""
    data = file.read_bytes()
    return len(gzip.compress(data, 6) if file.suffix in PACKED else data)


def total(files: frozenset[Path]) -> int:
    """Return the bytes of files as they travel."""
    return sum(map(travelling, files))


def weigh(context: Any, site: Path, page: Path) -> Weight:
    """Open a page in a Playwright context without a network, and see what it asks for.

    The site stands at an address of its own, in a subfolder.
    """
    found, absent = set[Path](), set[str]()

    def answer(route: Any) -> None:
        parts = urlsplit(route.request.url)
        file = site / unquote(parts.path).removeprefix("/book-of/")
        if f"{parts.scheme}://{parts.netloc}" != ORIGIN or not file.is_file():
            absent.add(route.request.url)
            route.abort()
        else:
            found.add(file)
            route.fulfill(path=file)

    with context.new_page() as tab:
        tab.route("**/*", answer)
        address = f"{ORIGIN}/book-of/{page.relative_to(site).as_posix()}"
        tab.goto(address)
        # Fonts and what scripts ask for come late.
        tab.evaluate("document.fonts.ready")
        tab.wait_for_timeout(50)
    # A picture that waits is in the page's text all the same.
    pictures = {
        target(page, src)
        for src in loaded_addresses(page)
        if Path(src).suffix in {".webp", ".png", ".svg", ".jpg"} and ":" not in src
    }
    lost = {picture for picture in pictures if not picture.is_file()}
    absent |= {f"{ORIGIN}/book-of/{os.path.relpath(file, site)}" for file in lost}
    whole = frozenset(found | pictures) - lost
    return Weight(frozenset(found), whole, frozenset(absent))


def weigh_pages(browser: Any, site: Path, pages: list[Path]) -> dict[Path, Weight]:
    """Weigh pages, each with nothing cached: Playwright caches no answer of its own."""
    with browser.new_context(viewport=SCREEN) as context:
        return {page: weigh(context, site, page) for page in pages}


def following(page: Path, weights: dict[Path, Weight]) -> int:
    """Return what a page adds for a reader of another chapter, the worst."""
    others = [weights[other] for other in weights if other != page]
    return max(total(weights[page].first - other.whole) for other in others)


def chapters(site: Path) -> list[Path]:
    """List the pages of chapters."""
    return [page for page in site_pages(site) if page.parent.name == "chapters"]


def main(site: Path = SITE) -> int:
    """Print the table, heaviest file last."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser(playwright), args=FLAGS
        )
        weights = weigh_pages(browser, site, chapters(site))
        browser.close()
    print(f"{'page':32}{'first':>8}{'whole':>8}{'next':>8}   KB")
    for page, weight in weights.items():
        numbers = (total(weight.first), total(weight.whole), following(page, weights))
        print(f"{page.stem:32}" + "".join(f"{n / 1000:8.0f}" for n in numbers))
    files = sorted(frozenset().union(*(w.whole for w in weights.values())))
    for file in sorted(files, key=travelling)[-20:]:
        print(f"{travelling(file) / 1000:8.1f}  {file.relative_to(site)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
