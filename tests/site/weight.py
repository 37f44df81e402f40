"""What a page weighs: the bytes that a reader's browser fetches for it.

Files count as they travel: text packed with gzip, pictures and fonts as they are.
*first* is what Chromium asks for when the page opens, nothing cached; *whole* adds the
pictures that come when the reader scrolls to them.
"""

import gzip
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from tests.pages import loaded_addresses, target
from tools.chapters import SITE

ORIGIN = "http://book.example"
PACKED = {".html", ".css", ".js", ".json", ".svg"}
PICTURES = {".png", ".svg", ".jpg"}


class Weight(NamedTuple):
    """What a page loads: at once, and in the end; and what was not found."""

    first: set[Path]
    whole: set[Path]
    absent: set[str]


@cache
def travelling(file):
    """Return the bytes of a file as it travels."""
    data = file.read_bytes()
    return len(gzip.compress(data, 6) if file.suffix in PACKED else data)


def total(files):
    return sum(map(travelling, files))


def weigh(context, page):
    """Open a page at an address of its own, in a subfolder; see what it asks for."""
    found, absent = set[Path](), set[str]()

    def answer(route):
        parts = urlsplit(route.request.url)
        file = SITE / unquote(parts.path).removeprefix("/book-of/")
        if f"{parts.scheme}://{parts.netloc}" != ORIGIN or not file.is_file():
            absent.add(route.request.url)
            route.abort()
        else:
            found.add(file)
            route.fulfill(path=file)

    with context.new_page() as tab:
        tab.route("**/*", answer)
        tab.goto(f"{ORIGIN}/book-of/{page.relative_to(SITE).as_posix()}")
        # Fonts and what scripts ask for come late.
        tab.evaluate("document.fonts.ready")
        tab.wait_for_timeout(50)
    # A picture that waits is in the page's text all the same.
    pictures = {target(page, src) for src in loaded_addresses(page) if ":" not in src}
    pictures = {picture for picture in pictures if picture.suffix in PICTURES}
    absent |= {picture.name for picture in pictures if not picture.is_file()}
    whole = {file for file in found | pictures if file.is_file()}
    return Weight(found, whole, absent)
