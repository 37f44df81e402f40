"""A chapter in, its notebook out: code untouched, text plain Markdown, no outputs."""

import hashlib
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from tools.record.book import (
    Book,
    Place,
    cells_with_places,
    figure_options,
    normal,
    read_book,
)
from tools.record.citations import references
from tools.record.markdown import anchor, caption, plain_markdown
from tools.record.rules import needs_model, tags
from tools.words import say

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# Folds the code that the page folds: set-up, drawings, the library's listings, and what
# would give an answer away. JupyterLab and nbclassic read the first, Colab the second.
HIDDEN = {"hide-input", "hide-cell"}
# Where the model is missing, "run all" goes on after such a cell.
GO_ON = "raises-exception"
FOLDED: dict[str, Any] = {"jupyter": {"source_hidden": True}, "cellView": "form"}


def plain_notebook(chapter: Path, book: Book | None = None) -> NotebookNode:
    """Return the notebook of a chapter, not executed."""
    # Sphinx and nbformat speak of resolved paths; links are found by comparing them.
    chapter = chapter.resolve()
    book = replace(book or read_book(chapter.parent.parent), cited=set())
    if chapter not in book.titles:
        raise Place(chapter, 1).error("not in _toc.yml, or has no heading; add it")
    cells: list[NotebookNode] = []
    for cell, place in cells_with_places(chapter):
        cells += _plain_cells(cell, place, book)
    if book.cited:
        text = f"## {say('notebook.sources')}\n\n{references(book.cited, book.entries)}"
        cells.append(new_markdown_cell(text))
    _identify(cells)
    return new_notebook(cells=cells, metadata=METADATA)


def unfolded(cell: NotebookNode) -> dict[str, Any]:
    """Return a cell's metadata as in its chapter."""
    added = FOLDED if HIDDEN & {*tags(cell)} else {}
    found = {name: it for name, it in cell.metadata.items() if name not in added}
    kept = [tag for tag in tags(cell) if tag != GO_ON]
    return found | ({"tags": kept} if needs_model(cell) else {})


def _plain_cells(cell: NotebookNode, place: Place, book: Book) -> list[NotebookNode]:
    """Return the plain cells for one cell: none for a comment, two for a figure."""
    if cell.cell_type == "markdown":
        cell.source = plain_markdown(cell.source, place, book)
        return [cell] if cell.source else []
    if needs_model(cell):
        cell.metadata["tags"] += [GO_ON]
    if HIDDEN & {*tags(cell)}:
        cell.metadata.update(deepcopy(FOLDED))
    if not (options := figure_options(cell)):
        return [cell]
    if not options.get("caption"):
        raise place.error("the figure has no caption; add caption: beside its name:")
    text = plain_markdown(options["caption"], place, book)
    name = anchor(normal(options.get("name", "")))
    number = book.figure_numbers[place]
    return [cell, new_markdown_cell(name + caption(number, text))]


def _identify(cells: list[NotebookNode]) -> None:
    """Give each cell an id made from its content: an edit changes one id only."""
    seen: Counter[str] = Counter()
    for cell in cells:
        digest = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
        seen[digest] += 1
        cell.id = f"{digest}-{seen[digest]}"
