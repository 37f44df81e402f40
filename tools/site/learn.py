"""Interactive parts of a page: quizzes, predictions, folds, a glossary's letters."""

import re
from string import ascii_uppercase
from typing import Any

from docutils import nodes
from sphinx import addnodes

from tools.quiz import Quiz, QuizPart
from tools.words import say


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.add_node(QuizPart, html=(_visit_part, _leave_part))
    app.add_directive("quiz", Quiz)
    app.add_js_file("learn.js", loading_method="defer")
    app.connect("doctree-read", _name_folds)
    app.connect("doctree-resolved", _add_letters)
    # After MyST-NB has folded the code, which it knows by its place.
    app.connect("doctree-resolved", _show_before_code)


def _visit_part(translator: Any, node: QuizPart) -> None:
    tag, right = node["tag"], node.get("right")
    options = {} if right is None else {"data-right": str(right).lower()}
    options |= {"data-several": ""} if node.get("several") else {}
    start = str(translator.starttag(node, tag, **options))
    if tag == "details":
        start += f"<summary>{say('quiz.answers')}</summary>\n"
    if right is not None:
        mark, word = ("✓", "quiz.right") if right else ("✗", "quiz.wrong")
        start += f'<span class="quiz-mark" role="img" aria-label="{say(word)}">'
        start += f"{mark}</span>"
    translator.body.append(start)


def _leave_part(translator: Any, node: QuizPart) -> None:
    translator.body.append(f"</{node['tag']}>\n")


def _show_before_code(app: Any, doctree: nodes.document, docname: str) -> None:
    """Move folded code below its output: a figure, a view, a prediction."""
    for cell in list(doctree.findall(nodes.container)):
        if "tag_hide-input" in cell["classes"] and len(cell.children) > 1:
            cell.children.append(cell.children.pop(0))


def _name_folds(app: Any, doctree: nodes.document) -> None:
    """Name each folded part of a cell: by its title, or its kind."""
    cells = [it for it in doctree.findall(nodes.container) if it.get("prompt_show")]
    for cell in cells:
        code, given = cell.children[0].astext(), str(cell["prompt_show"])
        drawn = (it.get("mime_type") for it in cell.findall(nodes.container))
        kinds = {
            "fold.set_up": cell is cells[0],
            "fold.drawing": "image/png" in drawn,
            "fold.library": code.startswith("# attention_lib."),
            "fold.output": cell["hide_mode"] == "output",
            "fold.question": "tag_predict" in cell["classes"],
            "fold.view": re.search(r"\bexplore_", code),
        }
        kind = next((kind for kind, holds in kinds.items() if holds), "fold.code")
        titled = kind == "fold.code" and not given.startswith("Show code cell")
        cell["prompt_show"] = given if titled else say("fold.show", what=say(kind))
        cell["prompt_hide"] = given if titled else say("fold.hide", what=say(kind))


def _add_letters(app: Any, doctree: nodes.document, docname: str) -> None:
    """Lead to each letter's first entry, where all terms begin with a letter."""
    for glossary in list(doctree.findall(addnodes.glossary)):
        line, firsts = nodes.paragraph(), dict[str, str]()
        for term in glossary.findall(nodes.term):
            firsts.setdefault(term.astext()[0].upper(), term["ids"][0])
        if not firsts.keys() <= {*ascii_uppercase}:
            continue
        for letter, place in firsts.items():
            line += [nodes.reference("", letter, refid=place), nodes.Text(" ")]
        letters = nodes.container("", line, classes=["book-letters"])
        glossary.parent.insert(glossary.parent.index(glossary), letters)
