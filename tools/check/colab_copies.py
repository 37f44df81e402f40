"""Run every copy for Colab from top to bottom, as Colab would, and compare.

Run as `python -m tools.check.colab_copies [CHAPTER ...]`. Each copy has a folder and a
fresh environment of its own; the library comes from a repository on this machine.
"""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from tools.check.environments import UnavailableError, environment
from tools.export.copies import SOURCES, write_copies

ROOT = Path(__file__).resolve().parents[2]
WORK = Path("_build", "colab-check")
SECONDS_PER_CELL = 300
ROW = "{:<11} {:<18} {:>9} {:>9} {:>9} {:>9}  {}"
TITLES = ("run", "chapter", "cells", "figures", "numbers", "pixels", "")


@dataclass(frozen=True)
class Run:
    """One way to run the copies.

    Attributes:
        environment: a name that `tools.check.environments` knows.
        importable: whether `attention_lib` is there before the set-up cell runs.
    """

    environment: str
    importable: bool = False


RUNS = {
    "colab": Run("colab"),
    "oldest": Run("oldest"),
    # As after `pip install .`: with what the library needs.
    "importable": Run("python-3.13", importable=True),
}


def main(root: Path = ROOT) -> int:
    """Run the copies in every way, print a table, and return the exit status."""
    work = root / WORK
    shutil.rmtree(work, ignore_errors=True)
    commit = snapshot(root, work / "repository")
    address = f"file://{work / 'repository'}"
    paths = write_copies(root, work / "copies", address, commit)
    chosen = [path for path in paths if path.stem in (sys.argv[1:] or path.stem)]
    unknown = set(sys.argv[1:]) - {path.stem for path in paths}
    if unknown:
        print(f"{min(unknown)} is no chapter: choose from {paths[0].stem}, …")
        return 2
    print(ROW.format(*TITLES).rstrip())
    status = 0
    for name, run in RUNS.items():
        try:
            python = environment(run.environment, root)
        except UnavailableError as error:
            print(f"{name}: not run: {error}")
            status = 1
            continue
        places = [work / name / path.stem for path in chosen]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = zip(chosen, places, strict=True)
            futures = [pool.submit(check, root, python, run, *job) for job in jobs]
            for path, future in zip(chosen, futures, strict=True):
                done, cells = future.result()
                print(row(name, path.stem, done, cells), flush=True)
                status |= bool(done.returncode)
    return status


def snapshot(root: Path, folder: Path) -> str:
    """Make a repository of the files as they stand, and return its commit."""
    for name in SOURCES:
        if (root / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(root / name, folder / name, ignore=ignored)
        else:
            shutil.copy(root / name, folder)
    return commit_all(folder)


def commit_all(folder: Path) -> str:
    """Commit everything in a folder, whatever this machine's settings of git are."""
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    own = ("-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null")
    commands = (
        ("init", "--quiet"),
        ("add", "--all", "--force", "."),
        (*who, *own, "commit", "--quiet", "--message=A copy"),
    )
    for command in commands:
        subprocess.run(["git", *command], cwd=folder, check=True)
    head = ["git", "rev-parse", "HEAD"]
    return subprocess.check_output(head, cwd=folder, text=True).strip()


def layer(python: Path, folder: Path, *importable: Path) -> Path:
    """Return an interpreter that sees what another one has, and installs beside it.

    What is installed there in the editable way is not seen, but for `importable`.
    """
    below = _packages(python)
    subprocess.run(
        [python, "-m", "venv", "--without-pip", "--clear", folder], check=True
    )
    made = folder / "bin" / "python"
    lines = [str(path) for path in (below, *importable)]
    (_packages(made) / "below.pth").write_text("\n".join(lines), encoding="utf-8")
    return made


def check(
    root: Path, python: Path, run: Run, copy: Path, place: Path
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Run one copy and compare it; return what was said and found."""
    place.mkdir(parents=True)
    notebook = nbformat.read(copy, as_version=4)
    set_up = next(cell for cell in notebook.cells if cell.id == "set-up")
    set_up.execution_count = 0  # a record must have been run; this one is left out
    nbformat.write(notebook, place / copy.name)
    (place / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    kernel = layer(python, place / "environment", *([root] if run.importable else []))
    command = [sys.executable, "-m", "pytest", "-p", "tools.check.compare", "--nbval"]
    command += ["-c", str(place / "pytest.ini"), "-p", "no:cacheprovider"]
    command += [f"--nbval-cell-timeout={SECONDS_PER_CELL}", "--installed-library"]
    command += ["--kernel-python", str(kernel)]
    command += ["--comparison-report", str(place / "report.json")]
    kept = {name: it for name, it in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*command, str(place / copy.name)],
        cwd=root,
        env=kept,
        check=False,
        capture_output=True,
        text=True,
    )
    (place / "log.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    fetched = any(place.glob("attention-book-*"))
    if fetched == run.importable:
        done.returncode = done.returncode or 1
        done.stderr += "the set-up cell fetched what was there, or fetched nothing"
    report = place / "report.json"
    cells = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else []
    return done, cells


def row(
    name: str,
    chapter: str,
    done: subprocess.CompletedProcess[str],
    cells: list[dict[str, Any]],
) -> str:
    """Return one line of the table, 1 being the largest difference allowed."""
    compared = [cell for cell in cells if cell["compared"]]
    failed = sum(cell["outcome"] == "failed" for cell in cells)
    figures = (
        f"{len(compared)}/{len(cells)}",
        sum(cell["picture_count"] for cell in compared),
        *(
            f"{max((cell[kind] for cell in compared), default=0):.2g}"
            for kind in ("numbers", "pictures")
        ),
    )
    said = done.stderr.strip().splitlines()
    fault = f"{failed} cells failed" if failed else (said or ["it failed"])[-1]
    return ROW.format(name, chapter, *figures, fault if done.returncode else "").strip()


def _packages(python: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.check_output([python, "-c", code], text=True).strip())


if __name__ == "__main__":
    sys.exit(main())
