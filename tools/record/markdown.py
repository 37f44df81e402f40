"""MyST text as plain Markdown, which reads well in Jupyter without the site."""

from itertools import accumulate

from markdown_it.token import Token

from tools.record.blocks import anchor, caption, equation, folded, picture, quoted
from tools.record.labels import Book, equation_name
from tools.record.myst import (
    ADMONITIONS,
    Block,
    Place,
    directive_name,
    read_directive,
    read_spans,
)
from tools.record.roles import Edit, file_link, span_edit
from tools.site.quiz import QuizError, plain_quiz, read_options

KEPT_BLOCKS = {
    *("heading_open", "heading_close", "paragraph_open", "paragraph_close"),
    *("bullet_list_open", "bullet_list_close", "ordered_list_open"),
    *("ordered_list_close", "list_item_open", "list_item_close"),
    *("blockquote_open", "blockquote_close", "table_open", "table_close"),
    *("thead_open", "thead_close", "tbody_open", "tbody_close", "tr_open", "tr_close"),
    *("th_open", "th_close", "td_open", "td_close"),
    *("hr", "html_block", "code_block", "fence"),
}


def plain_markdown(text: str, place: Place, book: Book) -> str:
    """Return a text whose directives, roles and links work without MyST.

    Everything else stays as it is, to the character.

    Raises:
        ValueError: something that has no plain form, or refers to nothing.
    """
    env: dict[str, object] = {}
    edits: list[Edit] = []
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    cursor = 0  # the cells of a table's row are found one after the other
    for token in book.parser.parse(text, env):
        first, last = token.map or (0, 0)
        here = place.below(first)
        if token.type == "inline":
            cursor = max(cursor, starts[first])
            pieces = _pieces(token.content, text, cursor)
            edits += _inline_edits(token, pieces, here, book)
            cursor = max([cursor, *(end for _, _, end in pieces)])
        elif (new := _plain_block(token, here, book)) is not None:
            edits.append(_in_place(new, lines, starts, (first, last), here))
    if env.get("references"):
        raise place.error("link definitions are not converted; write [text](target)")
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text.strip("\n")


def _pieces(content: str, text: str, cursor: int) -> list[tuple[int, int, int]]:
    """Return where a paragraph's lines start in it, and start and end in the text.

    The parser strips quote marks and indents, so that a paragraph is no slice.
    """
    pieces = []
    offset = 0
    for line in content.split("\n"):
        found = text.find(line, cursor)
        if found < 0:  # a table's cell, of which the parser unescapes `\|`
            return []
        cursor = found + len(line)
        pieces.append((offset, found, cursor))
        offset += len(line) + 1
    return pieces


def _inline_edits(
    token: Token, pieces: list[tuple[int, int, int]], place: Place, book: Book
) -> list[Edit]:
    """Return the changes in one paragraph, heading or table cell."""
    spans = read_spans(token, book.parser)
    if spans and not pieces:
        raise place.error(r"write \vert for \| beside a role or a link")
    edits = []
    for span in spans:
        here = place.below(token.content.count("\n", 0, span.start))
        inside = (s for s in spans if span.start < s.start < span.label_end)
        if any(s.token.type != "image" for s in inside):
            raise here.error("a link or role inside a link's text; take it out")
        if edit := span_edit(span, token.content, here, book):
            start, end = (_in_text(offset, pieces) for offset in edit[:2])
            edits.append((start, end, edit[2]))
    return edits


def _in_text(offset: int, pieces: list[tuple[int, int, int]]) -> int:
    """Return the offset in the text for one in the paragraph."""
    begin, found, _ = max(piece for piece in pieces if piece[0] <= offset)
    return found + offset - begin


def _in_place(
    new: str, lines: list[str], starts: list[int], rows: tuple[int, int], place: Place
) -> Edit:
    """Return the change of whole lines, indented as they were, blank lines around."""
    first, last = rows
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    if lines[first].lstrip()[:1] not in tuple("`~:$(%\\"):
        raise place.error("start a directive, label or formula on a line of its own")
    above = first > 0 and bool(lines[first - 1].strip())
    below = last < len(lines) and bool(lines[last].strip())
    if new:
        kept = [indent + line if line else "" for line in new.split("\n")]
        kept = [*[""] * above, *kept, *[""] * below]
        return starts[first], starts[last] - 1, "\n".join(kept)
    if above and below:  # a comment parts two paragraphs on the site
        return starts[first], starts[last] - 1, ""
    skipped = 0 if above or below else 1
    return starts[first], starts[min(last + skipped, len(lines))], ""


def _plain_block(token: Token, place: Place, book: Book) -> str | None:
    """Return the plain form of a block, or None where it is plain already."""
    if token.type in ("fence", "colon_fence"):
        return _fence(token, place, book)
    if token.type == "myst_target":
        return anchor(token.content.lower()).strip()
    if token.type == "myst_line_comment":
        return ""
    if token.type in ("math_block", "math_block_label"):
        return _equation(token.content, token.info, place, book)
    if token.type not in KEPT_BLOCKS:
        raise place.error(f"{token.type} has no plain form; write it another way")
    return None


def _fence(token: Token, place: Place, book: Book) -> str | None:
    """Return a directive as plain Markdown; code stays."""
    if token.type == "fence" and not directive_name(token):
        return None
    block = read_directive(token, place)
    if block.name == "math":
        formula = f"{block.argument}\n{block.body}"
        return _equation(formula, equation_name(block), place, book)
    name = anchor(str(block.options.get("name", "")).lower())
    if block.name in ("figure", "image"):
        return name + _figure(block, place, book)
    if block.name == "quiz":
        return name + _quiz(block, place, book)
    body = plain_markdown(block.body, block.place, book)
    title = plain_markdown(block.argument, place, book)
    if block.name in ADMONITIONS:
        kind = block.name.replace("seealso", "see also").capitalize()
        return name + quoted(title or kind, body)
    if not title:
        raise place.error("a dropdown needs a title; write it beside {dropdown}")
    return name + folded(title, body)


def _quiz(block: Block, place: Place, book: Book) -> str:
    """Return a quiz; a fault in it names its own line."""
    try:
        options = read_options(block.body)
    except QuizError as fault:
        raise block.place.below(fault.line).error(f"quiz: {fault}") from fault
    plain = [
        (
            option.right,
            plain_markdown(option.text, block.place.below(option.line), book),
            plain_markdown(option.why, block.place.below(option.why_line), book),
        )
        for option in options
    ]
    return plain_quiz(plain_markdown(block.argument, place, book), plain)


def _equation(formula: str, label: str, place: Place, book: Book) -> str:
    """Return a formula, under its label with its number."""
    if not label:
        return equation(formula, "", place)
    name = label.lower()
    return anchor(name) + equation(formula, book.labels[name].number, place)


def _figure(block: Block, place: Place, book: Book) -> str:
    """Return a figure or an image."""
    alt = str(block.options.get("alt", "")).strip()
    if not alt:
        raise place.error("the picture has no text for who cannot see it; add :alt:")
    path = file_link(block.argument, place, book)
    shown = picture(path, alt, str(block.options.get("width", "")))
    if not block.body.strip():
        return shown
    text = plain_markdown(block.body, block.place, book)
    return f"{shown}\n\n{caption(book.figure_numbers[place], text)}"
