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
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

Visit = Callable[[str, str], str]

# A copy of the library's code stays as the library has it.
LISTING = re.compile(r"# attention_lib\.[\w.]+: ")
# Only a shape, or words for a tool.
NO_WORDS = re.compile(
    r"[^a-z]*|\(.*\)( (and|or|->|against) \(.*\))*|(noqa|type:|fmt:|@).*"
)
# Which arguments of a call are read by people: their positions and names.
Read = tuple[frozenset[int], frozenset[str]]
PREDICT: Read = (frozenset({0}), frozenset({"question", "because", "mistakes"}))
VIEW: Read = (frozenset(), frozenset({"goal", "title"}))
WIDTH = 88


class Piece(NamedTuple):
    """A part of code, from a line and column to another, as a reader reads it."""

    start: tuple[int, int]
    end: tuple[int, int]
    kind: str
    text: str
    sign: str = ""  # `f` before a string with parts that are filled in


def translated_code(code: str, visit: Visit) -> str:
    """Return code with each piece as `visit` returns it."""
    if LISTING.match(code):
        return code
    try:
        tree = ast.parse(code)
    except SyntaxError:  # a magic command, or no Python
        return code
    lines = code.split("\n")
    edits = []
    for piece in sorted([*_strings(tree, lines), *_comments(code, lines)]):
        own = visit(piece.kind, piece.text)
        if own != piece.text:
            edits.append((piece, own))
    for piece, own in reversed(edits):
        (first, start), (last, end) = piece.start, piece.end
        new = _comment(piece, own, lines) if piece.kind == "comment" else None
        new = _literal(piece, own) if new is None else new
        text = lines[first][:start] + new + lines[last][end:]
        lines[first : last + 1] = text.split("\n")
    new_code = "\n".join(lines)
    if edits and bare(new_code) != bare(code):
        raise ValueError(f"a translation changes the code of {lines[0]!r}")
    return new_code


def said_in(code: str) -> list[str]:
    """Return what a cell's code says to readers, in order."""
    try:
        return [text_of(node) for node in _said(ast.parse(code))]
    except SyntaxError:
        return []


def bare(code: str) -> str:
    """Return the syntax tree of code, without the words that are said to readers."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return f"no Python: {code}"
    for node in _said(tree):
        if isinstance(node, ast.JoinedStr):  # in any order, but all of them
            filled = [it for it in node.values if isinstance(it, ast.FormattedValue)]
            node.values = sorted(filled, key=ast.dump)
        elif isinstance(node, ast.Constant):
            node.value = ""
    return ast.dump(tree)


def text_of(node: ast.expr) -> str:
    """Return a string as it is translated, with what is filled in between braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    parts = []
    for part in node.values if isinstance(node, ast.JoinedStr) else ():
        if isinstance(part, ast.FormattedValue):
            form = f":{text_of(part.format_spec)}" if part.format_spec else ""
            parts.append(f"{{{ast.unparse(part.value)}{form}}}")
        else:
            parts.append(text_of(part).replace("{", "{{").replace("}", "}}"))
    return "".join(parts)


def _said(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the strings that are read by people."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        none: Read = (frozenset(), frozenset())
        views = VIEW if name.startswith(("view_", "explore_")) else none
        places, names = PREDICT if name == "predict" else views
        parts = [it for n, it in enumerate(call.args) if n in places]
        parts += [it.value for it in call.keywords if it.arg in names]
        for part in parts:
            if isinstance(part, ast.Dict):
                yield from filter(_is_text, part.values)
            elif isinstance(part, ast.Tuple):  # a goal: its words, and a condition
                yield from filter(_is_text, part.elts[:1])
            elif _is_text(part):
                yield part


def _is_text(node: ast.expr) -> bool:
    is_string = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_string or isinstance(node, ast.JoinedStr)


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
        text = token.string.lstrip("#").strip()
        (line, start), (_, end) = token.start, token.end
        new = Piece((line - 1, start), (line - 1, end), "comment", text)
        if found and _is_alone(new, lines) and _is_alone(found[-1], lines):
            before = found[-1]
            if before.end[0] == line - 2 and before.start[1] == start:
                text = f"{before.text} {text}"
                found[-1] = before._replace(end=new.end, text=text)
                continue
        found.append(new)
    return [it for it in found if not NO_WORDS.fullmatch(it.text)]


def _is_alone(piece: Piece, lines: list[str]) -> bool:
    line, start = piece.start
    return not lines[line][:start].strip()


def _comment(piece: Piece, own: str, lines: list[str]) -> str:
    """Return a comment as code: on several lines where it is alone and long."""
    start = piece.start[1]
    columns = WIDTH - start - 2 if _is_alone(piece, lines) else 10**6
    margin = "\n" + " " * start
    return margin.join(f"# {part}".rstrip() for part in _wrapped(own, columns))


def _literal(piece: Piece, own: str) -> str:
    """Return a string as code: on several lines where it is long."""
    start = piece.start[1]
    parts = [own] if piece.sign else _wrapped(own, WIDTH - start - 2)
    quoted = (piece.sign + json.dumps(it, ensure_ascii=False) for it in parts)
    return ("\n" + " " * start).join(quoted)


def _wrapped(text: str, columns: int) -> list[str]:
    """Cut a text into lines: after a sign or a space, never within a word."""
    lines, line = [], ""
    for part in re.findall(r"[A-Za-z0-9_.`*$]+ ?|.", text, re.DOTALL):
        if line and _width(line + part) > columns and part not in "，。：；、？！”）":
            lines.append(line)
            line = ""
        line += part
    return [*lines, line]


def _width(text: str) -> int:
    """Return how many columns a text takes: a Chinese character takes two."""
    return sum(1 + (unicodedata.east_asian_width(it) in "WF") for it in text)
