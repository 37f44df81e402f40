"""Make a chapter's notebook: code untouched, text as plain Markdown, no outputs."""

import hashlib
from dataclasses import replace
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from tools.record.blocks import anchor, caption
from tools.record.citations import references
from tools.record.folded import fold
from tools.record.labels import Book, cells_with_places, figure_options, read_book
from tools.record.markdown import plain_markdown
from tools.record.myst import Place

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def plain_notebook(chapter: Path, book: Book | None = None) -> NotebookNode:
    """Return the notebook of a chapter, not executed.

    Code cells and their metadata equal what MyST-NB reads, since the site looks up its
    record by them; only what `tools.record.folded` adds is left out there. Pass a
    book to convert several chapters of one state.

    Raises:
        ValueError: names file and line of what has no plain form or leads nowhere.
    """
    # Sphinx and nbformat speak of resolved paths; links are found by comparing them.
    chapter = chapter.resolve()
    book = replace(book or read_book(chapter.parent.parent), cited=set())
    if chapter not in book.titles:
        raise Place(chapter, 1).error("not in _toc.yml, or has no heading; add it")
    cells: list[NotebookNode] = []
    for cell, place in cells_with_places(chapter):
        cells += _plain_cells(cell, place, book)
    if book.cited:
        text = f"## References\n\n{references(book.cited, book.entries)}"
        cells.append(new_markdown_cell(text))
    _identify(cells)
    notebook: NotebookNode = new_notebook(cells=cells, metadata=METADATA)
    return notebook


def _plain_cells(cell: NotebookNode, place: Place, book: Book) -> list[NotebookNode]:
    """Return what stands for one cell: none for a comment, two for a figure."""
    if cell.cell_type == "raw":
        raise place.error("a raw cell is not shown; write Markdown or code")
    if cell.cell_type == "markdown":
        cell.source = plain_markdown(cell.source, place, book)
        return [cell] if cell.source else []
    fold(cell)
    options = figure_options(cell)
    if not options:
        return [cell]
    if not options.get("caption"):
        raise place.error("the figure has no caption; add caption: beside its name:")
    text = caption(
        book.figure_numbers[place], plain_markdown(options["caption"], place, book)
    )
    return [cell, new_markdown_cell(anchor(options.get("name", "").lower()) + text)]


def _identify(cells: list[NotebookNode]) -> None:
    """Give each cell an id of its content, so that an edit changes one id only."""
    seen: dict[str, int] = {}
    for cell in cells:
        digest = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
        seen[digest] = seen.get(digest, 0) + 1
        cell.id = f"{digest}-{seen[digest]}"
