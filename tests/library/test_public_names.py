"""attention_lib as a whole: what its names are, and who may import whom.

What stands at the top has an example of its own: test_book_examples.py.
"""

import ast
import importlib
import pkgutil
import re
import sys
import tomllib
from pathlib import Path

import jaxtyping
import numpy as np
import pytest

import attention_lib
from tests.running import ran
from tests.untested import untested

# A module imports only from modules before it: first what serves every chapter, then
# the chapters in their order, then what looks back at all of them. A layer can be told
# `causal`, turns queries and keys, keeps them in a cache: so masks, rotation and caches
# come before attention; of linear and sparse attention published layers are made.
# What is asked of a layer's parts comes first of all.
ORDER = """
modules validation reproducibility plotting precision
toy masks rope_scaling rope sampling caches
attention multi_head backends positions block
stories data model decode_step kv_cache speculative
training checkpoints
norms grouped_query llama latent_attention cross_block translator cross_attention
relative_attention linear_attention sparse_attention
published decoder families weights publishing loading
flash_attention flash_kernel pages serving checks bugs
performance export_steps onnx_file export
_supervisor processes parallel inside
explorer predict exercises
"""
ROAD = ORDER.split()
LIBRARY = Path(attention_lib.__file__).parent
MODULES = [found.name for found in pkgutil.iter_modules(attention_lib.__path__)]
PUBLIC = [name for name in MODULES if not name.startswith("_")]


def public_names(module):
    """The names without underscore that a module defines: functions, classes, rest."""
    file = LIBRARY / f"{module}.py"
    if not file.exists():  # a folder of modules says itself what is public
        return set(importlib.import_module(f"attention_lib.{module}").__all__)
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            names |= {part.id for part in parts if isinstance(part, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def undeclared(source, declared):
    """The packages that a module needs to be imported, and nobody installs for it."""
    found, parts = set(), [ast.parse(source)]
    while parts:  # what a function imports, or a `try`, may be missing
        node = parts.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module.partition(".")[0])
        elif not isinstance(node, ast.FunctionDef | ast.Try):
            parts += ast.iter_child_nodes(node)
    return found - sys.stdlib_module_names - declared - {"attention_lib"}


def test_library_imports_only_what_its_dependencies_declare():
    project = tomllib.loads((LIBRARY.parent / "pyproject.toml").read_text())["project"]
    declared = {re.match(r"[\w-]+", it)[0] for it in project["dependencies"]}
    declared.add("PIL")  # pillow, which matplotlib requires
    for path in LIBRARY.rglob("*.py"):
        assert undeclared(path.read_text(encoding="utf-8"), declared) == set(), path


def test_undeclared_import_is_named():
    code = "import os, yaml.x\nfrom torch import nn\n\n\ndef f():\n    import onnx"
    assert undeclared(code, {"torch"}) == {"yaml"}
    assert undeclared("if True:\n    from .a import b\n    import lxml", set()) == {
        "lxml"
    }


def test_function_that_no_test_runs_is_named():
    ran, never = {"missing_lines": [2], "executed_lines": [3]}, {"executed_lines": []}
    functions = {
        "": never | {"missing_lines": [1]},  # the module itself
        "softmax": ran,
        "Layer.forward": never | {"missing_lines": [7, 8]},
        "compiled": never | {"missing_lines": []},  # left out of the report
    }
    files = {"attention_lib/toy.py": {"functions": functions}}
    files["attention_lib/course/views/snapshots.py"] = files["attention_lib/toy.py"]
    assert untested({"files": files}) == ["attention_lib/toy.py: Layer.forward"]


def imported_modules(module):
    """Whom a module imports from; a folder's modules may import one another."""
    file = LIBRARY / f"{module}.py"
    files = [file] if file.exists() else sorted((LIBRARY / module).glob("*.py"))
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    imported = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "write the module's full name"
            imported.add(node.module)
    ours = [name.split(".") for name in imported if name.startswith("attention_lib")]
    return {name[1] if name[1:] else "attention_lib itself" for name in ours} - {module}


# In a process of its own, which forgets all of ours before each module.
ATTRIBUTES = """
import sys
from importlib import import_module
from types import ModuleType

for module in sys.argv[1:]:
    for name in [*sys.modules]:
        if name.partition(".")[0] == "attention_lib":
            del sys.modules[name]
    found = getattr(import_module("attention_lib"), module)
    again = import_module(f"attention_lib.{module}")
    assert isinstance(found, ModuleType) and found is again, module
"""


def test_module_is_an_attribute_and_no_other_thing():
    done = ran([sys.executable, "-c", ATTRIBUTES, *PUBLIC])
    assert done.returncode == 0, done.stderr


def test_attention_lib_names_one_thing_once_and_has_no_other_attribute():
    names = [name for module in MODULES for name in public_names(module)]
    assert sorted(names) == sorted(set(names))
    with pytest.raises(AttributeError, match="'attention_lib' has no attribute 'tow'"):
        attention_lib.tow  # noqa: B018


def test_attention_lib_offers_at_most_60_names():
    helpers = 3  # which its own __getattr__ needs
    assert len(attention_lib.__all__) + helpers <= 60


@pytest.mark.parametrize("module", MODULES)
def test_module_imports_only_earlier_ones(module):
    assert module in ROAD, f"give {module} its place on the road"
    assert imported_modules(module) <= set(ROAD[: ROAD.index(module)])


def test_shapes_are_checked_while_tests_run():
    with pytest.raises(jaxtyping.TypeCheckError, match="parameters"):
        attention_lib.toy.attention(
            np.zeros((2, 4)), np.zeros((3, 5)), np.zeros((3, 6))
        )
