"""The book on paper: a small book here, the whole one by `make test-rest`."""

import json
from dataclasses import replace

import pikepdf
import pypdfium2
import pytest
from bs4 import BeautifulSoup

from tests.browsing import opened_browser
from tests.running import sample, written
from tools.export import pdf
from tools.export.paper import document, read_pages

TOC = sample("paper/_toc.yml")
CONFIG = 'title: "Small & short"\nauthor: Ada\nlogo: book/_static/dot.png\n'
CONFIG += "sphinx: {config: {language: en}}\n"
PAGE = '<nav>frame</nav><article class="bd-article">{}</article><script>run()</script>'
INDEX = """<section id="small"><h1>Small &amp; short</h1>
<p><a href='../chapters/01-one.html'>Start</a></p></section>"""
FORMULA = """<div class="math"><span class="katex-display"><span class="katex-html">
<span style="display: inline-block; width: {}px">x</span></span></span></div>"""
CHAPTER = sample("paper/chapter.html").replace("FORMULA", FORMULA.format(80))
WORDS = '<section id="twice"><h1>Words</h1><p id="word">A word.</p></section>'
RECORD = "<details>\n<summary>Solution</summary>\n\n```python\nsecret = 1 + 1\n```\n"
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c4944415408d763f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


def small_book(root, chapter=CHAPTER):
    """A built site of three pages, and the record of a chapter."""
    cells = [{"source": "# One"}, {"source": RECORD + "\n</details>"}]
    files = {
        "_toc.yml": TOC,
        "_config.yml": CONFIG,
        "notebooks/01-one.ipynb": json.dumps({"cells": cells}),
        "_build/html/book/index.html": PAGE.format(INDEX),
        "_build/html/chapters/01-one.html": PAGE.format(chapter),
        "_build/html/book/words.html": PAGE.format(WORDS),
    }
    written(root, files)
    for folder in ("_images", "_static"):
        (root / "_build/html" / folder).mkdir()
        (root / "_build/html" / folder / "dot.png").write_bytes(DOT)
    return root


def text_of(tag):
    return str(tag.get_text(" ", strip=True))


def test_document_of_a_small_book(tmp_path):
    root = small_book(tmp_path)
    found = BeautifulSoup(document(root, read_pages(root), "now"), "html.parser")
    ids = [str(it["id"]) for it in found.select("[id]")]
    assert len(ids) == len(set(ids))
    links = {text_of(it): str(it["href"]) for it in found.select(".page a[href]")}
    assert links["Start"] == "#chapters-01-one"
    assert links["word"] == "#book-words--word"
    assert links["far"] == "https://example.org/a"
    assert {it[1:] for it in links.values() if it.startswith("#")} <= set(ids)
    lines = [text_of(it).removesuffix(" 000") for it in found.select(".contents p")]
    assert lines == [
        "About this book", "Build it", "1. One", "1.1. Same name", "Around", "Words",
        "Solutions and answers",
    ]  # fmt: skip
    image = found.select(".page img")[0]
    assert image.attrs == {"src": "../html/_images/dot.png", "alt": "A dot"}
    # Nothing is left to click. What waits for a guess is shown, the code of plots not.
    assert found.select("script, button, details, summary, .headerlink, .local") == []
    end = found.select("#solutions")[0].extract()
    assert text_of(end) == (
        "Solutions and answers 1. One Exercise 1 · Add Back: page 000 secret = 1 + 1 "
        "Question 1 Back: page 000 Right: all."
    )
    told = " ".join(text_of(it) for it in found.select(".page"))
    assert "Think. Solution: page 000 Question 1. Who? You. Answers: page 000" in told
    assert "42" in told
    for hidden in ("frame", "plot()", "Show", "Unseen", "secret", "Right"):
        assert hidden not in told


def test_drawing_made_of_words_has_its_style_on_paper(tmp_path):
    root = small_book(tmp_path)
    plain = document(root, read_pages(root), "now")
    assert ".sentence-lines" not in plain
    index = root / "_build/html/book/index.html"
    lines = '<svg class="sentence-lines"></svg><div class="ways">Start</div>'
    index.write_text(PAGE.format(INDEX.replace("</section>", f"{lines}</section>")))
    drawn = document(root, read_pages(root), "now")
    assert ".sentence-lines path{" in drawn
    assert "ways" not in drawn  # buttons
    assert ">Ada</p>" in drawn
    config = root / "_config.yml"
    config.write_text(CONFIG.replace("Ada", "the authors of this book"))
    assert '<p class="author"' not in document(root, read_pages(root), "now")


def test_document_of_an_edition_has_its_finished_pages(tmp_path):
    known = {"ids": {"book/index": [], "chapters/01-one": []}}
    written(root := small_book(tmp_path), {"edition.json": json.dumps(known)})
    pages = read_pages(root)  # the third is in no edition, as those of the library
    assert [it.name for it in pages] == ["book/index", "chapters/01-one"]
    known["english"] = ["chapters/01-one"]
    written(root, {"edition.json": json.dumps(known)})
    assert [it.name for it in read_pages(root)] == ["book/index"]
    assert pdf.solutions(root, {"book/index"}) == []
    assert pdf.solutions(root, {"chapters/01-one"}) == ["secret = 1 + 1"]


def test_letters_that_are_missing_are_named(tmp_path):
    face = "<style>@font-face {font-family: 'Han Sans'; src: local('No such')}</style>"
    written(tmp_path, {"book.html": face})
    with opened_browser():  # or the test is skipped
        pass
    found = pdf.printed(tmp_path / "book.html")[1]
    assert found == ["no face Han Sans: install Debian's fonts-noto-cjk"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The PDF of a small book."""
    with opened_browser():  # or the tests are skipped
        pass
    root = small_book(tmp_path_factory.mktemp("book"))
    assert pdf.make(root, root / "book.pdf") == []
    return root / "book.pdf"


def test_each_long_step_is_said(tmp_path, capsys):
    with opened_browser():  # or the test is skipped
        pass
    assert pdf.make(small_book(tmp_path), tmp_path / "book.pdf") == []
    assert capsys.readouterr().out.splitlines() == [
        "Printing 3 pages of the site, twice: the contents need page numbers",
        "  print 1: 6 sheets",
        "  print 2: 6 sheets",
        "Checking that all text, links and solutions are there",
    ]


def test_pdf_is_complete_in_itself(small):
    with pypdfium2.PdfDocument(small) as book:
        sheets = [page.get_textpage().get_text_range() for page in book]
    assert len(sheets) == 6
    assert all(it in sheets[0] for it in ("Small & short", "Ada", "CC BY 4.0"))
    titles = ("Contents", "About this book", "1. One", "Words", "Solutions and answers")
    for number, (title, text) in enumerate(zip(titles, sheets[1:], strict=True), 2):
        assert str(number) in text
        assert title in text.splitlines()[0]  # the running head
        assert title in "".join(text.splitlines()[1:])

    def titles(items):
        return [[it.title, *titles(it.children)] for it in items]

    with pikepdf.open(small) as book:
        assert str(book.docinfo["/Title"]) == "Small & short"
        with book.open_outline() as outline:
            found = titles(outline.root)
        assert ["Build it", ["1. One", ["1.1. Same name"]]] in found
        # Tags are what screen readers go by.
        assert book.Root.MarkInfo.Marked
        assert len(book.Root.StructTreeRoot.K) > 0
        fonts = [it for page in book.pages for it in page.resources["/Font"].values()]
        for font in fonts:
            inner = font.get("/DescendantFonts", [font])[0]
            kinds = set(inner.get("/FontDescriptor", pikepdf.Dictionary()).keys())
            drawn = font.Subtype == "/Type3"  # glyphs that stand there as drawings
            assert drawn or kinds & {"/FontFile", "/FontFile2", "/FontFile3"}


def test_fault_of_a_pdf_is_named(small, monkeypatch):
    first, chapter, last = read_pages(small.parent)
    heading = chapter.body.select("h3")[0]
    heading.string = "1.1. Other name"
    more = replace(last, samples=["A lost\nword."])
    found = pdf.faults(small, [first, chapter, more], ["Think.", "lost = 1"])
    assert found == [
        "contents: '1.1. Other name' is not on page 4",
        "book/words: not on paper: 'A lost\\nword.'",
        "a solution is not in the appendix alone: Think.",
        "a solution is not in the appendix alone: lost = 1",
    ]
    monkeypatch.setattr(pdf, "LARGEST", 1)
    assert "bytes on 6 pages are too many" in pdf.faults(small, [first], [])[0]


def test_fault_of_a_document_is_named(small, tmp_path):
    wide = CHAPTER.replace("<p>", "<p style='white-space:nowrap'>" + "wide " * 40, 1)
    wide = wide.replace("words.html#word", "words.html#wrod")
    wide = wide.replace("</section>", FORMULA.format(900) + FORMULA.format(0), 1)
    root = small_book(tmp_path, wide)
    (root / "_build/html/_images/dot.png").unlink()
    found = pdf.make(root, tmp_path / "book.pdf")
    for fault in (
        "no picture",
        'over the margin, under "1. One": ',
        'a formula is cut off, under "1.1. Same name": x',
        'a formula is not drawn, under "1.1. Same name": x',
        'a link leads nowhere, under "1. One": word',
    ):
        assert [it for it in found if it.startswith(fault)], fault


@pytest.mark.slow
@pytest.mark.timeout(1000)  # it needs a tenth of that on two idle cores
def test_whole_book_has_no_fault(small, tmp_path):
    assert pdf.make(pdf.ROOT, tmp_path / "book.pdf") == []


def test_bookmarks_are_named_once():
    """Chromium names a heading twice where it begins a sheet."""
    book = pikepdf.new()
    book.add_blank_page()
    with book.open_outline() as outline:
        chapter = pikepdf.OutlineItem("ContentsContents", 0)
        chapter.children.append(pikepdf.OutlineItem("Masks", 0))
        outline.root.append(chapter)
    pdf.name_once(book)
    with book.open_outline() as outline:
        (chapter,) = outline.root
        assert [chapter.title, chapter.children[0].title] == ["Contents", "Masks"]
