"""How docstrings begin: "Return the weights.", not "Gives the weights."."""

import ast
from pathlib import Path

import attention_lib

ROOT = Path(attention_lib.__file__).parents[1]
CODE = ["attention_lib", "tools", "benchmarks", "tests"]
# First words of docstrings in the third person; a function's is an imperative.
THIRD_PERSON = {
    *("Adds", "Asks", "Attends", "Begins", "Brings", "Builds", "Calls", "Changes"),
    *("Checks", "Chooses", "Compares", "Computes", "Counts", "Cuts", "Describes"),
    *("Divides", "Does", "Draws", "Fills", "Finds", "Gives", "Goes", "Hides"),
    *("Holds", "Imports", "Joins", "Keeps", "Lays", "Leaves", "Lets", "Loads"),
    *("Looks", "Makes", "Measures", "Mixes", "Names", "Picks", "Projects", "Puts"),
    *("Reads", "Rebuilds", "Refuses", "Reorders", "Replaces", "Returns", "Runs"),
    *("Says", "Sees", "Sets", "Shows", "Splits", "Stops", "Sums", "Takes", "Tells"),
    *("Ties", "Trains", "Tries", "Turns", "Waits", "Writes"),
}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstrings(text):
    """Return the line and the text of each docstring of a file."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED)]
    return [
        (node.body[0].lineno, text)
        for node in nodes
        if (text := ast.get_docstring(node))
    ]


def in_third_person(text):
    return [
        f"{line}: {doc.splitlines()[0]}"
        for line, doc in docstrings(text)
        if doc.split()[0].rstrip(".,:;") in THIRD_PERSON and doc.split()[1:2] != ["of"]
    ]


def test_docstrings_are_imperative():
    found = [
        f"{file.relative_to(ROOT)}:{where}"
        for folder in CODE
        for file in sorted((ROOT / folder).rglob("*.py"))
        for where in in_third_person(file.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_a_docstring_in_the_third_person_is_found():
    text = '"""Masks."""\n\ndef f():\n    """Gives, in the end, a mask."""\n'
    assert in_third_person(text) == ["4: Gives, in the end, a mask."]
    for right in ("Return", "Calls of"):
        assert in_third_person(text.replace("Gives,", right)) == []
