"""What the course says to readers, in their language: `ATTENTION_LANGUAGE=zh` chooses.

Exercises, predictions and views say their lines in English. A table such as `zh.toml`
has the same lines in another language: in braces are parts that are filled in, which
a line of it may have in another order. A line that is not there stays in English.
"""

import html
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

PART = re.compile(r"\{([^{}]+)\}")
# What a view shows without its script, but for code, and what its script shows as it
# is: other strings of its data may be names that the script looks up.
_SHOWN = re.compile(r'(?<=>)(?<!<code>)[^<>"]+(?=<)')
_DATA = re.compile(r'("(?:hint|note|about)":)("(?:[^"\\]|\\.)*")')
_SENTENCES = re.compile(r"(?<=[.:;?!]) ")
Lines = Mapping[str, str]


def table() -> dict[str, dict[str, str]]:
    """Return the lines of the reader's language by their English, in groups."""
    language = os.environ.get("ATTENTION_LANGUAGE") or "en"
    return {} if language == "en" else _read(language)


@cache
def _read(language: str) -> dict[str, dict[str, str]]:
    file = Path(__file__).parent / f"{language}.toml"
    if not language.isalpha() or not file.is_file():
        raise ValueError(f"ATTENTION_LANGUAGE is {language!r}: choose 'en' or 'zh'")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def lines_of(groups: Mapping[str, Lines]) -> dict[str, str]:
    """Return the lines of all groups, without those of the views' programs."""
    named = (its for name, its in groups.items() if name != "programs")
    return {english: own for its in named for english, own in its.items()}


def in_words(message: str) -> str:
    """Return what a check says in the reader's language.

    A message may be made of several lines. From its beginning on, the longest part that
    is a line is taken, one without parts to fill in first. What is none stays.
    """
    lines, said, sentences = lines_of(table()), "", _SENTENCES.split(message)
    while lines and sentences:
        ends = range(len(sentences), 0, -1)
        parts = {end: " ".join(sentences[:end]) for end in ends}
        found = [end for end in ends if parts[end] in lines]
        found += [end for end in ends if say_line(parts[end], lines) != parts[end]]
        end = found[0] if found else 1
        gap = " " if said[-1:].isascii() or not found else ""
        said += gap + say_line(parts[end], lines)
        del sentences[:end]
    return said.strip() or message


def view_in_words(view: str, lines: Lines | None = None) -> str:
    """Return the HTML of a view with its lines in the reader's language."""
    lines = lines_of(table()) if lines is None else lines

    def shown(found: re.Match[str]) -> str:
        return html.escape(say_line(html.unescape(found[0]), lines), quote=False)

    def packed(found: re.Match[str]) -> str:
        return found[1] + as_data(say_line(json.loads(found[2]), lines))

    return _DATA.sub(packed, _SHOWN.sub(shown, view)) if lines else view


def spoken() -> dict[str, str]:
    """Return what programs of views say: their own words, and names in their data."""
    return {**table().get("programs", {}), **table().get("names", {})}


def program_words(program: str) -> str:
    """Return a line of JavaScript with what a program and its data say, or ""."""
    its = spoken()
    said = {english: own for english, own in its.items() if english in program}
    return f"globalThis.attentionWords={as_data(said)};" if said else ""


def as_data(value: object) -> str:
    """Return JSON that may stand in a script of a page."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def as_html(words: str) -> str:
    """Return words as HTML: escaped, with `code` and *symbols*."""
    parts = re.split(r"`([^`]+)`", words)
    for position, part in enumerate(parts):
        escaped = html.escape(part, quote=False)
        if position % 2:
            parts[position] = f"<code>{escaped}</code>"
        else:  # an asterisk next to a space is a product
            parts[position] = re.sub(r"\*(\S|\S[^*]*\S)\*", r"<em>\1</em>", escaped)
    return "".join(parts)


def say_line(text: str, lines: Lines) -> str:
    """Return a line as a table with parts in braces says it, or as it was."""
    line = text.strip()
    new = lines.get(line)
    for english in lines if new is None else ():
        if PART.search(english) and (found := pattern_of(english).fullmatch(line)):
            parts = [say_line(it, lines) for it in found.groups()]
            new = filled(english, lines[english], parts)
            break
    return text if new is None else text.replace(line, new)


@cache
def pattern_of(line: str, part: str = "(.+?)") -> re.Pattern[str]:
    """Return the pattern of a line with parts in braces."""
    return re.compile(part.join(map(re.escape, PART.split(line)[::2])), re.DOTALL)


def filled(english: str, own: str, parts: Sequence[str]) -> str:
    """Return a line with its parts, which come in the order of the English line."""
    known = dict(zip(PART.findall(english), parts, strict=True))
    return PART.sub(lambda it: known[it[1]], own)
