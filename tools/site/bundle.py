"""One style sheet a page: all that a page links, joined in their order.

A browser on a slow line draws nothing before its last style sheet has come, and the
theme and the book's parts link fourteen. The pages share one joined sheet, which the
next page has from the cache. It holds the few sheets that only some pages link, too:
such a sheet must not match anything elsewhere.

A page says on its link what was joined. So a build that writes only some pages joins
anew for all, and an edited sheet reaches each of them.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from html import escape, unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

from tools.chapters import site_pages
from tools.site.sheets import Sheet, below, joined

STATIC, NAME = "_static", "all-{}.css"
LINK = re.compile(r"[ \t]*<link\b[^>]*>\n?", re.IGNORECASE)
ATTRIBUTE = re.compile(r"""([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
Sheets = tuple[Sheet, ...]


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    # The parts that cut fonts and rules to what they find must not find an old one.
    app.connect("build-finished", _clear, priority=100)
    # After all sheets are as they will be.
    app.connect("build-finished", _bundle, priority=950)


def _clear(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        clear(Path(app.outdir), set())


def _bundle(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        join_pages(Path(app.outdir))


def clear(site: Path, kept: set[str]) -> None:
    """Delete the joined sheets but those of these names."""
    for path in (site / STATIC).glob(NAME.format("*")):
        if path.name not in kept:
            path.unlink()


def join_pages(site: Path) -> None:
    """Give each page of a built site one style sheet instead of those that it links.

    Raises:
        ValueError: a sheet imports what cannot be joined.
    """
    texts = {page: page.read_text(encoding="utf-8") for page in site_pages(site)}
    linked = {page: sheets(text, page, site) for page, text in texts.items()}
    linked = {page: found for page, found in linked.items() if found}
    common = shared(list(linked.values()))
    names: dict[Sheets, str] = {}
    for page, found in linked.items():
        wanted = common.get(found, found)
        if wanted not in names:
            names[wanted] = _write(site, wanted)
        text = relinked(texts[page], page, site, names[wanted])
        if text != texts[page]:
            page.write_text(text, encoding="utf-8")
    clear(site, set(names.values()))


def _write(site: Path, wanted: Sheets) -> str:
    """Write a joined sheet, and return its name, another one for another text."""
    text = joined(site, wanted, STATIC)
    name = NAME.format(hashlib.sha256(text.encode()).hexdigest()[:12])
    (site / STATIC / name).write_text(text, encoding="utf-8")
    return name


def shared(lists: Sequence[Sheets]) -> dict[Sheets, Sheets]:
    """Return one list for all pages that link at least what most pages do.

    It is in an order that each of them agrees with; {} where there is none.
    """
    most = set(Counter(lists).most_common(1)[0][0]) if lists else set[Sheet]()
    together = [found for found in dict.fromkeys(lists) if most <= set(found)]
    order = TopologicalSorter[Sheet]()
    for found in together:
        order.add(found[0])
        for before, sheet in pairwise(found):
            order.add(sheet, before)
    try:
        return dict.fromkeys(together, tuple(order.static_order()))
    except CycleError:
        return {}


def sheets(html: str, page: Path, site: Path) -> Sheets:
    """Return what a page links or, on the link of a joined sheet, says it linked."""
    found: list[Sheet] = []
    for tag in LINK.findall(html):
        if said := _attributes(tag).get("data-sheets"):
            parts = (part.partition(" ") for part in said.split("|"))
            found += [(path, media) for path, _, media in parts]
        elif sheet := _linked(tag, page, site, {"stylesheet"}):
            found.append(sheet)
    # A sheet that is linked twice counts where it comes last.
    found = [*reversed(dict.fromkeys(reversed(found)))]
    return tuple(sheet for sheet in found if (site / sheet[0]).is_file())


def relinked(html: str, page: Path, site: Path, name: str) -> str:
    """Return a page with one link in place of its first, and without the others.

    What asked for one of the sheets ahead of its link goes, too.
    """
    found = sheets(html, page, site)
    said = escape("|".join(" ".join(sheet).strip() for sheet in found))
    address = os.path.relpath(site / STATIC / name, page.parent)
    link = f'<link rel="stylesheet" href="{address}" data-sheets="{said}">\n'

    def replace(match: re.Match[str]) -> str:
        nonlocal link
        is_joined = "data-sheets" in _attributes(match[0])
        if is_joined or _linked(match[0], page, site, {"stylesheet"}):
            put, link = link, ""
            return put
        early = _linked(match[0], page, site, {"preload", "prefetch"})
        return "" if early and early[0] in dict(found) else match[0]

    return LINK.sub(replace, html)


def _linked(tag: str, page: Path, site: Path, kinds: set[str]) -> Sheet | None:
    """Return the site's own sheet that a link of one of the kinds asks for."""
    attributes = _attributes(tag)
    if {*attributes.get("rel", "").split()} - kinds or not attributes.get("rel"):
        return None
    path = below(site, page, attributes.get("href", ""))
    media = attributes.get("media", "").strip()
    return (path, "" if media == "all" else media) if path.endswith(".css") else None


def _attributes(tag: str) -> dict[str, str]:
    """Return the attributes of a tag that have a value."""
    return {
        match[1].lower(): unescape(match[2] or match[3] or match[4] or "")
        for match in ATTRIBUTE.finditer(tag)
    }
