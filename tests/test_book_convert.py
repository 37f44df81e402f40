"""A chapter's text as plain Markdown, its code untouched, numbered as the site."""

import base64
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_cache import get_cache
from nbformat.v4 import new_output

from tools.chapters import ROOT, chapter_paths, read_chapter
from tools.record.convert import plain_notebook
from tools.record.folded import unfolded
from tools.record.labels import read_book

HEAD = """---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

"""
LINE = HEAD.count("\n") + 1  # where a chapter's text starts
TOC = """format: jb-book
root: book/index
parts:
- numbered: true
  chapters: [{file: chapters/01-toy.md}, {file: chapters/02-head.md}]
- chapters: [{file: book/glossary.md}, {file: book/notation.md}]
"""
GLOSSARY = """# Glossary

:::{glossary}
softmax
  Turns scores into weights.

attention weight
  A share.
:::
"""
REFERENCES = r"""
@inproceedings{vaswani2017, title = {Attention Is All You Need}, year = 2017,
  author = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki},
  booktitle = {NeurIPS}, url = {https://arxiv.org/abs/1706.03762}}
@article{oord2016, title = {{WaveNet}}, year = 2016, journal = {arXiv},
  author = {van den Oord, A{\"a}ron and Wolf, Thomas}, doi = {10.1000/x_y}}
@misc{nowhere, title = {Lost}, author = {Nobody, Ann}, year = 2000}
"""
SECOND = """(head)=
# A *single* head [1] with $\\sqrt{D}$ and `@`

$$ y $$ (eq-head)

```{code-cell} ipython3
:mystnb: {image: {alt: a}, figure: {name: fig-head, caption: A head.}}
plot()
```
"""
# Everything that is numbered, in every place where it can stand.
NUMBERED = """(toy)=
# Toy

$$ a $$

$$ b $$ (eq-first)

```{code-cell} ipython3
:mystnb: {image: {alt: a}, figure: {name: fig-cell, caption: A picture}}
plot()
```

## A section

```{math}
:label: eq-fenced
a &= b \\\\
c &= d
```

::::{dropdown} Solution
:::{note}
$$ c $$ (eq-nested)

```{figure} ../book/dot.svg
:alt: A dot
:name: fig-nested

In a note
```
:::
::::

```{image} ../book/dot.svg
:alt: not numbered
```

```{figure} ../book/dot.svg
:alt: A dot

Without a name
```

- In a list:

  $$ d $$ (eq-listed)

```{figure} ../book/dot.svg
:alt: A dot
:name: fig-last

{eq}`eq-nested`, {eq}`eq-head`, {numref}`fig-last`, {numref}`fig-head`
```
"""
CONF = """
extensions = ["myst_nb", "sphinx_design", "sphinxcontrib.bibtex", "sphinx_external_toc"]
external_toc_path = "_toc.yml"
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
numfig = math_numfig = True
math_eqref_format = "({number})"
html_theme = "basic"
bibtex_bibfiles = ["book/references.bib"]
exclude_patterns = ["notebooks", "_build", ".jupyter_cache"]
nb_execution_mode = "cache"
nb_execution_cache_path = ".jupyter_cache"
nb_execution_raise_on_error = True
"""
PIXEL = base64.b64encode(b"GIF89a\x01\0\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\0;")


def make_book(root: Path, text: str) -> Path:
    """Write a book whose first chapter has this text, and return the chapter."""
    for folder in ("chapters", "book", "notebooks"):
        (root / folder).mkdir()
    files = {
        "_toc.yml": TOC,
        "_config.yml": "parse:\n  myst_enable_extensions:"
        " [amsmath, colon_fence, dollarmath]",
        "book/index.md": "# Book\n",
        "book/glossary.md": GLOSSARY,
        "book/notation.md": "(Symbols)=\n# Notation\n",
        "book/references.bib": REFERENCES,
        "book/dot.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
        "chapters/01-toy.md": HEAD + text,
        "chapters/02-head.md": HEAD + SECOND,
    }
    for name, content in files.items():
        (root / name).write_text(content)
    return root / "chapters" / "01-toy.md"


def convert(root: Path, text: str) -> str:
    """Return a chapter of this text, under a heading, as plain Markdown."""
    notebook = plain_notebook(make_book(root, f"{text}\n\n# Toy\n"))
    return "\n\n".join(cell.source for cell in notebook.cells).removesuffix("\n\n# Toy")


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("{ref}`here <head>`", "[here](02-head.ipynb#head)"),
        (
            "{ref}`head`",
            r"[A single head \[1\] with $\sqrt{D}$ and `@`](02-head.ipynb#head)",
        ),
        ("{ref}`two\nlines <head>` x", "[two lines](02-head.ipynb#head) x"),
        ("{ref}`a *b* <head>`", r"[a \*b\*](02-head.ipynb#head)"),
        ("{ref}`symbols`", "[Notation](../book/notation.md)"),
        ("{eq}`eq-head`", "[(2.1)](02-head.ipynb#eq-head)"),
        ("{numref}`fig-head`", "[Figure 2.1](02-head.ipynb#fig-head)"),
        ("{numref}`see %s <fig-head>`", "[see 2.1](02-head.ipynb#fig-head)"),
        ("{term}`softmax`", "[softmax](../book/glossary.md)"),
        ("{term}`shares <attention weight>`", "[shares](../book/glossary.md)"),
        ("{doc}`signs </book/notation>`", "[signs](../book/notation.md)"),
        ("{doc}`/book/notation`", "[Notation](../book/notation.md)"),
        ("[x](#head)", "[x](02-head.ipynb#head)"),
        ("[](#eq-head)", "[(2.1)](02-head.ipynb#eq-head)"),
        ("[a `]` b](02-head.md)", "[a `]` b](02-head.ipynb)"),
        ("[](../book/notation.md)", "[Notation](../book/notation.md)"),
        ("[x](../book/notation.md)", "[x](../book/notation.md)"),
        ("[x](https://a.org/x_y)", "[x](https://a.org/x_y)"),
        ("![dot](/book/dot.svg)", "![dot](../book/dot.svg)"),
    ],
)
def test_role_or_link_becomes_a_plain_link(
    tmp_path: Path, source: str, plain: str
) -> None:
    assert convert(tmp_path, source) == plain


@pytest.mark.parametrize(
    "text",
    [
        "`{eq}`x` and ``{ref}`x` ``",
        "```python\nx = '{ref}`x`'  # [a](#b)\n\n\n% no comment\n(x)=\n```",
        "~~~\n:::{note}\n:::\n~~~",
        "    {ref}`indented code`",
        "$a_{ref}[x](#y)$ and $$ \\{eq\\} $$",
        "![a [x](#y) b](../book/dot.svg)",
        r"an escaped \{ref}`x` and \[x](#y)",
        "| a | b |\n|---|---|\n| `x \\| y` | $z$ |",
        "$$\n\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}\n$$",
        "1. one\n   - two  \n     three\n\n> *four*\n\n---\n\n<b>five</b>",
    ],
)
def test_what_is_plain_stays_to_the_character(tmp_path: Path, text: str) -> None:
    assert convert(tmp_path, text) == text


def test_roles_are_found_in_lists_quotes_and_tables(tmp_path: Path) -> None:
    text = (
        "- {eq}`eq-head`\n  and `x`\n\n> q {eq}`eq-head`\n\n"
        "| {eq}`eq-head` | x |\n|---|---|\n| {eq}`eq-head` | {eq}`eq-head` |"
    )
    plain = text.replace("{eq}`eq-head`", "[(2.1)](02-head.ipynb#eq-head)")
    assert convert(tmp_path, text) == plain


def test_admonition_becomes_a_quote_of_every_line(tmp_path: Path) -> None:
    text = (
        "Before.\n:::{admonition} A `title`\n:class: exercise\n:name: ex-1\n"
        "First, {eq}`eq-head`.\n\n```python\nx = 1\n\ny = 2\n```\n\n- last\n:::\nAfter."
    )
    assert convert(tmp_path, text) == (
        'Before.\n\n<a id="ex-1"></a>\n\n'
        "> **A `title`**\n>\n> First, [(2.1)](02-head.ipynb#eq-head).\n>\n"
        "> ```python\n> x = 1\n>\n> y = 2\n> ```\n>\n> - last\n\nAfter."
    )


@pytest.mark.parametrize(
    ("name", "title"), [("note", "Note"), ("seealso", "See also"), ("tip", "Tip")]
)
def test_named_admonition_has_its_name_as_title(
    tmp_path: Path, name: str, title: str
) -> None:
    text = f"```{{{name}}} Text.\n```"
    assert convert(tmp_path, text) == f"> **{title}**\n>\n> Text."


def test_formula_in_a_quote_stands_on_one_line(tmp_path: Path) -> None:
    text = (
        ":::{note}\nA $a +\nb$ c.\n\n$$\nx +\ny\n$$ (eq-x)\n\n| $ |\n|---|\n| $ |\n:::"
    )
    assert convert(tmp_path, text) == (
        '> **Note**\n>\n> A $a + b$ c.\n>\n> <a id="eq-x"></a>\n>\n'
        r"> $$ x + y \tag{1.1} $$"
        "\n>\n> | $ |\n> |---|\n> | $ |"
    )


def test_dropdown_becomes_details_with_markdown_inside(tmp_path: Path) -> None:
    text = (
        "::::{dropdown} Solution of `f`\n:open:\n\n:::{tip}\nInner.\n:::\n"
        "```python\nx = 1\n```\n::::\nAfter."
    )
    assert convert(tmp_path, text) == (
        "<details>\n<summary>Solution of <code>f</code></summary>\n\n"
        "> **Tip**\n>\n> Inner.\n\n```python\nx = 1\n```\n\n</details>\n\nAfter."
    )


def test_directive_in_a_list_stays_in_it(tmp_path: Path) -> None:
    text = "- one\n\n  :::{note}\n  Text.\n  :::\n- two"
    plain = "- one\n\n  > **Note**\n  >\n  > Text.\n\n- two"
    assert convert(tmp_path, text) == plain


def test_target_becomes_an_anchor_apart_from_its_heading(tmp_path: Path) -> None:
    text = "Text.\n\n(My-Label)=\n## Heading"
    plain = 'Text.\n\n<a id="my-label"></a>\n\n## Heading'
    assert convert(tmp_path, text) == plain


def test_comment_leaves_no_trace(tmp_path: Path) -> None:
    text = "% one\n\nA.\n\n% two\n% three\n\nB.\n% four\nC.\n\n% five"
    assert convert(tmp_path, text) == "A.\n\nB.\n\nC."


def test_cell_of_comments_is_left_out(tmp_path: Path) -> None:
    cells = plain_notebook(make_book(tmp_path, "# Toy\n\n+++\n\n% one")).cells
    assert len(cells) == 1


def test_equation_carries_anchor_and_number(tmp_path: Path) -> None:
    text = "Before\n\n$$ a = b $$ (eq-x)\nafter {eq}`eq-x`."
    assert convert(tmp_path, text) == (
        'Before\n\n<a id="eq-x"></a>\n\n$$\na = b \\tag{1.1}\n$$\n\n'
        "after [(1.1)](#eq-x)."
    )


def test_equation_of_many_lines_is_split_as_on_the_site(tmp_path: Path) -> None:
    text = "```{math}\na &= b \\\\\nc &= d\n```"
    plain = "$$\n\\begin{split}\na &= b \\\\\nc &= d\n\\end{split}\n$$"
    assert convert(tmp_path, text) == plain


def test_figure_has_picture_and_numbered_caption(tmp_path: Path) -> None:
    text = (
        "```{figure} ../book/dot.svg\n:alt: A dot\n:name: fig-x\n\n"
        "See {eq}`eq-head`\nand rest.\n\nA legend.\n```"
    )
    assert convert(tmp_path, text) == (
        '<a id="fig-x"></a>\n\n![A dot](../book/dot.svg)\n\n'
        "*Figure 1.1: See [(2.1)](02-head.ipynb#eq-head)\nand rest.*\n\nA legend."
    )


def test_figure_keeps_its_width(tmp_path: Path) -> None:
    text = "```{image} ../book/dot.svg\n:alt: A dot\n:width: 50%\n```"
    plain = '<img src="../book/dot.svg" alt="A dot" width="50%">'
    assert convert(tmp_path, text) == plain


def test_code_figure_is_followed_by_its_caption(tmp_path: Path) -> None:
    cells = plain_notebook(make_book(tmp_path, NUMBERED)).cells
    after = next(i for i, cell in enumerate(cells) if cell.cell_type == "code") + 1
    assert cells[after].source == '<a id="fig-cell"></a>\n\n*Figure 1.1: A picture*'


def test_citations_link_and_are_listed_in_full(tmp_path: Path) -> None:
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


def test_chapter_without_citations_lists_none(tmp_path: Path) -> None:
    assert "References" not in convert(tmp_path, "Text.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{foo}`x`", "unknown role {foo}; use one of ref, eq"),
        (":::{foo}\n:::", "unknown directive {foo}; use one of admonition"),
        (":::{note}\n:foo: 1\n:::", "{note}: Unknown option"),
        ("{ref}`x <foo>`", "unknown label 'foo'; correct it, or add (foo)="),
        ("[x](#foo)", "unknown label 'foo'"),
        ("[x](foo.md)", "there is no file foo.md; correct the link"),
        ("[x](02-head.md#head)", "the site does not find 02-head.md#head; write #head"),
        ("![x](foo.png)", "there is no file foo.png"),
        ("{numref}`head`", "'head' is no numbered figure; refer to it with {ref}"),
        ("{eq}`symbols`", "'symbols' is no numbered equation"),
        ("{ref}`fig-head`", "'fig-head' has no title; give the reference a text"),
        ("{term}`foo`", "unknown term 'foo'; add it to book/glossary.md"),
        ("{cite:p}`foo`", "unknown citation 'foo'; add it to book/references.bib"),
        ("{cite:p}`nowhere`", "nowhere needs a doi, url or eprint"),
        ("(head)=\n## Again", "label 'head' is taken by 01-toy.md"),
        ("text[^1]\n\n[^1]: note", "footnote"),
        ("[x][y]\n\n[y]: https://a.org", "link definitions are not converted"),
        ("[{eq}`eq-head`](#head)", "a link or role inside a link's text"),
        ("| a |\n|---|\n| x\\|y {eq}`eq-head` |", r"write \vert for \|"),
        ("$$\na\n\n$$ (x)\n\n$$ b %c $$", "a formula has a blank line or a comment"),
        ("\\begin{align}\na\n\\end{align}", "amsmath has no plain form"),
        ("```{image} ../book/dot.svg\n```", "add :alt:"),
        (":::{dropdown}\ntext\n:::", "a dropdown needs a title"),
        ("> :::{note}\n> a\n> :::", "on a line of its own"),
        ("```{raw-cell}\nx\n```", "a raw cell is not shown"),
        (
            "```{code-cell} ipython3\n:mystnb: {figure: {name: x}}\n1\n```",
            "the figure has no caption",
        ),
    ],
)
def test_what_has_no_plain_form_is_an_error(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        convert(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "below"),
    [
        ("\n\nA line\nand {foo}`x`.", 3),
        ("# Title\n\n```{code-cell} ipython3\n1\n```\n\n\n- {foo}`x`", 7),
        (":::{note}\n:class: tip\n\nText\n{foo}`x`\n:::", 4),
        ("::::{dropdown} Title\n:::{tip}\n{foo}`x`\n:::\n::::", 2),
        (":::{admonition} Title\n\n- one\n- {foo}`x`\n:::", 3),
        (":::{note} {foo}`x`\n:::", 0),
    ],
)
def test_error_names_file_and_line(tmp_path: Path, text: str, below: int) -> None:
    where = rf"^chapters/01-toy\.md:{LINE + below}: unknown role"
    with pytest.raises(ValueError, match=where):
        convert(tmp_path, text)


def test_chapter_outside_the_contents_is_an_error(tmp_path: Path) -> None:
    extra = make_book(tmp_path, "# Toy").with_name("03-extra.md")
    extra.write_text(f"{HEAD}# Extra")
    with pytest.raises(ValueError, match=r"03-extra\.md:1: not in _toc\.yml"):
        plain_notebook(extra)


def test_notebook_is_valid_and_has_a_kernel(tmp_path: Path) -> None:
    notebook = plain_notebook(make_book(tmp_path, NUMBERED))
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.language_info.name == "python"


def test_notebook_is_the_same_each_time(tmp_path: Path) -> None:
    chapter = make_book(tmp_path, f"{NUMBERED}\n+++\n\nTwice.\n\n+++\n\nTwice.")
    assert plain_notebook(chapter) == plain_notebook(chapter)


@pytest.mark.parametrize("chapter", chapter_paths(), ids=lambda path: path.stem)
def test_code_cells_equal_what_the_site_reads(chapter: Path) -> None:
    def code(notebook: nbformat.NotebookNode) -> list[tuple[str, object]]:
        cells = (cell for cell in notebook.cells if cell.cell_type == "code")
        return [(cell.source, unfolded(cell)) for cell in cells]

    assert code(plain_notebook(chapter)) == code(read_chapter(chapter))


@pytest.mark.parametrize("chapter", chapter_paths(), ids=lambda path: path.stem)
def test_links_within_a_notebook_lead_to_an_anchor(chapter: Path) -> None:
    cells = plain_notebook(chapter).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    links = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert links <= set(re.findall(r'<a id="([^"]+)">', text))


def test_citation_of_one_chapter_is_not_listed_in_the_next(tmp_path: Path) -> None:
    chapter = make_book(tmp_path, "# Toy\n\n{cite:t}`oord2016`")
    book = read_book(tmp_path)
    plain_notebook(chapter, book)
    second = plain_notebook(chapter.with_name("02-head.md"), book)
    assert "References" not in second.cells[-1].source


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Build a small book with Sphinx from its converted notebooks: folder and log."""
    root = tmp_path_factory.mktemp("book")
    make_book(root, NUMBERED)
    (root / "conf.py").write_text(CONF)
    cache = get_cache(str(root / ".jupyter_cache"))
    for chapter in chapter_paths(root):
        notebook = plain_notebook(chapter)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                image = {"image/gif": PIXEL.decode()}
                cell.outputs = [new_output("display_data", image)]
        path = root / "notebooks" / f"{chapter.stem}.ipynb"
        nbformat.write(notebook, path)
        cache.cache_notebook_file(str(path), check_validity=False)
    command = [sys.executable, "-m", "sphinx", "-W", ".", "_build"]
    built = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return root, built.stdout + built.stderr


def test_site_numbers_equations_and_figures_as_the_notebook(
    site: tuple[Path, str],
) -> None:
    root, _ = site
    html = (root / "_build" / "chapters" / "01-toy.html").read_text()
    equations = r'id="equation-([\w-]+)">\s*<span class="eqno">\(([\d.]+)\)'
    figures = r'<figure[^>]* id="([\w-]+)">.*?Fig\. ([\d.]+) <'
    on_site = re.findall(equations, html) + re.findall(figures, html, re.DOTALL)
    cells = nbformat.read(root / "notebooks" / "01-toy.ipynb", 4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    anchor = r'<a id="((?:eq|fig)-[\w-]+)"></a>(?:(?!<a id).)*?(?:\\tag\{|Figure )'
    in_notebook = dict(re.findall(rf"{anchor}([\d.]+)", text, re.DOTALL))
    named = {name: number for name, number in on_site if not name.startswith("id")}
    assert len(named) == 7
    assert in_notebook == named


def test_site_shows_the_numbers_that_notebook_links_show(
    site: tuple[Path, str],
) -> None:
    root, _ = site
    html = (root / "_build" / "chapters" / "01-toy.html").read_text()
    caption = re.sub("<[^>]+>", "", html[html.index('id="fig-last"') :])
    shown = re.findall(r"\d\.\d", caption)[1:5]
    cells = nbformat.read(root / "notebooks" / "01-toy.ipynb", 4).cells
    links = re.findall(r"\[(?:\(|Figure )([\d.]+)", cells[-1].source)
    assert links == shown == ["1.3", "2.1", "1.4", "2.1"]


def test_site_finds_the_converted_notebook_in_its_cache(
    site: tuple[Path, str],
) -> None:
    _, log = site
    assert log.count("Using cached notebook") == 2
    assert "Executing notebook" not in log


def test_every_notebook_has_a_chapter() -> None:
    chapters = {path.stem for path in chapter_paths()}
    records = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert records <= chapters
