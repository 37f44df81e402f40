"""Formulas are typeset when the site is built, and a wrong one fails the build."""

import asyncio
import io
import re
from html import unescape

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from tests.running import sample
from tools.chapters import SITE, site_pages
from tools.site.formulas import display_source, engine

pytestmark = pytest.mark.usefixtures("site")
# Code may show dollars and backslashes; a formula that stayed as text may not.
NO_PROSE = re.compile(
    r"<(annotation|pre|code|script|style)\b.*?</\1>|<head>.*?</head>", re.DOTALL
)
RAW = re.compile(r"\\\(|\\\[|\\(?:frac|sqrt|mathrm|operatorname|begin|text)\b|\$\S")

CONF = """
extensions = ["myst_parser", "tools.site.formulas"]
myst_enable_extensions = ["amsmath", "dollarmath"]
html_math_renderer = "katex"
html_theme = "basic"
# Else myst_parser writes into Sphinx's own default, for every later build here.
source_suffix = {".md": "markdown"}
"""
INDEX = sample("formulas.md")


def book(folder, index=INDEX):
    source = folder / "source"
    source.mkdir(exist_ok=True)
    (source / "conf.py").write_text(CONF)
    (source / "index.md").write_text(index)
    said = io.StringIO()
    out = folder / "html"
    trees = folder / "trees"
    with docutils_namespace():
        Sphinx(source, source, out, trees, "html", status=None, warning=said).build()
    return out, said.getvalue()


def test_formulas_of_every_kind_are_typeset(tmp_path):
    out, said = book(tmp_path)
    page = BeautifulSoup((out / "index.html").read_text(), "html.parser")
    assert not re.search("cannot be typeset", said), said
    found = [tag.get_text() for tag in page.select(".katex-mathml annotation")]
    assert {"a^2", "b^2", "c^2 = 1", "f", "g^2", "h^2"} <= set(found)
    assert any("align*" in source for source in found)
    numbers = page.select(".eqno, a[href$=equation-eq-c]:not(.headerlink)")
    assert [tag.get_text()[:3] for tag in numbers] == ["(1)", "(1)", "(2)"]


WRONG = {
    r"$\frac{1}$": "Unexpected end of input",
    "$$ \\frac{1} $$": "Unexpected end of input",
    "\\begin{align} a &= \\nosuch \\end{align}": "Undefined control sequence",
}


def test_wrong_formula_is_a_warning_with_its_place(tmp_path):
    _, said = book(tmp_path, "\n\n".join(["# Title", *WRONG]))
    lines = [line for line in said.splitlines() if "cannot be typeset" in line]
    for number, words in enumerate(WRONG.values()):
        (line,) = [line for line in lines if f"index.md:{3 + 2 * number}: " in line]
        assert "WARNING: a formula cannot be typeset" in line
        assert words in line


def test_engine_outlives_the_event_loop_in_which_it_began():
    async def begin():
        return engine.__wrapped__()

    started = asyncio.run(begin())
    assert started.eval("1 + 1") == 2


MATRIX = r"\begin{pmatrix} a \\ b \end{pmatrix}"


@pytest.mark.parametrize(
    ("text", "nowrap", "expected"),
    [
        ("a = b", False, "a = b"),
        (r"a \\ b", False, r"\begin{split}a \\ b\end{split}"),
        (MATRIX, False, MATRIX),
        (r"\begin{align}a\end{align}", True, r"\begin{align*}a\end{align*}"),
    ],
)
def test_display_source_breaks_lines_and_numbers_nothing(text, nowrap, expected):
    assert display_source(text, nowrap) == expected


def test_no_page_shows_the_source_of_a_formula():
    pages = [page for page in site_pages(SITE) if page.name != "search.html"]
    assert len(pages) > 20
    for page in pages:
        text = NO_PROSE.sub("", page.read_text(encoding="utf-8"))
        assert RAW.findall(unescape(re.sub("<[^>]*>", "", text))) == [], page.name
