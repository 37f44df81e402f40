"""A record is stale when what its outputs depend on changed, and only then."""

from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.record.freshness import fingerprints, stale_causes
from tools.record.reach import reached_files

LIBRARY = {
    "__init__.py": "from attention_lib.masks import causal as causal_mask\n"
    "from attention_lib.exercises import check_mask\n",
    "toy.py": "import numpy as np\n",
    "masks.py": "from attention_lib.validation import check\n",
    "validation.py": "import torch\n",
    "reproducibility.py": "RUN_ENVIRONMENT = {}\n",
    "exercises/__init__.py": "from attention_lib.exercises.masks import check_mask\n"
    "from attention_lib.exercises.toy import check_toy\n",
    "exercises/masks.py": "from attention_lib.masks import causal\n",
    "exercises/toy.py": "from attention_lib.toy import softmax\n",
}
EVERYTHING = sorted(LIBRARY)
MASKS = ["masks.py", "validation.py"]
CODE = "from attention_lib.masks import causal\ncausal(3)"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A library and the pinned versions."""
    for name, source in LIBRARY.items():
        path = tmp_path / "attention_lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    (tmp_path / "requirements.txt").write_text("# made\ntorch==1  # why\nnumpy==2\n")
    return tmp_path


def reached(root: Path, *sources: str) -> list[str]:
    """Return what code reaches, as names within the library."""
    library = root / "attention_lib"
    files = reached_files(sources, root)
    return sorted(path.relative_to(library).as_posix() for path in files)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import numpy", []),
        ("from attention_lib.toy import softmax", ["toy.py"]),
        ("from attention_lib.masks import causal", MASKS),
        ("import attention_lib.masks as m", MASKS),
        ("from attention_lib import masks", MASKS),
        ("from attention_lib import causal_mask", MASKS),
        ("def later():\n    from attention_lib.toy import softmax", ["toy.py"]),
        ("from attention_lib import check_mask", ["exercises/masks.py", *MASKS]),
        ("import attention_lib", EVERYTHING),
        ("import attention_lib.masks", EVERYTHING),
        ("from attention_lib import *", EVERYTHING),
        ("from attention_lib import unknown", EVERYTHING),
        ("from . import masks", EVERYTHING),
        ("%pip install x", EVERYTHING),
    ],
)
def test_reached_files_are_those_behind_an_import(
    root: Path, source: str, expected: list[str]
) -> None:
    assert reached(root, source) == expected


def test_reached_files_of_a_package_are_those_behind_the_names_in_use(
    root: Path,
) -> None:
    cells = "from attention_lib import exercises", "exercises.check_toy(1)"
    assert reached(root, *cells) == ["exercises/toy.py", "toy.py"]


def test_reached_files_of_a_package_used_otherwise_are_all_of_it(root: Path) -> None:
    cells = "from attention_lib import exercises", "exercises.check_toy(dir(exercises))"
    package = [name for name in EVERYTHING if name.startswith("exercises/")]
    assert reached(root, *cells) == sorted([*package, "toy.py", *MASKS])


def notebook(code: str = CODE, prose: str = "text", **metadata: object) -> NotebookNode:
    """Make a chapter of one paragraph and one cell."""
    cells = [new_markdown_cell(prose), new_code_cell(code, metadata=metadata)]
    return new_notebook(cells=cells)


def record(root: Path, code: str = CODE) -> NotebookNode:
    """Make the fresh record of a chapter."""
    made = notebook(code)
    made.metadata["attention_book"] = fingerprints(made, root)
    return made


def test_stale_causes_of_a_fresh_record_are_none(root: Path) -> None:
    assert stale_causes(notebook(), record(root), root) == []


def test_stale_causes_name_a_missing_record(root: Path) -> None:
    assert stale_causes(notebook(), None, root) == ["not recorded yet"]


def test_stale_causes_do_not_name_prose(root: Path) -> None:
    assert stale_causes(notebook(prose="other"), record(root), root) == []


@pytest.mark.parametrize(
    "changed", [notebook(CODE + " "), notebook(tags=["hide-input"])]
)
def test_stale_causes_name_code(root: Path, changed: NotebookNode) -> None:
    assert stale_causes(changed, record(root), root) == ["its code cells changed"]


def test_stale_causes_name_code_edited_in_the_record(root: Path) -> None:
    edited = record(root)
    edited.cells[1].source += "  # by hand"
    assert stale_causes(notebook(), edited, root) == ["its code cells changed"]


def edit_library(root: Path, name: str) -> None:
    """Change one module."""
    path = root / "attention_lib" / name
    path.write_text(path.read_text() + "# changed\n")


@pytest.mark.parametrize("name", ["masks.py", "validation.py", "reproducibility.py"])
def test_stale_causes_name_a_library_that_is_reached(root: Path, name: str) -> None:
    before = record(root)
    edit_library(root, name)
    assert stale_causes(notebook(), before, root) == ["attention_lib changed"]


@pytest.mark.parametrize("name", ["toy.py", "__init__.py", "exercises/masks.py"])
def test_stale_causes_leave_out_modules_that_are_not_reached(
    root: Path, name: str
) -> None:
    before = record(root)
    edit_library(root, name)
    assert stale_causes(notebook(), before, root) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("==1", "==1.1", ["the pinned versions changed"]),
        ("numpy==2\n", "", ["the pinned versions changed"]),
        ("# why", "# because", []),
    ],
)
def test_stale_causes_name_versions_but_no_comment(
    root: Path, old: str, new: str, expected: list[str]
) -> None:
    before = record(root)
    pins = root / "requirements.txt"
    pins.write_text(pins.read_text().replace(old, new))
    assert stale_causes(notebook(), before, root) == expected
