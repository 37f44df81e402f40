"""The book on paper: numbers of pages, links, and solutions at the end only."""

import re
import unicodedata
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from pypdf import PdfReader

from tests.browsing import opened_browser
from tools import pdf
from tools.pages import SITE
from tools.pdf_book import contents, whole_book
from tools.pdf_pages import read_pages
from tools.pdf_print import page_numbers

ROOT = Path(__file__).resolve().parents[1]
TOC = """format: jb-book
root: book/index.md
parts:
  - caption: Build it
    chapters: [{file: chapters/01-one.md}]
  - caption: Around
    chapters: [{file: book/words.md}]
"""
CONFIG = 'title: "Small & short"\nauthor: Ada\n'
PROJECT = '[project]\nversion = "1.2.3"\n'
PAGE = '<nav>frame</nav><article class="bd-article">{}</article><script>run()</script>'
INDEX = "<h1>Small &amp; short</h1><p><a href='../chapters/01-one.html'>Start</a></p>"
CHAPTER = """
<section id="one"><h1>1. One<a class="headerlink" href="#one">#</a></h1>
<p><a href="../book/words.html#word">word</a> <a href="https://example.org/a">far</a>
<a href="../genindex.html">all names</a></p>
<section id="twice"><h2>1.1. Same name</h2>
<details class="hide above-input"><summary>Show</summary><pre>plot()</pre></details>
<details class="hide below-input"><summary>Show</summary><pre>42</pre></details>
<img src="../_images/dot.png" alt="A dot" loading="lazy">
<div class="exercise admonition" id="ex-1">
<p class="admonition-title">Exercise 1 · Add</p></div>
<details class="sd-dropdown"><summary>Hint</summary><p>Think.</p></details>
<details class="sd-dropdown"><summary><span>Solution</span></summary>
<div class="sd-summary-content"><pre>secret = 1 + 1</pre></div></details>
</section></section>"""
WORDS = '<section id="twice"><h1>Words</h1><p id="word">A word.</p></section>'
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c4944415408d763f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


def small_book(root: Path, chapter: str = CHAPTER) -> Path:
    """A built site of three pages."""
    for name, text in (
        ("_toc.yml", TOC),
        ("_config.yml", CONFIG),
        ("pyproject.toml", PROJECT),
        ("_build/html/book/index.html", PAGE.format(INDEX)),
        ("_build/html/chapters/01-one.html", PAGE.format(chapter)),
        ("_build/html/book/words.html", PAGE.format(WORDS)),
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (root / "_build/html/_images").mkdir()
    (root / "_build/html/_images/dot.png").write_bytes(DOT)
    return root


def document(root: Path) -> BeautifulSoup:
    return BeautifulSoup(whole_book(root), "html.parser")


# The document.


def test_links_lead_to_the_anchors_of_the_whole(tmp_path: Path) -> None:
    found = document(small_book(tmp_path))
    links = {it.get_text(): it["href"] for it in found.select(".page a[href]")}
    assert links["Start"] == "#chapters-01-one"
    assert links["word"] == "#book-words--word"
    assert links["far"] == "https://example.org/a"
    assert "all names" not in links  # no page of the book
    ids = [str(it["id"]) for it in found.select("[id]")]
    assert len(ids) == len(set(ids))
    inside = [str(it["href"])[1:] for it in found.select("a[href^='#']")]
    assert set(inside) - set(ids) == set()


def test_link_without_an_anchor_is_refused(tmp_path: Path) -> None:
    chapter = CHAPTER.replace("words.html#word", "words.html#wrod")
    with pytest.raises(ValueError, match="chapters/01-one: #book-words--wrod leads to"):
        whole_book(small_book(tmp_path, chapter))


def test_solution_moves_to_the_end_and_the_hint_stays(tmp_path: Path) -> None:
    found = document(small_book(tmp_path))
    appendix = found.select_one("#solutions")
    assert appendix is not None
    solution = appendix.extract()
    assert "secret = 1 + 1" in solution.get_text()
    assert "Exercise 1 · Add" in solution.get_text()
    assert "secret" not in found.get_text()
    assert "Think." in found.get_text()
    there = found.select_one(".pointer a")
    back = solution.select_one(".pointer a")
    assert there is not None
    assert back is not None
    assert there["href"] == "#solution--chapters-01-one--ex-1"
    assert back["href"] == "#chapters-01-one--ex-1"


def test_solution_without_an_exercise_is_refused(tmp_path: Path) -> None:
    chapter = CHAPTER.replace('class="exercise', 'class="other')
    with pytest.raises(ValueError, match="follows no exercise"):
        whole_book(small_book(tmp_path, chapter))


def test_nothing_is_left_to_click(tmp_path: Path) -> None:
    found = document(small_book(tmp_path))
    assert found.select("script, button, details, summary, .headerlink, nav nav") == []
    assert "frame" not in found.get_text()
    assert "plot()" not in found.get_text()  # the code of a plot is folded away
    assert "42" in found.get_text()  # an output that waits for a guess is shown
    assert "Show" not in found.get_text()


def test_picture_comes_from_the_site_at_once(tmp_path: Path) -> None:
    image = document(small_book(tmp_path)).select_one(".page img")
    assert image is not None
    assert image["src"] == "../html/_images/dot.png"
    assert "loading" not in image.attrs


def test_contents_name_parts_pages_and_sections(tmp_path: Path) -> None:
    pages = read_pages(small_book(tmp_path), "../html")
    lines = BeautifulSoup(contents(pages), "html.parser").select("p")
    texts = [it.get_text().removesuffix("000") for it in lines]
    assert texts[1:] == [
        "Build it", "1. One", "1.1. Same name", "Around", "Words", "Solutions",
    ]  # fmt: skip


def test_page_that_is_not_built_is_named(tmp_path: Path) -> None:
    root = small_book(tmp_path)
    (root / "_build/html/book/words.html").unlink()
    with pytest.raises(ValueError, match=r"words\.html is not there: run `make book`"):
        whole_book(root)


# On paper: a small book, and the whole one.


def needs_browser() -> None:
    with opened_browser():
        pass


@dataclass
class Paper:
    """A PDF, the text of each page, and where its book is."""

    reader: PdfReader
    root: Path
    texts: list[str]


def printed(root: Path, output: Path) -> Paper:
    needs_browser()
    # No picture is missing, and no text stands over the margin.
    assert pdf.make(root, output) == []
    reader = PdfReader(BytesIO(output.read_bytes()))
    return Paper(reader, root, [page.extract_text() for page in reader.pages])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Paper:
    root = small_book(tmp_path_factory.mktemp("book"))
    return printed(root, root / "_build/book.pdf")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Paper:
    """The whole book, from the pages that `make test` has built."""
    assert (SITE / "index.html").is_file(), "no site: run `make book` first"
    return printed(ROOT, tmp_path_factory.mktemp("whole") / "book.pdf")


def squeezed(text: str) -> str:
    """Words alone: what paper adds between them does not count."""
    return re.sub(r"[^\w.]", "", unicodedata.normalize("NFKC", text))


def wrong_contents(paper: Paper) -> list[str]:
    """Lines of the contents whose number is not that of the page with the heading."""
    document = (paper.root / "_build/pdf/book.html").read_text(encoding="utf-8")
    lines = BeautifulSoup(document.partition("</nav>")[0], "html.parser")
    titles = [str(it.get_text()) for it in lines.select("p > a > span:first-child")]
    pages = [squeezed(text) for text in paper.texts]
    front = [text for text in paper.texts if text.startswith("Contents")]
    told = "|".join(squeezed(line) for text in front for line in text.splitlines())
    found = []
    for title in titles:
        name = squeezed(title)
        numbers = re.findall(rf"\|{re.escape(name)}\|?(\d+)(?=\||$)", told)
        if not any(name in pages[int(number) - 1] for number in numbers):
            found.append(f"{title}: {numbers}")
    assert len(titles) > 4
    return found


def links(reader: PdfReader) -> tuple[list[str], list[str]]:
    """What the links lead to: destinations of the PDF, and addresses."""
    inside, outside = [], []
    for page in reader.pages:
        for reference in page.get("/Annots") or []:
            link = reference.get_object()
            action = link.get("/A", {})
            if "/URI" in action:
                outside.append(str(action["/URI"]))
            else:
                inside.append(str(link.get("/Dest", action.get("/D"))))
    return inside, outside


def test_contents_of_a_small_book_are_right(small: Paper) -> None:
    assert wrong_contents(small) == []


def test_wrong_number_in_the_contents_is_found(small: Paper) -> None:
    texts = [
        re.sub(r"^(Words\s*)\d+$", r"\g<1>1", it, flags=re.M) for it in small.texts
    ]
    assert len(wrong_contents(Paper(small.reader, small.root, texts))) == 1


def test_title_page_says_version_and_licence(small: Paper) -> None:
    for words in ("Small & short", "Ada", "Version 1.2.3", "CC BY 4.0", "Apache-2.0"):
        assert words in small.texts[0]
    assert small.reader.metadata is not None
    assert small.reader.metadata.title == "Small & short"
    assert small.reader.metadata.author == "Ada"


def test_every_page_but_the_title_has_its_number(small: Paper) -> None:
    for number, text in enumerate(small.texts[1:], 2):
        assert str(number) in text.splitlines()[:3] + text.splitlines()[-1:]


def test_outline_has_parts_pages_and_sections(small: Paper) -> None:
    def titles(entries: list[Any]) -> list[Any]:
        return [titles(it) if isinstance(it, list) else it.title for it in entries]

    found = titles(small.reader.outline)
    assert "'Build it', ['1. One', ['1.1. Same name']]" in str(found)
    assert found[-2] == "Solutions"


def test_fonts_are_embedded(small: Paper) -> None:
    fonts = [
        font.get_object()
        for page in small.reader.pages
        for font in page["/Resources"].get("/Font", {}).values()
    ]
    assert fonts
    for font in fonts:
        inner = font.get("/DescendantFonts", [font])[0].get_object()
        kinds = set(inner.get("/FontDescriptor", {}).get_object())
        drawn = font["/Subtype"] == "/Type3"  # glyphs that stand in the PDF as drawings
        assert drawn or kinds & {"/FontFile", "/FontFile2", "/FontFile3"}


def test_text_over_the_margin_is_named(tmp_path: Path) -> None:
    needs_browser()
    wide = CHAPTER.replace("<p>", "<p style='white-space:nowrap'>" + "wide " * 40, 1)
    faults = pdf.make(small_book(tmp_path, wide), tmp_path / "book.pdf")
    assert faults
    assert all("over the margin" in fault for fault in faults)


def test_picture_that_is_missing_is_named(tmp_path: Path) -> None:
    needs_browser()
    root = small_book(tmp_path)
    (root / "_build/html/_images/dot.png").unlink()
    assert "no picture" in pdf.make(root, tmp_path / "book.pdf")[0]


def test_contents_of_the_whole_book_are_right(whole: Paper) -> None:
    assert wrong_contents(whole) == []
    assert 100 < len(whole.texts) < 1000


def test_links_of_the_whole_book_lead_somewhere(whole: Paper) -> None:
    inside, outside = links(whole.reader)
    # Chromium names a destination with a slash here and without there.
    known = {name.removeprefix("/") for name in whole.reader.named_destinations}
    assert {it.removeprefix("/") for it in inside} - known == set()
    assert len(inside) > 300
    assert len(outside) > 50
    assert [it for it in outside if not it.startswith(("https://", "http://"))] == []


def test_solutions_of_the_whole_book_stand_at_the_end_only(whole: Paper) -> None:
    def lines_of(text: str) -> list[str]:
        return ["".join(line.split()) for line in text.splitlines()]

    start = page_numbers(whole.reader)["solutions"] - 1
    before, after = ("".join("".join(it).split()) for it in
                     (whole.texts[:start], whole.texts[start:]))  # fmt: skip
    pages = read_pages(ROOT, "")
    rest = "".join("".join(page.body.get_text().split()) for page in pages)
    solutions = [code.get_text() for page in pages for _, _, code in page.solutions]
    told_apart = 0  # a short one may stand in the text, too
    for code in solutions:
        own = [line for line in lines_of(code) if line and line not in rest]
        told_apart += bool(own)
        assert [line for line in own if line in before] == []
        assert [line for line in own if line not in after] == []
    assert told_apart > 0.8 * len(solutions) > 16


def test_whole_book_is_small_enough_to_send(whole: Paper) -> None:
    assert whole.reader.stream.seek(0, 2) < 15e6
