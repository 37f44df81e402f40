"""What moved between two states of the book: pinned versions, and outputs of cells."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

Cell = dict[str, Any]
Pins = dict[str, str]
Change = tuple[str, str, str]
ABSENT = "-"


def pins(path: Path) -> Pins:
    """Return the versions that a file pins, by package and where it holds."""
    found: Pins = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        pin, _, where = line.split("#")[0].partition(";")
        name, equal, version = pin.strip().partition("==")
        if equal:
            found[f"{name} ({where.strip()})" if where else name] = version
    return found


def moved_pins(before: Pins, after: Pins) -> list[Change]:
    """Return what moved: package, old version, new version."""
    names = sorted(before.keys() | after.keys())
    changes = [(it, before.get(it, ABSENT), after.get(it, ABSENT)) for it in names]
    return [change for change in changes if change[1] != change[2]]


def beyond(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells that no longer agree with their record, or did not run."""
    return [cell for cell in cells if _failed(cell)]


def moved_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells whose outputs are not the same to the last digit and pixel."""
    return [
        cell
        for cell in cells
        if _failed(cell) or (cell["compared"] and (cell["numbers"] or cell["pictures"]))
    ]


def report(changes: list[Change], cells: list[Cell]) -> str:
    """Return tables of what moved, as Markdown that reads well in a terminal too."""
    cells = sorted(cells, key=_order)
    moved, failed = moved_cells(cells), beyond(cells)
    parts = [
        "# What moved",
        _table(("package", "from", "to"), changes),
        f"{len(moved)} of {len(cells)} cells moved, {len(failed)} of them by more than "
        "is allowed. Differences are given in units of what is allowed.",
        _table(
            ("chapter", "cells", "compared", "moved", "too far", "numbers", "pictures"),
            [
                _chapter(name, list(group))
                for name, group in groupby(cells, key=lambda cell: _order(cell)[0])
            ],
        ),
    ]
    drawn = sum(cell.get("drawing_count", 0) for cell in cells)
    if drawn:
        parts.append(
            f"{drawn} figures come from another matplotlib and were compared by their "
            "contents: look at each of them, too."
        )
    if moved:
        rows = [(cell["place"], *_sizes([cell]), _why(cell)) for cell in moved]
        parts.append(_table(("cell", "numbers", "pictures", ""), rows))
    return "\n\n".join(parts)


def faults(cells: list[Cell]) -> str:
    """Return what differs in the cells that moved too far, each side by side."""
    return "\n\n".join(
        f"## {cell['place']}\n\n```text\n" + "\n".join(cell["faults"]) + "\n```"
        for cell in sorted(beyond(cells), key=_order)
        if cell.get("faults")
    )


def _failed(cell: Cell) -> bool:
    # After a cell that failed, pytest only expects the others of its chapter to.
    return cell["outcome"] == "failed" or bool(cell.get("faults"))


def _order(cell: Cell) -> tuple[str, int]:
    """Return chapter and number of a cell, which its place names."""
    chapter, _, number = cell["place"].partition(", code cell ")
    return chapter, int(number)


def _chapter(name: str, cells: list[Cell]) -> tuple[str, ...]:
    compared = sum(bool(cell["compared"]) for cell in cells)
    counts = (len(cells), compared, len(moved_cells(cells)), len(beyond(cells)))
    return (name, *map(str, counts), *_sizes(cells))


def _sizes(cells: list[Cell]) -> tuple[str, str]:
    """Return the largest differences of numbers and of pictures."""
    largest = (
        max((cell[kind] for cell in cells if cell["compared"]), default=0)
        for kind in ("numbers", "pictures")
    )
    one, two = (f"{value:.2g}" for value in largest)
    return one, two


def _why(cell: Cell) -> str:
    if not _failed(cell):
        return ""
    first = cell.get("faults") or ["stopped, with those below: `make test-notebooks`"]
    return str(first[0]).splitlines()[0].replace("|", "/")


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "| "
        + " | ".join(f"{it:<{width}}" for it, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )
