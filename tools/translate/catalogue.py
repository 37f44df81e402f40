"""Catalogues: one `.po` file a page, in the order of the page.

`zh/chapters/03-masks.po` belongs to `chapters/03-masks.md`, and translators' tools read
it. Lines are not wrapped, and there are no line numbers, so that a diff shows what was
translated and nothing else. A sentence that waits for its translation in a finished
page says since when.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable
from datetime import date
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po, unescape, write_po
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from myst_parser.parsers.mdit import create_md_parser

from tools.chapters import chapter_paths, parser_config
from tools.translate.pieces import translated

FOLDER, LOCALE = "zh", "zh_CN"
HEADER = f"""\
msgid ""
msgstr ""
"Language: {LOCALE}\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""
SINCE = "waiting since "
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
WIDE = 10**9  # no line is wrapped: Babel would break the old English in two
NEAR = 0.5  # of its words, a changed sentence shares at least so many with the old one


def md_parser(root: Path) -> MarkdownIt:
    """Return the parser of the site."""
    return create_md_parser(parser_config(root), RendererHTML)


def page_paths(root: Path) -> dict[str, Path]:
    """Return the pages that can be translated, by name: `chapters/03-masks`."""
    paths = [*chapter_paths(root), *sorted((root / "book").glob("*.md"))]
    return {path.relative_to(root).with_suffix("").as_posix(): path for path in paths}


def catalogue_path(root: Path, name: str) -> Path:
    """Return where the catalogue of a page is, if it is begun."""
    return root / FOLDER / f"{name}.po"


def settings(root: Path) -> dict[str, object]:
    """Return the edition's title, its finished pages, and captions of the contents."""
    text = (root / FOLDER / "edition.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def finished(root: Path) -> list[str]:
    """Return the pages that readers see in Chinese."""
    return list(settings(root)["finished"])  # type: ignore[call-overload]


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


def messages(catalogue: Catalog) -> Iterable[Message]:
    """Return the messages of a catalogue, without its header."""
    return [it for it in catalogue if it.id]


def read(path: Path) -> Catalog:
    """Return a catalogue, empty where there is no file."""
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
        new.add(str(message.id), auto_comments=message.auto_comments)
        its = new[message.id]
        near = None if kept else _nearest(str(message.id), gone)
        if before := kept or near:
            its.string, its.user_comments = before.string, before.user_comments
            its.previous_id = before.previous_id
        if near:
            its.previous_id = near.previous_id or [str(near.id)]
            gone.pop(str(near.id))
        # Babel takes braces of roles for places of a format.
        its.flags = {"fuzzy"} if near or (kept and kept.fuzzy) else set()
        _date(its, today)
    return new


def _nearest(text: str, gone: dict[str, Message]) -> Message | None:
    """Return the message that a text was most likely made from, by its words."""
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(text.split())
    best, found = NEAR, None
    for english, message in gone.items():
        matcher.set_seq1(english.split())
        if matcher.real_quick_ratio() >= best and matcher.ratio() > best:
            best, found = matcher.ratio(), message
    return found


def _date(message: Message, today: date | None) -> None:
    """Note since when a message waits; take the note away when it does no longer."""
    others = [it for it in message.user_comments if not it.startswith(SINCE)]
    since = waiting_since(message) or today
    waits = today and (message.fuzzy or not message.string)
    message.user_comments = others + ([f"{SINCE}{since}"] if waits else [])


def waiting_since(message: Message) -> date | None:
    """Return the date that a message waits since, if it has one."""
    found = re.search(rf"{SINCE}(\d{{4}}-\d\d-\d\d)", "\n".join(message.user_comments))
    return date.fromisoformat(found[1]) if found else None


def serialised(catalogue: Catalog) -> str:
    """Return the text of a catalogue's file, the same on every machine."""
    file = BytesIO()
    write_po(
        file, catalogue, width=WIDE, omit_header=True, no_location=True,
        ignore_obsolete=True, include_previous=True,
    )  # fmt: skip
    return HEADER + file.getvalue().decode().strip("\n") + "\n"


def write(path: Path, catalogue: Catalog) -> bool:
    """Write a catalogue where it differs, and return whether it did."""
    text = serialised(catalogue)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return True


def update(root: Path, names: Iterable[str], today: date) -> list[str]:
    """Bring catalogues in step, and return a line for each that changed.

    Without names these are all that are begun; with names they are begun.
    """
    parser, done = md_parser(root), finished(root)
    pages = page_paths(root)
    begun = [name for name in pages if catalogue_path(root, name).is_file()]
    said = []
    for name in [*names] or begun:
        path = catalogue_path(root, name)
        now = extract(pages[name].read_text(encoding="utf-8"), parser)
        new = updated(read(path), now, today if name in done else None)
        if write(path, new):
            every = messages(new)
            fuzzy = sum(it.fuzzy for it in every)
            empty = sum(not it.string for it in every)
            said.append(f"{name}: {fuzzy} changed, {empty} not translated")
    return said


def translations(catalogue: Catalog) -> dict[str, str]:
    """Return what is translated, without what is marked as uncertain."""
    sure = (it for it in messages(catalogue) if it.string and not it.fuzzy)
    return {str(it.id): str(it.string) for it in sure}
