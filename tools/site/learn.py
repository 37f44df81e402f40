"""What makes a page answer its reader: quizzes, predictions, folds, and progress."""

from typing import Any

from docutils import nodes

from tools.quiz import Quiz, QuizPart


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.add_node(QuizPart, html=(_visit_part, _leave_part))
    app.add_directive("quiz", Quiz)
    app.add_css_file("learn.css")
    app.add_js_file("learn.js", loading_method="defer")
    app.connect("doctree-read", _name_folds)
    # After MyST-NB has folded the code, which it knows by its place.
    app.connect("doctree-resolved", _show_before_code)


def _visit_part(translator: Any, node: QuizPart) -> None:
    tag, right = node["tag"], node.get("right")
    options = {} if right is None else {"data-right": str(right).lower()}
    options |= {"data-several": ""} if node.get("several") else {}
    start = str(translator.starttag(node, tag, **options))
    if tag == "details":
        start += "<summary>Answers</summary>\n"
    if right is not None:
        mark, word = ("✓", "Right") if right else ("✗", "Not right")
        start += f'<span class="quiz-mark" role="img" aria-label="{word}">{mark}</span>'
    translator.body.append(start)


def _leave_part(translator: Any, node: QuizPart) -> None:
    translator.body.append(f"</{node['tag']}>\n")


def _show_before_code(app: Any, doctree: nodes.document, docname: str) -> None:
    """Put folded code below what it shows: a figure, a view, a prediction."""
    for cell in list(doctree.findall(nodes.container)):
        if "tag_hide-input" in cell["classes"] and len(cell.children) > 1:
            cell.children.append(cell.children.pop(0))


def _name_folds(app: Any, doctree: nodes.document) -> None:
    """Have each folded part of a cell say what it holds; the first is the set-up."""
    cells = [it for it in doctree.findall(nodes.container) if it.get("prompt_show")]
    for cell in cells:
        what = "the set-up" if cell is cells[0] else "code"
        parts = cell.findall(nodes.container)
        if any(part.get("mime_type") == "image/png" for part in parts):
            what = "the drawing code"
        elif cell.children[0].astext().startswith("# attention_lib."):
            what = "the library’s code"
        elif cell["hide_mode"] == "output":
            what = "the output"
        cell["prompt_show"], cell["prompt_hide"] = f"Show {what}", f"Hide {what}"
