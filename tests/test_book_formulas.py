"""Formulas are typeset when the site is built, and a wrong one fails the build."""

import io
import re
from html import unescape
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx

from tools.chapters import SITE, site_pages
from tools.site.formulas import KATEX, _engine, display_source

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
"""
INDEX = r"""# On $a^2$

In a line $b^2$, see {eq}`eq-c`.

$$c^2 = 1$$ (eq-c)

\begin{align}
d &= 1 \\
e &= 2
\end{align}

| $f$ |
|---|
| $g^2$ |

```{figure} https://example.org/none.png
A caption with $h^2$
```

```{toctree}
other
```
"""
OTHER = "# Other $k^2$\n"


def book(folder: Path, index: str = INDEX) -> tuple[Path, str]:
    """Build a book of two pages; gives where it stands, and the warnings."""
    source = folder / "source"
    source.mkdir(exist_ok=True)
    (source / "conf.py").write_text(CONF)
    (source / "index.md").write_text(index)
    (source / "other.md").write_text(OTHER)
    said = io.StringIO()
    out = folder / "html"
    app = Sphinx(
        source, source, out, folder / "trees", "html", status=None, warning=said
    )
    app.build()
    return out, said.getvalue()


def tex(html: str) -> list[str]:
    """The source of each formula that was typeset."""
    found = BeautifulSoup(html, "html.parser").select(".katex-mathml annotation")
    return [tag.get_text() for tag in found]


def test_formulas_of_every_kind_are_typeset(tmp_path: Path) -> None:
    out, said = book(tmp_path)
    html = (out / "index.html").read_text()
    assert not re.search("cannot be typeset", said), said
    found = tex(html)
    assert {"a^2", "b^2", "c^2 = 1", "f", "g^2", "h^2", "k^2"} <= set(found)
    assert any("align*" in source for source in found)
    assert '<span class="eqno">(1)' in html
    number = BeautifulSoup(html, "html.parser").select_one("a[href$=equation-eq-c]")
    assert number is not None
    assert number.get_text() == "(1)"


WRONG = {
    r"$\frac{1}$": "Unexpected end of input",
    r"$\nosuch$": "Undefined control sequence",
    "$a — b$": "Unrecognized Unicode character",
    "$$ \\frac{1} $$": "Unexpected end of input",
    "\\begin{align} a &= \\nosuch \\end{align}": "Undefined control sequence",
}


def test_wrong_formula_is_a_warning_with_its_place(tmp_path: Path) -> None:
    text = "\n\n".join(["# Title", *WRONG, "```{toctree}\nother\n```"])
    _, said = book(tmp_path, text)
    lines = [line for line in said.splitlines() if "cannot be typeset" in line]
    for number, words in enumerate(WRONG.values()):
        (line,) = [line for line in lines if f"index.md:{3 + 2 * number}: " in line]
        assert "WARNING: a formula cannot be typeset" in line
        assert words in line


MATRIX = r"\begin{pmatrix} a \\ b \end{pmatrix}"


@pytest.mark.parametrize(
    ("text", "nowrap", "expected"),
    [
        ("a = b", False, "a = b"),
        (r"a \\ b", False, r"\begin{split}a \\ b\end{split}"),
        (MATRIX, False, MATRIX),
        (r"\begin{align}a\end{align}", True, r"\begin{align*}a\end{align*}"),
        (r"\begin{align*}a\end{align*}", True, r"\begin{align*}a\end{align*}"),
    ],
)
def test_display_source_breaks_lines_and_numbers_nothing(
    text: str, nowrap: bool, expected: str
) -> None:
    assert display_source(text, nowrap) == expected


def test_katex_files_are_of_one_version() -> None:
    css = (KATEX / "katex.min.css").read_text()
    assert f'"{_engine().eval("katex.version")}"' in css
    named = set(re.findall(r"url\(fonts/([\w.-]+)\)", css))
    assert named == {font.name for font in (KATEX / "fonts").iterdir()}
    assert all(name.endswith(".woff2") for name in named)
    assert "MIT License" in (KATEX / "LICENSE").read_text()


def test_no_page_shows_the_source_of_a_formula() -> None:
    pages = [page for page in site_pages(SITE) if page.name != "search.html"]
    assert len(pages) > 20
    for page in pages:
        text = NO_PROSE.sub("", page.read_text(encoding="utf-8"))
        assert RAW.findall(unescape(re.sub("<[^>]*>", "", text))) == [], page.name
