"""A record is stale when what its outputs depend on changed, and only then."""

import pytest
from nbformat.v4 import (
    new_code_cell,
    new_markdown_cell,
    new_notebook,
    new_output,
    writes,
)

from tests.running import sample, written
from tools.record.freshness import fingerprints, seal, stale_causes, states
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
PINS = sample("pins.txt")
EVERYTHING = sorted(LIBRARY)
MASKS = ["masks.py", "validation.py"]
CODE = "from attention_lib.masks import causal\ncausal(3)"


@pytest.fixture
def root(tmp_path):
    """A library and the pinned versions."""
    written(tmp_path / "attention_lib", LIBRARY)
    return written(tmp_path, {"requirements.txt": PINS})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from attention_lib.toy import softmax", ["toy.py"]),
        ("from attention_lib.masks import causal", MASKS),
        ("import attention_lib.masks as m", EVERYTHING),
        ("from attention_lib import masks", MASKS),
        ("from attention_lib import causal_mask", MASKS),
        ("from attention_lib import check_mask", ["exercises/masks.py", *MASKS]),
        ("from attention_lib import unknown", EVERYTHING),
        ("from . import masks", EVERYTHING),
        ("%pip install x", EVERYTHING),
        ("from attention_lib.exercises import masks", ["exercises/masks.py", *MASKS]),
    ],
)
def test_reached_files_are_those_behind_an_import(root, source, expected):
    library = root / "attention_lib"
    files = reached_files([source], root)
    assert sorted(path.relative_to(library).as_posix() for path in files) == expected


def notebook(code=CODE, prose="text", **metadata):
    """Make a chapter of one paragraph and one cell."""
    cells = [new_markdown_cell(prose), new_code_cell(code, metadata=metadata)]
    return new_notebook(cells=cells)


def record(root, code=CODE):
    """Make the fresh record of a chapter."""
    made = notebook(code)
    cell = made.cells[1]
    data, width = {"image/png": "AAAA"}, {"image/png": {"width": 560}}
    shown = new_output("display_data", data, metadata=width)
    cell.outputs = [new_output("stream", text="8.1275\n"), shown]
    cell.execution_count = 1
    made.metadata["attention_book"] = fingerprints(made, root) | seal(made)
    return made


def test_stale_causes_name_code_and_a_missing_record_but_no_prose(root):
    assert stale_causes(notebook(), record(root), root) == []
    assert stale_causes(notebook(prose="other"), record(root), root) == []
    assert stale_causes(notebook(), None, root) == ["not recorded yet"]
    edited = record(root)
    edited.cells[1].source += "  # by hand"
    assert stale_causes(notebook(), edited, root) == ["its code cells changed"]
    for changed in (notebook(CODE + " "), notebook(tags=["hide-input"])):
        assert stale_causes(changed, record(root), root) == ["its code cells changed"]


EDITS = {
    "last digit": lambda cell: cell.outputs[0].update(text="8.1276\n"),
    "picture": lambda cell: cell.outputs[1].data.update({"image/png": "AAAB"}),
    "width": lambda cell: cell.outputs[1].metadata["image/png"].update(width=200),
    "gone": lambda cell: cell.outputs.pop(),
    "count": lambda cell: cell.update(execution_count=None),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_stale_causes_name_outputs_that_were_edited_by_hand(root, edit):
    edited = record(root)
    edit(edited.cells[1])
    assert stale_causes(notebook(), edited, root) == ["its outputs, by hand, changed"]


def test_state_of_a_record_is_that_of_code_and_compared_outputs(root):
    folder = root / "notebooks"
    folder.mkdir()

    def stored(made):
        (folder / "01.ipynb").write_text(writes(made))
        return states(root)["01"]

    first = stored(record(root))
    (root / "requirements.txt").write_text(PINS + "new==1\n")
    assert stored(record(root)) == first
    assert stored(record(root, CODE + " ")) != first
    for tags, differs in ([], True), (["not-compared"], False):
        other = record(root)
        other.cells[1].metadata["tags"] = tags
        before = stored(other)
        EDITS["last digit"](other.cells[1])
        assert (stored(other) != before) == differs


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[(n, ["attention_lib changed"]) for n in (*MASKS, "reproducibility.py")],
        *[(name, []) for name in ("toy.py", "__init__.py", "exercises/masks.py")],
    ],
)
def test_stale_causes_name_a_library_that_is_reached(root, name, expected):
    before = record(root)
    path = root / "attention_lib" / name
    path.write_text(path.read_text() + "# changed\n")
    assert stale_causes(notebook(), before, root) == expected


@pytest.mark.parametrize(
    ("old", "new", "stale"),
    [
        ("torch==2.13.0", "torch==2.14.0", True),
        ("mpmath==1.3.0", "mpmath==1.4.0", True),  # torch needs sympy, which needs it
        ("ipykernel==7.4.0", "ipykernel==7.5.0", True),
        ("torch==2.13.0", "by-hand==1\ntorch==2.13.0", True),  # nothing says for what
        ("ruff==0.14.0", "ruff==0.15.0", False),
        ("# made by uv", "# made anew", False),
    ],
)
def test_stale_causes_name_versions_that_an_execution_can_reach(root, old, new, stale):
    before = record(root)
    (root / "requirements.txt").write_text(PINS.replace(old, new))
    expected = ["its versions changed"] if stale else []
    assert stale_causes(notebook(), before, root) == expected
