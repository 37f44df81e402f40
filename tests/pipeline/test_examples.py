"""The examples of the library's pages run, and show what they give."""

import ast
import doctest
import inspect
import json
from importlib import import_module
from operator import attrgetter

import pytest

import attention_lib
from tools.chapters import ROOT
from tools.site.api import examples

EXAMPLES = examples(ROOT)
pytestmark = pytest.mark.usefixtures("settings_restored")  # one changes settings


# What checks input or answers, what needs several processes, and what layers ask of
# their parts and types: tests of their own.
WITHOUT = tuple(
    f"attention_lib.{name}"
    for name in ("validation", "course.exercises", "launch", "modules", "precision")
)


def named(name):
    """What an example is of."""
    module, _, own = name.rpartition(".")
    return attrgetter(own)(import_module(f"attention_lib.{module}".rstrip(".")))


def used():
    """The functions and classes that chapters import from a module of the library."""
    found = {}
    for path in ROOT.glob("notebooks/*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for cell in cells:
            code = "".join(cell["source"]) if cell["cell_type"] == "code" else ""
            for node in ast.walk(ast.parse(code)):
                module = getattr(node, "module", None) or ""
                if module.startswith("attention_lib."):
                    for it in node.names:
                        name = f"{module}.{it.name}"  # of a module: no attribute yet
                        found[name] = getattr(import_module(module), it.name, None)
    return found


def test_every_name_at_the_top_and_in_chapters_has_an_example_of_its_own():
    assert {*attention_lib.__all__} <= {*EXAMPLES}
    shown = {id(named(name)) for name in EXAMPLES}
    assert len(shown) == len(EXAMPLES)
    for name, target in used().items():
        if inspect.isfunction(target) or inspect.isclass(target):
            left_out = name.startswith(WITHOUT) or "._" in name
            assert left_out or id(target) in shown, f"{name} has no example"
    for name, text in EXAMPLES.items():
        calls = [line for line in text.splitlines() if "import" not in line]
        own = name.rpartition(".")[2]
        assert any(own in line for line in calls), name
        assert max(map(len, text.splitlines())) <= 72


@pytest.mark.usefixtures("shapes_unchecked")  # as where a reader runs it
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_gives_what_it_shows(name):
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, name, None, 0)
    assert doctest.DocTestRunner(verbose=False).run(test) == (0, len(test.examples))
