"""Recorded outputs in; the same outputs with what they say to readers translated, out.

Numbers, pictures and printed lines stay as they were recorded. What changes are words
that a chapter's code gave to `predict` or to a view, which the chapter's translation
has, and the lines of `attention_lib` that `zh/outputs.toml` has.
"""

import html
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from nbformat import NotebookNode

from attention_lib.course.predict import _as_html
from tools.translate.cells import said_in

PART = re.compile(r"\{([^{}]+)\}")  # what is filled in
# What a view shows without its script, and what that shows as it is: other strings
# of its data may be names that the script looks up.
SHOWN = re.compile(r'(?<=>)[^<>"]+(?=<)')
DATA = re.compile(r'("(?:hint|note|about)":)("(?:[^"\\]|\\.)*")')
SIGNS = ("○ ", "✓ ", "✗ ")  # begin what the check of an exercise says


def say_line(text: str, table: Mapping[str, str]) -> str:
    """Return a line as a table with parts in braces says it, or as it was."""
    line = text.strip()
    new = table.get(line)
    for english in table if new is None else ():
        if PART.search(english) and (found := pattern_of(english).fullmatch(line)):
            parts = [say_line(it, table) for it in found.groups()]
            new = filled(english, table[english], parts)
            break
    return text if new is None else text.replace(line, new)


@cache
def pattern_of(line: str, part: str = "(.+?)") -> re.Pattern[str]:
    """Return the pattern of a line with parts in braces."""
    return re.compile(part.join(map(re.escape, PART.split(line)[::2])))


def filled(english: str, own: str, parts: Sequence[str]) -> str:
    """Return a line with its parts, which come in the order of the English line."""
    known = dict(zip(PART.findall(english), parts, strict=True))
    return PART.sub(lambda it: known[it[1]], own)


def translate_outputs(
    own: NotebookNode, english: NotebookNode, table: Mapping[str, str]
) -> None:
    """Translate the outputs of a cell, by the words of its code in both languages."""
    said = dict(zip(said_in(english.source), said_in(own.source), strict=True))
    for line in filter(PART.search, [*said]):  # what was filled in was recorded
        if found := pattern_of(line, r'([^"<>]+?)').search(str(own.outputs)):
            said[found[0]] = filled(line, said[line], found.groups())

    def shown(found: re.Match[str]) -> str:
        return html.escape(say_line(html.unescape(found[0]), table), quote=False)

    def packed(found: re.Match[str]) -> str:
        return found[1] + _packed(say_line(json.loads(found[2]), table))

    for output in own.outputs:
        data: dict[str, Any] = output.get("data", {})
        plain, view = data.get("text/plain", ""), data.get("text/html", "")
        if view:
            data["text/html"] = _replaced(
                DATA.sub(packed, SHOWN.sub(shown, view)), said
            )
        if view or plain.startswith(SIGNS):
            sign = plain[:2] if plain.startswith(SIGNS) else ""
            plain = say_line(plain.removeprefix(sign), table)
            data["text/plain"] = sign + _replaced(plain, said)


def _replaced(text: str, said: Mapping[str, str]) -> str:
    """Return a text with all words replaced, the longest first, in a script too."""
    for english in sorted(said, key=len, reverse=True):
        for write in (str, _as_html, lambda it: _packed(_as_html(it))[1:-1]):
            text = text.replace(write(english), write(said[english]))
    return text


def _packed(text: str) -> str:
    """Return a string as the data of a view holds it."""
    return json.dumps(text).replace("<", "\\u003c")
