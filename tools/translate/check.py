"""Catalogues in; what is missing, stale or wrong in them out.

Both sides must hold the same code, formulas, roles, links, marks and numbers. Terms are
those of `zh/terms.toml`; no English sentence is left; signs have the width that Chinese
has. What waits in a finished page is a warning for two weeks, then a fault.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.pofile import PoFileError
from markdown_it import MarkdownIt

from tools.chapters import md_parser
from tools.site.languages import FOLDER
from tools.translate import catalogue

PATIENCE = timedelta(days=14)
HAN = r"\u4e00-\u9fff"
# Kinds whose text is no Markdown: a reader sees it as it is, but for code.
PLAIN = {"said", "comment", "reason", "alt", "code_prompt_show"}
NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*\d|(?<![\w.])\d")
ROLE = re.compile(r"\{([\w:]+)\}`([^`]*)`")
TARGET = re.compile(r"^(.*?) ?<([^<>]+)>$", re.DOTALL)
ENGLISH = re.compile(r"(?:\b[A-Za-z][a-z]+\b[ ,]+){4,}")
IN_BRACKETS = re.compile(r"（[^（）]*）|“[^“”]*”")
BESIDE = {
    "a half-width sign": rf"[{HAN}][,;:?!(]|[{HAN}]\.(?!\d)|\)[{HAN}]"
    rf"|[`$)][,;:.](?: |$|[{HAN}])",
    "a straight quote": rf"[{HAN}][\"']|[\"'][{HAN}]",
    "a corner quote": "[「」『』]",
    "two signs": "[，。；：、]{2}",
    "no space beside Latin": rf"[{HAN}][A-Za-z0-9`$]|[A-Za-z0-9`$%][{HAN}]",
}
ENDED = re.compile(r"[。？！…：）][”）*]*$")
HOLDING = {"text": "text", "code_inline": "code", "myst_role": "role"}
HOLDING |= {"math_inline": "formula", "math_inline_double": "formula"}
HOLDING |= {"link_open": "link", "image": "picture"}
HOLDING |= {"strong_close": "bold", "em_close": "stress"}
COUNTED = "zero one two three four five six seven eight nine ten"
Table = dict[str, dict[str, Any]]
Found = tuple[str, str, bool]  # where, what, and whether it may wait


def faults(
    english: str, own: str, kind: str, parser: MarkdownIt, terms: Table
) -> Iterator[str]:
    """Yield what is wrong with the translation of one message."""
    ours, theirs = (parts_of(it, kind, parser) for it in (english, own))
    for name in sorted({*ours} - {"text"}):
        if ours[name] != theirs[name]:
            yield f"{name}: English {_list(ours[name])}, here {_list(theirs[name])}"
    said, text = ("\n".join(it["text"].elements()) for it in (ours, theirs))
    if kind not in PLAIN and re.search(r"\*\*|\{[\w:]+\}`", text):
        yield "a mark or a role is not read: put a space outside of it"
    wanted, here = (Counter(NUMBER.findall(it)) for it in (said, text))
    if lost := wanted - here:
        yield f"number left out: {_list(lost)}"
    words = re.findall(r"[a-z]+", said.lower())  # a word may become a digit
    spelled = {str(n) for n, word in enumerate(COUNTED.split()) if word in words}
    if strange := {*here} - {*wanted} - spelled:
        yield f"number that the English has not: {', '.join(sorted(strange))}"
    if re.search(r"[A-Za-z]{2,}.* [A-Za-z]{2,}", said):
        if not re.search(f"[{HAN}]", own):
            yield "not translated"
        elif left := ENGLISH.search(IN_BRACKETS.sub("", text)):
            yield f"English left: {left[0]!r}"
    bare = re.sub(r"(?<=\])\(\S*?\)", "", ROLE.sub(_shown, own))
    bare = re.sub("`[^`]+`", "`x`", bare)
    for name, pattern in BESIDE.items():
        if odd := re.search(pattern, bare):
            yield f"{name}: {odd[0]!r}"
    if english.endswith(".") and not ENDED.search(own):
        yield f"no full stop: {own[-9:]!r}"
    if kind == "row" and english.count("|") != own.count("|"):
        yield "another number of cells"
    for term in sorted(terms["terms"], key=len, reverse=True):
        # The longest first: "attention mask" is no "mask" of its own.
        pattern, names = rf"\b{re.escape(term)}(s|es)?\b", terms["terms"][term]
        said, count = re.subn(pattern, "", said, flags=re.IGNORECASE)
        if count and not any(it.lower() in (text + bare).lower() for it in names):
            yield f"term {term!r}: write {' or '.join(names)}"
    for word in (it for it in terms["never"] if it in own):
        yield f"{word!r}: write {terms['never'][word]}"


def parts_of(text: str, kind: str, parser: MarkdownIt) -> dict[str, Counter[str]]:
    """Return what a text holds, by kind; of marks, the code and roles inside."""
    found: dict[str, Counter[str]] = {name: Counter() for name in HOLDING.values()}
    if kind in PLAIN:
        found["code"].update(re.findall(r"`([^`]+)`", text))
        found["text"][re.sub(r"`[^`]+`", "", text)] += 1
        return found
    marks: list[list[str]] = []  # that are open, each with what it holds
    for token in parser.parseInline(text)[0].children or []:
        name, held = HOLDING.get(token.type, ""), token.content
        if token.type == "myst_role":
            target, role = TARGET.match(held), token.meta["name"]
            found["text"][target[1] if target else ""] += 1
            held = "pdf" if role == "pdf" else f"{role} {target[2] if target else held}"
        elif token.type in ("link_open", "image"):
            held = str(token.attrs.get("href", token.attrs.get("src")))
        elif token.type in ("strong_open", "em_open"):
            marks.append([])
        elif token.type in ("strong_close", "em_close"):
            held = f"[{', '.join(sorted(marks.pop()))}]"
        if name:
            found[name][held] += 1
        if marks and name not in ("", "text"):
            marks[-1].append(held)
    return found


def _shown(role: re.Match[str]) -> str:
    """Return what a role shows: its own text, or else a title, which is Chinese."""
    target = TARGET.match(role[2])
    return target[1] if target else role[2] if role[1] == "term" else "题"


def _list(found: Counter[str]) -> str:
    parts = (f"{it} ×{n}" if n > 1 else it for it, n in sorted(found.items()))
    return ", ".join(parts) or "none"


def check_page(
    page: str, have: Catalog, parser: MarkdownIt, terms: Table, today: date
) -> Iterator[Found]:
    """Yield what is missing, stale or wrong in one page."""
    now = catalogue.messages(catalogue.extract(page, parser))
    if [it.id for it in now] != [it.id for it in catalogue.messages(have)]:
        yield "", "the English has changed: run `make translate`", False
        return
    for message, its in zip(now, catalogue.messages(have), strict=True):
        english, own, kind = str(its.id), str(its.string), message.auto_comments[0]
        where = f": {english[:60]!r}"
        if its.fuzzy or not own:
            what = "the English has changed" if its.fuzzy else "not translated"
            since = catalogue.waiting_since(its)
            yield where, what, since is not None and today <= since + PATIENCE
            continue
        for what in faults(english, own, kind, parser, terms):
            yield where, what, False
    try:
        catalogue.in_chinese(page, have, parser)
    except ValueError as fault:
        yield "", str(fault), False


def check(root: Path, names: Iterable[str], today: date) -> list[Found]:
    """Return what is wrong in pages: all that are finished, if none is named."""
    parser, pages, found = md_parser(root), catalogue.page_paths(root), []
    path = root / FOLDER / "terms.toml"
    terms = tomllib.loads(path.read_text(encoding="utf-8"))
    for name in names or catalogue.settings(root)["finished"]:
        try:
            have = catalogue.read(root, name)
            page = pages[name].read_text(encoding="utf-8")
            faults = [*check_page(page, have, parser, terms, today)]
        except (PoFileError, KeyError) as fault:
            faults = [("", f"no such page, or its catalogue is broken: {fault}", False)]
        found += [(name + where, what, wait) for where, what, wait in faults]
    return found


def report(root: Path, names: Iterable[str], today: date) -> int:
    """Print what is wrong, and return the exit status: 1 if there is a fault."""
    found = check(root, names, today)
    for where, what, may_wait in found:
        print(f"{where}: {'(may wait) ' * may_wait}{what}")
    wrong = sum(not may_wait for *_, may_wait in found)
    print(f"{wrong} faults, {len(found) - wrong} sentences that may wait")
    return int(wrong > 0)
