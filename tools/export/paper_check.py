"""Look at a printed PDF: do its contents, links and solutions lead where they should?

The text is read from the PDF itself, so that nothing is taken from what printed it.
"""

import copy
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2  # type: ignore[import-untyped]
from bs4 import BeautifulSoup
from sphinx_external_toc.parsing import parse_toc_yaml

from tools.check.pages import parsed
from tools.export.paper_pages import page_names
from tools.export.paper_print import page_numbers

LARGEST = 10_000_000  # bytes: what mail still takes
MOST = 400  # sheets of paper: more, and something repeats itself


@dataclass(frozen=True)
class Paper:
    """What a reader has of a PDF.

    Attributes:
        size: in bytes.
        texts: of each sheet, headers and numbers included.
        contents: the lines of the contents, each with its number.
        numbers: the sheet of each anchor, from 1.
        inside: the anchors that links lead to.
        outside: the addresses that links lead to.
    """

    size: int
    texts: list[str]
    contents: list[str]
    numbers: dict[str, int]
    inside: list[str]
    outside: list[str]


def read_paper(path: Path) -> Paper:
    """Read a PDF as a reader would."""
    inside, outside = [], []
    with pikepdf.open(path) as book:
        numbers = page_numbers(book)
        links = [list(page.get("/Annots", [])) for page in book.pages]
        for link in (it for page in links for it in page):
            action: Any = link.get("/A", {})
            if "/URI" in action:
                outside.append(str(action["/URI"]))
            else:
                name = str(link.get("/Dest", action.get("/D")))
                # Chromium writes names with a slash here and without one there.
                inside.append(name.removeprefix("/"))
        # A link of the contents is a line of them; they end where a link leads first.
        front = range(1, min(numbers.values(), default=1) - 1)
        boxes = {n: [[float(x) for x in it["/Rect"]] for it in links[n]] for n in front}
    with pypdfium2.PdfDocument(path) as pdf:
        pages = [page.get_textpage() for page in pdf]
        texts = [page.get_text_range() for page in pages]
        lines = [pages[n].get_text_bounded(*box) for n in front for box in boxes[n]]
    return Paper(path.stat().st_size, texts, lines, numbers, inside, outside)


def faults(paper: Paper, document: str, root: Path) -> list[str]:
    """Return what is wrong with a PDF.

    Args:
        paper: the PDF, as it is read.
        document: the HTML that it was printed from.
        root: where the site is built, which says what the solutions are.
    """
    found = wrong_contents(paper, document) + dead_links(paper)
    found += misplaced_solutions(paper, root)
    if paper.size > LARGEST:
        found.append(f"{paper.size / 1e6:.1f} MB is more than {LARGEST / 1e6:.0f} MB")
    if len(paper.texts) > MOST:
        found.append(f"{len(paper.texts)} pages are more than {MOST}")
    return found


def wrong_contents(paper: Paper, document: str) -> list[str]:
    """Name each line of the contents whose page has no such heading."""
    front = BeautifulSoup(document.partition("</nav>")[0], "html.parser")
    titles = [it.get_text() for it in front.select("nav p > a > span:first-child")]
    told = [_squeezed(line) for line in paper.contents]
    pages = [_squeezed(text) for text in paper.texts]
    found = [] if titles else ["there are no contents"]
    for title in titles:
        name = _squeezed(title)
        numbers = [
            int(line.removeprefix(name))
            for line in told
            if line.startswith(name) and line.removeprefix(name).isdecimal()
        ]
        if not any(0 < it <= len(pages) and name in pages[it - 1] for it in numbers):
            found.append(f"contents: {title!r} is not on page {numbers}")
    return found


def dead_links(paper: Paper) -> list[str]:
    """Name each link without a destination, or to this machine."""
    dead = sorted(set(paper.inside) - set(paper.numbers))
    local = sorted(
        {it for it in paper.outside if not re.match(r"(https?|mailto):", it)}
    )
    return [f"a link leads to no page: {it}" for it in dead] + [
        f"a link leads out of the web: {it}" for it in local
    ]


def misplaced_solutions(paper: Paper, root: Path) -> list[str]:
    """Name each line of a solution that stands before the appendix, or nowhere."""
    start = paper.numbers.get("solutions", len(paper.texts) + 1) - 1
    before, after = (
        _squeezed(" ".join(texts))
        for texts in (paper.texts[:start], paper.texts[start:])
    )
    found = []
    for line in _told_in_solutions_only(root):
        name = _squeezed(line)
        if name in before:
            found.append(f"a solution stands before the appendix: {line}")
        if name not in after:
            found.append(f"a solution is not in the appendix: {line}")
    return found


def _told_in_solutions_only(root: Path) -> list[str]:
    """Return the lines of code of the site's solutions that stand nowhere else."""
    toc = parse_toc_yaml(str(root / "_toc.yml"))
    lines, rest = [], ""
    for name, _ in page_names(toc):
        article = parsed(root / f"_build/html/{name}.html").select_one("article")
        page = copy.copy(article)
        if page is None:
            continue
        for folded in page.select("details"):
            if folded.summary and folded.summary.get_text().strip() == "Solution":
                for code in folded.extract().select("pre"):
                    lines += code.get_text().splitlines()
        rest += _squeezed(page.get_text())
    return [it.strip() for it in lines if _squeezed(it) and _squeezed(it) not in rest]


def _squeezed(text: str) -> str:
    """Return words alone: what paper adds between them does not count."""
    return re.sub(r"[^\w.]", "", unicodedata.normalize("NFKC", text))
