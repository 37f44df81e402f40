"""Parts of a block in, their plain Markdown out: quotes, formulas, figures."""

import html
import re

from markdown_it import MarkdownIt

from tools.record.myst import Place
from tools.record.roles import SPAN


def anchor(name: str) -> str:
    """Return what a link to `#name` finds, as a block of its own."""
    return f'<a id="{html.escape(name)}"></a>\n\n' if name else ""


def quoted(title: str, body: str) -> str:
    """Return an admonition as a blockquote with a bold title.

    Jupyter takes formulas out before it reads the Markdown, and would typeset the `>`
    that starts a formula's second line; so each stands on one.
    """
    body = SPAN.sub(
        lambda it: " ".join(it["math"].split()) if it["math"] else it[0], body
    )
    lines = [f"**{title}**", "", *body.split("\n")]
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
    if r"\\" in formula and r"\begin" not in formula:  # as Sphinx wraps it
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
