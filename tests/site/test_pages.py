"""Each check of the built pages, and that each can fail."""

import pytest

from tests.pages import complaints
from tools.chapters import SITE, site_pages

pytestmark = pytest.mark.usefixtures("site")
OUTPUT = '<div class="cell_output"><div class="output {}">{}</div></div>'


def site(folder, body, css=""):
    """A site of two pages, the second named `other.html` with an anchor `here`."""
    (folder / "book.css").write_text(css, encoding="utf-8")
    (folder / "other.html").write_text('<p id="here">Here</p>', encoding="utf-8")
    (folder / "page.html").write_text(body, encoding="utf-8")
    return folder


def test_site_passes():
    assert site_pages(SITE), "no site: run `make book` first"
    assert complaints(SITE) == []


RIGHT = (
    '<script src="book.css"></script><link rel="stylesheet" href="book.css">',
    '<img src="data:image/png;base64,AA" alt="A triangle">',
    '<a href="other.html#here">There</a> <a href="#top" id="top">Top</a>',
    '<a href="https://arxiv.org/abs/1706.03762">A paper</a>',
    '<link rel="canonical" href="https://example.org/page.html">',
    OUTPUT.format("stream", "0.5"),
    "<pre>a = `b`</pre><code>`c`</code><script>`d`</script>",
)
LOADS = "loads https://x.org"
WRONG = [
    ('<script src="https://x.org/a.js"></script>', LOADS),
    ('<script src="//x.org/a.js"></script>', "loads //x.org"),
    ('<link rel="stylesheet" href="https://x.org/a.css">', LOADS),
    ('<img srcset="https://x.org/a.png 2x" alt="A">', LOADS),
    ('<p style="background: url(https://x.org/a.png)">', LOADS),
    ('<style>@import "https://x.org/a.css";</style>', LOADS),
    ('<img src="other.html" alt=" ">', "no alternative text"),
    ('<img src="other.html" alt="../_images/1f.png">', "no alternative text"),
    ('<a href="absent.html">There</a>', "absent.html leads to no file"),
    ('<img src="absent.png" alt="A">', "absent.png leads to no file"),
    ('<a href="other.html#gone">There</a>', "other.html#gone leads to no anchor"),
    ('<meta http-equiv="Refresh" content="0; url=no.html">', "no.html leads to no"),
    ("<p>before <b>`backward`</b></p>", "shows backticks: `backward`"),
    (OUTPUT.format("stderr", "UserWarning: old"), "UserWarning: old"),
    (OUTPUT.format("x", "Traceback (most recent call last)\nE: 1"), "E: 1"),
]


def test_page_passes(tmp_path):
    body = "".join(RIGHT)
    assert complaints(site(tmp_path, body, "/* url(https://x.org/a.css) */")) == []


@pytest.mark.parametrize(("body", "words"), WRONG)
def test_page_fails(tmp_path, body, words):
    (found,) = complaints(site(tmp_path, body))
    assert found.startswith("page.html: ")
    assert words in found


@pytest.mark.parametrize(
    "css", ["a { src: url('%s') }", '@import "%s";', "@import url(%s);"]
)
def test_style_sheet_from_another_host_fails(tmp_path, css):
    found = complaints(site(tmp_path, "<p>", css % "https://x.org/a.css"))
    assert found == ["book.css: loads https://x.org/a.css"]
