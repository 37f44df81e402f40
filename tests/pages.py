"""Check the built pages: what they load, their pictures, their links, their outputs."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup
from lxml import html

from tools.chapters import site_pages

# A browser fetches these; <a href> and <link rel="canonical"> it does not.
LOADING_ATTRIBUTES = ("src", "srcset", "poster", "data", "background")
NOT_LOADED = {"alternate", "author", "canonical", "help", "index", "license"}
NOT_LOADED |= {"next", "prev", "search"}
PARSER = "lxml"  # much faster than the one in the standard library
LISTING, SPAN = re.compile(r"<pre>.*?</pre>", re.DOTALL), re.compile(r"</?span[^>]*>")
CLASS = "contains(concat(' ', normalize-space(@class), ' '), ' {} ')"
OUTPUTS = f"//*[{CLASS.format('cell_output')}]//*[{CLASS.format('output')}]"
# What Markdown would have made code, as a reader sees it.
CODE = ["script", "style", "template", "pre", "code"]
UNSEEN = " | ".join(f"ancestor::{name}" for name in CODE)
BACKTICKS = f"//text()[contains(., '`') and not({UNSEEN})]"
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
CSS_ADDRESS = re.compile(r"""(?i)(?:url\(|@import(?!\s+url))\s*["']?([^"')\s;]+)""")


@cache
def parsed(page: Path) -> BeautifulSoup:
    """Parse a page once, for what is easily said with Beautiful Soup's selectors.

    Its listings lose their colours, which are most of its tags.
    """
    text = page.read_text(encoding="utf-8")
    return BeautifulSoup(LISTING.sub(lambda it: SPAN.sub("", it[0]), text), PARSER)


@cache
def tree(page: Path) -> html.HtmlElement:
    """Parse a page once, however many links lead to it, twenty times as fast."""
    return html.document_fromstring(page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """All names that a fragment can lead to on a page."""
    return frozenset(tree(page).xpath("//@id | //a/@name"))


def css_addresses(css: str) -> list[str]:
    """What a style sheet loads."""
    return CSS_ADDRESS.findall(COMMENT.sub("", css))


def loaded_addresses(page: Path) -> Iterator[str]:
    """What a browser fetches by itself to show a page."""
    for tag in tree(page).iter("*"):
        for name in LOADING_ATTRIBUTES:
            if value := tag.get(name):
                parts = value.split(",") if name == "srcset" else [value]
                yield from (part.split()[0] for part in parts if part.split())
        relations = {*tag.get("rel", "").split()}
        by_link = tag.tag == "link" and not relations & NOT_LOADED
        if "href" in tag.attrib and (by_link or tag.tag in {"image", "use"}):
            yield tag.get("href")
        if tag.tag == "meta" and tag.get("http-equiv", "").lower() == "refresh":
            yield tag.get("content").partition("url=")[2]
        yield from css_addresses(tag.get("style", ""))
        if tag.tag == "style":
            yield from css_addresses(tag.text_content())


def target(page: Path, address: str) -> Path:
    """The file that a relative address leads to."""
    path = unquote(urlsplit(address).path)
    # As a browser: `..` is of the address, also where a folder is a link.
    file = Path(os.path.normpath(page.parent / path)) if path else page
    return file / "index.html" if file.is_dir() else file


def links(page: Path) -> Iterator[str]:
    """Complain about what comes from another host, and what leads nowhere."""
    loaded = set(loaded_addresses(page))
    hrefs = {*map(str, tree(page).xpath("//a/@href"))}
    for address in sorted(hrefs | loaded):
        parts = urlsplit(address)
        if parts.netloc and address in loaded:
            yield f"loads {address}: keep a copy in book/_static"
        if parts.scheme or parts.netloc:
            continue
        file, fragment = target(page, address), unquote(parts.fragment)
        if not file.is_file():
            yield f"{address} leads to no file"
        elif fragment and file.suffix == ".html" and fragment not in anchors(file):
            yield f"{address} leads to no anchor"


def contents(page: Path) -> Iterator[str]:
    """Complain about pictures without words, raw backticks, and errors in outputs."""
    for image in tree(page).xpath("//img | //svg[@role='img']"):
        text = (image.get("alt") or image.get("aria-label") or "").strip()
        # MyST-NB gives a figure its file's path when the cell names no text.
        if not text or text.endswith((".png", ".svg")):
            yield f"{image.get('src')} has no alternative text (mystnb: image: alt:)"
    for text in tree(page).xpath(BACKTICKS):
        yield f"shows backticks: {text.strip()[:60]}"
    for output in tree(page).xpath(OUTPUTS):
        kinds = {"stderr", "traceback"} & {*output.get("class").split()}
        text = output.text_content().strip()
        if kinds or "Traceback (most recent call last)" in text:
            yield f"an output holds an error or a warning: {text[-80:]}"


def complaints(site: Path) -> list[str]:
    """Everything that is wrong with a built site, one line each."""
    found = [
        f"{sheet.relative_to(site)}: loads {address}"
        for sheet in sorted(site.rglob("*.css"))
        for address in css_addresses(sheet.read_text(encoding="utf-8"))
        if urlsplit(address).netloc
    ]
    for page in site_pages(site):
        lines = (*links(page), *contents(page))
        found += [f"{page.relative_to(site)}: {line}" for line in lines]
    return found
