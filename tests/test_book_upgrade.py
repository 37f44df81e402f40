"""A version bump: resolved, compared, recorded; cut short and gone on with; undone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.check import upgrade as tool
from tools.check.moved import beyond, faults, moved_cells, moved_pins, pins, report
from tools.check.upgrade import PINS, REPORT, STATE, StoppedError, main, upgrade

OLD, NEW, NEWER = "torch==1.0\n", "torch==2.0\n", "torch==3.0\n"
OLD_RECORD = json.dumps(
    {"cells": [{"cell_type": "markdown"}] + 3 * [{"cell_type": "code"}]}
)


def cell(place: str, outcome: str = "passed", **found: Any) -> dict[str, Any]:
    """What the comparison found in one cell."""
    same = {"numbers": 0.0, "pictures": 0.0, "faults": [], "compared": True}
    return {"place": place, "outcome": outcome, **same, **found}


CELLS = [
    cell("02-two, code cell 10", numbers=0.25),
    cell("02-two, code cell 9", pictures=0.5),
    cell("01-one, code cell 1"),
    cell("01-one, code cell 2", "failed", numbers=7.0, faults=["text: 1 | 8\n  1 | 8"]),
    cell("01-one, code cell 3", "skipped", faults=["expected to fail after that"]),
]


class World:
    """Stands in for make and for the recorder: keeps what was asked for, in order."""

    def __init__(self, root: Path) -> None:
        self.root, self.newest, self.cells = root, NEW, CELLS[:3]
        self.asked: list[str] = []
        self.fails = ""
        self.stale = False

    def run(self, root: Path, *command: str, **variables: str) -> int:
        """Do what a command would; one may fail, or be cut short."""
        name = " ".join(command[1:]).removeprefix("--no-print-directory ")
        self.asked.append(name)
        if self.fails == f"cut {name}":
            raise KeyboardInterrupt
        if name == "-m tools.record --check":
            return int(self.stale)
        if name == self.fails:
            return 1
        if name == "lock":
            (root / PINS).write_text(self.newest)
        if name == "test-notebooks":
            target = variables["PYTEST_ADDOPTS"].split("--comparison-report=")[1]
            (root / target).write_text(json.dumps(self.cells))
            return int(bool(beyond(self.cells)))
        if name == "-m tools.record":
            (root / "notebooks/01-one.ipynb").write_text((root / PINS).read_text())
        return 0


ALL = [
    "-m tools.record --check",
    "lock",
    "setup",
    "test-notebooks",
    "-m tools.record",
]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A book of old pins and records."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/01-one.ipynb").write_text(OLD_RECORD)
    (tmp_path / PINS).write_text(OLD)
    return World(tmp_path)


def state_of(world: World) -> tuple[str, str, bool]:
    """The pins, the record, and whether an upgrade is under way."""
    root = world.root
    record = (root / "notebooks/01-one.ipynb").read_text()
    return (root / PINS).read_text(), record, (root / STATE).exists()


def test_upgrade_compares_before_it_records(world: World) -> None:
    assert upgrade(world.root, False, world.run) == 0
    assert world.asked == ALL
    assert state_of(world) == (NEW, NEW, False)


def test_upgrade_prints_what_moved_and_what_to_do(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    upgrade(world.root, False, world.run)
    said = capsys.readouterr().out
    assert "torch: 1.0 → 2.0" in said
    assert "2 of 3 cells moved, 0 of them" in said
    assert "make test" in said
    assert "2 of 3 cells moved" in (world.root / REPORT).read_text()


def test_upgrade_where_nothing_moved_does_nothing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.newest = OLD
    assert upgrade(world.root, False, world.run) == 0
    assert world.asked == ALL[:2]
    assert state_of(world) == (OLD, OLD_RECORD, False)
    assert "nothing moved" in capsys.readouterr().out


def test_upgrade_of_stale_records_stops(world: World) -> None:
    world.stale = True
    with pytest.raises(StoppedError, match="make notebooks"):
        upgrade(world.root, False, world.run)
    assert state_of(world)[:2] == (OLD, OLD_RECORD)


def test_check_leaves_everything_as_it_was(world: World) -> None:
    assert upgrade(world.root, True, world.run) == 0
    assert world.asked == [*ALL[:4], "setup"]
    assert state_of(world) == (OLD, OLD_RECORD, False)


def test_check_fails_where_a_cell_moved_too_far(world: World) -> None:
    world.cells = CELLS
    assert upgrade(world.root, True, world.run) == 1
    assert "text: 1 | 8\n  1 | 8" in (world.root / REPORT).read_text()


def test_upgrade_records_what_moved_too_far(world: World) -> None:
    world.cells = CELLS
    assert upgrade(world.root, False, world.run) == 0


@pytest.mark.parametrize("step", ALL[1:])
def test_upgrade_that_was_cut_short_goes_on(world: World, step: str) -> None:
    world.fails = f"cut {step}"
    with pytest.raises(KeyboardInterrupt):
        upgrade(world.root, False, world.run)
    world.fails = ""
    world.asked.clear()
    assert upgrade(world.root, False, world.run) == 0
    assert world.asked.count("test-notebooks") == (step != "-m tools.record")
    assert state_of(world) == (NEW, NEW, False)


def test_upgrade_to_yet_newer_versions_compares_the_old_records_again(
    world: World,
) -> None:
    world.fails = "-m tools.record"
    with pytest.raises(StoppedError, match="mend it"):
        upgrade(world.root, False, world.run)
    (world.root / "notebooks/01-one.ipynb").write_text("half of it recorded")
    world.newest, world.fails = NEWER, "cut test-notebooks"
    with pytest.raises(KeyboardInterrupt):
        upgrade(world.root, False, world.run)
    assert state_of(world) == (NEWER, OLD_RECORD, True)


def test_check_undoes_an_upgrade_that_was_cut_short(world: World) -> None:
    world.fails = "-m tools.record"
    with pytest.raises(StoppedError):
        upgrade(world.root, False, world.run)
    (world.root / "notebooks/01-one.ipynb").write_text("half of it recorded")
    upgrade(world.root, True, world.run)
    assert state_of(world) == (OLD, OLD_RECORD, False)


def test_upgrade_that_was_given_up_starts_anew(world: World) -> None:
    world.fails = "-m tools.record"
    with pytest.raises(StoppedError):
        upgrade(world.root, False, world.run)
    (world.root / PINS).write_text(OLD)  # git restore
    world.fails = ""
    world.asked.clear()
    upgrade(world.root, False, world.run)
    assert world.asked == ALL


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("lock", "could not be resolved"),
        ("setup", "could not be installed"),
        ("-m tools.record", "mend it, or bar the version"),
    ],
)
def test_upgrade_says_which_step_failed(world: World, step: str, words: str) -> None:
    world.fails = step
    with pytest.raises(StoppedError, match=words):
        upgrade(world.root, False, world.run)


@pytest.mark.parametrize("cells", [[], CELLS[:2], None])
def test_upgrade_without_a_comparison_records_nothing(
    world: World, cells: list[dict[str, Any]] | None
) -> None:
    world.cells = cells or []
    world.fails = "" if cells is not None else "test-notebooks"
    with pytest.raises(StoppedError, match="not every cell could be compared"):
        upgrade(world.root, False, world.run)
    assert state_of(world)[1] == OLD_RECORD


@pytest.fixture
def command(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command, in that world."""

    def call(*arguments: str) -> int:
        monkeypatch.setattr("sys.argv", ["upgrade", *arguments])
        monkeypatch.setattr(upgrade, "__defaults__", (world.run,))
        return main(world.root)

    return call


def test_command_says_in_one_line_why_it_stopped(
    world: World, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    world.fails = "lock"
    assert command() == 1
    assert capsys.readouterr().err.startswith("upgrade: the versions could not be")


def test_command_that_is_interrupted_says_how_to_go_on(
    world: World, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    world.fails = "cut setup"
    assert command("--check") == 1
    assert "cut short" in capsys.readouterr().err


def test_command_runs_programs_and_sees_them_fail(tmp_path: Path) -> None:
    assert tool.run(tmp_path, "sh", "-c", 'test "$WORD" = x', WORD="x") == 0
    assert tool.run(tmp_path, "false") == 1


# What moved.


def test_pins_are_read_with_where_they_hold(tmp_path: Path) -> None:
    path = tmp_path / PINS
    path.write_text(
        "# made by x\nnumpy==2.0  # note\n    # via y\n"
        "tomli==1.0 ; python_version < '3.12'\ntomli==2.0 ; python_version >= '3.12'\n"
    )
    assert pins(path) == {
        "numpy": "2.0",
        "tomli (python_version < '3.12')": "1.0",
        "tomli (python_version >= '3.12')": "2.0",
    }


def test_moved_pins_name_what_came_and_went() -> None:
    before, after = {"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}
    changes = [("b", "1", "2"), ("c", "1", "-"), ("d", "-", "1")]
    assert moved_pins(before, after) == changes


def test_moved_cells_are_those_that_differ_at_all() -> None:
    assert moved_cells(CELLS) == [CELLS[0], CELLS[1], CELLS[3], CELLS[4]]


def test_cells_after_a_failure_count_where_they_differ() -> None:
    assert beyond(CELLS) == CELLS[3:]


def test_report_has_a_line_for_each_chapter_and_each_cell_that_moved() -> None:
    lines = report([("torch", "1", "2")], CELLS).splitlines()
    rows = [[it.strip() for it in line.split("|")[1:-1]] for line in lines]
    assert ["torch", "1", "2"] in rows
    assert ["01-one", "3", "3", "2", "2", "7", "0"] in rows
    assert ["02-two", "2", "2", "2", "0", "0.25", "0.5"] in rows
    places = [row[0] for row in rows if row and "code cell" in row[0]]
    assert places == [f"01-one, code cell {n}" for n in (2, 3)] + [
        f"02-two, code cell {n}" for n in (9, 10)
    ]


def test_report_of_a_cell_that_stopped_says_so() -> None:
    stopped = cell("01-one, code cell 1", "failed", compared=False)
    assert "stopped" in report([], [stopped])
    assert faults([stopped]) == ""
