"""The book on paper, on a small book: `make pdf` checks the whole one by itself."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pikepdf
import pytest
from bs4 import BeautifulSoup

from tests.browsing import opened_browser
from tools.export import paper_check as check
from tools.export import pdf
from tools.export.paper_book import contents, whole_book
from tools.export.paper_check import (
    Paper,
    dead_links,
    misplaced_solutions,
    wrong_contents,
)
from tools.export.paper_pages import read_pages

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
<div class="quiz" id="quiz-1"><p class="quiz-question">Who?</p><ol><li>You.</li></ol>
<details><summary>Answers</summary><ol><li>Right: all do.</li></ol></details></div>
<nav class="contents local" id="c"><a href="#twice">Same name</a></nav>
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
    assert found.select("script, button, details, summary, .headerlink, .local") == []
    assert "frame" not in found.get_text()
    assert "plot()" not in found.get_text()  # the code of a plot is folded away
    assert "42" in found.get_text()  # an output that waits for a guess is shown
    assert "Show" not in found.get_text()


def test_answers_of_a_quiz_stand_behind_the_last_one(tmp_path: Path) -> None:
    found = document(small_book(tmp_path))
    quiz = found.select_one(".quiz")
    assert quiz is not None
    assert quiz.get_text(" ", strip=True) == "Question 1. Who? You."
    answers = quiz.find_next_sibling(class_="answers")
    assert answers is not None
    told = answers.get_text(" ", strip=True)
    assert told == "Answers Question 1 Right: all do."


def test_quiz_without_answers_is_refused(tmp_path: Path) -> None:
    chapter = CHAPTER.replace("<summary>Answers</summary>", "")
    with pytest.raises(ValueError, match="chapters/01-one: a quiz has no question"):
        whole_book(small_book(tmp_path, chapter))


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


# On paper.


@dataclass
class Printed:
    """A small book, its document and its PDF."""

    root: Path
    document: str
    output: Path
    paper: Paper


def needs_browser() -> None:
    with opened_browser():
        pass


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Printed:
    needs_browser()
    root = small_book(tmp_path_factory.mktemp("book"))
    output = root / "_build/book.pdf"
    # No fault: no picture is missing, no text stands over the margin, and what follows.
    assert pdf.make(root, output) == []
    text = (root / "_build/pdf/book.html").read_text(encoding="utf-8")
    return Printed(root, text, output, check.read_paper(output))


@pytest.fixture
def opened(small: Printed) -> Iterator[pikepdf.Pdf]:
    with pikepdf.open(small.output) as book:
        yield book


def test_contents_have_a_line_for_each_heading(small: Printed) -> None:
    squeezed = [re.sub(r"\s", "", line) for line in small.paper.contents]
    assert squeezed == [
        "Aboutthisbook3",
        "1.One4",
        "1.1.Samename4",
        "Words5",
        "Solutions6",
    ]


@pytest.mark.parametrize("wrong", ["Words 1", "Words 99", "Words", "Wor 5"])
def test_wrong_line_of_the_contents_is_named(small: Printed, wrong: str) -> None:
    lines = [*small.paper.contents[:3], wrong, *small.paper.contents[4:]]
    found = wrong_contents(replace(small.paper, contents=lines), small.document)
    assert len(found) == 1
    assert "contents: 'Words' is not on page" in found[0]


def test_book_without_contents_is_named(small: Printed) -> None:
    assert wrong_contents(small.paper, "<nav></nav>") == ["there are no contents"]


def test_links_of_the_small_book_are_read(small: Printed) -> None:
    assert {"chapters-01-one", "book-words--word"} <= set(small.paper.inside)
    assert "https://example.org/a" in small.paper.outside


def test_link_without_a_destination_is_named(small: Printed) -> None:
    numbers = dict(small.paper.numbers)
    del numbers["book-words--word"]
    found = dead_links(replace(small.paper, numbers=numbers))
    assert found == ["a link leads to no page: book-words--word"]


def test_link_to_this_machine_is_named(small: Printed) -> None:
    found = dead_links(replace(small.paper, outside=["file:///home/ada/a.html"]))
    assert found == ["a link leads out of the web: file:///home/ada/a.html"]


def test_solution_before_the_appendix_is_named(small: Printed) -> None:
    texts = list(small.paper.texts)
    texts[3] += "\nsecret  = 1\n+ 1"
    found = misplaced_solutions(replace(small.paper, texts=texts), small.root)
    assert found == ["a solution stands before the appendix: secret = 1 + 1"]


def test_solution_that_is_lost_is_named(small: Printed) -> None:
    paper = replace(small.paper, texts=small.paper.texts[:-1])
    found = misplaced_solutions(paper, small.root)
    assert found == ["a solution is not in the appendix: secret = 1 + 1"]


@pytest.mark.parametrize(
    ("bound", "fault"),
    [("LARGEST", "MB is more than"), ("MOST", "pages are more than")],
)
def test_book_that_grows_too_much_is_named(
    small: Printed, monkeypatch: pytest.MonkeyPatch, bound: str, fault: str
) -> None:
    monkeypatch.setattr(check, bound, 1)
    found = check.faults(small.paper, small.document, small.root)
    assert len(found) == 1
    assert fault in found[0]


@pytest.mark.parametrize("faults", [[], ["a link leads to no page: x"]])
def test_fault_is_said_and_makes_the_exit_status_1(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    faults: list[str],
) -> None:
    def make(root: Path, output: Path) -> list[str]:
        output.write_bytes(b"%PDF")
        return faults

    done = subprocess.CompletedProcess("", 0)
    monkeypatch.setattr(pdf.subprocess, "run", lambda *_, **__: done)
    monkeypatch.setattr(pdf, "make", make)
    monkeypatch.setattr(sys, "argv", ["pdf", "--output", str(tmp_path / "a.pdf")])
    assert pdf.main(tmp_path) == len(faults)
    assert capsys.readouterr().err == "".join(f"make pdf: {it}\n" for it in faults)


def test_title_page_says_version_and_licence(
    small: Printed, opened: pikepdf.Pdf
) -> None:
    for words in ("Small & short", "Ada", "Version 1.2.3", "CC BY 4.0", "Apache-2.0"):
        assert words in small.paper.texts[0]
    assert str(opened.docinfo["/Title"]) == "Small & short"
    assert str(opened.docinfo["/Author"]) == "Ada"


def test_every_page_but_the_title_has_its_number(small: Printed) -> None:
    for number, text in enumerate(small.paper.texts[1:], 2):
        assert str(number) in text.splitlines()[:3] + text.splitlines()[-1:]


def test_outline_has_parts_pages_and_sections(opened: pikepdf.Pdf) -> None:
    def titles(items: Any) -> list[Any]:
        return [[it.title, *titles(it.children)] for it in items]

    with opened.open_outline() as outline:
        found = titles(outline.root)
    assert ["Build it", ["1. One", ["1.1. Same name"]]] in found
    assert found[-1][0] == "Solutions"


def test_tags_are_kept_for_screen_readers(opened: pikepdf.Pdf) -> None:
    assert opened.Root.MarkInfo.Marked
    assert len(opened.Root.StructTreeRoot.K) > 0


def test_fonts_are_embedded(opened: pikepdf.Pdf) -> None:
    fonts = [
        font
        for page in opened.pages
        for font in page.resources.get("/Font", pikepdf.Dictionary()).values()
    ]
    assert fonts
    for font in fonts:
        inner = font.get("/DescendantFonts", [font])[0]
        kinds = set(inner.get("/FontDescriptor", pikepdf.Dictionary()).keys())
        drawn = font.Subtype == "/Type3"  # glyphs that stand in the PDF as drawings
        assert drawn or kinds & {"/FontFile", "/FontFile2", "/FontFile3"}


def test_text_over_the_margin_and_a_lost_picture_are_named(tmp_path: Path) -> None:
    needs_browser()
    wide = CHAPTER.replace("<p>", "<p style='white-space:nowrap'>" + "wide " * 40, 1)
    root = small_book(tmp_path, wide)
    (root / "_build/html/_images/dot.png").unlink()
    found = pdf.make(root, tmp_path / "book.pdf")
    assert "no picture" in found[0]
    assert len(found) > 1
    assert all("over the margin" in fault for fault in found[1:])
