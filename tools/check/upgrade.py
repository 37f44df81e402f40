"""Move the book to the newest versions that pyproject.toml allows, and say what moved.

Run as `python -m tools.check.upgrade [--check]`. Resolves the versions and installs
them,
runs every notebook against its old record, and records anew. With `--check`, records
and pins are left as they were. A run that was cut short goes on where it stopped.
"""

# Nothing but the standard library: the packages below change under this very process.
import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.check.moved import beyond, faults, moved_pins, pins, report

ROOT = Path(__file__).resolve().parents[2]
PINS, STATE, REPORT = "requirements.txt", "_build/upgrade", "reports/upgrade.md"
FOUND = "cells.json"
Run = Callable[..., int]


class StoppedError(Exception):
    """A step failed; the text says what to do."""


def run(root: Path, *command: str, **variables: str) -> int:
    """Run a command whose output people see, and return its exit status."""
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=root, env=environment, check=False).returncode


def upgrade(root: Path, check: bool, run: Run = run) -> int:
    """Do all steps, and return the command's exit status.

    Raises:
        StoppedError: a step failed.
    """
    state = root / STATE
    _begin(root, state, run)
    try:
        return _move(root, state, check, run)
    except StoppedError:
        if check:
            _put_back(root, state, run)
        raise


def _move(root: Path, state: Path, check: bool, run: Run) -> int:
    """Do what follows the resolving."""
    changes = moved_pins(pins(state / PINS), pins(root / PINS))
    if not changes:
        shutil.rmtree(state)
        (root / REPORT).unlink(missing_ok=True)
        print("nothing moved: every pin is the newest that pyproject.toml allows")
        return 0
    for name, old, new in changes:
        print(f"  {name}: {old} → {new}")
    _step(2, "installing them")
    if run(root, "make", "--no-print-directory", "setup"):
        raise StoppedError("the new versions could not be installed: see above")
    cells = _compare(root, state, run)
    text = report(changes, cells)
    (root / REPORT).parent.mkdir(exist_ok=True)
    (root / REPORT).write_text(f"{text}\n\n{faults(cells)}\n", encoding="utf-8")
    if check:
        _step(4, "putting everything back as it was")
        _put_back(root, state, run)
    else:
        _step(4, "recording")
        _record(root, run)
        shutil.rmtree(state)
    print(f"\n{text}\n\n{_next(check)}")
    return 1 if check and beyond(cells) else 0


def _begin(root: Path, state: Path, run: Run) -> None:
    """Keep pins and records as they are, and resolve the newest versions."""
    before, resolved = state / PINS, state / "resolved.txt"
    if before.is_file() and before.read_bytes() != (root / PINS).read_bytes():
        print("going on with the upgrade that was cut short")
    else:
        shutil.rmtree(state, ignore_errors=True)
        if run(root, sys.executable, "-m", "tools.record", "--check"):
            raise StoppedError("run `make notebooks` first, so that only versions move")
        shutil.copytree(root / "notebooks", state / "notebooks")
        shutil.copy(root / PINS, before)
    _step(1, "resolving the newest versions")
    if run(root, "make", "--no-print-directory", "lock"):
        raise StoppedError("the versions could not be resolved: see above")
    if resolved.is_file() and resolved.read_bytes() != (root / PINS).read_bytes():
        # Others than last time: what was compared or recorded with those is void.
        (state / FOUND).unlink(missing_ok=True)
        shutil.copytree(state / "notebooks", root / "notebooks", dirs_exist_ok=True)
    shutil.copy(root / PINS, resolved)


def _compare(root: Path, state: Path, run: Run) -> list[dict[str, Any]]:
    """Run every notebook against its old record; return what was found in each cell."""
    found, draft = state / FOUND, state / "cells.partial"
    if not found.is_file():
        _step(3, "running every notebook against its old record, a few minutes")
        draft.unlink(missing_ok=True)
        options = f"-q -rN --tb=no --comparison-report={draft.relative_to(root)}"
        # It fails where a cell moved too far, which is what we are here to see.
        make = ("make", "--no-print-directory", "test-notebooks")
        run(root, *make, PYTEST_ADDOPTS=options)
        # A run that broke down reports what it saw till then.
        seen = len(json.loads(draft.read_text("utf-8"))) if draft.is_file() else 0
        if not seen or seen < _count_cells(root):
            raise StoppedError("not every cell could be compared: see above")
        draft.replace(found)
    cells: list[dict[str, Any]] = json.loads(found.read_text(encoding="utf-8"))
    return cells


def _count_cells(root: Path) -> int:
    """Return how many code cells the records hold."""
    records = (path.read_text("utf-8") for path in root.glob("notebooks/*.ipynb"))
    cells = (cell for record in records for cell in json.loads(record)["cells"])
    return sum(cell["cell_type"] == "code" for cell in cells)


def _record(root: Path, run: Run) -> None:
    """Record what is stale now."""
    if run(root, sys.executable, "-m", "tools.record"):
        raise StoppedError(
            "a chapter fails under the new versions: mend it, or bar the version in "
            "pyproject.toml, and run `make upgrade` again; or go back with "
            f"`git restore {PINS} notebooks && make setup`"
        )


def _put_back(root: Path, state: Path, run: Run) -> None:
    """Put pins, records and the environment back."""
    shutil.copy(state / PINS, root / PINS)
    shutil.copytree(state / "notebooks", root / "notebooks", dirs_exist_ok=True)
    shutil.rmtree(state)
    if run(root, "make", "--no-print-directory", "setup"):
        raise StoppedError("the pins are as they were, but .venv is not: `make setup`")


def _next(check: bool) -> str:
    if check:
        return "Nothing was changed. `make upgrade` does it and records anew."
    return (
        "Next: look at what moved (`git diff notebooks`, the figures by eye), run "
        f"`make test`, and commit {PINS} and notebooks together. The tables are in "
        f"{REPORT}."
    )


def _step(number: int, what: str) -> None:
    print(f"[{number}/4] {what}", flush=True)


def main(root: Path = ROOT) -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="tools.check.upgrade", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="leave records and pins as they are"
    )
    try:
        return upgrade(root, parser.parse_args().check)
    except StoppedError as error:
        print(f"upgrade: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print(
            "upgrade: cut short. The pins may be the new ones by now; run the same "
            "command again to go on",
            file=sys.stderr,
        )
    return 1


if __name__ == "__main__":
    sys.exit(main())
