"""Formulas are typeset when the site is built, and a wrong one fails the build."""

import io
import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx

from tools.chapters import SITE, site_pages
from tools.site.formulas import KATEX, display_source, drawn, style, typeset, version

PAGES = [page for page in site_pages(SITE) if page.name != "search.html"]
# Code may show dollars and backslashes; a formula that stayed as text may not.
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


def book(folder: Path, index: str = INDEX, builder: str = "html") -> tuple[Path, str]:
    """Build a book of two pages; gives where it stands, and the warnings."""
    source = folder / "source"
    source.mkdir(exist_ok=True)
    (source / "conf.py").write_text(CONF)
    (source / "index.md").write_text(index)
    (source / "other.md").write_text(OTHER)
    said = io.StringIO()
    out = folder / builder
    app = Sphinx(
        source, source, out, folder / "trees", builder, status=None, warning=said
    )
    app.build()
    return out, said.getvalue()


def tex(html: str) -> list[str]:
    """The source of each formula that was typeset."""
    found = BeautifulSoup(html, "html.parser").select(".katex-mathml annotation")
    return [tag.get_text() for tag in found]


@pytest.mark.parametrize("builder", ["html", "singlehtml", "dirhtml"])
def test_formulas_of_every_kind_are_typeset(tmp_path: Path, builder: str) -> None:
    out, said = book(tmp_path, builder=builder)
    html = (out / "index.html").read_text()
    assert not re.search("cannot be typeset", said), said
    found = tex(html)
    assert {"a^2", "b^2", "c^2 = 1", "f", "g^2", "h^2", "k^2"} <= set(found)
    assert any("align*" in source for source in found)
    assert '<span class="eqno">(1)' in html
    number = BeautifulSoup(html, "html.parser").select_one("a[href$=equation-eq-c]")
    assert number is not None
    assert number.get_text() == "(1)"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (r"$\frac{1}$", "Unexpected end of input"),
        (r"$\nosuch$", "Undefined control sequence"),
        ("$a — b$", "Unrecognized Unicode character"),
        ("$$\n\\frac{1}\n$$", "Unexpected end of input"),
        ("\\begin{align}\na &= \\nosuch\n\\end{align}", "Undefined control sequence"),
    ],
)
def test_wrong_formula_is_a_warning_with_its_place(
    tmp_path: Path, wrong: str, words: str
) -> None:
    _, said = book(
        tmp_path, f"# Title\n\nText.\n\n{wrong}\n\n```{{toctree}}\nother\n```"
    )
    lines = [line for line in said.splitlines() if "cannot be typeset" in line]
    assert len(lines) == 1
    assert re.search(r"index\.md:5: WARNING: a formula cannot be typeset", lines[0])
    assert words in lines[0]


def test_edit_of_one_page_keeps_the_glyphs_of_the_other(tmp_path: Path) -> None:
    out, _ = book(tmp_path)
    book(tmp_path, INDEX.replace("a^2", r"\mathbb{R}"))
    css = (out / "_static/katex.css").read_text()
    main = next(part for part in css.split("@font-face") if 'KaTeX_Math"' in part)
    assert f"U+{ord('k'):X}," in main
    assert 'font-family:"KaTeX_AMS"' in css


def test_typeset_gives_html_and_mathml() -> None:
    html, error = typeset(r"\frac{1}{2}", True)
    assert error == ""
    assert '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">' in html
    assert 'class="katex-html" aria-hidden="true"' in html


MATRIX = r"\begin{pmatrix} a \\ b \end{pmatrix}"


@pytest.mark.parametrize(
    ("text", "nowrap", "expected"),
    [
        ("a = b", False, "a = b"),
        (r"a \\ b", False, r"\begin{split}a \\ b\end{split}"),
        (MATRIX, False, MATRIX),
        ("a\n\nb", False, r"\begin{aligned}a\\b\end{aligned}"),
        (r"\begin{align}a\end{align}", True, r"\begin{align*}a\end{align*}"),
        (r"\begin{align*}a\end{align*}", True, r"\begin{align*}a\end{align*}"),
    ],
)
def test_display_source_breaks_lines_and_numbers_nothing(
    text: str, nowrap: bool, expected: str
) -> None:
    assert display_source(text, nowrap) == expected


def test_drawn_reads_formulas_only() -> None:
    html = f"<p class='prose'>Zebra</p>{typeset('x < y', False)[0]}<b>Giraffe</b>"
    characters, classes = drawn(html)
    assert characters - {" ", "\xa0", "\u200b"} == {"x", "<", "y"}
    assert "mathnormal" in classes
    assert "prose" not in classes


def test_style_holds_only_fonts_that_are_drawn() -> None:
    css = style({"x"}, {"katex-html", "mathnormal"})
    assert 'font-family:"KaTeX_Math"' in css
    assert 'font-family:"KaTeX_Size1"' not in css


def test_katex_files_are_of_one_version() -> None:
    css = (KATEX / "katex.min.css").read_text()
    assert f'"{version()}"' in css
    named = set(re.findall(r"url\(fonts/([\w.-]+)\)", css))
    assert named == {font.name for font in (KATEX / "fonts").iterdir()}
    assert all(name.endswith(".woff2") for name in named)
    assert "MIT License" in (KATEX / "LICENSE").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_has_every_formula_typeset(page: Path) -> None:
    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    for formula in soup.select(".math"):
        assert formula.select_one(".katex-mathml math"), formula.get_text()
        assert formula.select_one(".katex-html"), formula.get_text()
    assert not soup.select(".katex-error")
    for tag in soup.select(".katex, pre, code, script, style"):
        tag.decompose()
    assert RAW.findall(soup.get_text()) == []
