"""Run every notebook as on other machines, and compare: `make test-variations`.

Run as `python -m tools.check.variations [--repeat N] [--only CHAPTERS] [NAME ...]`, by
the table in `variations.toml`. It keeps what it finds in `book/reproduces.json`, and
fills the page that shows it. A variation that this machine cannot make keeps its row of
an earlier run, with the date of that.
"""

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.check.devices import describe, missing
from tools.check.environments import TABLE, UnfitError, environment
from tools.check.reproduces import show, summary, write

ROOT = Path(__file__).resolve().parents[2]
TITLES = {name: entry["what"] for name, entry in TABLE.items() if "what" in entry}
SECONDS = 3600  # for one run of all notebooks
SAY_VERSIONS = """\
import json, platform, importlib.metadata as m
found = {name: m.version(name) for name in ("torch", "numpy", "matplotlib")}
print(json.dumps({"python": platform.python_version()} | found))"""
Cells = list[dict[str, Any]]


def settings(name: str, folder: Path) -> dict[str, str]:
    """Return the environment variables of a variation; `folder` is for what they name.

    Raises:
        UnfitError: this machine cannot make it.
    """
    entry = {"env": {}} | TABLE[name]
    own = {key: it.format(folder=folder) for key, it in entry["env"].items()}
    if own.get("ATTENTION_DEVICE") == "cuda" and missing():
        raise UnfitError("no GPU at hand")
    if cpu := entry.get("cpu"):
        own["NPY_DISABLE_CPU_FEATURES"] = " ".join(_switched_off(*cpu))
    if command := entry.get("before"):
        command = [word.format(folder=folder) for word in command]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        except (OSError, subprocess.SubprocessError) as error:
            raise UnfitError(str(error)) from error
    if "start" in entry:
        startup = folder / "profile_default/startup/00-variation.py"
        startup.parent.mkdir(parents=True)
        startup.write_text(entry["start"], encoding="utf-8")
        own["IPYTHONDIR"] = str(folder)
    return own


def _switched_off(needed: str, *kept: str) -> list[str]:
    """Return what NumPy must leave, to use no other of the processor's features."""
    from numpy._core import _multiarray_umath as core  # type: ignore[attr-defined]

    has = core.__cpu_features__
    if not has.get(needed, False):
        raise UnfitError(f"this processor has no {needed}")
    used = [name for name in core.__cpu_dispatch__ if has.get(name)]
    return [name for name in used if not name.startswith((needed, *kept))]


def compare(
    report: Path, *arguments: str, python: Path | None = None, **own: str
) -> tuple[int, Cells]:
    """Run notebooks, and return pytest's status and what was found in each cell.

    What pytest says stands beside the report. `own` are environment variables.
    """
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "tools.check.compare", "--nbval", "--nbval-cell-timeout=300"]
    command += [f"--kernel-python={python}"] if python else []
    command += [f"--comparison-report={report}", *arguments]
    known = os.environ | {"OMP_NUM_THREADS": "1", "ATTENTION_DEVICE": "cpu"} | own
    with report.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=ROOT, env=known, start_new_session=True
        )
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            print(f"  ended after {SECONDS} seconds", flush=True)
        finally:  # its workers, too
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
    return status, json.loads(report.read_text("utf-8")) if report.is_file() else []


def measure(name: str, report: Path, only: list[str]) -> dict[str, Any]:
    """Run all notebooks once, and return the row of the table.

    Raises:
        UnfitError: this machine cannot make the variation.
        RuntimeError: the run broke down.
    """
    entry = TABLE[name]
    options = ["-n", "auto", "--dist", "loadscope", *entry.get("options", []), *only]
    with tempfile.TemporaryDirectory() as folder:
        own = settings(name, Path(folder))
        python = environment(name) if "python" in entry else None
        began = time.monotonic()
        status, cells = compare(report, *options, "notebooks", python=python, **own)
    chapters = by_chapter(cells)
    failed = any(entry["failed"] for entry in chapters.values())
    if not cells or status != failed:  # 1 where cells failed; others broke down
        raise RuntimeError(f"pytest ended with {status}: see {report.stem}.log")
    if failed and (ROOT / "reports/pictures").is_dir():  # the next run deletes them
        kept = report.with_suffix(".pictures")
        shutil.rmtree(kept, ignore_errors=True)
        (ROOT / "reports/pictures").rename(kept)
    ask = [python or sys.executable, "-c", SAY_VERSIONS]
    return {
        "what": TITLES[name],
        "date": datetime.now(UTC).date().isoformat(),
        "records": records(),
        "seconds": round(time.monotonic() - began),
        "versions": json.loads(subprocess.check_output(ask, timeout=60)),
        "on": describe("cuda") if name == "gpu" else "",
        "chapters": chapters,
    }


def records() -> str:
    """Return one hash of the texts and versions that the records belong to."""
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    notebooks = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    prints = [notebook["metadata"].get("attention_book") for notebook in notebooks]
    return hashlib.sha256(json.dumps(prints).encode()).hexdigest()[:8]


def by_chapter(cells: Cells) -> dict[str, dict[str, Any]]:
    """Sum up the findings of cells: one entry a chapter."""
    chapters: dict[str, dict[str, Any]] = {}
    for cell in sorted(cells, key=lambda cell: cell["place"]):
        counts = {"cells": 0, "compared": 0, "pictures": 0, "drawings": 0, "failed": 0}
        stem = cell["place"].split(",")[0]
        entry = chapters.setdefault(stem, {**counts, "largest": 0.0})
        entry["cells"] += 1
        entry["compared"] += cell["compared"]
        entry["failed"] += cell["outcome"] == "failed"
        if cell["compared"]:
            entry["pictures"] += cell["picture_count"]
            entry["drawings"] += cell["drawing_count"]
            worst = max(entry["largest"], float(cell["numbers"]), cell["pictures"])
            entry["largest"] = round(worst, 4)
    return chapters


def run(names: list[str], repeat: int, only: list[str]) -> bool:
    """Measure, say how it went, keep the rows; return whether all agreed."""
    rows: dict[str, dict[str, Any]] = {}
    bad: list[str] = []
    repetitions = [f"repetition-{number:02d}" for number in range(1, repeat + 1)]
    for name in [*names, *repetitions]:
        own = name if name in TITLES else "as-recorded"
        report = ROOT / "reports" / f"variation-{name}.json"
        print(f"{name}: {TITLES[own]} …", flush=True)
        try:
            row = measure(own, report, only)
        except UnfitError as error:
            row = {"what": TITLES[own], "missing": str(error)}
            print(f"  not measured: {error}", flush=True)
            if "python" in TABLE[own] and "CI" in os.environ:
                bad.append(name)  # CI has every interpreter and package
        except RuntimeError as error:
            print(f"  {error}", flush=True)
            bad.append(name)
            continue
        else:
            failed = sum(entry["failed"] for entry in row["chapters"].values())
            print(f"  {failed} cells differ, {row['seconds']} s: {report.stem}.log")
            bad += [name] if failed else []
        rows |= {name: row} if name in TITLES else {}
        if not only:  # a part of the notebooks is no table of the book
            write(rows, TITLES)
    if repeat and not only:
        differ = len(set(bad) & set(repetitions))
        write(rows, TITLES, {"times": repeat, "failed": differ})
    print(f"{summary(rows)}\n\n{show(rows)}")
    return not bad


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="tools.check.variations", description=__doc__)
    add = parser.add_argument
    add("--repeat", type=int, default=0, help="then as recorded, N times")
    add("--only", default="", help="chapters, as pytest's -k has it")
    add("name", nargs="*", help="variations; all by default")
    options = parser.parse_args()
    if unknown := set(options.name) - set(TITLES):
        parser.error(f"{min(unknown)} is none: choose from {', '.join(TITLES)}")
    names = options.name or ([] if options.repeat else list(TITLES))
    only = ["-k", options.only] if options.only else []
    return 0 if run(names, options.repeat, only) else 1


if __name__ == "__main__":
    sys.exit(main())
