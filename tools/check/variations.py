"""Run every notebook as on other machines, and compare: `make test-variations`.

Run as `python -m tools.check.variations [--repeat N] [NAME ...]`. It prints a table,
keeps it
in `book/reproduces.json`, and fills the page that shows it. A variation that this
machine cannot make keeps its row of an earlier run, with the date of that.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.check.devices import describe
from tools.check.environments import UnavailableError, environment, versions
from tools.check.reproduces import show, summary, write
from tools.check.ways import UnfitError, Variation, variations

ROOT = Path(__file__).resolve().parents[2]
MACHINE = f"a machine with {os.cpu_count()} cores, {platform.machine()}"
SHOWN = ("torch", "numpy", "matplotlib")  # whose versions the table tells
PYTEST = ("-q", "-n", "auto", "--dist", "loadscope", "-p", "no:cacheprovider")
NBVAL = (
    "-p",
    "tools.check.compare",
    "--nbval",
    "--nbval-cell-timeout=300",
    "notebooks",
)


def measure(variation: Variation, arguments: list[str]) -> dict[str, Any]:
    """Run all notebooks once, and return the row of the table.

    Raises:
        UnfitError: this machine cannot make the variation.
        UnavailableError: its environment cannot be had here.
    """
    own = variation.settings()
    python = environment(variation.python) if variation.python else Path(sys.executable)
    reports = ROOT / "reports"
    reports.mkdir(exist_ok=True)
    found = reports / f"variation-{variation.name}.json"
    found.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *PYTEST, *NBVAL, *arguments]
    command += [f"--comparison-report={found}"]
    command += [f"--kernel-python={python}"] if variation.python else []
    command += ["-p", variation.plugin] if variation.plugin else []
    command += ["-n0"] if variation.name == "gpu" else []  # the notebooks share one
    plain = {"OMP_NUM_THREADS": "1", "ATTENTION_DEVICE": "cpu"}
    began = time.monotonic()
    with (reports / f"variation-{variation.name}.log").open("w") as log:
        done = subprocess.run(
            command,
            check=False,
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env=os.environ | plain | own,
        )
    if not found.is_file():
        raise RuntimeError(f"pytest ended with {done.returncode}: see {log.name}")
    chapters = by_chapter(json.loads(found.read_text(encoding="utf-8")))
    failed = any(entry["failed"] for entry in chapters.values())
    if done.returncode != failed:  # 1 where cells failed; a kernel may not have begun
        raise RuntimeError(f"pytest ended with {done.returncode}: see {log.name}")
    return {
        "what": variation.what,
        "date": datetime.now(UTC).date().isoformat(),
        "records": records(),
        "seconds": round(time.monotonic() - began),
        "versions": versions(python, SHOWN),
        "on": describe("cuda") if variation.name == "gpu" else "",
        "chapters": chapters,
    }


def records() -> str:
    """Return one hash of the texts and versions that the records belong to."""
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    notebooks = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    prints = [notebook["metadata"].get("attention_book") for notebook in notebooks]
    return hashlib.sha256(json.dumps(prints).encode()).hexdigest()[:8]


def by_chapter(cells: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Sum up the findings of cells: one entry a chapter."""
    chapters: dict[str, dict[str, Any]] = {}
    for cell in sorted(cells, key=lambda cell: cell["place"]):
        counts = {"cells": 0, "compared": 0, "pictures": 0, "drawings": 0, "failed": 0}
        entry = chapters.setdefault(
            cell["place"].split(",")[0], {**counts, "largest": 0.0}
        )
        entry["cells"] += 1
        entry["compared"] += cell["compared"]
        entry["failed"] += cell["outcome"] == "failed"
        if cell["compared"]:
            entry["pictures"] += cell["picture_count"]
            entry["drawings"] += cell["drawing_count"]
            worst = max(entry["largest"], float(cell["numbers"]), cell["pictures"])
            entry["largest"] = round(worst, 4)
    return chapters


def _run(
    chosen: list[Variation], titles: dict[str, str], repeat: int, arguments: list[str]
) -> bool:
    """Measure, say how it went, keep the rows; return whether all agreed."""
    rows: dict[str, dict[str, Any]] = {}
    agreed = True
    for number, variation in enumerate(chosen, 1):
        begin = f"[{number}/{len(chosen)}] {variation.what}"
        print(f"{begin} …", flush=True)
        try:
            rows[variation.name] = row = measure(variation, arguments)
        except (UnfitError, UnavailableError) as error:
            rows[variation.name] = {"what": variation.what, "missing": str(error)}
            print(f"{begin}: not measured: {error}", flush=True)
            # CI has every interpreter and package; a processor it cannot choose.
            unexpected = isinstance(error, UnavailableError) and "CI" in os.environ
            agreed = agreed and not unexpected
            continue
        except RuntimeError as error:
            print(f"{begin}: {error}", flush=True)
            agreed = False
            continue
        if not arguments:  # a part of the notebooks is no table of the book
            write(rows, machine=MACHINE, titles=titles)
        failed = sum(entry["failed"] for entry in row["chapters"].values())
        agreed = agreed and not failed
        verdict = f"{failed} cells differ" if failed else "agrees"
        print(f"{begin}: {verdict}, {row['seconds']} s", flush=True)
        if failed:
            _name_failures(variation.name)
    flakes = [_repetition(number, repeat, arguments) for number in range(repeat)]
    repeated = {"times": repeat, "failed": sum(flakes)} if repeat else None
    if not arguments:
        write(rows, repeated, machine=MACHINE, titles=titles)
    if any("chapters" in row for row in rows.values()):
        table = f"{summary(rows)}\n\n{show(rows)}"
        print(table)
        if os.environ.get("GITHUB_STEP_SUMMARY"):
            with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as file:
                file.write(f"{table}\n")
    if repeat:
        print(f"{repeat} repetitions: {sum(flakes)} differ")
    return agreed and not any(flakes)


def _name_failures(name: str) -> None:
    """Print which cells failed, and keep their pictures, which the next run deletes."""
    reports = ROOT / "reports"
    cells = json.loads((reports / f"variation-{name}.json").read_text("utf-8"))
    for cell in cells:
        if cell["outcome"] == "failed":
            print(f"  {cell['place']}")
    kept = reports / f"variation-{name}-pictures"
    shutil.rmtree(kept, ignore_errors=True)
    if (reports / "pictures").is_dir():
        shutil.move(reports / "pictures", kept)
    print(f"  see {reports / f'variation-{name}.log'}")


def _repetition(number: int, of: int, arguments: list[str]) -> bool:
    """Run all notebooks as recorded once more, and say whether any cell differed."""
    again = Variation(f"repetition-{number + 1:02d}", "as recorded")
    chapters = measure(again, arguments)["chapters"]
    failed = any(entry["failed"] for entry in chapters.values())
    print(f"repetition {number + 1} of {of}: {'differs' if failed else 'agrees'}")
    return failed


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="tools.check.variations", description=__doc__)
    parser.add_argument(
        "--repeat", type=int, default=0, help="then as recorded, N times"
    )
    parser.add_argument("--only", default="", help="chapters, as pytest's -k has it")
    parser.add_argument("name", nargs="*", help="variations; all by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        known = {variation.name: variation for variation in variations(Path(folder))}
        unknown = [name for name in options.name if name not in known]
        if unknown:
            print(f"{unknown[0]} is no variation: choose from {', '.join(known)}")
            return 2
        none = bool(options.repeat) and not options.name
        names = [] if none else options.name or list(known)
        only = ["-k", options.only] if options.only else []
        chosen = [known[name] for name in names]
        titles = {variation.name: variation.what for variation in known.values()}
        return 0 if _run(chosen, titles, options.repeat, only) else 1


if __name__ == "__main__":
    sys.exit(main())
