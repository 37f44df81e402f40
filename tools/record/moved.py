"""Two records of a chapter in; numbers that changed, and texts with the old one, out.

No test reads prose: so a new record prints what moved, and the lines of prose, captions
and alternative texts that say what it was.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from nbformat import NotebookNode

from tools.chapters import code_of
from tools.record.rules import picture_texts

NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w.]*\d)")
CODE = re.compile(r"(?ms)^```\{code-cell\}[^\n]*\n(?:---\n.*?^---\n)?(.*?)^```")


def moved(chapter: Path, old: NotebookNode, new: NotebookNode) -> list[str]:
    """Return a line for each changed number, with the lines that show the old one."""
    text = chapter.read_text(encoding="utf-8")
    prose = CODE.sub(lambda it: it[0].replace(it[1], "\n" * it[1].count("\n")), text)
    words = [(n, it) for n, line in enumerate(prose.split("\n"), 1) for it in _in(line)]
    shown: dict[str, list[list[str]]] = {}
    for cell in code_of(old):
        shown[cell.source] = [_in(text) for text in _texts(cell)]
    pairs = dict.fromkeys(
        pair
        for cell in code_of(new)
        if "not-compared" not in cell.metadata.get("tags", [])  # a time moves always
        for was, text in zip(shown.get(cell.source, []), _texts(cell), strict=False)
        for pair in zip(was, _in(text), strict=False)
        if pair[0] != pair[1]
    )
    return [
        "; ".join(
            [f"{chapter.stem}: {was} became {now}"]
            + [f"line {n} says {word}" for n, word in words if _says(word, was, now)]
        )
        for was, now in pairs
    ]


def _in(text: str) -> list[str]:
    return [it.replace(",", "") for it in NUMBER.findall(text)]


def _texts(cell: NotebookNode) -> Iterator[str]:
    """Yield what a cell shows as text; for a picture, the words of its drawing."""
    for output in cell.outputs:
        data = output.get("data", {})
        yield str(output.get("text", data.get("text/plain", "")))
        drawing = picture_texts(data.get("image/png", "")).get("Drawing", "")
        yield " ".join(re.findall(r">([^<]+)<", drawing))


def _says(word: str, was: str, now: str) -> bool:
    """Return whether a number of the prose is the old one, rounded, and not the new."""
    decimals = len(word.partition(".")[2])
    old, new = (f"{Decimal(it):.{decimals}f}" for it in (was, now))
    return word == old != new and ("." not in was or decimals > 0)
