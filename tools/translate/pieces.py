"""The text of a page in; the same text with each piece that a reader reads translated.

`visit(kind, text)` is called with each piece, and what it returns is put in its place:
the piece itself when pieces are extracted, its translation when a page is translated.
So a page of which nothing is translated comes back byte for byte.
"""

import json
import re

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tools.translate.cells import Visit, translated_code

# Directives whose argument is text, and those whose body is.
TITLED = {"admonition", "dropdown", "quiz", "contents"}
NESTING = {"admonition", "dropdown", "quiz", "div", "figure"}
FENCE = re.compile(r"(`{3,}|:{3,}|~{3,})\s*(?:\{([\w:-]+)\})?\s*(.*)")
BOX = re.compile(r"\[[ xX]\][ \t]+")
OPTION = re.compile(r":([\w-]+):\s*(.*)")
# What has no words: formulas, code, and roles without a text of their own.
SILENT = re.compile(r"\$[^$]*\$|\{[\w:]+\}`[^`<]*`|(?<!\})`[^`]*`")
LETTER = re.compile(r"[A-Za-z]")
# Options of a cell that are words.
WORDS = re.compile(r"(\s*)(alt|caption|code_prompt_show|reason): (.+)")
# What a tool fills is filled again in the edition, with its own words.
FILLED = re.compile(r"(^% results: .*?^% end$)", re.DOTALL | re.MULTILINE)


def translated(text: str, visit: Visit, parser: MarkdownIt) -> str:
    """Return a Markdown text with each piece as `visit` returns it."""
    parts = FILLED.split(text)
    parts[::2] = (_translated(it, visit, parser) for it in parts[::2])
    return "".join(parts)


def _translated(text: str, visit: Visit, parser: MarkdownIt) -> str:
    lines = text.split("\n")
    edits: dict[tuple[int, int], list[str]] = {}
    kind = "text"
    for token in parser.parse(text):
        if token.type in ("heading_open", "paragraph_open", "tr_open"):
            kinds = {"heading_open": "heading", "tr_open": "row"}
            kind = kinds.get(token.type, "text")
        if not token.map or tuple(token.map) in edits:
            continue
        first, last = token.map
        if token.type == "inline":
            edits[first, last] = _inline(lines[first:last], token, kind, visit)
        elif token.type in ("fence", "colon_fence"):
            edits[first, last] = _fence(lines[first:last], visit, parser)
    for (first, last), new in sorted(edits.items(), reverse=True):
        lines[first:last] = new
    return "\n".join(lines)


def _inline(lines: list[str], token: Token, kind: str, visit: Visit) -> list[str]:
    """Translate a paragraph, a heading, or all cells of a row."""
    if kind == "row":
        row = lines[0].strip()
        return [lines[0].replace(row, visit("row", row))]
    content = token.content.split("\n")
    starts = [line.index(part) for line, part in zip(lines, content, strict=True)]
    heads = [line[:start] for line, start in zip(lines, starts, strict=True)]
    text = "\n".join(content)
    if box := BOX.match(text):
        heads[0] += box[0]
        text, kind = text[box.end() :], "option"
    if not LETTER.search(SILENT.sub("", text)):
        return lines
    new = visit(kind, text).split("\n")
    heads += [" " * len(heads[-1])] * (len(new) - len(heads))
    return [head + line for head, line in zip(heads, new, strict=False)]


def _fence(lines: list[str], visit: Visit, parser: MarkdownIt) -> list[str]:
    """Translate the content between fences: a directive, a cell, or code."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    head, *body, tail = [line[indent:] for line in lines]
    name, rest = FENCE.sub(r"\2", head), FENCE.sub(r"\3", head)
    if not name and rest.startswith("python"):
        body = translated_code("\n".join(body), visit).split("\n")
    elif name == "code-cell":
        body = _cell(body, visit)
    elif name == "glossary":
        body = _glossary(body, visit)
    elif name in NESTING:
        body = _body(body, visit, parser)
    if rest and name in TITLED:
        head = head.removesuffix(rest) + visit("title", rest)
    return [" " * indent + line if line else "" for line in [head, *body, tail]]


def _body(body: list[str], visit: Visit, parser: MarkdownIt) -> list[str]:
    """Translate the body of a directive: its alternative text, then all below."""
    start = 0
    while start < len(body) and (option := OPTION.fullmatch(body[start])):
        if option[1] == "alt":
            body[start] = f":alt: {visit('alt', option[2])}"
        start += 1
    text = translated("\n".join(body[start:]), visit, parser)
    return body[:start] + text.split("\n")


def _glossary(body: list[str], visit: Visit) -> list[str]:
    """Translate definitions; a term keeps its name as a second one, for links."""
    new = []
    for line in body:
        if not line.strip():
            new.append(line)
        elif line.startswith(" "):
            start = len(line) - len(line.lstrip())
            new.append(line[:start] + visit("definition", line.strip()))
        else:
            own = visit("term", line)
            new += [own, line] if own != line else [line]
    return new


def _cell(body: list[str], visit: Visit) -> list[str]:
    """Translate a code cell: options that are words, then its code."""
    start = 0
    if body and body[0] == "---":
        start = body.index("---", 1) + 1
        for n, line in enumerate(body[:start]):
            if option := WORDS.fullmatch(line):
                said = str(yaml.safe_load(option[3]))
                if (own := visit(option[2], said)) != said:
                    quoted = json.dumps(own, ensure_ascii=False)
                    body[n] = f"{option[1]}{option[2]}: {quoted}"
    else:
        while start < len(body) and OPTION.fullmatch(body[start]):
            start += 1
    code = "\n".join(body[start:])
    return body[:start] + translated_code(code, visit).split("\n")
