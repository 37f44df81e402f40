"""MyST text in, its directives and their places out, as the site's own classes read."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from docutils.parsers.rst import Directive
from docutils.parsers.rst.directives import admonitions, images
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.parsers.directives import parse_directive_text
from myst_parser.parsers.mdit import create_md_parser
from sphinx.directives.other import SeeAlso
from sphinx_design.dropdown import DropdownDirective

from tools.chapters import parser_config
from tools.quiz import Quiz

ADMONITIONS: dict[str, type[Directive]] = {
    "admonition": admonitions.Admonition,
    "note": admonitions.Note,
    "tip": admonitions.Tip,
    "warning": admonitions.Warning,
    "important": admonitions.Important,
    "seealso": SeeAlso,
}
NESTING = ADMONITIONS | {"dropdown": DropdownDirective}
PICTURES = {"figure": images.Figure, "image": images.Image}
DIRECTIVES: dict[str, type[Directive]] = NESTING | PICTURES | {"quiz": Quiz}


class Place(NamedTuple):
    """A line of a page, which error messages name."""

    path: Path
    line: int

    def below(self, lines: int) -> "Place":
        """Return the place some lines further down."""
        return self._replace(line=self.line + lines)

    def error(self, message: str) -> ValueError:
        """Return an error that starts with the place."""
        name = f"{self.path.parent.name}/{self.path.name}"
        return ValueError(f"{name}:{self.line}: {message}")


class Block(NamedTuple):
    """A directive, read; `place` is the first line of its body."""

    name: str
    argument: str
    options: dict[str, Any]
    body: str
    place: Place

    @property
    def label(self) -> str:
        """The name by which the block can be referred to, if it has one."""
        return normal(str(self.options.get("name", "")))


def make_parser(root: Path) -> MarkdownIt:
    """Return the site's parser."""
    return create_md_parser(parser_config(root), RendererHTML)


def normal(name: str) -> str:
    """Return a label as Sphinx compares it."""
    return " ".join(name.lower().split())


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return re.sub(r"([\\`*\[\]<])", r"\\\1", text)


def directive_name(token: Token) -> str | None:
    """Return `note` for a fence that opens with `{note}`, else None."""
    if token.type not in ("fence", "colon_fence"):
        return None
    match = re.match(r"\s*\{([^}\s]+)\}", token.info)
    return match[1] if match else None


def read_directive(token: Token, place: Place) -> Block:
    """Read a directive's argument, options and body.

    Raises:
        ValueError: the directive or one of its options is not known here.
    """
    name = directive_name(token)
    if name is None or name not in DIRECTIVES:
        known = ", ".join(DIRECTIVES)
        raise place.error(f"unknown directive {{{name}}}; use one of {known}")
    argument = token.info.strip()[len(name) + 2 :].strip()
    # A body that starts with a nested fence must not be taken for options.
    shift = 1 if token.content.startswith(":::") else 0
    content = "\n" * shift + token.content
    parsed = parse_directive_text(DIRECTIVES[name], argument, content)
    if parsed.warnings:
        raise place.error(f"{{{name}}}: {parsed.warnings[0].msg}")
    below = 1 + parsed.body_offset - shift
    if argument and not parsed.arguments:  # the body starts on the opening line
        below = 0
    title, body = " ".join(parsed.arguments), "\n".join(parsed.body)
    return Block(name, title, parsed.options, body, place.below(below))
