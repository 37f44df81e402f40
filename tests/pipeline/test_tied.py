"""What a chapter tells its readers is tied to what its code computes."""

import ast
import itertools
import json
import re
from functools import cache

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output

from attention_lib.course.predict import predict
from tools.chapters import ROOT, chapter_paths, code_of, notebook_path, read_chapter
from tools.record.rules import tags
from tools.record.shown import HEADER

NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
CHAPTERS = [pytest.param(path, id=path.stem) for path in chapter_paths()]
SMALL = 20  # whole numbers below are printed everywhere, so one must be asserted
NEAR = 2  # cells below a question, in which its answer may be printed


def constant(node):
    """Return what an expression of literals alone is, or None."""
    parts = (ast.Constant, ast.Tuple, ast.BinOp, ast.UnaryOp)
    inner = (it for it in ast.walk(node) if isinstance(it, ast.expr))
    if not all(isinstance(it, parts) for it in inner):
        return None
    return eval(compile(ast.Expression(node), "answer", "eval"))


def literal_answer(source):
    """Return what the question of a cell has as its answer, if that is written out."""
    call = ast.parse(source).body[-1].value
    return constant(next(it.value for it in call.keywords if it.arg == "answer"))


def asserted(source):
    """Return the literals that a cell asserts something to be equal or near to."""
    found = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assert)
    ]
    sides = []
    for node in (it for one in found for it in ast.walk(one)):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
            sides += [node.left, *node.comparators]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            sides += [node.right]
    return [constant(side) for side in sides]


def prints(answer, text):
    """Say whether a text shows an answer, rounded as it shows it."""
    if isinstance(answer, tuple):
        return str(answer) in text
    if isinstance(answer, int):
        return answer >= SMALL and f"{answer}" in NUMBER.findall(text.replace(",", ""))
    found = [it.replace(",", "") for it in NUMBER.findall(text) if "." in it]
    digits = [(it, len(it.partition(".")[2])) for it in found]
    return any(abs(float(it) - answer) < 0.51 * 10.0**-n for it, n in digits)


def untied(cells):
    """Return the questions whose answer is neither computed, printed nor asserted."""
    asking = [n for n, cell in enumerate(cells) if "predict" in tags(cell)]
    found = []
    for start, end in itertools.pairwise([*asking, len(cells)]):
        below, answer = cells[start + 1 : end], literal_answer(cells[start].source)
        held = [it for cell in below for it in asserted(cell.source)]
        texts = [text for cell in below[:NEAR] for text in printed(cell)]
        if answer is None or answer in held or any(prints(answer, it) for it in texts):
            continue
        found.append(f"{answer}: {cells[start].source}")
    return found


def printed(cell):
    """Return the texts that a cell's record shows."""
    shown = [out.get("data", {}).get("text/plain", "") for out in cell.outputs]
    return [out.get("text", "") for out in cell.outputs] + shown


@pytest.mark.parametrize("path", CHAPTERS)
def test_answers_of_predictions_are_computed_printed_or_asserted(path):
    record = nbformat.read(notebook_path(path), as_version=4)
    cells = code_of(read_chapter(path))
    for cell, recorded in zip(cells, code_of(record), strict=True):
        cell.outputs = recorded.outputs
    assert untied(cells) == [], "let the code compute it, print it or assert it"


ASKED = "predict('?', answer={}, because='.')"


@pytest.mark.parametrize(
    ("answer", "below", "text", "tied"),
    [
        ("3.0", "", "-1e9: 3.00 from [0.33]", True),
        ("2.0", "assert (weights[:2] == 3).all()", "-1e9: 3.00, 2 rows", False),
        ("len(rows)", "", "", True),
        ("4", "", "4 of 9", False),
        ("4", "assert counts[3] == 4", "", True),
        ("0.5**2", "assert abs(share - 0.25) < 0.02", "", True),
        ("1050", "", "1,050 words", True),
        ("(2, 5)", "", "torch.Size([2, 5])", False),
        ("(2, 5)", "", "(2, 5)", True),
    ],
)
def test_answer_is_tied_by_a_name_a_print_or_an_assertion(answer, below, text, tied):
    asked = new_code_cell(ASKED.format(answer), metadata={"tags": ["predict"]})
    shown = new_code_cell(below, outputs=[new_output("stream", text=text)])
    assert bool(untied([asked, shown])) != tied


DATA = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)
MOVES = 0.011  # what the comparison lets a decimal move by, and a little


def near_mistakes(cell):
    """Return the wrong answers of a question that are right where its answer moves."""
    html = "".join(out.get("data", {}).get("text/html", "") for out in cell.outputs)
    (text,) = DATA.findall(html)
    asked = json.loads(text)
    right = asked["answer"]
    if literal_answer(cell.source) is not None or not isinstance(right, float):
        return []
    near = asked.get("absolute", asked.get("relative", 0) * abs(right)) + MOVES
    return [wrong for wrong, _ in asked["mistakes"] if abs(wrong - right) <= near]


@pytest.mark.parametrize("path", CHAPTERS)
def test_mistakes_stay_wrong_where_the_answer_moves(path):
    record = nbformat.read(notebook_path(path), as_version=4)
    asking = [cell for cell in code_of(record) if "predict" in tags(cell)]
    assert [cell.source for cell in asking if near_mistakes(cell)] == []


@pytest.mark.parametrize(("within", "found"), [(0.1, [0.11]), (0.05, [])])
def test_mistake_that_is_nearly_right_is_found(within, found):
    wrong = {0.11: "A guess.", 1: "All."}
    asked = predict("?", answer=0.0, because=".", mistakes=wrong, within=within)
    shown = [new_output("display_data", data=asked._repr_mimebundle_())]
    cell = new_code_cell("predict('?', answer=share)", outputs=shown)
    assert near_mistakes(cell) == found


LIBRARY = ROOT / "attention_lib"


def with_contract(tree):
    """Yield the names of functions and classes whose docstrings have Args or Raises."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            said = ast.get_docstring(node) or ""
            if re.search(r"^(Args|Raises):$", said, re.MULTILINE):
                yield node.name


def unheaded(source, names):
    """Return the library's names that a cell defines in full, without their header."""
    try:
        found = {*with_contract(ast.parse(source))} & names
    except SyntaxError:  # a magic
        return set()
    header = HEADER.fullmatch(source.partition("\n")[0])
    return found - {*(header[2].split(", ") if header else ())}


@cache
def library_names():
    """Return what the library defines with a contract."""
    texts = [file.read_text(encoding="utf-8") for file in LIBRARY.rglob("*.py")]
    return {name for text in texts for name in with_contract(ast.parse(text))}


@pytest.mark.parametrize("path", CHAPTERS)
def test_shown_library_code_has_its_header(path):
    names = library_names()
    cells = code_of(read_chapter(path))
    assert [it for cell in cells for it in unheaded(cell.source, names)] == []


def test_library_code_without_its_header_is_named():
    code = 'def mask(n):\n    """See.\n\n    Args:\n        n: rows.\n    """'
    assert unheaded(code, {"mask"}) == {"mask"}
    assert unheaded(f"# attention_lib.masks: mask\n{code}", {"mask"}) == set()
    assert unheaded(f"# attention_lib.masks: other\n{code}", {"mask"}) == {"mask"}
    assert unheaded("def mask(n):\n    return n", {"mask"}) == set()
