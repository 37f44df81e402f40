"""Visit every link that leaves the book, with nothing executed.

Run as `python -m tools.check.outside_links`, with a network. Sphinx's own checker asks
each host;
what it says is sorted here, since some hosts turn every program away: only a link
that is surely dead fails.
"""

import contextlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REPORT = "reports/links.json"
# What a host says to a program but not to a reader: no entry, or not now.
UNCLEAR = ("401", "403", "405", "406", "418", "429", "500", "502", "503", "504")
WORDS = 200  # of what went wrong
SETTINGS = {"linkcheck_retries": 3, "linkcheck_timeout": 20, "linkcheck_workers": 8}


def visit(root: Path) -> list[dict[str, Any]]:
    """Return what the checker says of each link.

    Raises:
        RuntimeError: the pages could not be read.
    """
    from jupyter_book.sphinx import build_sphinx

    folder = root / "_build/links"
    shutil.rmtree(folder, ignore_errors=True)  # links of a page already read stay out
    folder.mkdir(parents=True)
    said = folder / "html/output.json"
    log = folder / "log.txt"
    with (
        log.open("w", encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        build_sphinx(
            root,
            folder / "html",
            noconfig=True,
            path_config=root / "_config.yml",
            confoverrides={"latex_individualpages": False, **SETTINGS},
            builder="linkcheck",
        )
    if not said.is_file():
        raise RuntimeError(f"the pages could not be read: see {log}")
    lines = said.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def sort(links: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the dead links and the unclear ones, a line each."""
    dead: list[str] = []
    unclear: list[str] = []
    for link in links:
        if link["status"] not in {"broken", "timeout"}:
            continue
        place, why = f"{link['filename']}:{link['lineno']}", link["info"]
        late = link["status"] == "timeout" or "timed out" in why
        lines = unclear if late or why.startswith(UNCLEAR) else dead
        lines.append(f"{place}: {link['uri']}: {why[:WORDS]}")
    return dead, unclear


def main(root: Path = ROOT) -> int:
    """Say which links are dead, and return the command's exit status."""
    print("visiting every link that leaves the book, a minute or two", flush=True)
    try:
        links = visit(root)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    dead, unclear = sort(links)
    report = root / REPORT
    report.parent.mkdir(exist_ok=True)
    report.write_text(json.dumps(links, indent=1), encoding="utf-8")
    for title, lines in (("could not be checked", unclear), ("dead", dead)):
        for line in lines:
            print(f"{title}: {line}")
    outside = [link for link in links if link["uri"].startswith("http")]
    print(
        f"{len(outside)} links: {len(dead)} dead, {len(unclear)} could not be checked"
        f" (all of them: {REPORT})"
    )
    return 1 if dead or not outside else 0


if __name__ == "__main__":
    sys.exit(main())
