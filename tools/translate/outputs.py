"""Recorded outputs in; the same outputs with what they say to readers translated, out.

Numbers, pictures and printed lines stay as they were recorded. What changes are words
that a chapter's code gave to `predict` or to a view, which the chapter's translation
has, and the lines of `attention_lib` that its own table has.
"""

import json
from collections.abc import Mapping
from typing import Any

from nbformat import NotebookNode

from tools.language import language
from tools.translate.cells import said_in

SIGNS = ("○ ", "✓ ", "✗ ")  # begin what the check of an exercise says


def translate_outputs(
    own: NotebookNode, english: NotebookNode, table: Mapping[str, str]
) -> None:
    """Translate the outputs of a cell, by the words of its code in both languages."""
    said = dict(zip(said_in(english.source), said_in(own.source), strict=True))
    # What was filled in was recorded.
    for line in filter(language.PART.search, [*said]):
        if found := language.pattern_of(line, r'([^"<>]+?)').search(str(own.outputs)):
            said[found[0]] = language.filled(line, said[line], found.groups())

    for output in own.outputs:
        data: dict[str, Any] = output.get("data", {})
        plain, view = data.get("text/plain", ""), data.get("text/html", "")
        if view:
            data["text/html"] = _replaced(language.view_in_words(view, table), said)
        if view or plain.startswith(SIGNS):
            sign = plain[:2] if plain.startswith(SIGNS) else ""
            plain = language.say_line(plain.removeprefix(sign), table)
            data["text/plain"] = sign + _replaced(plain, said)


def _replaced(text: str, said: Mapping[str, str]) -> str:
    """Return a text with all words replaced, the longest first, in a script too."""
    for english in sorted(said, key=len, reverse=True):
        for write in (str, language.as_html, _in_data):
            text = text.replace(write(english), write(said[english]))
    return text


def _in_data(text: str) -> str:
    """Return words as HTML in the data of a view."""
    return json.dumps(language.as_html(text))[1:-1].replace("<", "\\u003c")
