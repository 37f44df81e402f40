"""What a chapter can refer to: labels and their numbers, titles, terms, citations."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from nbformat import NotebookNode
from pybtex.database import Entry

from tools.chapters import ROOT, chapter_paths, parser_config, read_chapter
from tools.record.citations import read_entries
from tools.record.myst import (
    ADMONITIONS,
    DIRECTIVES,
    Block,
    Place,
    directive_name,
    escaped,
    make_parser,
    read_directive,
    read_spans,
)


class Label(NamedTuple):
    """A place that can be referred to; a figure without a name is counted too."""

    name: str
    kind: str  # heading, figure, equation or block
    title: str
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
    parser = make_parser(parser_config(root))
    pages = sorted((root / "book").glob("*.md"))
    found = [_page_labels(path, parser) for path in pages]
    found += [_chapter_labels(path, parser) for path in chapter_paths(root)]
    every = [label for group in found for label in group]
    headings = [label for label in reversed(every) if label.kind == "heading"]
    titles = {label.place.path: label.title for label in headings}  # the first one
    numbers = {label.place: label.number for label in every if label.kind == "figure"}
    labels = _by_name(every)
    terms = _terms(root / "book" / "glossary.md", parser)
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
    tokens = parser.parse(text, {})
    for position, token in enumerate(tokens):
        here = place.below(token.map[0] if token.map else 0)
        if token.type == "myst_target":
            targets.append(Label(_normal(token.content), "block", "", here))
        elif token.type == "heading_open":
            title = _heading_text(tokens[position + 1], parser)
            targets = targets or [Label("", "heading", "", here)]
            yield from (t._replace(kind="heading", title=title) for t in targets)
            targets = []
        else:
            yield from targets
            targets = []
            yield from _block_labels(token, here, parser)
    yield from targets


def _block_labels(token: Token, here: Place, parser: MarkdownIt) -> Iterator[Label]:
    """Yield the labels of an equation or a directive, and of what it holds."""
    if token.type == "math_block_label":
        yield Label(_normal(token.info), "equation", "", here)
    if directive_name(token) not in DIRECTIVES:
        return
    block = read_directive(token, here)
    name = _normal(str(block.options.get("name", "")))
    if block.name == "figure" and block.body.strip():
        yield Label(name, "figure", "", here)
    elif block.name == "math" and (label := equation_name(block)):
        yield Label(label, "equation", "", here)
    elif name:
        yield Label(name, "block", "", here)
    if block.name in ADMONITIONS or block.name == "dropdown":
        yield from find_labels(block.body, block.place, parser)


def equation_name(block: Block) -> str:
    """Return the label of a math directive, which takes it under two names."""
    return _normal(str(block.options.get("label", block.options.get("name", ""))))


def _page_labels(path: Path, parser: MarkdownIt) -> list[Label]:
    """Return the labels of a page outside the chapters, which has no numbers."""
    text = path.read_text(encoding="utf-8")
    return list(find_labels(text, Place(path, 1), parser))


def _chapter_labels(path: Path, parser: MarkdownIt) -> list[Label]:
    """Return the labels of a chapter, numbered as Sphinx counts: in reading order."""
    found: list[Label] = []
    for cell, place in cells_with_places(path):
        if cell.cell_type == "markdown":
            found += find_labels(cell.source, place, parser)
        elif options := figure_options(cell):
            found.append(Label(_normal(options.get("name", "")), "figure", "", place))
    counter: Counter[str] = Counter()
    numbered = []
    for label in found:
        counter[label.kind] += 1
        number = f"{int(path.stem[:2])}.{counter[label.kind]}"
        has_number = label.kind in ("figure", "equation")
        numbered.append(label._replace(number=number) if has_number else label)
    return numbered


def _by_name(labels: list[Label]) -> dict[str, Label]:
    """Return the named labels, each name once."""
    known: dict[str, Label] = {}
    for label in labels:
        if label.name in known:
            first = known[label.name].place
            raise label.place.error(
                f"label {label.name!r} is taken by {first.path.name}:{first.line}; "
                "rename one"
            )
        if label.name:
            known[label.name] = label
    return known


def _heading_text(token: Token, parser: MarkdownIt) -> str:
    """Return a heading without emphasis and links, which cannot nest in a link."""
    read_spans(token, parser)
    marks = {"math_inline": "$", "code_inline": "`"}
    parts = []
    for child in token.children or []:
        mark = marks.get(child.type, "")
        parts.append(f"{mark}{child.content}{mark}" if mark else escaped(child.content))
    return "".join(parts)


def _terms(glossary: Path, parser: MarkdownIt) -> set[str]:
    """Return the terms of the glossary: its lines that are not indented."""
    if not glossary.is_file():
        return set()
    tokens = parser.parse(glossary.read_text(encoding="utf-8"), {})
    bodies = [t.content for t in tokens if directive_name(t) == "glossary"]
    lines = [line for body in bodies for line in body.splitlines()]
    return {line.strip().lower() for line in lines if line[:1].strip(" :")}


def _normal(name: str) -> str:
    """Return a label as Sphinx compares it."""
    return " ".join(name.lower().split())
