"""The checks that `make test` runs beside the tests proper, and that each can fail."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.site.build import ROOT, is_current

CHECKS = {
    "style": "ruff check .",
    "format": "ruff format --check .",
    "types": "mypy",
    "shown code": "tools.record.shown --check",
    "records": "tools.record --check",
}
SOURCES = ("attention_lib", "book", "chapters", "notebooks", "tools")
SETTINGS = ("_config.yml", "_toc.yml", "pyproject.toml", "requirements.txt")


def check(name: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run one check on a tree."""
    command = [sys.executable, "-m", *CHECKS[name].split()]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of everything that the checks read."""
    ignored = shutil.ignore_patterns("__pycache__", "katex")
    for name in SOURCES:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name in SETTINGS:
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    """Replace the first of something that must be there."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def assert_red(name: str, tree: Path, *words: str) -> None:
    """Assert that a check fails, and says why."""
    result = check(name, tree)
    said = result.stdout + result.stderr
    assert result.returncode == 1, said
    assert [word for word in words if word not in said] == [], said


@pytest.mark.parametrize("name", CHECKS)
def test_check_passes(name: str) -> None:
    result = check(name, ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_site_is_built_without_a_warning() -> None:
    assert is_current(ROOT), "the last build failed: run `python -m tools.site --check`"


def test_site_is_built_with_nothing_executed() -> None:
    log = (ROOT / "_build/site.log").read_text(encoding="utf-8")
    chapters = len(list((ROOT / "chapters").glob("*.md")))
    assert log.count("Using cached notebook") == chapters
    assert "Executing notebook" not in log


def test_style_goes_red(tree: Path) -> None:
    edit(
        tree / "tools/site/build.py", "import argparse", "import argparse\nimport math"
    )
    assert_red("style", tree, "build.py", "F401")


def test_format_goes_red(tree: Path) -> None:
    edit(tree / "tools/site/build.py", "import argparse", "import   argparse")
    assert_red("format", tree, "build.py")


def test_shown_code_goes_red_on_an_edit(tree: Path) -> None:
    edit(tree / "attention_lib/masks.py", "def causal_mask(", "def causal_mask( ")
    assert_red("shown code", tree, "03-masks.md", "causal_mask")


def test_records_go_red_on_a_library_that_changed(tree: Path) -> None:
    path = tree / "attention_lib/masks.py"
    path.write_text(path.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    assert_red("records", tree, "03-masks: attention_lib changed: run `make notebooks`")


def test_records_go_red_without_the_notebook(tree: Path) -> None:
    (tree / "notebooks/03-masks.ipynb").unlink()
    assert_red("records", tree, "03-masks: not recorded yet")


def test_records_go_red_on_code_that_changed(tree: Path) -> None:
    edit(tree / "chapters/03-masks.md", "import torch\n", "import torch\nx = 1\n")
    assert_red("records", tree, "03-masks: its code cells changed")


def test_records_go_red_on_prose_that_changed(tree: Path) -> None:
    path = tree / "chapters/03-masks.md"
    path.write_text(path.read_text(encoding="utf-8") + "\nMore.\n", encoding="utf-8")
    assert_red("records", tree, "03-masks: its prose is not in step")


def test_records_go_red_on_a_broken_reference(tree: Path) -> None:
    path = tree / "chapters/03-masks.md"
    path.write_text(
        path.read_text(encoding="utf-8") + "\n[](#nowhere)\n", encoding="utf-8"
    )
    assert_red("records", tree, "03-masks.md", "nowhere")
