"""Make a PDF of the whole book from the pages of the site, with nothing executed.

Run as `python -m tools.export.pdf [FILE]`. The site is brought up to date first. A
browser prints its pages as one document, with contents in front and solutions at the
end. What is wrong with the PDF is said, and makes the exit status 1.
"""

import argparse
import json
import re
import signal
import subprocess
import sys
import unicodedata
from io import BytesIO
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2  # type: ignore[import-untyped]
from lxml import html
from playwright.sync_api import sync_playwright

from tools.address import git
from tools.browser import FLAGS, find_browser
from tools.chapters import ROOT
from tools.export.copies import SOLUTION
from tools.export.paper import Page, document, read_pages
from tools.running import run
from tools.words import say

WIDTH = 628  # CSS pixels between the margins of paper.css: 166 mm
PRINTS = 4  # two, unless filling in a number moved a line
LIMIT = 900  # seconds: it must tell a hang from a slow machine
LARGEST = 15_000_000  # bytes: 684 pages take 10.6 million, tags 3 and pictures 0.8


def main(root: Path = ROOT) -> int:
    """Write the PDF, and return the command's exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "output", nargs="?", type=Path, default=root / "_build/book.pdf"
    )
    output: Path = parser.parse_args().output
    site = [sys.executable, "-m", "tools.site"]
    if run(site, limit=LIMIT, cwd=root, stdout=None, stderr=None).returncode:
        return 1
    # Playwright has no limit for a browser that hangs while it prints.
    signal.alarm(LIMIT)
    try:
        found = make(root, output)
    except (RuntimeError, ValueError) as error:
        found = [str(error)]
    signal.alarm(0)
    for fault in found:
        print(f"make copies KIND=pdf: {fault}", file=sys.stderr)
    if not found:
        print(f"The PDF is ready. Open {output} ({output.stat().st_size / 1e6:.1f} MB)")
    return 1 if found else 0


def make(root: Path, output: Path) -> list[str]:
    """Print the built site as a book, and return what is wrong with the PDF."""
    pages = read_pages(root)
    try:
        said = say("paper.state", commit="%h", day="%cs")
        state = git(root, "log", "-1", f"--format={said}")
    except (OSError, subprocess.SubprocessError):
        state = ""  # no repository
    source = root / "_build/pdf/book.html"
    source.parent.mkdir(parents=True, exist_ok=True)
    many = f"{len(pages)} pages of the site"
    print(f"Printing {many}, twice: the contents need page numbers", flush=True)
    source.write_text(document(root, pages, state), encoding="utf-8")
    data, found = printed(source)
    print("Checking that all text, links and solutions are there", flush=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    with pikepdf.open(BytesIO(data)) as book:
        book.Root.PageMode = pikepdf.Name.UseOutlines
        name_once(book)
        # Tags are tens of thousands of small objects: packed, they take a tenth.
        packed = pikepdf.ObjectStreamMode.generate
        book.save(output, object_stream_mode=packed)
    return found + faults(output, pages, solutions(root, {it.name for it in pages}))


def name_once(book: pikepdf.Pdf) -> None:
    """Halve the bookmarks that Chromium names twice: headings that begin a sheet."""
    with book.open_outline() as outline:
        items = list(outline.root)
        while items:
            item = items.pop()
            items += item.children
            half = len(item.title) // 2
            if item.title[:half] == item.title[half:]:
                item.title = item.title[:half]


def printed(source: Path) -> tuple[bytes, list[str]]:
    """Print a document until its page numbers are stable; return what looks wrong."""
    numbers: dict[str, int] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser(playwright),
            args=[*FLAGS, "--allow-file-access-from-files"],
        )
        for number in range(1, PRINTS + 1):
            # A page that was printed breaks some lines otherwise the second time.
            page = browser.new_page(viewport={"width": WIDTH, "height": 1000})
            page.emulate_media(media="print")
            page.goto(source.as_uri(), timeout=LIMIT * 1000)
            page.add_script_tag(path=Path(__file__).with_name("paper.js"))
            wanted = page.evaluate("(numbers) => paper.fill(numbers)", numbers)
            found: list[str] = page.evaluate(f"paper.faults({WIDTH})")
            data = page.pdf(outline=True, tagged=True, prefer_css_page_size=True)
            page.close()
            with pikepdf.open(BytesIO(data)) as book:
                before, numbers = numbers, page_numbers(book)
                print(f"  print {number}: {len(book.pages)} sheets", flush=True)
            if all(before.get(it) == numbers.get(it) for it in wanted):
                return data, found
    raise RuntimeError(f"after {PRINTS} prints the page numbers still move")


def page_numbers(book: pikepdf.Pdf) -> dict[str, int]:
    """Return the page of each anchor of a PDF, from 1."""
    places = {page.obj.objgen: n for n, page in enumerate(book.pages, 1)}
    named = book.Root.get("/Dests", pikepdf.Dictionary()).items()
    return {name.removeprefix("/"): places[it[0].objgen] for name, it in named}


def solutions(root: Path, names: set[str]) -> list[str]:
    """Return the lines of these pages' solutions that are nowhere else on paper."""
    other = [path.read_text("utf-8") for path in root.glob("book/api/examples.txt")]
    for path in root.glob("_build/html/book/*.html"):  # the museum, and questions
        other.append(html.parse(path).getroot().text_content())
    lines, rest = [], squeezed("".join(other))
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        if f"chapters/{path.stem}" not in names:
            continue
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            folded = "".join(SOLUTION.findall(text := "".join(cell["source"])))
            for code in re.findall(r"```python\n(.*?)```", folded, re.DOTALL):
                lines += [line.strip() for line in code.splitlines()]
            rest += squeezed(SOLUTION.sub("", text))
    return [line for line in lines if line and squeezed(line) not in rest]


def faults(path: Path, pages: list[Page], solved: list[str]) -> list[str]:
    """Return what is wrong with a PDF that holds these pages and lines of solutions."""
    with pikepdf.open(path) as book:
        numbers = page_numbers(book)
        notes: list[Any] = [it for page in book.pages for it in page.get("/Annots", [])]
        leads = {str(it.get("/A", {}).get("/URI", it.get("/Dest", ""))) for it in notes}
    with pypdfium2.PdfDocument(path) as pdf:
        sheets = [squeezed(page.get_textpage().get_text_range()) for page in pdf]
    end = numbers.get("solutions", 1) - 1
    before, after = "".join(sheets[:end]), "".join(sheets[end:])
    found, last = [], {"solutions": say("paper.appendix")}
    for page in pages:
        for place, title in (page.contents | last).items():
            number, words = numbers.get(place, 0), squeezed(title)
            if f"{words}{number}" not in before or words not in sheets[number - 1]:
                found.append(f"contents: {title!r} is not on page {number}")
        for text in page.samples:
            if squeezed(text)[:40] not in before + after:
                found.append(f"{page.name}: not on paper: {text.strip()[:60]!r}")
    for line in solved:
        if squeezed(line) in before or squeezed(line) not in after:
            found.append(f"a solution is not in the appendix alone: {line}")
    for lead in sorted(leads):
        if lead.removeprefix("/") not in numbers and not re.match("https?:", lead):
            found.append(f"a link leads nowhere: {lead}")
    size = path.stat().st_size
    if size > LARGEST:
        found.append(f"{size} bytes on {len(sheets)} pages are too many")
    return found


def squeezed(text: str) -> str:
    """Return the words alone: paper adds characters between them."""
    return re.sub(r"[^\w.]", "", unicodedata.normalize("NFKC", text))


if __name__ == "__main__":
    sys.exit(main())
