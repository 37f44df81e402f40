"""Code in; the same code with its comments, and what it says to readers, translated.

A comment is a piece of text, and so are the question, the explanation and the mistakes
of `predict`, and the goal and the title of a view. All else stays as it is: the syntax
tree before and after is compared, without these strings.
"""

import ast
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterator
from typing import NamedTuple

Visit = Callable[[str, str], str]

# A copy of the library's code stays as the library has it.
LISTING = re.compile(r"# attention_lib\.[\w.]+: ")
# Only a shape, or words for a tool.
NO_WORDS = r"[^a-z]*|\(.*\)( (and|or|->|against) \(.*\))*|(noqa|type:|fmt:|@).*"
# The arguments that people read, by their names; 0 is the first without one.
PREDICT: set[int | str | None] = {0, "question", "because", "mistakes"}
VIEW: set[int | str | None] = {"goal", "title"}
TEXT = ast.Constant, ast.JoinedStr
SENTENCE = re.compile(r"[^。？！]+[。？！”）]*")


class Piece(NamedTuple):
    """A part of code, from a line and column to another, and what it says."""

    start: tuple[int, int]
    end: tuple[int, int]
    kind: str
    text: str
    sign: str = ""  # `f` before a string with parts that are filled in


def translated_code(code: str, visit: Visit) -> str:
    """Return code with each piece as `visit` returns it."""
    tree = _tree(code)
    if tree is None or LISTING.match(code):
        return code
    lines = code.split("\n")
    pieces = sorted([*_strings(tree, lines), *_comments(code, lines)])
    new = [(it, own) for it in pieces if (own := visit(it.kind, it.text)) != it.text]
    for piece, own in reversed(new):
        (first, start), (last, end) = piece.start, piece.end
        text = lines[first][:start] + _written(piece, own) + lines[last][end:]
        lines[first : last + 1] = text.split("\n")
    if new and bare("\n".join(lines)) != bare(code):
        raise ValueError(f"a translation changes the code of {new[0][0].text!r}")
    return "\n".join(lines)


def bare(code: str) -> str:
    """Return the syntax tree of code, without the words that are said to readers."""
    tree = _tree(code)
    for node in _said(tree):
        if isinstance(node, ast.JoinedStr):  # what is filled in, in any order
            filled = [it for it in node.values if isinstance(it, ast.FormattedValue)]
            node.values = sorted(filled, key=ast.dump)
        elif isinstance(node, ast.Constant):
            node.value = ""
    return ast.dump(tree) if tree else ""


def said_in(code: str) -> list[str]:
    """Return what a cell's code says to readers, in order."""
    return [text_of(node) for node in _said(_tree(code))]


def _tree(code: str) -> ast.AST | None:
    """Return the syntax tree of code, None for what is no Python."""
    try:
        return ast.parse(code)
    except SyntaxError:
        return None


def text_of(node: ast.expr) -> str:
    """Return a string as it is translated, with what is filled in between braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    # As code, without the sign and the quotes: any quote of the text is escaped.
    return str(ast.unparse(node)[2:-1].replace("\\'", "'").replace('\\"', '"'))


def _said(tree: ast.AST | None) -> Iterator[ast.expr]:
    """Yield the strings that are read by people."""
    nodes = ast.walk(tree) if tree else ()
    for call in (it for it in nodes if isinstance(it, ast.Call)):
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        views = VIEW if name.startswith("view_") else set()
        names = PREDICT if name == "predict" else views
        parts = [it for n, it in enumerate(call.args) if n in names]
        parts += [it.value for it in call.keywords if it.arg in names]
        for part in parts:  # a goal is a tuple of its words and a condition
            held = part.elts[:1] if isinstance(part, ast.Tuple) else [part]
            held = part.values if isinstance(part, ast.Dict) else held
            yield from (it for it in held if isinstance(it, TEXT))


def _strings(tree: ast.AST, lines: list[str]) -> Iterator[Piece]:
    """Yield the strings that are read by people, with their places in characters."""

    def place(line: int, column: int) -> tuple[int, int]:
        return line - 1, len(lines[line - 1].encode()[:column].decode())

    for node in _said(tree):
        start = place(node.lineno, node.col_offset)
        end = place(node.end_lineno or node.lineno, node.end_col_offset or 0)
        sign = "f" if isinstance(node, ast.JoinedStr) else ""
        yield Piece(start, end, "said", text_of(node), sign)


def _comments(code: str, lines: list[str]) -> list[Piece]:
    """Return comments with words; those alone on lines below each other are one."""
    found: list[Piece] = []
    for token in tokenize.generate_tokens(io.StringIO(code + "\n").readline):
        if token.type != tokenize.COMMENT:
            continue
        text, line = token.string.lstrip("#").strip(), token.start[0] - 1
        start, end = (line, token.start[1]), (line, token.end[1])
        before = found[-1] if found else Piece((-9, 0), (-9, 0), "", "")
        above = (before.end[0] + 1, before.start[1]) == start
        alone = not (lines[line - 1][: start[1]] + lines[line][: start[1]]).strip()
        if above and alone:
            text, start = f"{before.text}\n{text}", before.start
            found.pop()
        found.append(Piece(start, end, "comment", text))
    return [it for it in found if not re.fullmatch(NO_WORDS, it.text, re.DOTALL)]


def _written(piece: Piece, own: str) -> str:
    """Return a piece as code: a line for each of a comment, or of what is said."""
    if piece.kind == "comment":
        parts = [f"# {it}".rstrip() for it in own.split("\n")]
    else:
        said = SENTENCE.findall(own) or [own]
        parts = [piece.sign + json.dumps(it, ensure_ascii=False) for it in said]
    return ("\n" + " " * piece.start[1]).join(parts)
