"""The directive `quiz`: a question, and options with an explanation each.

    :::{quiz} Which axis does padding hide?
    :name: quiz-padding
    - [ ] The rows.

      Then every real token still looks at it.
    - [x] The columns.

      A hidden key gets weight 0 from every query.
    :::

The page holds the options as a list and the explanations in a folded part. A script,
`learn.js`, makes a form of the two. A notebook holds them as plain Markdown.
"""

import re
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList
from markdown_it import MarkdownIt

from tools.words import say

BOX = re.compile(r"\[([ xX])\](?:[ \t]+|$)")
HELP = "write `- [ ]` or `- [x]`, the option, and indented below it why"


class Option(NamedTuple):
    """One option: whether it is right, and two texts with their lines, from 0."""

    right: bool
    text: str
    line: int
    why: str
    why_line: int


class QuizError(ValueError):
    """An incomplete quiz; `line` counts from the body's first, from 0."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


def read_options(body: str) -> list[Option]:
    """Return the options of a quiz."""
    lines = body.split("\n")
    tokens: list[Any] = MarkdownIt().parse(body)
    outside = [t for t in tokens if t.level == 0 and t.nesting >= 0]
    if strange := [t for t in outside if t.type != "bullet_list_open"]:
        raise QuizError(f"a quiz is one list: {HELP}", strange[0].map[0])
    options = [
        _option(lines, item.map, head.map)
        for item, head in pairwise(tokens)
        if item.type == "list_item_open" and item.level == 1
    ]
    if len(options) < 2:
        raise QuizError(f"a quiz has two options at least: {HELP}")
    if not any(option.right for option in options):
        raise QuizError("no option is right: mark one with `- [x]`")
    return options


def _option(lines: list[str], item: list[int], head: list[int]) -> Option:
    """Read one item of the list, whose first paragraph is the option itself."""
    first, last = item
    width = len(lines[first]) - len(lines[first].lstrip(" ")) + 2
    inside = [line[width:] for line in lines[first:last]]
    box = BOX.match(inside[0])
    if not box:
        raise QuizError(f"an option starts with a box: {HELP}", first)
    split = head[1] - first
    text = "\n".join([inside[0][box.end() :], *inside[1:split]]).strip()
    why = "\n".join(inside[split:]).strip("\n")
    if not text or not why.strip():
        missing = "is empty" if not text else "has no explanation"
        raise QuizError(f"an option {missing}: {HELP}", first)
    blank = next(n for n, line in enumerate(inside[split:]) if line.strip())
    return Option(box[1] != " ", text, first, why, head[1] + blank)


def plain_quiz(question: str, options: list[tuple[bool, str, str]]) -> str:
    """Return a quiz as Markdown: the options numbered, the explanations folded."""
    several = sum(right for right, _, _ in options) > 1
    title = f"**{question}**" + (f" ({say('quiz.several')})" if several else "")
    asked = [_item(n, text) for n, (_, text, _) in enumerate(options, 1)]
    told = [
        _item(n, f"{'✓' if right else '✗'} {why}")
        for n, (right, _, why) in enumerate(options, 1)
    ]
    head = f"<details>\n<summary>{say('quiz.answers')}</summary>"
    return "\n\n".join([title, "\n".join(asked), head, "\n".join(told), "</details>"])


def _item(number: int, text: str) -> str:
    mark = f"{number}. "
    return mark + text.replace("\n", "\n" + " " * len(mark)).replace("   \n", "\n")


class QuizPart(nodes.General, nodes.Element):
    """The quiz, a list of options or answers, one of them, or the folded part."""


class Quiz(Directive):
    """Read a quiz, and make the nodes of its page."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = {"name": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Return the quiz, or report what is wrong with it at its line."""
        try:
            options = read_options("\n".join(self.content))
        except QuizError as fault:
            reporter = self.state_machine.reporter
            line = self.lineno + self.content_offset + fault.line + 1
            return [reporter.error(f"quiz: {fault}", line=line)]
        several = sum(option.right for option in options) > 1
        node = QuizPart(tag="div", classes=["quiz"], several=several)
        self.add_name(node)
        question = nodes.paragraph(classes=["quiz-question"])
        question += self.state.inline_text(self.arguments[0], self.lineno)[0]
        asked, told = (QuizPart(tag="ol", classes=[c]) for c in ("quiz-options", ""))
        for option in options:
            asked += self._item(option.text, option.line)
            told += self._item(option.why, option.why_line, right=option.right)
        node += [question, asked, QuizPart("", told, tag="details")]
        return [node]

    def _item(self, text: str, line: int, **attributes: Any) -> nodes.Node:
        """Return one item of a list, its Markdown read."""
        item = QuizPart(tag="li", **attributes)
        source = self.state_machine.document["source"]
        lines = StringList(text.split("\n"), source=source)
        self.state.nested_parse(lines, self.content_offset + line, item)
        return item
