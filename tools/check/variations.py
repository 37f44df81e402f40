"""Run every notebook as on other machines, and compare: `make test-variations`.

Run as `python -m tools.check.variations [--changed] [NAME ...]`, by the table in
`variations.toml`. It keeps what it finds in `book/reproduces.json`, and fills the pages
that show it; `--fill` does only that. `--changed` runs the chapters whose results are
out of date, `--only` those named. A variation that this machine cannot make keeps
its row of an earlier run, with the date of that.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat

from tools import running
from tools.chapters import code_of
from tools.check.devices import describe, missing
from tools.check.reproduces import COUNTS, RESULTS, current, show, summary, write
from tools.record.freshness import states
from tools.words import say

ROOT = Path(__file__).resolve().parents[2]
TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("variations.toml").read_text(encoding="utf-8")
)
TITLES = {name: entry["what"] for name, entry in TABLE.items() if "what" in entry}
SAY_VERSIONS = """\
import json, platform, importlib.metadata as m
found = {name: m.version(name) for name in ("torch", "numpy", "matplotlib")}
print(json.dumps({"python": platform.python_version()} | found))"""
Cells = list[dict[str, Any]]
LIMIT = 6 * 3600  # seconds for all notebooks; each cell has a limit of its own


class UnfitError(Exception):
    """This machine cannot run a variation; the text gives the reason, in one line."""


def settings(name: str, folder: Path) -> dict[str, str]:
    """Return a variation's environment variables; `folder` is for their files."""
    entry = {"env": {}} | TABLE[name]
    own = {key: it.format(folder=folder) for key, it in entry["env"].items()}
    if own.get("ATTENTION_DEVICE") == "cuda" and missing():
        raise UnfitError("no GPU at hand")
    if cpu := entry.get("cpu"):
        own["NPY_DISABLE_CPU_FEATURES"] = " ".join(_switched_off(*cpu))
    if command := entry.get("before"):
        command = [word.format(folder=folder) for word in command]
        try:
            running.run(command, limit=60, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise UnfitError(str(error)) from error
    if "start" in entry:
        startup = folder / "profile_default/startup/00-variation.py"
        startup.parent.mkdir(parents=True)
        startup.write_text(entry["start"], encoding="utf-8")
        own["IPYTHONDIR"] = str(folder)
    return own


def _switched_off(needed: str, *kept: str) -> list[str]:
    """Return what NumPy must leave out, so that it uses no other processor features."""
    from numpy._core import _multiarray_umath as core  # type: ignore[attr-defined]

    has = core.__cpu_features__
    if not has.get(needed, False):
        raise UnfitError(f"this processor has no {needed}")
    used = [name for name in core.__cpu_dispatch__ if has.get(name)]
    return [name for name in used if not name.startswith((needed, *kept))]


def environment(name: str, root: Path = ROOT) -> Path:
    """Return an environment's interpreter, and create it if it is missing."""
    home = root / ".environments" / name
    python, ready = home / "bin/python", home / ".ready"
    files = [root / "pyproject.toml", root / "requirements.txt"]
    wanted = "\n".join([str(TABLE[name]), *(file.read_text("utf-8") for file in files)])
    if ready.is_file() and ready.read_text(encoding="utf-8") == wanted:
        return python
    print(f"{name}: installing, a few minutes the first time", flush=True)
    _uv(root, "venv", "--clear", "--python", TABLE[name]["python"], str(home))
    install = ("pip", "install", "--python", str(python), *TABLE[name]["packages"])
    try:  # PyTorch's own builds without CUDA are smaller by gigabytes
        _uv(root, *install, "--torch-backend", "cpu")
    except UnfitError:
        _uv(root, *install)
    ready.write_text(wanted, encoding="utf-8")
    return python


def _uv(root: Path, *arguments: str) -> None:
    """Run uv without this project's settings, or raise UnfitError with its words."""
    # pyenv's stand-ins on the path answer only for the versions that it is set to.
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    path = [os.environ["PATH"], *map(str, pyenv.glob("versions/3.1[1-9].*/bin"))]
    command = [sys.executable, "-m", "uv", "--quiet", "--no-config", *arguments]
    own = os.environ | {"PATH": os.pathsep.join(path)}
    done = running.run(command, limit=3600, cwd=root, env=own)
    if done.returncode:
        raise UnfitError(" ".join(done.stderr.split()) or "uv failed")


def compare(
    report: Path, *arguments: str, python: Path | None = None, **own: str
) -> tuple[int, Cells]:
    """Run notebooks, and return pytest's status and the result of each cell.

    What pytest prints is stored next to the report. `own` are environment variables.
    """
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "tools.check.compare", "--nbval"]
    command += [f"--kernel-python={python}"] if python else []
    command += [f"--comparison-report={report}", *arguments]
    known = os.environ | {"OMP_NUM_THREADS": "1", "ATTENTION_DEVICE": "cpu"} | own
    with report.with_suffix(".log").open("w") as log:
        done = running.run(
            command, limit=LIMIT, stdout=log, stderr=log, cwd=ROOT, env=known
        )
    found = json.loads(report.read_text("utf-8")) if report.is_file() else []
    return done.returncode, found


def measure(name: str, report: Path, stems: Sequence[str]) -> dict[str, Any]:
    """Run notebooks once, and return the row of the table."""
    entry = TABLE[name]
    options = ["-n", "auto", "--dist", "loadscope", *entry.get("options", [])]
    paths = [ROOT / f"notebooks/{stem}.ipynb" for stem in stems]
    with tempfile.TemporaryDirectory() as folder:
        own = settings(name, Path(folder))
        python = environment(name) if "python" in entry else None
        now, whole = states(ROOT), {path.stem: _cells(path) for path in paths}
        command = [*options, *map(str, paths)]
        status, cells = compare(report, *command, python=python, **own)
    ran = {"date": datetime.now(UTC).date().isoformat()}
    chapters = {
        stem: found | ran | {"of": now[stem]}
        for stem, found in by_chapter(cells).items()
        if found["cells"] == whole[stem]  # fewer where the notebook broke off
    }
    failed = any(entry["failed"] for entry in chapters.values())
    if not cells or status != failed:  # 1 where cells failed; others broke down
        raise RuntimeError(f"pytest ended with {status}: see {report.stem}.log")
    ask = [python or sys.executable, "-c", SAY_VERSIONS]
    return {
        "what": TITLES[name],
        "versions": json.loads(running.run(ask, limit=60, check=True).stdout),
        "machine": say("reproduces.machine", of=platform.machine(), n=os.cpu_count()),
        "on": describe("cuda") if name == "gpu" else "",
        "chapters": chapters,
    }


def _cells(path: Path) -> int:
    return len(code_of(nbformat.read(path, as_version=4)))


def by_chapter(cells: Cells) -> dict[str, dict[str, Any]]:
    """Sum the results of cells: one entry per chapter."""
    chapters: dict[str, dict[str, Any]] = {}
    for cell in sorted(cells, key=lambda cell: cell["place"]):
        stem = cell["place"].split(",")[0]
        entry = chapters.setdefault(stem, dict.fromkeys((*COUNTS, "largest"), 0))
        entry["cells"] += 1
        entry["compared"] += cell["compared"]
        entry["failed"] += cell["outcome"] == "failed"
        if cell["compared"]:
            entry["pictures"] += cell["picture_count"]
            entry["drawings"] += cell["drawing_count"]
            worst = max(entry["largest"], float(cell["numbers"]), cell["pictures"])
            entry["largest"] = round(worst, 4)
    return chapters


def changed(name: str) -> list[str]:
    """Return the chapters whose result in a row is missing, or out of date."""
    kept = json.loads((ROOT / RESULTS).read_text("utf-8"))["rows"].get(name, {})
    return sorted(states(ROOT).keys() - current(kept, states(ROOT)).keys())


def run(names: list[str], chosen: list[str], only_changed: bool = False) -> bool:
    """Measure, report the result, keep the rows; return whether all agreed.

    `chosen` are parts of the chapters' names; all chapters if there are none.
    """
    rows: dict[str, dict[str, Any]] = {}
    agreed = True
    for name in names:
        parts = chosen or [""]
        named = [stem for stem in states(ROOT) if any(it in stem for it in parts)]
        stems = changed(name) if only_changed else named
        if not stems:
            continue
        report = ROOT / "reports" / f"variation-{name}.json"
        print(f"{name}: {TITLES[name]} …", flush=True)
        try:
            row = measure(name, report, stems)
        except UnfitError as error:
            row = {"what": TITLES[name], "missing": str(error)}
            print(f"  not measured: {error}", flush=True)
            # CI has every interpreter and package.
            agreed &= not ("python" in TABLE[name] and "CI" in os.environ)
        except RuntimeError as error:
            print(f"  {error}", flush=True)
            agreed = False
            continue
        else:
            failed = sum(entry["failed"] for entry in row["chapters"].values())
            print(f"  {failed} cells differ: {report.stem}.log")
            agreed &= not failed
        rows[name] = row
        write({name: row}, TITLES)
    print(f"{summary(rows, states(ROOT))}\n\n{show(rows, states(ROOT))}")
    return agreed


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="tools.check.variations", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only", default="", help="parts of names, such as '03 25-in'")
    changed = "run chapters whose results are out of date"
    which.add_argument("--changed", action="store_true", help=changed)
    which.add_argument("--fill", action="store_true", help="run nothing, fill pages")
    parser.add_argument("name", nargs="*", help="variations; all by default")
    options = parser.parse_args()
    if unknown := set(options.name) - set(TITLES):
        parser.error(f"{min(unknown)} is none: choose from {', '.join(TITLES)}")
    if options.fill:
        write({}, TITLES)
        return 0
    names = options.name or list(TITLES)
    return 0 if run(names, options.only.split(), options.changed) else 1


if __name__ == "__main__":
    sys.exit(main())
