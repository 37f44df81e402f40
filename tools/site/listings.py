"""Code on a narrow screen: a part of the extension.

A line that may be too long for a phone is an element, which the style sheet hangs: what
does not fit goes on below, further in than the line, and a comment stays in one piece.
What has no space for long may go on after a bracket or before a dot, not inside a name.
The text, which is what a reader copies, is the same.
"""

import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import Any
from unicodedata import east_asian_width

from pygments.formatters import HtmlFormatter
from sphinx.highlighting import PygmentsBridge

FITS = 30  # columns, on the narrowest screen and in any box
TAG = re.compile("<[^>]*>")
RUN = re.compile(r"(?:<[^>]*>|[^<\s])+")  # without a space, but in tags
PLACE = re.compile(r"(?<=[(\[])(?![)\]])|(?=<span class=\"o\">\.</span>)")


class Listing(HtmlFormatter):  # type: ignore[misc]
    """Pygments' HTML, with its long lines as elements."""

    def wrap(self, source: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        """Wrap the lines, then all of them."""
        lines = ((kind, hung(line) if kind else line) for kind, line in source)
        yield from super().wrap(lines)


def hung(line: str) -> str:
    """Return a line of HTML as an element that knows its indent, if it is long."""
    text = text_of(line).rstrip("\n")
    # A Chinese character takes two columns.
    if len(text) + sum(east_asian_width(it) in "WF" for it in text) <= FITS:
        return line
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
