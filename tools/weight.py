"""Weigh the pages: what a reader's browser fetches for each.

Run as `python -m tools.weight`: prints a table. Files count as they travel: text packed
with gzip, pictures and fonts as they are.

- *first*: what Chromium asks for when the page opens, nothing cached, nothing scrolled;
- *whole*: that, and the pictures that come when the reader scrolls to them;
- *next*: what of *first* is left for a reader who has read another chapter, the worst.
"""

import gzip
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from itertools import starmap
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tools.pages import SITE, loaded_addresses, site_pages, target

ORIGIN = "http://book.example"
PACKED = {".html", ".css", ".js", ".json", ".svg", ".txt", ".map"}
SIZES = ((375, 812), (1440, 900))


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
    return Weight(frozenset(found), frozenset(found | pictures), frozenset(absent))


def weigh_pages(browser: Any, site: Path, pages: list[Path]) -> dict[Path, Weight]:
    """Weigh pages, each with nothing cached, by what a phone and a desktop ask for."""
    weighed = []
    for width, height in SIZES:
        # Playwright caches nothing of what it answers: all pages may share a context.
        with browser.new_context(
            viewport={"width": width, "height": height}
        ) as context:
            weighed.append([weigh(context, site, page) for page in pages])
    return dict(zip(pages, starmap(_joined, zip(*weighed, strict=True)), strict=True))


def _joined(*parts: Weight) -> Weight:
    """Join what readers of one page load; each has one device: the heavier counts."""
    return Weight(
        max((part.first for part in parts), key=total),
        frozenset().union(*(part.whole for part in parts)),
        frozenset().union(*(part.absent for part in parts)),
    )


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
            executable_path=browser_path(), args=["--no-sandbox"]
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


def browser_path() -> str | None:
    """Return this machine's own browser, if it has one."""
    return shutil.which("chromium") or shutil.which("google-chrome")


if __name__ == "__main__":
    sys.exit(main())
