"""MyST text in, plain Markdown out, which is readable in Jupyter without the site."""

import html
import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tools.quiz import QuizError, plain_quiz, read_options
from tools.record.book import Block, Book, Place, directive_name, normal, read_directive
from tools.record.roles import SPAN, file_link, plain_spans
from tools.words import say

KEPT = re.compile(
    "(heading|paragraph|bullet_list|ordered_list|list_item|blockquote|table|thead|tbody"
    "|tr|th|td)_(open|close)|hr|html_block|code_block"
)


def plain_markdown(text: str, place: Place, book: Book) -> str:
    """Return a text whose directives, roles and links are plain, all else as it is."""
    lines = text.split("\n")
    edits: dict[tuple[int, int], str] = {}
    inline: dict[tuple[int, int], list[Token]] = {}  # the cells of a row together
    for token in book.parser.parse(text):
        first, last = token.map or (0, 0)
        if token.type == "inline":
            inline.setdefault((first, last), []).extend(token.children or [])
        elif (new := _plain_block(token, place.below(first), book)) is not None:
            edits[first, last] = _in_place(new, lines, first, last, place)
    for (first, last), parsed in inline.items():
        old = "\n".join(lines[first:last])
        edits[first, last] = plain_spans(old, parsed, place.below(first), book)
    for (first, last), new in sorted(edits.items(), reverse=True):
        lines[first:last] = new.split("\n")
    return "\n".join(lines).strip("\n")


def _in_place(new: str, lines: list[str], first: int, last: int, place: Place) -> str:
    """Return a block indented like its lines were, with blank lines around."""
    start = lines[first].lstrip()
    if not start.startswith(tuple("`~:$(%\\")):
        raise place.below(first).error("start this block on a line of its own")
    indent = lines[first].removesuffix(start)
    above = "\n" if first > 0 and lines[first - 1].strip() else ""
    below = "\n" if last < len(lines) and lines[last].strip() else ""
    kept = (indent + line if line else "" for line in new.split("\n"))
    return above + "\n".join(kept) + below


def _plain_block(token: Token, place: Place, book: Book) -> str | None:
    """Return the plain form of a block, or None if it is plain already."""
    if directive_name(token) or token.type == "colon_fence":
        return _directive(read_directive(token, place), place, book)
    if token.type == "myst_target":
        return anchor(token.content.lower()).strip()
    if token.type == "myst_line_comment":
        return ""
    if token.type in ("math_block", "math_block_label"):
        name = normal(token.info)
        number = book.labels[name].number if name else ""
        return anchor(name) + _equation(token.content, number, place)
    if token.type != "fence" and not KEPT.fullmatch(token.type):
        raise place.error(f"{token.type} has no plain form; write it another way")
    return None


def _directive(block: Block, place: Place, book: Book) -> str:
    """Return a directive as plain Markdown, under its label."""
    name = anchor(block.label)
    if block.name == "figure":
        return name + _figure(block, place, book)
    title = plain_markdown(block.argument, place, book)
    if block.name == "quiz":
        return name + _quiz(title, block, book)
    body = plain_markdown(block.body, block.place, book)
    if not title:
        raise place.error(f"{block.name} needs a title; write it beside its name")
    return name + (_folded if block.name == "dropdown" else _quoted)(title, body)


def _quiz(question: str, block: Block, book: Book) -> str:
    """Return a quiz; an error in it names its own line."""
    try:
        options = read_options(block.body)
    except QuizError as fault:
        raise block.place.below(fault.line).error(f"quiz: {fault}") from fault

    def plain(text: str, line: int) -> str:
        return plain_markdown(text, block.place.below(line), book)

    parts = [
        (it.right, plain(it.text, it.line), plain(it.why, it.why_line))
        for it in options
    ]
    return plain_quiz(question, parts)


def _figure(block: Block, place: Place, book: Book) -> str:
    """Return a figure."""
    alt = str(block.options.get("alt", "")).strip()
    if not alt:
        raise place.error("the picture has no text for who cannot see it; add :alt:")
    text = plain_markdown(block.body, block.place, book)
    below = caption(book.figure_numbers[place], text)
    return f"![{alt}]({file_link(block.argument, place)})\n\n{below}"


def anchor(name: str) -> str:
    """Return the target of a link to `#name`, as a separate block."""
    return f'<a id="{html.escape(name)}"></a>\n\n' if name else ""


def _quoted(title: str, body: str) -> str:
    """Return an admonition as a blockquote with a bold title."""
    # Jupyter takes formulas out before it reads the Markdown, and would typeset the
    # mark of quotation that starts a formula's second line; so each stands on one.
    body = SPAN.sub(lambda it: it[0].replace("\n", " " if it["math"] else "\n"), body)
    return "\n".join(f"> {it}".rstrip() for it in f"**{title}**\n\n{body}".split("\n"))


def _folded(title: str, body: str) -> str:
    """Return a dropdown; its body is Markdown because of the blank lines around it."""
    summary = MarkdownIt().renderInline(title)
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def _equation(formula: str, number: str, place: Place) -> str:
    """Return a displayed formula as Jupyter typesets it, with its number, if any."""
    # MathJax 3, Jupyter's, does not know where KaTeX may break a line.
    formula = re.sub(r"\\allowbreak\b", "", formula).strip()
    if re.search(r"\n\s*\n|(?<!\\)%", formula):
        raise place.error("a formula has a blank line or a comment; remove it")
    if r"\\" in formula and r"\begin" not in formula:  # as Sphinx wraps it
        formula = f"\\begin{{split}}\n{formula}\n\\end{{split}}"
    tag = f" \\tag{{{number}}}" if number else ""
    return f"$$\n{formula}{tag}\n$$"


def caption(number: str, text: str) -> str:
    """Return a figure's caption in italics, what follows its first paragraph plain."""
    first, _, rest = text.strip().partition("\n\n")
    said = say("notebook.caption", n=number, text=first)
    return f"*{said}*" + (f"\n\n{rest.strip()}" if rest else "")
