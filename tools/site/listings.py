"""Code on a narrow screen: a part of the extension.

A line that may be too long for a phone is an element, which the style sheet hangs: what
does not fit goes on below, further in than the line, and a comment stays in one piece.
What has no space for long may go on after a bracket or before a dot, not inside a name.
The lines of a table or an array, in an output, are one element instead, which knows how
wide it is: its letters may become smaller, and its lines are not wrapped.
The text, which is what a reader copies, is the same.
"""

import re
from collections.abc import Iterable, Iterator
from html import unescape
from itertools import groupby
from typing import Any
from unicodedata import east_asian_width

from pygments.formatters import HtmlFormatter
from sphinx.highlighting import PygmentsBridge

FITS = 30  # columns, on the narrowest screen and in any box
TAG = re.compile("<[^>]*>")
RUN = re.compile(r"(?:<[^>]*>|[^<\s])+")  # without a space, but in tags
ROW = re.compile(r"\S {2,}\S|^ *(?:tensor\()?\[[-\[\d]")  # of a table or an array
PLACE = re.compile(r"(?<=[(\[])(?![)\]])|(?=<span class=\"o\">\.</span>)")


class Listing(HtmlFormatter):  # type: ignore[misc]
    """Pygments' HTML, with its long lines as elements."""

    def wrap(self, source: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        """Wrap the lines, then all of them."""
        yield from super().wrap(self._parts(list(source)))

    def _parts(self, lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        """Yield the lines: those of a table as one element, other long ones each."""
        code = any("<span" in line for _, line in lines)  # outputs have no colours
        rows = [line for _, line in lines if ROW.search(text_of(line)) and not code]
        width = max(map(columns, rows)) if len(rows) > 1 else 0  # of the table
        for long, part in groupby(lines, lambda it: columns(it[1]) > width):
            if long:
                yield from ((kind, hung(line) if kind else line) for kind, line in part)
            elif width > FITS:
                yield 0, f'<span class="columns" style="--columns:{width}">'
                yield from part
                yield 0, "</span>"
            else:
                yield from part


def columns(line: str) -> int:
    """Return the width of a line of HTML; a Chinese character takes two columns."""
    text = text_of(line).rstrip("\n")
    return len(text) + sum(east_asian_width(it) in "WF" for it in text)


def hung(line: str) -> str:
    """Return a line of HTML as an element that knows its indent, if it is long."""
    if columns(line) <= FITS:
        return line
    text = text_of(line)
    indent = len(text) - len(text.lstrip(" "))
    style = f' style="--indent:{indent}"' if indent else ""
    body = RUN.sub(parted, line.removesuffix("\n"))
    return f'<span class="line"{style}>{body}</span>' + "\n" * line.endswith("\n")


def parted(run: re.Match[str]) -> str:
    """Return a run of HTML with places to go on, if it may be longer than a line."""
    return PLACE.sub("<wbr>", run[0]) if len(text_of(run[0])) > FITS - 8 else run[0]


def text_of(line: str) -> str:
    """Return the text of a piece of HTML."""
    return unescape(TAG.sub("", line))


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    PygmentsBridge.html_formatter = Listing
