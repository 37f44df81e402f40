"""attention_lib as a whole: what its names are, and who may import whom.

What stands at the top has an example of its own: test_book_examples.py.
"""

import ast
import importlib
import pkgutil
import re
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import jaxtyping
import numpy as np
import pytest

import attention_lib
from attention_lib import toy
from tests.untested import untested

# A module imports only from modules before it: first what serves every chapter, then
# the subject in the order of the chapters, then what draws, examines and teaches it.
# A layer takes `causal`, rotates queries and keys, keeps them in a cache: so masks,
# rotation and caches come before attention; published layers are made of linear and
# sparse attention.
ORDER = """
modules precision validation reproducibility
toy masks rope sampling kv_cache
attention multi_head mha_variants positions block
stories data tiny_lm decode_step generation
training checkpoints
norms grouped_query tiny_llama latent_attention cross_attention
relative_attention linear_attention sparse_attention
hf_layers pretrained conversation chat
flash_attention _triton flash_kernel packed_kernel serving
timing export
_supervisor launch parallel interpret
plotting examine course
"""
ROAD = ORDER.split()
LIBRARY = Path(attention_lib.__file__).parent
MODULES = [found.name for found in pkgutil.iter_modules(attention_lib.__path__)]
PACKAGES = [
    *("pretrained", "export", "serving", "hf_layers", "validation", "plotting"),
    *("examine", "course.museum", "course.views"),
]
IMPORT = r"(?m)^[ \t]*from (attention_lib[\w.]*) import (\([^)]*\)|[^\n#]+)"
CELL = r"(?ms)^`{3,}\{code-cell\}[^\n]*\n(.*?)^`{3,}$"


def public_names(module):
    """The public names that a module defines, or that a package offers."""
    file = LIBRARY / f"{module}.py"
    if module in ("attention_lib", "course"):
        return set()
    if not file.exists():
        return set(importlib.import_module(f"attention_lib.{module}").__all__)
    return {name for name in defined(file) if not name.startswith("_")}


@cache
def defined(file):
    """The names of the functions, classes and values that a file defines."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            names |= {part.id for part in parts if isinstance(part, ast.Name)}
    return names


@cache
def imports(root):
    """Each name that code of the project imports: the file, the module, the name."""
    folders = ("attention_lib", "tests", "tools", "benchmarks")
    texts = {
        path: path.read_text(encoding="utf-8")
        for folder in folders
        for path in (root / folder).rglob("*.py")
    }
    for path in (root / "chapters").glob("*.md"):
        cells = re.findall(CELL, path.read_text(encoding="utf-8"))
        texts[path] = "\n".join(
            re.sub(r"^(:.*|%.*)$", "", it, flags=re.M) for it in cells
        )
    found = []
    for path, text in texts.items():
        for match in re.finditer(IMPORT, text):
            for name in re.findall(r"(\w+)(?: as \w+)?[,\s)]*", match[2]):
                found.append((path, match[1], name))
    return found


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
    for path in {*LIBRARY.rglob("*.py")} - {*LIBRARY.glob("course/workshop/files/*")}:
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


def test_name_has_one_import_path():
    """A package offers its names itself; elsewhere none is imported from within it."""
    names = Counter(name for module in MODULES for name in public_names(module))
    assert [name for name, count in names.items() if count > 1] == []
    for path, module, name in imports(LIBRARY.parent):
        package, _, inner = module.removeprefix("attention_lib.").rpartition(".")
        own = path.is_relative_to(LIBRARY.joinpath(*package.split(".")))
        if inner and package in PACKAGES and not own:
            offered = importlib.import_module(f"attention_lib.{package}").__all__
            assert name not in offered, f"{path}: import {name} from {package}"


def test_module_defines_the_names_that_others_import_from_it():
    """A name is imported from where it is defined, so that no import hides a second."""
    for path, module, name in imports(LIBRARY.parent):
        file = LIBRARY.parent.joinpath(*module.split(".")).with_suffix(".py")
        if file.is_file():
            assert name in defined(file) or name[0] == "_", f"{path}: {module}.{name}"


def imported_tests(source):
    """The test files that a module imports from."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if re.match(r"tests\.(\w+\.)*test_", name)}


def test_no_test_imports_from_a_test_file():
    """What tests share is in a module of its own, so that no test needs another."""
    for path in (LIBRARY.parent / "tests").rglob("*.py"):
        assert imported_tests(path.read_text(encoding="utf-8")) == set(), path


def test_attention_lib_offers_at_most_60_names():
    assert len(attention_lib.__all__) <= 60


@pytest.mark.parametrize("module", MODULES)
def test_module_imports_only_earlier_ones(module):
    assert module in ROAD, f"give {module} its place on the road"
    assert imported_modules(module) <= set(ROAD[: ROAD.index(module)])


def test_shapes_are_checked_while_tests_run():
    with pytest.raises(jaxtyping.TypeCheckError, match="parameters"):
        toy.attention(np.zeros((2, 4)), np.zeros((3, 5)), np.zeros((3, 6)))
