"""A chapter's text as plain Markdown, its code untouched, numbered as the site."""

import re
from collections import defaultdict
from dataclasses import replace

import nbformat
import pytest

from tests.running import sample, written
from tools.record.book import Place, read_book
from tools.record.convert import plain_notebook
from tools.record.markdown import plain_markdown

HEAD = """---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

"""
LINE = HEAD.count("\n") + 1  # where a chapter's text starts
TOC = sample("book/_toc.yml")
TOCTREE = sample("book/toctree.txt")
GLOSSARY = sample("book/glossary.md")
REFERENCES = sample("book/references.bib")
SECOND = sample("book/11-head.md")
# Everything that is numbered, in every place where it can stand.
NUMBERED = sample("book/01-toy.md")


def make_book(root, text):
    """Write a book whose first chapter has this text, and return the chapter."""
    files = {
        "_toc.yml": TOC,
        "_config.yml": "parse:\n  myst_enable_extensions:"
        " [amsmath, colon_fence, dollarmath]",
        "book/index.md": f"# Book\n\n{TOCTREE}",
        "book/glossary.md": GLOSSARY,
        "book/notation.md": "(Symbols)=\n# Notation\n",
        "book/references.bib": REFERENCES,
        "book/dot.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
        "chapters/01-toy.md": HEAD + text,
        "chapters/11-head.md": HEAD + SECOND,
    }
    return written(root, files) / "chapters" / "01-toy.md"


def convert(root, text):
    """Return a chapter of this text, under a heading, as plain Markdown."""
    notebook = plain_notebook(make_book(root, f"{text}\n\n# Toy\n"))
    nbformat.validate(notebook)
    return "\n\n".join(cell.source for cell in notebook.cells).removesuffix("\n\n# Toy")


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A book whose first chapter has two labels, and figures of one number."""
    own = "# Toy\n\n$$ x $$ (eq-x)\n\n(here)=\nText."
    book = read_book(make_book(tmp_path_factory.mktemp("book"), own).parents[1])
    return replace(book, figure_numbers=defaultdict(lambda: "1.1"))


def plain_text(text, book):
    """Return a text of the first chapter, its first line the chapter's, plain."""
    return plain_markdown(text, Place(book.root / "chapters" / "01-toy.md", 1), book)


EQ = "[(11.1)](11-head.ipynb#eq-head)"


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("{ref}`here <head>`", "[here](11-head.ipynb#head)"),
        (
            "{ref}`head`",
            r"[A *single* head [1] with $\sqrt{D}$ and `@`](11-head.ipynb#head)",
        ),
        ("{ref}`a *b* <head>`", r"[a \*b\*](11-head.ipynb#head)"),
        ("{ref}`symbols`", "[Notation](../book/notation.md)"),
        ("{eq}`eq-head`", EQ),
        ("{numref}`fig-head`", "[Figure 11.1](11-head.ipynb#fig-head)"),
        ("{term}`shares <attention weight>`", "[shares](../book/glossary.md)"),
        ("{doc}`signs <../book/notation>`", "[signs](../book/notation.md)"),
        ("[x](#head)", "[x](11-head.ipynb#head)"),
        ("[](#eq-head)", EQ),
        ("[a `]` [b]](11-head.md)", "[a `]` [b]](11-head.ipynb)"),
        ("<https://a.org> [x](https://a.org/x_y)",) * 2,
        ("[x](view:rope?query=2&key=1) y", "x y"),  # only a page can be set
        (  # where they can stand
            "- {eq}`eq-head`\n  and `x`\n\n> q {eq}`eq-head`\n\n"
            "| {eq}`eq-head` | x |\n|---|---|\n| {eq}`eq-head` | {eq}`eq-head` |",
            f"- {EQ}\n  and `x`\n\n> q {EQ}\n\n"
            f"| {EQ} | x |\n|---|---|\n| {EQ} | {EQ} |",
        ),
        (  # a quote, of every line
            "Before.\n:::{admonition} A `title`\n:class: exercise\n:name: ex-1\n"
            "First, {eq}`eq-head`.\n\n```python\nx = 1\n\ny = 2\n```\n- z\n:::\nEnd.",
            'Before.\n\n<a id="ex-1"></a>\n\n'
            f"> **A `title`**\n>\n> First, {EQ}.\n>\n"
            "> ```python\n> x = 1\n>\n> y = 2\n> ```\n> - z\n\nEnd.",
        ),
        (  # formulas in a quote, each on one line
            ":::{admonition} T\nA $a +\nb$ c.\n\n$$\nx +\ny\n$$ (eq-x)\n\n"
            "| $ |\n|---|\n| $ |\n:::",
            '> **T**\n>\n> A $a + b$ c.\n>\n> <a id="eq-x"></a>\n>\n'
            "> $$ x + y \\tag{1.1} $$\n>\n> | $ |\n> |---|\n> | $ |",
        ),
        (
            "::::{dropdown} Solution of `f`\n:open:\n\n:::{admonition} T\nInner.\n:::\n"
            "```python\nx = 1\n```\n::::\nAfter.",
            "<details>\n<summary>Solution of <code>f</code></summary>\n\n"
            "> **T**\n>\n> Inner.\n\n```python\nx = 1\n```\n\n</details>\n\nAfter.",
        ),
        (
            "- one\n\n  :::{admonition} T\n  Text.\n  :::\n- two",
            "- one\n\n  > **T**\n  >\n  > Text.\n\n- two",
        ),
        (
            "Before\n\n$$ a = b $$ (eq-x)\nafter {eq}`eq-x`.",
            'Before\n\n<a id="eq-x"></a>\n\n$$\na = b \\tag{1.1}\n$$\n\n'
            "after [(1.1)](#eq-x).",
        ),
        ("$$ a \\\\ b $$", "$$\n\\begin{split}\na \\\\ b\n\\end{split}\n$$"),
        # Jupyter would print the name of what its MathJax does not know, in red.
        ("$$\n{a}, \\quad\\allowbreak\n{b}\n$$", "$$\n{a}, \\quad\n{b}\n$$"),
        (
            "```{figure} ../book/dot.svg\n:alt: A dot\n:name: fig-x\n\n"
            "See {eq}`eq-head`\nand rest.\n\nA legend.\n```",
            '<a id="fig-x"></a>\n\n![A dot](../book/dot.svg)\n\n'
            f"*Figure 1.1: See {EQ}\nand rest.*\n\nA legend.",
        ),
    ],
)  # fmt: skip
def test_myst_becomes_plain_markdown(book, source, plain):
    assert plain_text(source, book) == plain


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx = '{ref}`x`'  # [a](#b)\n\n\n% no comment\n(x)=\n```",
        "$a_{ref}[x](#y)$ and $$ \\{eq\\} $$",
        r"an escaped \{ref}`x` and \[x](#y)",
        "| a | b |\n|---|---|\n| `x \\| y` | $z$ |",
        "$$\n\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}\n$$",
        "1. one\n   - two  \n     three\n\n> *four*\n\n---\n\n<b>five</b>",
    ],
)
def test_what_is_plain_stays_to_the_character(book, text):
    assert plain_text(text, book) == text


def test_citations_link_and_are_listed_in_full_in_their_chapter(tmp_path):
    text = "A {cite:p}`vaswani2017, oord2016`. {cite:t}`oord2016` say"
    plain = convert(tmp_path, text)
    assert plain.startswith(
        "A ([Vaswani et al., 2017](https://arxiv.org/abs/1706.03762); "
        "[van den Oord and Wolf, 2016](https://doi.org/10.1000/x_y)). "
        "[van den Oord and Wolf (2016)](https://doi.org/10.1000/x_y) say"
    )
    assert plain.endswith(
        "## References\n\n"
        "- Aäron van den Oord and Thomas Wolf. WaveNet. *arXiv*, 2016. "
        "[doi:10.1000/x_y](https://doi.org/10.1000/x_y).\n"
        "- Ashish Vaswani, Noam Shazeer, and Niki Parmar. Attention is all you need. "
        "In *NeurIPS*. 2017. URL: <https://arxiv.org/abs/1706.03762>."
    )


@pytest.mark.parametrize(
    ("text", "message", "below"),
    [
        ("{foo}`x`", "unknown role {foo}; use one of ref, eq", 0),
        ("::::{dropdown} T\n:::{admonition} T\n{foo}`x`\n:::\n::::", "unknown r", 2),
        (":::{admonition} T\n:class: tip\n\n- one\n- {foo}`x`\n:::", "unknown", 4),
        (":::{foo}\n:::", "unknown directive {foo}; use one of admonition", 0),
        (":::{dropdown} T\n:foo: 1\n:::", "{dropdown}: Unknown option", 0),
        (":::{quiz} Q\n- [x] A\n\n  Why.\n- [ ] B\n:::", "quiz: an option has no", 4),
        ("{ref}`x <foo>`", "unknown label 'foo'; correct it, or add (foo)=", 0),
        ("[x](foo.md)", "there is no file foo.md; correct the link", 0),
        ("![x](../book/dot.svg)", "or a picture in a text", 0),
        ("(here)=\nText {ref}`here`", "'here' has no title; give the reference a", 1),
        ("{cite:p}`foo`", "'foo' is not in book/references.bib; add it", 0),
        ("{cite:p}`nowhere`", "nowhere needs an author, a year, and a doi, url or", 0),
        ("text[^1]\n\n[^1]: note", "footnote_reference_open has no plain form", 2),
        ("[x][y]\n\n[y]: https://a.org", "a link or role stands in another", 0),
        ("$$\na\n\n$$ (eq-x)\n\n$$ b %c $$", "a formula has a blank line or a comm", 5),
        ("\\begin{align}\na\n\\end{align}", "amsmath has no plain form", 0),
        ("```{figure} ../book/dot.svg\n```", "add :alt:", 0),
        (":::{dropdown}\ntext\n:::", "dropdown needs a title", 0),
        ("> :::{dropdown} T\n> a\n> :::", "start this block on a line of its own", 0),
    ],
)  # fmt: skip
def test_what_has_no_plain_form_is_an_error_with_its_line(book, text, message, below):
    where = rf"^chapters/01-toy\.md:{1 + below}: .*{re.escape(message)}"
    with pytest.raises(ValueError, match=where):
        plain_text(text, book)


def test_figure_without_a_caption_is_an_error_with_its_line(tmp_path):
    cell = "```{code-cell} ipython3\n:mystnb: {figure: {name: x}}\n1\n```"
    where = rf"^chapters/01-toy\.md:{LINE + 1}: .*no caption"
    with pytest.raises(ValueError, match=where):
        convert(tmp_path, cell)


# That the site gives the same numbers is tested of all chapters: test_book_numbers.
def test_equations_and_figures_are_numbered_in_reading_order(tmp_path):
    book = read_book(make_book(tmp_path, NUMBERED).parents[1])
    equations = ["eq-first", "eq-lines", "eq-nested", "eq-listed"]
    wanted = {name: f"1.{n}" for n, name in enumerate(equations, 1)}
    # The third figure has no name.
    wanted |= {"fig-cell": "1.1", "fig-nested": "1.2", "fig-last": "1.4"}
    wanted |= {"eq-head": "11.1", "fig-head": "11.1"}
    assert {name: it.number for name, it in book.labels.items() if it.number} == wanted
