"""Recording: what is stale is executed, once; what fails leaves the old record."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import nbformat
import pytest
from nbformat import NotebookNode

from tools.record import execute
from tools.record import update as record
from tools.record.drafts import examine, store, strays
from tools.record.update import update

ROOT = Path(__file__).resolve().parents[1]
CHAPTER = """\
---
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# {title}

Some text.
"""
CELL = "\n```{{code-cell}} ipython3\n{}\n```\n"
FILES = {
    "_toc.yml": "chapters: [{file: chapters/01-one.md}, {file: chapters/02-two.md}]\n",
    "requirements.txt": "torch==1\n",
    "book/references.bib": "",
    "book/glossary.md": "# Glossary\n",
    "attention_lib/__init__.py": "",
    "attention_lib/toy.py": "NAME = 'toy'\n",
    "attention_lib/reproducibility.py": "RUN_ENVIRONMENT = {'BOOK_TEST': 'set'}\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A book of two chapters."""
    return make_book(tmp_path)


def make_book(root: Path) -> Path:
    """Write a book of two chapters."""
    for name, source in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(source)
    shutil.copy(ROOT / "_config.yml", root)
    write(root, "01-one", "print('one')")
    write(root, "02-two", "print('two')")
    return root


def write(root: Path, stem: str, *cells: str) -> None:
    """Write a chapter with these code cells."""
    path = root / "chapters" / f"{stem}.md"
    path.parent.mkdir(exist_ok=True)
    code = "".join(CELL.format(cell) for cell in cells)
    path.write_text(CHAPTER.format(title=stem) + code)


def load(root: Path, stem: str = "01-one") -> NotebookNode:
    """Read a record."""
    return nbformat.read(root / "notebooks" / f"{stem}.ipynb", as_version=4)


def text(root: Path, stem: str = "01-one") -> str:
    """Read a record's file."""
    return (root / "notebooks" / f"{stem}.ipynb").read_text()


def failures(root: Path, *cells: str) -> list[str]:
    """Record the first chapter with these cells; return its faults."""
    write(root, "01-one", *cells)
    return update(examine(root)[:1])


def fake_records(root: Path) -> None:
    """Store fresh records without executing anything."""
    for draft in examine(root):
        made = draft.plain
        for cell in made.cells:
            if cell.cell_type == "code":
                cell.execution_count = 1
        prints = record.fingerprints(made, root)
        made.metadata["attention_book"] = prints
        store(draft.chapter, made)


def causes(root: Path) -> list[list[str]]:
    """Say what is stale in each chapter."""
    return [draft.causes for draft in examine(root)]


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the chapters that would be executed, and execute none."""
    stems: list[str] = []

    def note(notebook: NotebookNode, chapter: Path, advance: object) -> list[str]:
        stems.append(chapter.stem)
        return []

    monkeypatch.setattr(record, "execute", note)
    return stems


# What is executed.


def test_update_executes_what_was_never_recorded(
    root: Path, executed: list[str]
) -> None:
    update(examine(root))
    assert sorted(executed) == ["01-one", "02-two"]


def test_update_leaves_nothing_stale(root: Path, executed: list[str]) -> None:
    update(examine(root))
    assert causes(root) == [[], []]


def test_update_executes_the_changed_chapter_only(
    root: Path, executed: list[str]
) -> None:
    fake_records(root)
    write(root, "02-two", "print('changed')")
    update(examine(root))
    assert executed == ["02-two"]


def test_update_after_a_change_of_prose_executes_nothing(
    root: Path, executed: list[str]
) -> None:
    fake_records(root)
    path = root / "chapters/01-one.md"
    path.write_text(path.read_text().replace("Some text.", "Other text."))
    update(examine(root))
    assert executed == []
    assert "Other text." in load(root).cells[0].source


def test_update_after_a_change_of_prose_keeps_outputs(root: Path) -> None:
    fake_records(root)
    kept = load(root)
    kept.cells[-1].outputs = [nbformat.v4.new_output("stream", text="kept")]
    store(root / "chapters/01-one.md", kept)
    path = root / "chapters/01-one.md"
    path.write_text(path.read_text() + "\nA last word.\n")
    update(examine(root))
    assert [cell.get("outputs") for cell in load(root).cells][1][0].text == "kept"


def test_update_writes_nothing_when_nothing_changed(root: Path) -> None:
    fake_records(root)
    path = root / "notebooks/01-one.ipynb"
    before = path.stat().st_mtime_ns
    update(examine(root))
    assert path.stat().st_mtime_ns == before


def test_store_leaves_a_file_that_holds_the_same(root: Path) -> None:
    fake_records(root)
    path = root / "notebooks/01-one.ipynb"
    before = path.stat().st_mtime_ns
    store(root / "chapters/01-one.md", load(root))
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("terminal", [True, False])
def test_update_shows_a_bar_on_a_terminal_only(
    root: Path,
    executed: list[str],
    terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    update(examine(root))
    shown = capsys.readouterr()
    assert ("cell/s" in shown.err) == terminal
    assert "01-one: recorded\n" in shown.out


def test_update_executes_chapters_side_by_side(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Barrier(2, timeout=20)
    monkeypatch.setattr(record, "execute", lambda *_: both.wait() * 0 or [])
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert update(examine(root)) == []


# How it is executed. Starting a kernel takes a second, so one run serves these tests.

CELLS = {
    "sum": "x = 6\nprint(x * 7)",
    "environment": "import os; print(os.environ['BOOK_TEST'])",
    "folder": "print(os.path.basename(os.getcwd()))",
    "library": "from attention_lib import toy; print(toy.NAME)",
    "pieces": "import sys\nfor part in 'ab':\n    print(part); sys.stdout.flush()",
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book whose first chapter was executed."""
    root = make_book(tmp_path_factory.mktemp("recorded"))
    assert failures(root, *CELLS.values()) == []
    return root


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("sum", "42"),
        ("environment", "set"),
        ("folder", "notebooks"),
        ("library", "toy"),
        ("pieces", "a\nb"),
    ],
)
def test_record_holds_what_was_printed(
    recorded: Path, cell: str, expected: str
) -> None:
    code = [cell for cell in load(recorded).cells if cell.cell_type == "code"]
    (output,) = code[list(CELLS).index(cell)].outputs
    assert output.text == f"{expected}\n"


def test_record_holds_nothing_of_the_moment_or_the_machine(recorded: Path) -> None:
    assert load(recorded).metadata["language_info"] == {"name": "python"}
    assert load(recorded).cells[-1].metadata == {}


def test_record_is_fresh(recorded: Path) -> None:
    assert causes(recorded)[0] == []


def test_record_again_gives_the_same_bytes(recorded: Path) -> None:
    before = text(recorded)
    drafts = [replace(draft, causes=["again"]) for draft in examine(recorded)[:1]]
    (recorded / "notebooks/01-one.ipynb").unlink()
    update(drafts)
    assert text(recorded) == before


def test_serialised_record_is_readable_and_ends_its_line(root: Path) -> None:
    fake_records(root)
    assert text(root).startswith('{\n "cells": [\n')
    assert text(root).endswith("}\n")


# What fails.


def test_failing_chapter_is_reported_and_alone(root: Path) -> None:
    fake_records(root)
    before = text(root)
    write(root, "01-one", "x = 1", "y = x / 0", "z = 2")
    write(root, "02-two", "print('changed')")
    (fault,) = update(examine(root))
    place = "chapters/01-one.md:17, code cell 2: ZeroDivisionError: division by zero"
    assert fault == f"{place}\n    y = x / 0"
    assert text(root) == before
    assert causes(root)[1] == []


def test_record_refuses_what_no_record_may_hold(root: Path) -> None:
    cells = "import sys; print('odd', file=sys.stderr)", "print(object())"
    error, address = failures(root, *cells)
    assert "code cell 1: its record holds standard error: 'odd" in error
    assert "code cell 2: its record holds an address" in address
    assert not (root / "notebooks/01-one.ipynb").exists()


def test_kernel_that_dies_is_reported(root: Path) -> None:
    (fault,) = failures(root, "import os; os._exit(1)")
    assert "code cell 1: the kernel died" in fault


def test_endless_cell_is_stopped(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "SECONDS_PER_CELL", 1)
    (fault,) = failures(root, "while True: pass")
    assert "longer than 1 seconds" in fault


def test_interrupted_write_leaves_the_old_record(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_records(root)
    before = text(root)
    changed = load(root)
    changed.cells[0].source = "changed"
    monkeypatch.setattr("tools.record.drafts.Path.replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store(root / "chapters/01-one.md", changed)
    assert text(root) == before
    assert sorted(path.suffix for path in (root / "notebooks").iterdir()) == [
        ".ipynb",
        ".ipynb",
    ]


# The command.


def run(root: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command with these arguments."""
    monkeypatch.setattr(sys, "argv", ["record", *arguments])
    return record.main(root)


def test_check_passes_on_fresh_records(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_records(root)
    assert run(root, monkeypatch, "--check") == 0


def test_check_names_chapter_and_cause(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_records(root)
    write(root, "02-two", "print('changed')")
    assert run(root, monkeypatch, "--check") == 1
    expected = "02-two: its code cells changed: run `make notebooks`\n"
    assert capsys.readouterr().out == expected


def test_check_executes_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, executed: list[str]
) -> None:
    run(root, monkeypatch, "--check")
    assert executed == []


@pytest.mark.parametrize("broken", ["", "<<<<<<< HEAD\n"])
def test_check_fails_on_a_record_that_cannot_be_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    fake_records(root)
    (root / "notebooks/01-one.ipynb").write_text(broken)
    assert run(root, monkeypatch, "--check") == 1


def test_check_fails_on_a_record_without_chapter(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_records(root)
    (root / "notebooks/03-left.ipynb").write_text("{}")
    assert run(root, monkeypatch, "--check") == 1
    assert strays(root)[0].startswith("notebooks/03-left.ipynb has no chapter")


@pytest.mark.parametrize("name", ["02-two", "chapters/02-two.md"])
def test_command_records_the_named_chapter_only(
    root: Path, monkeypatch: pytest.MonkeyPatch, executed: list[str], name: str
) -> None:
    run(root, monkeypatch, name)
    assert executed == ["02-two"]


def test_command_refuses_an_unknown_chapter(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, monkeypatch, "04-four") == 1
    expected = "04-four is no chapter: choose from 01-one, 02-two\n"
    assert capsys.readouterr().out == expected


def test_command_with_all_executes_fresh_ones(
    root: Path, monkeypatch: pytest.MonkeyPatch, executed: list[str]
) -> None:
    fake_records(root)
    run(root, monkeypatch, "--all")
    assert sorted(executed) == ["01-one", "02-two"]


def test_command_names_a_chapter_that_cannot_be_converted(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = root / "chapters/01-one.md"
    path.write_text(path.read_text() + "\nSee {ref}`nowhere`.\n")
    assert run(root, monkeypatch) == 1
    assert "01-one.md:" in capsys.readouterr().out


def test_run_environment_must_be_literal(root: Path) -> None:
    path = root / "attention_lib/reproducibility.py"
    path.write_text("RUN_ENVIRONMENT = dict(A='b')\n")
    with pytest.raises(ValueError, match="literal"):
        execute.run_environment(root)
