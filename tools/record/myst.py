"""Read MyST text with the site's own parser: blocks, directives, roles and links."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from docutils.parsers.rst import Directive
from docutils.parsers.rst.directives import admonitions, images
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline, image, link
from markdown_it.token import Token
from mdit_py_plugins.myst_role.index import myst_role
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.directives import parse_directive_text
from myst_parser.parsers.mdit import create_md_parser
from sphinx.directives.other import SeeAlso
from sphinx.directives.patches import MathDirective
from sphinx_design.dropdown import DropdownDirective

from tools.site.quiz import Quiz

# The site's own classes, so that arguments and options are read as the site reads them.
ADMONITIONS: dict[str, type[Directive]] = {
    "admonition": admonitions.Admonition,
    "note": admonitions.Note,
    "tip": admonitions.Tip,
    "warning": admonitions.Warning,
    "important": admonitions.Important,
    "seealso": SeeAlso,
}
DIRECTIVES: dict[str, type[Directive]] = ADMONITIONS | {
    "dropdown": DropdownDirective,
    "figure": images.Figure,
    "image": images.Image,
    "math": MathDirective,
    "quiz": Quiz,
}


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


class Span(NamedTuple):
    """A role, link or image in a paragraph, with its offsets there."""

    token: Token
    start: int
    end: int
    label_end: int  # of a link: where its `]` stands


def make_parser(config: MdParserConfig) -> MarkdownIt:
    """Return the site's parser; it reads blocks, and `read_spans` reads inside them."""
    blocks_only = replace(config, disable_syntax=[*config.disable_syntax, "inline"])
    parser = create_md_parser(blocks_only, RendererHTML)
    for name, rule in (("link", link), ("image", image), ("myst_role", myst_role)):
        parser.inline.ruler.at(name, _recorded(rule))
    return parser


def read_spans(token: Token, parser: MarkdownIt) -> list[Span]:
    """Parse an `inline` token into its children, and return its roles and links."""
    spans: list[Span] = []
    token.children = []
    env = {"spans": spans, "source": token.content}
    parser.inline.parse(token.content, parser, env, token.children)
    return spans


def _recorded(
    rule: Callable[[StateInline, bool], bool],
) -> Callable[[StateInline, bool], bool]:
    """Wrap a parser's rule: note what it found, and where."""

    def record(state: StateInline, silent: bool) -> bool:
        start, known = state.pos, len(state.tokens)
        found = rule(state, silent)
        # An image's alternative text is parsed as a text of its own.
        if found and not silent and state.src == state.env["source"]:
            kinds = ("link_open", "image", "myst_role")
            token = next(t for t in state.tokens[known:] if t.type in kinds)
            is_link = token.type == "link_open"
            label = state.md.helpers.parseLinkLabel(state, start) if is_link else -1
            state.env["spans"].append(Span(token, start, state.pos, label))
        return found

    return record


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
    parsed = parse_directive_text(
        DIRECTIVES[name], argument, "\n" * shift + token.content
    )
    if parsed.warnings:
        raise place.error(f"{{{name}}}: {parsed.warnings[0].msg}")
    below = 1 + parsed.body_offset - shift
    if argument and not parsed.arguments:  # the body starts on the opening line
        below = 0
    body = "\n".join(parsed.body)
    return Block(
        name, " ".join(parsed.arguments), parsed.options, body, place.below(below)
    )
