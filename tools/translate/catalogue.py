"""Catalogues: one `.po` file a page, in the order of the page.

`zh/chapters/03-masks.po` belongs to `chapters/03-masks.md`. It has no line numbers and
no wrapped lines, so that a diff shows what was translated and nothing else. A sentence
that waits for its translation in a finished page says since when.
"""

import re
import tomllib
from collections.abc import Iterable
from datetime import date
from difflib import SequenceMatcher
from io import BytesIO
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po, unescape, write_po
from markdown_it import MarkdownIt

from tools.chapters import chapter_paths, md_parser
from tools.site.languages import FOLDER
from tools.translate.pieces import translated

LOCALE = "zh_CN"
HEADER = f'msgid ""\nmsgstr ""\n"Language: {LOCALE}\\n"\n'
HEADER += '"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
SINCE = "waiting since "
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
NEAR = 0.5  # of its words, a changed sentence shares at least so many with the old one
WIDE = 10**9  # no line is wrapped: Babel would break the old English in two


def page_paths(root: Path) -> dict[str, Path]:
    """Return the pages that can be translated, by name: `chapters/03-masks`."""
    paths = [*chapter_paths(root), *sorted((root / "book").glob("*.md"))]
    return {path.relative_to(root).with_suffix("").as_posix(): path for path in paths}


def settings(root: Path) -> dict[str, Any]:
    """Return the edition's title, its finished pages, and captions of the contents."""
    text = (root / FOLDER / "edition.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def extract(page: str, parser: MarkdownIt) -> Catalog:
    """Return the pieces of a page's text as a catalogue without translations."""
    catalogue = Catalog(LOCALE)

    def note(kind: str, text: str) -> str:
        if text not in catalogue:
            catalogue.add(text, auto_comments=[kind])
        return text

    if translated(page, note, parser) != page:
        raise ValueError("the walk does not give back what it read")
    return catalogue


def messages(catalogue: Catalog) -> list[Message]:
    """Return the messages of a catalogue, without its header."""
    return [it for it in catalogue if it.id]


def in_chinese(page: str, catalogue: Catalog, parser: MarkdownIt) -> str:
    """Return a page with its translations in place, but for those that wait."""
    sure = [it for it in messages(catalogue) if it.string and not it.fuzzy]
    said = {str(it.id): str(it.string) for it in sure}
    return translated(page, lambda _, it: said.get(it, it), parser)


def read(root: Path, name: str) -> Catalog:
    """Return the catalogue of a page, empty where there is no file."""
    path = root / FOLDER / f"{name}.po"
    if not path.is_file():
        return Catalog(LOCALE)
    with path.open("rb") as file:
        catalogue = read_po(file, locale=LOCALE, abort_invalid=True)
    for message in messages(catalogue):
        # Babel writes the old English, but reads it as a comment.
        old = [it for it in message.user_comments if it[:1] == "|"]
        message.user_comments = [it for it in message.user_comments if it[:1] != "|"]
        text = "".join(QUOTED.findall(" ".join(old)))
        message.previous_id = [unescape(f'"{text}"')] if text and message.fuzzy else []
    return catalogue


def updated(old: Catalog, now: Catalog, today: date | None) -> Catalog:
    """Return the catalogue of what a page says now, with the translations it had.

    What changed is marked fuzzy, beside the English that its translation belongs to.
    `today` is for finished pages: what waits there has a date.
    """
    new = Catalog(LOCALE)
    gone = {str(it.id): it for it in messages(old) if it.string and it.id not in now}
    for message in messages(now):
        kept = old.get(message.id)
        its = new.add(str(message.id), auto_comments=message.auto_comments)
        near = None if kept else _nearest(str(message.id), gone)
        if before := kept or near:
            its.string, its.user_comments = before.string, before.user_comments
            its.previous_id = before.previous_id if before.fuzzy else []
        if near:
            its.previous_id = near.previous_id or [str(near.id)]
            del gone[str(near.id)]
        # Babel takes the braces of roles for parts that are filled in.
        its.flags = {"fuzzy"} if near or (kept and kept.fuzzy) else set()
        since = waiting_since(its) or today
        its.user_comments = [it for it in its.user_comments if SINCE not in it]
        if today and (its.fuzzy or not its.string):
            its.user_comments.append(f"{SINCE}{since}")
    return new


def _nearest(text: str, gone: dict[str, Message]) -> Message | None:
    """Return the message that a text was most likely made from, by its words."""
    matcher, found = SequenceMatcher(b=text.split(), autojunk=False), {}
    for english in gone:
        matcher.set_seq1(english.split())
        found[english] = matcher.quick_ratio() >= NEAR and matcher.ratio()
    best = max(found, key=lambda it: found[it], default="")
    return gone[best] if best and found[best] >= NEAR else None


def waiting_since(message: Message) -> date | None:
    """Return the date that a message waits since, if it has one."""
    dates = [it for it in message.user_comments if it.startswith(SINCE)]
    return date.fromisoformat(dates[0].removeprefix(SINCE)) if dates else None


def update(root: Path, names: Iterable[str], today: date) -> list[str]:
    """Bring catalogues in step, and return a line for each that changed.

    Without names these are all that are begun; with names they are begun.
    """
    parser, done, said = md_parser(root), settings(root)["finished"], []
    for name, page in page_paths(root).items():
        path = root / FOLDER / f"{name}.po"
        if name not in names and not path.is_file():
            continue
        now = extract(page.read_text(encoding="utf-8"), parser)
        new = updated(read(root, name), now, today if name in done else None)
        if write(path, serialised(new).encode()):
            fuzzy = sum(it.fuzzy for it in messages(new))
            empty = sum(not it.string for it in messages(new))
            said.append(f"{name}: {fuzzy} changed, {empty} not translated")
    return said


def serialised(catalogue: Catalog) -> str:
    """Return the text of a catalogue's file, the same on every machine."""
    options = {"omit_header": True, "no_location": True, "include_previous": True}
    write_po(file := BytesIO(), catalogue, width=WIDE, ignore_obsolete=True, **options)
    return HEADER + file.getvalue().decode().strip("\n") + "\n"


def write(path: Path, content: bytes) -> bool:
    """Write a file only where it differs, and return whether it did."""
    if path.is_file() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return True
