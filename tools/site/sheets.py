"""Joining the texts of style sheets, so that one file does what several did."""

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

QUOTED = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
ADDRESS = rf"url\(\s*(?:{QUOTED}|[^)'\"]*)\s*\)"
# What stands in a comment or in a quoted text is no address.
TOKEN = re.compile(
    rf"(?P<comment>/\*.*?\*/)|(?P<charset>@charset[^;]*;\s*)"
    rf"|@import\s*(?P<file>{ADDRESS}|{QUOTED})(?P<media>[^;]*);"
    rf"|(?P<address>{ADDRESS})|(?P<text>{QUOTED})",
    re.IGNORECASE | re.DOTALL,
)

# A sheet: its path below the site's folder, and the media that it is for, "" for all.
Sheet = tuple[str, str]


def joined(site: Path, sheets: Iterable[Sheet], folder: str) -> str:
    """Return the text of sheets, one after the other, for a file in a folder.

    What they import stands in its place; relative addresses lead from the folder.

    Raises:
        ValueError: a sheet imports what is not a file of the site, or under a condition
            that is no media query.
    """
    return "".join(_text(site, path, media, folder) for path, media in sheets)


def _text(site: Path, path: str, media: str, folder: str) -> str:
    """Return one sheet's text, for its media only."""
    start = posixpath.dirname(path)

    def replace(match: re.Match[str]) -> str:
        if match["charset"]:  # the joined file is UTF-8, as all of them
            return ""
        if match["file"]:
            address, condition = bare(match["file"]), match["media"].strip()
            target = posixpath.normpath(posixpath.join(start, urlsplit(address).path))
            if is_elsewhere(address) or re.match(r"layer|supports", condition):
                raise ValueError(f"{path} cannot be joined: {match[0]}")
            return _text(site, target, condition, folder)
        if match["address"]:
            return moved(match["address"], start, folder)
        return match[0]

    css = (site / path).read_text(encoding="utf-8").removeprefix("\ufeff")
    css = TOKEN.sub(replace, css)
    return f"@media {media}{{{css}\n}}\n" if media else f"{css}\n"


def moved(address: str, start: str, folder: str) -> str:
    """Return a `url(…)` of a sheet in `start`, for a sheet in `folder`."""
    words = bare(address)
    if is_elsewhere(words) or words.startswith(("#", "/")) or not words:
        return address
    path, mark, rest = re.fullmatch(r"([^?#]*)([?#]?)(.*)", words, re.DOTALL).groups()  # type: ignore[union-attr]
    path = posixpath.relpath(posixpath.join(start, path), folder or ".")
    return f'url("{path}{mark}{rest}")'


def bare(address: str) -> str:
    """Return an address without `url()` and quotation marks."""
    inner = re.sub(r"^url\(\s*|\s*\)$", "", address, flags=re.IGNORECASE)
    return inner[1:-1] if inner[:1] in {'"', "'"} else inner


def is_elsewhere(address: str) -> bool:
    """Say whether an address names a scheme or a host: `data:` or another site."""
    parts = urlsplit(address)
    return bool(parts.scheme or parts.netloc)


def below(site: Path, page: Path, address: str) -> str:
    """Return the path below the site's folder of a file that a page links.

    "" where it is none of the site's files.
    """
    path = unquote(urlsplit(address).path)
    file = (page.parent / path).resolve()
    if is_elsewhere(address) or not path or not file.is_file():
        return ""
    inside = file.is_relative_to(site.resolve())
    return file.relative_to(site.resolve()).as_posix() if inside else ""
