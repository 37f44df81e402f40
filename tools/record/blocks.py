"""The plain forms of blocks: quotes, folded parts, equations and figures."""

import html
import re

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tools.record.myst import Place


def anchor(name: str) -> str:
    """Return what a link to `#name` finds, as a block of its own."""
    return f'<a id="{html.escape(name)}"></a>\n\n' if name else ""


def quoted(title: str, body: str) -> str:
    """Return an admonition as a blockquote with a bold title."""
    lines = [f"**{title}**", "", *_formulas_on_one_line(body)]
    return "\n".join(f"> {line}" if line else ">" for line in lines)


def folded(title: str, body: str) -> str:
    """Return a dropdown; its body is Markdown because blank lines stand around it."""
    summary = MarkdownIt().renderInline(title)
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def equation(formula: str, number: str, place: Place) -> str:
    """Return a displayed formula, with its number where it has one.

    Raises:
        ValueError: a blank line or a comment in it, which Jupyter does not typeset.
    """
    formula = formula.strip()
    if re.search(r"\n\s*\n|(?<!\\)%", formula):
        raise place.error("a formula has a blank line or a comment; remove it")
    if _has_lines(formula):  # as Sphinx wraps it
        formula = f"\\begin{{split}}\n{formula}\n\\end{{split}}"
    tag = f" \\tag{{{number}}}" if number else ""
    return f"$$\n{formula}{tag}\n$$"


def picture(path: str, alt: str, width: str) -> str:
    """Return an image; only HTML can say how wide it is."""
    if width:
        alt = html.escape(alt)
        return f'<img src="{html.escape(path)}" alt="{alt}" width="{width}">'
    return f"![{alt}]({path})"


def caption(number: str, text: str) -> str:
    """Return a figure's caption in italics, what follows its first paragraph plain."""
    first, _, rest = text.strip().partition("\n\n")
    return f"*Figure {number}: {first}*" + (f"\n\n{rest.strip()}" if rest else "")


def _formulas_on_one_line(text: str) -> list[str]:
    """Return the lines of a text that is to be quoted.

    Jupyter takes formulas out before it reads the Markdown, and would typeset the `>`
    that starts a formula's second line.
    """
    lines = text.split("\n")
    parser = MarkdownIt().enable("table").use(dollarmath_plugin, double_inline=True)
    for token in reversed(parser.parse(text)):  # the rows above keep their places
        formulas = [child for child in token.children or [] if "math" in child.type]
        broken = any("\n" in child.content for child in formulas)
        if token.map and (broken or token.type.startswith("math_block")):
            rows = slice(*token.map)
            text = " ".join(line.strip() for line in lines[rows])
            indent = len(lines[rows][0]) - len(lines[rows][0].lstrip())
            lines[rows] = [" " * indent + text]
    return lines


def _has_lines(formula: str) -> bool:
    r"""Say whether `\\` breaks the formula itself, not a matrix or cases in it."""
    while formula != (
        outside := re.sub(
            r"\\begin\{([a-z]+\*?)\}((?!\\begin\{).)*?\\end\{\1\}",
            "",
            formula,
            flags=re.DOTALL,
        )
    ):
        formula = outside
    return r"\\" in formula
