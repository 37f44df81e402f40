"""Run every copy for Colab from top to bottom, as Colab would, and compare.

Run as `python -m tools.check.colab_copies`: with versions near Colab's, with the oldest
ones, and where the library can be imported. Each time in a fresh environment; the
library comes from a repository on this machine.
"""

import shutil
import sys
from pathlib import Path

import nbformat

from tools.check.reproduces import show
from tools.check.variations import Cells, by_chapter, compare, environment
from tools.export.copies import SOURCES, write_copies
from tools.running import run

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "_build/colab-check"
# By the name of a run: its environment, and whether `attention_lib` is there before the
# set-up cell runs, as after `pip install .`.
RUNS = {"colab": ("colab", False), "oldest": ("oldest", False)}
RUNS |= {"importable": ("python-3.13", True)}


def main() -> int:
    """Run the copies in every way, print tables, and return the exit status."""
    shutil.rmtree(WORK, ignore_errors=True)
    commit = snapshot(ROOT, WORK / "repository")
    wrong = []
    for name, (where, importable) in RUNS.items():
        paths = write_copies(ROOT, WORK / name, f"file://{WORK / 'repository'}", commit)
        faults, cells = check(paths, environment(where), importable)
        table = {name: {"what": name, "chapters": by_chapter(cells)}}
        print(show(table, {}), flush=True)
        wrong += [f"{name}: {fault}" for fault in faults]
    print("\n".join(wrong) or "all copies agree")
    return 1 if wrong else 0


def snapshot(root: Path, folder: Path) -> str:
    """Make a repository of the files in their present state, and return its commit."""
    for name in SOURCES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(root / name, folder / name, ignore=ignored)
        else:
            shutil.copy(root / name, folder / name)
    return commit_all(folder)


def commit_all(folder: Path) -> str:
    """Commit everything in a folder, whatever this machine's settings of git are."""
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    own = ("-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null")
    commit = (*who, *own, "commit", "--quiet", "--message=A copy")
    add = ("add", "--all", "--force", ".")
    for command in (("init", "--quiet"), add, commit, ("rev-parse", "HEAD")):
        said = run(["git", *command], limit=60, check=True, cwd=folder)
    return said.stdout.strip()


def layer(python: Path, folder: Path, *importable: Path) -> Path:
    """Return an interpreter that sees another one's packages, and installs separately.

    What is installed there in the editable way is not seen, but for `importable`.
    """
    make = [str(python), "-m", "venv", "--without-pip", "--clear", str(folder)]
    run(make, limit=60, check=True)
    homes = python.parents[1], folder
    below, own = (next(home.glob("lib/*/site-packages")) for home in homes)
    lines = [str(path) for path in (below, *importable)]
    (own / "below.pth").write_text("\n".join(lines), encoding="utf-8")
    return folder / "bin" / "python"


def check(
    copies: list[Path], python: Path, importable: bool = False
) -> tuple[list[str], Cells]:
    """Run the copies in one folder; return what is wrong, and the results."""
    place = copies[0].parent
    for copy in copies:
        notebook = nbformat.read(copy, as_version=4)
        set_up = next(cell for cell in notebook.cells if cell.id == "set-up")
        set_up.execution_count = 0  # a record must have been run; this one is left out
        nbformat.write(notebook, copy)
    kernel = layer(python, place / "environment", *([ROOT] if importable else []))
    # One after the other: all fetch and install into the same places.
    options = ("-n0", "--installed-library", *map(str, copies))
    report = place / "report.json"
    status, cells = compare(report, *options, python=kernel, PYTHONPATH="")
    faults = [cell["place"] for cell in cells if cell["outcome"] == "failed"]
    if status or not cells:
        faults.append(f"pytest ended with {status}: see {report.with_suffix('.log')}")
    if any(place.glob("attention-book-*")) == importable:
        faults.append("the set-up cell fetched what was there, or fetched nothing")
    return faults, cells


if __name__ == "__main__":
    sys.exit(main())
