"""Each check of the built pages, and that each can fail."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tools.chapters import SITE, site_pages
from tools.check.pages import complaints, css_addresses, main

OUTPUT = '<div class="cell_output"><div class="output {}">{}</div></div>'


def site(folder: Path, body: str, css: str = "") -> Path:
    """A site of two pages, the second named `other.html` with an anchor `here`."""
    (folder / "book.css").write_text(css, encoding="utf-8")
    (folder / "other.html").write_text('<p id="here">Here</p>', encoding="utf-8")
    (folder / "page.html").write_text(body, encoding="utf-8")
    return folder


def test_site_passes() -> None:
    assert site_pages(SITE), "no site: run `make book` first"
    assert complaints(SITE) == []


@pytest.mark.parametrize(
    "body",
    [
        '<script src="book.css"></script><link rel="stylesheet" href="book.css">',
        '<img src="other.html" alt="A triangle">',
        '<img src="data:image/png;base64,AA" alt="A triangle">',
        '<a href="other.html#here">There</a> <a href="#top" id="top">Top</a>',
        '<a href="https://arxiv.org/abs/1706.03762">A paper</a>',
        '<link rel="canonical" href="https://example.org/page.html">',
        OUTPUT.format("stream", "0.5"),
    ],
)
def test_page_passes(tmp_path: Path, body: str) -> None:
    assert complaints(site(tmp_path, body)) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('<script src="https://cdn.example.org/a.js"></script>', "loads https://cdn"),
        ('<script src="//cdn.example.org/a.js"></script>', "loads //cdn"),
        ('<link rel="stylesheet" href="https://x.org/a.css">', "loads https://x.org"),
        ('<link rel="preconnect" href="https://x.org">', "loads https://x.org"),
        ('<iframe src="https://x.org/"></iframe>', "loads https://x.org"),
        ('<img srcset="https://x.org/a.png 2x" alt="A">', "loads https://x.org/a.png"),
        ('<p style="background: url(https://x.org/a.png)">', "loads https://x.org"),
        ('<style>@import "https://x.org/a.css";</style>', "loads https://x.org/a.css"),
        ('<img src="other.html">', "no alternative text"),
        ('<img src="other.html" alt=" ">', "no alternative text"),
        ('<img src="other.html" alt="../_images/1f.png">', "no alternative text"),
        ('<a href="absent.html">There</a>', "absent.html leads to no file"),
        ('<img src="absent.png" alt="A">', "absent.png leads to no file"),
        ('<a href="other.html#gone">There</a>', "other.html#gone leads to no anchor"),
        ('<a href="#gone">There</a>', "#gone leads to no anchor"),
        (
            '<meta http-equiv="Refresh" content="0; url=absent.html">',
            "absent.html leads to no file",
        ),
        (OUTPUT.format("stderr", "UserWarning: old"), "UserWarning: old"),
        (OUTPUT.format("traceback", "ValueError: no"), "ValueError: no"),
        (
            OUTPUT.format("stream", "Traceback (most recent call last)\nKeyError: 1"),
            "KeyError: 1",
        ),
    ],
)
def test_page_fails(tmp_path: Path, body: str, words: str) -> None:
    found = complaints(site(tmp_path, body))
    assert len(found) == 1
    assert found[0].startswith("page.html: ")
    assert words in found[0]


@pytest.mark.parametrize(
    ("css", "expected"),
    [
        ("a { src: url('https://x.org/a.woff') }", ["https://x.org/a.woff"]),
        ('@import "https://x.org/a.css";', ["https://x.org/a.css"]),
        ("@import url(https://x.org/a.css);", ["https://x.org/a.css"]),
        ("/* url(https://x.org/a.css) */", []),
    ],
)
def test_css_addresses_are_found(css: str, expected: Iterable[str]) -> None:
    assert css_addresses(css) == expected


def test_style_sheet_from_another_host_fails(tmp_path: Path) -> None:
    found = complaints(site(tmp_path, "", "@import 'https://x.org/a.css';"))
    assert found == ["book.css: loads https://x.org/a.css"]


def test_main_counts_pages_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(site(tmp_path, '<img src="other.html">'))]) == 1
    assert capsys.readouterr().out == "2 pages checked, 1 complaints\n"


def test_main_without_a_site_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 1
    assert "make book" in capsys.readouterr().err
