"""All chapters and pages in, what one can refer to out: labels, numbers, titles."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from nbformat import NotebookNode
from pybtex.database import Entry

from tools.chapters import ROOT, chapter_paths, read_chapter
from tools.record.citations import read_entries
from tools.record.myst import (
    DIRECTIVES,
    NESTING,
    Place,
    directive_name,
    make_parser,
    normal,
    read_directive,
)

SPANS = {"myst_role", "link_open", "image"}


class Label(NamedTuple):
    """A place that can be referred to; a figure without a name is counted too."""

    name: str
    kind: str  # heading, figure, equation or block
    title: str  # a heading's text, or `Figure 3.1`, or `(3.1)`
    place: Place
    number: str = ""


@dataclass(frozen=True)
class Book:
    """Everything that the text of one chapter may name in another place."""

    root: Path
    parser: MarkdownIt
    labels: dict[str, Label]
    figure_numbers: dict[Place, str]
    titles: dict[Path, str]
    terms: set[str]
    entries: dict[str, Entry]
    cited: set[str] = field(default_factory=set)  # filled as a chapter is converted


def read_book(root: Path = ROOT) -> Book:
    """Read all chapters and pages once, and number their figures and equations."""
    parser = make_parser(root)
    every: list[Label] = []
    for path in sorted((root / "book").glob("*.md")):  # these have no numbers
        text = path.read_text(encoding="utf-8")
        every += find_labels(text, Place(path, 1), parser)
    for path in chapter_paths(root):
        every += _chapter_labels(path, parser)
    headings = [label for label in reversed(every) if label.kind == "heading"]
    titles = {label.place.path: label.title for label in headings}  # the first one
    numbers = {label.place: label.number for label in every if label.kind == "figure"}
    terms = _terms(root / "book" / "glossary.md", parser)
    labels = _by_name(every)
    return Book(root, parser, labels, numbers, titles, terms, read_entries(root))


def cells_with_places(path: Path) -> Iterator[tuple[NotebookNode, Place]]:
    """Yield the cells of a chapter, each with the place of its first line."""
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
    """Yield the headings, targets, figures and equations of a text, as they stand."""
    targets: list[Label] = []
    tokens = parser.parse(text)
    for position, token in enumerate(tokens):
        here = place.below(token.map[0] if token.map else 0)
        if token.type == "myst_target":
            targets.append(Label(normal(token.content), "block", "", here))
            continue
        if token.type == "heading_open":
            inline = tokens[position + 1]
            plain = not {child.type for child in inline.children or []} & SPANS
            title = inline.content if plain else ""  # a link holds no other link
            targets = targets or [Label("", "heading", "", here)]
            targets = [it._replace(kind="heading", title=title) for it in targets]
        yield from targets
        targets = []
        if token.type == "math_block_label":
            yield Label(normal(token.info), "equation", "", here)
        if directive_name(token) in DIRECTIVES:
            block = read_directive(token, here)
            is_figure = block.name == "figure" and bool(block.body.strip())
            if block.label or is_figure:
                kind = "figure" if is_figure else "block"
                yield Label(block.label, kind, "", here)
            if block.name in NESTING:
                yield from find_labels(block.body, block.place, parser)


def _chapter_labels(path: Path, parser: MarkdownIt) -> Iterator[Label]:
    """Yield the labels of a chapter, numbered as Sphinx counts: in reading order."""
    found: list[Label] = []
    for cell, place in cells_with_places(path):
        if cell.cell_type == "markdown":
            found += find_labels(cell.source, place, parser)
        elif options := figure_options(cell):
            found.append(Label(normal(options.get("name", "")), "figure", "", place))
    counts: Counter[str] = Counter()
    for label in found:
        counts[label.kind] += 1
        number = f"{int(path.stem[:2])}.{counts[label.kind]}"
        titles = {"figure": f"Figure {number}", "equation": f"({number})"}
        title = titles.get(label.kind)
        yield label._replace(number=number, title=title) if title else label


def _by_name(labels: list[Label]) -> dict[str, Label]:
    """Return the named labels, each name once."""
    known: dict[str, Label] = {}
    for label in filter(lambda label: label.name, labels):
        first = known.setdefault(label.name, label).place
        if first != label.place:
            taken = f"{first.path.name}:{first.line}"
            message = f"label {label.name!r} is taken by {taken}; rename one"
            raise label.place.error(message)
    return known


def _terms(glossary: Path, parser: MarkdownIt) -> set[str]:
    """Return the terms of the glossary: its lines that are not indented."""
    text = glossary.read_text(encoding="utf-8") if glossary.is_file() else ""
    bodies = [t.content for t in parser.parse(text) if directive_name(t) == "glossary"]
    lines = [line for body in bodies for line in body.splitlines()]
    return {line.strip().lower() for line in lines if line[:1].strip(" :")}
