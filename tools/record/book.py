"""Chapters and pages in; their blocks and labels out.

Read with the site's own parser and classes. What the site refuses by itself, as a label
given twice or a term that the glossary lacks, is not looked for here.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from docutils.parsers.rst import Directive
from docutils.parsers.rst.directives import admonitions, images
from markdown_it import MarkdownIt
from markdown_it.token import Token
from myst_parser.parsers.directives import parse_directive_text
from nbformat import NotebookNode
from pybtex.database import Entry, parse_file
from sphinx_design.dropdown import DropdownDirective

from tools.chapters import ROOT, chapter_paths, md_parser, read_chapter
from tools.quiz import Quiz
from tools.site.kept import Kept
from tools.words import say

DIRECTIVES: dict[str, type[Directive]] = {
    "admonition": admonitions.Admonition,
    "dropdown": DropdownDirective,
    "figure": images.Figure,
    "quiz": Quiz,
}
NESTING = ("admonition", "dropdown")
SPANS = {"myst_role", "link_open", "image"}


class Place(NamedTuple):
    """A line of a page, for error messages."""

    path: Path
    line: int

    def below(self, lines: int) -> "Place":
        """Return the position some lines further down."""
        return self._replace(line=self.line + lines)

    def error(self, message: str) -> ValueError:
        """Return an error that starts with the position."""
        name = f"{self.path.parent.name}/{self.path.name}"
        return ValueError(f"{name}:{self.line}: {message}")


class Block(NamedTuple):
    """A parsed directive; `place` is the first line of its body, `label` its name."""

    name: str
    argument: str
    options: dict[str, Any]
    body: str
    place: Place
    label: str


def normal(name: str) -> str:
    """Return a label in the form that Sphinx compares."""
    return " ".join(name.lower().split())


def escaped(text: str) -> str:
    """Return text escaped for Markdown."""
    return re.sub(r"([\\`*\[\]<])", r"\\\1", text)


def directive_name(token: Token) -> str | None:
    """Return `note` for a fence that opens with `{note}`, else None."""
    if token.type not in ("fence", "colon_fence"):
        return None
    match = re.match(r"\s*\{([^}\s]+)\}", token.info)
    return match[1] if match else None


def read_directive(token: Token, place: Place) -> Block:
    """Read a directive's argument, options and body."""
    name = directive_name(token)
    if name is None or name not in DIRECTIVES:
        known = ", ".join(DIRECTIVES)
        raise place.error(f"unknown directive {{{name}}}; use one of {known}")
    argument = token.info.strip()[len(name) + 2 :].strip()
    # A body that starts with a nested fence must not be taken for options.
    shift = int(token.content.startswith(":::"))
    content = "\n" * shift + token.content
    parsed = parse_directive_text(DIRECTIVES[name], argument, content)
    if parsed.warnings:
        raise place.error(f"{{{name}}}: {parsed.warnings[0].msg}")
    below = 1 + parsed.body_offset - shift
    title, body = " ".join(parsed.arguments), "\n".join(parsed.body)
    label = normal(str(parsed.options.get("name", "")))
    return Block(name, title, parsed.options, body, place.below(below), label)


class Label(NamedTuple):
    """A target of references; a figure without a name is counted too."""

    name: str
    kind: str  # heading, figure, equation or block
    title: str  # a heading's text, or `Figure 3.1`, or `(3.1)`
    number: str
    place: Place


@dataclass(frozen=True)
class Book:
    """Everything that the text of one chapter may refer to elsewhere."""

    root: Path
    parser: MarkdownIt
    labels: dict[str, Label]
    figure_numbers: dict[Place, str]
    titles: dict[Path, str]
    entries: dict[str, Entry]
    cited: set[str] = field(default_factory=set)  # filled as a chapter is converted

    def shown(self) -> str:
        """Return all that references may show: titles, numbers, sources."""
        titles = [label[:-1] for label in self.labels.values()]
        numbers = [*self.titles.values(), *self.figure_numbers.values()]
        return json.dumps([titles, numbers, *map(str, self.entries.values())])


def read_book(root: Path = ROOT) -> Book:
    """Read all chapters and pages once, and number their figures and equations."""
    parser, kept = md_parser(root), Kept(root / "_build/labels.json", root)
    every: list[Label] = []
    for path in [*sorted((root / "book").glob("*.md")), *chapter_paths(root)]:
        page = path.relative_to(root).as_posix()
        rows = kept.value(page, partial(_rows, path, parser), path)
        for name, kind, title, number, line in rows:
            every.append(Label(name, kind, title, number, Place(path, line)))
    kept.write()
    headings = [label for label in reversed(every) if label.kind == "heading"]
    titles = {label.place.path: label.title for label in headings}  # the first one
    numbers = {label.place: label.number for label in every if label.kind == "figure"}
    labels = {label.name: label for label in every if label.name}
    bibliography = root / "book" / "references.bib"
    entries = parse_file(str(bibliography)).entries if bibliography.is_file() else {}
    return Book(root, parser, labels, numbers, titles, dict(entries))


def cells_with_places(path: Path) -> Iterator[tuple[NotebookNode, Place]]:
    """Yield the cells of a chapter, each with the position of its first line."""
    notebook = read_chapter(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    for cell, start in zip(notebook.cells, notebook.metadata.source_map, strict=True):
        while cell.cell_type == "markdown" and not lines[start]:
            start += 1  # the reader strips empty lines
        yield cell, Place(path, start + 1)


def figure_options(cell: NotebookNode) -> dict[str, str]:
    """Return the `figure` options of a code cell, empty for a cell without a figure."""
    return dict(cell.metadata.get("mystnb", {}).get("figure", {}))


def find_labels(text: str, place: Place, parser: MarkdownIt) -> Iterator[Label]:
    """Yield the headings, targets, figures and equations of a text, in order."""
    targets: list[Label] = []
    tokens = parser.parse(text)
    for position, token in enumerate(tokens):
        here = place.below(token.map[0] if token.map else 0)
        if token.type == "myst_target":
            targets.append(Label(normal(token.content), "block", "", "", here))
            continue
        if token.type == "heading_open":
            inline = tokens[position + 1]
            plain = not {child.type for child in inline.children or []} & SPANS
            title = inline.content if plain else ""  # a link holds no other link
            targets = targets or [Label("", "heading", "", "", here)]
            targets = [it._replace(kind="heading", title=title) for it in targets]
        yield from targets
        targets = []
        if token.type == "math_block_label":
            yield Label(normal(token.info), "equation", "", "", here)
        if directive_name(token) in DIRECTIVES:
            block = read_directive(token, here)
            kind = "figure" if block.name == "figure" else "block"
            if block.label or kind == "figure":
                yield Label(block.label, kind, "", "", here)
            if block.name in NESTING:
                yield from find_labels(block.body, block.place, parser)


def _rows(path: Path, parser: MarkdownIt) -> list[list[str | int]]:
    """Return the labels of a chapter or a page as JSON has them."""
    if path.parent.name == "chapters":
        found = _chapter_labels(path, parser)
    else:  # these have no numbers
        text = path.read_text(encoding="utf-8")
        found = find_labels(text, Place(path, 1), parser)
    return [[*label[:-1], label.place.line] for label in found]


def _chapter_labels(path: Path, parser: MarkdownIt) -> Iterator[Label]:
    """Yield the labels of a chapter, numbered as Sphinx counts: in reading order."""
    found: list[Label] = []
    for cell, place in cells_with_places(path):
        if cell.cell_type == "markdown":
            found += find_labels(cell.source, place, parser)
        elif options := figure_options(cell):
            name = normal(options.get("name", ""))
            found.append(Label(name, "figure", "", "", place))
    counts: Counter[str] = Counter()
    for label in found:
        counts[label.kind] += 1
        number = f"{int(path.stem[:2])}.{counts[label.kind]}"
        titles = {"figure": say("notebook.figure", n=number), "equation": f"({number})"}
        title = titles.get(label.kind)
        yield label._replace(number=number, title=title) if title else label
