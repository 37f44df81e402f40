"""Build the site from the records, with nothing executed.

Run as `python -m tools.site [--check [changed]]`: records what is stale, then runs
Jupyter Book, which calls `tools.site.extension`.
"""

import argparse
import contextlib
import gc
import hashlib
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.address import repository_address
from tools.running import run

# The heavy imports stand inside the functions: a run that has nothing to do stays fast.

ROOT = Path(__file__).resolve().parents[2]
SETTINGS: tuple[str, ...] = (
    "_config.yml",
    "_toc.yml",
    "requirements.txt",
    "pyproject.toml",
)
# For the notebooks that a reader downloads.
SETTINGS += ("tools/export/copies.py", "tools/export/set_up_cell.py", "tools/model.txt")
SOURCES: tuple[str, ...] = ("attention_lib", "book", "chapters", "notebooks")
# What tools/check and the rest of tools/export do begins when the pages are there.
SOURCES += ("tools/record", "tools/site", "explorer_source/src")
SOURCES += ("tools/translate", "zh", "contributing/asked")
INDEX, STAMP = "_build/html/index.html", "_build/site.sha256"


def main(root: Path = ROOT) -> int:
    """Bring the site up to date, and return the command's exit status."""
    parser = argparse.ArgumentParser(prog="tools.site", description=__doc__)
    parser.add_argument(
        "--check", nargs="?", const="all", choices=("all", "changed"),
        help="build every page anew, or what changed; record nothing",
    )  # fmt: skip
    check = parser.parse_args().check
    gc.disable()  # a search through Sphinx's trees costs more than what it frees
    if not check and is_current(root):
        _say_where(root)
        return 0
    if not check:
        print("Comparing the records with their chapters", flush=True)
        from tools.record.update import main as record

        if record(root, []):
            return 1
    # A page with warnings is not read again by the next run, which would pass; so the
    # stamp stands for a build without any, and where it is missing, all pages are read.
    everything = check == "all" or not (root / STAMP).is_file()
    (root / STAMP).unlink(missing_ok=True)
    if check == "all":  # pages whose source is gone must not stay
        shutil.rmtree((root / INDEX).parent, ignore_errors=True)
    with ThreadPoolExecutor() as pool:  # each takes one core
        edition = pool.submit(_build_edition, root)
        status = _build(root, everything) or edition.result()
    if status == 0:
        (root / STAMP).write_text(digest(root), encoding="utf-8")
        _say_where(root)
    return status


def _say_where(root: Path) -> None:
    """Say where the site is, and the one in Chinese; its own build says nothing."""
    if not (root / "edition.json").is_file():
        print(f"The book is ready. Open {root / INDEX}")
    if (own := (root / INDEX).parent / "zh/index.html").is_file():
        print(f"In Chinese: {own}")


def made_from(root: Path) -> Iterator[Path]:
    """Yield the files that the site is made from, always in the same order."""
    yield from (root / name for name in SETTINGS)
    yield from sorted((root / "tools").glob("*.py"))
    for folder in SOURCES:
        paths = sorted((root / folder).rglob("*"))
        yield from (p for p in paths if p.is_file() and p.suffix != ".pyc")


def digest(root: Path, *within: str) -> str:
    """Return one hash of what the site is made from: all, or files and folders of it.

    Its address counts, too.
    """
    found = hashlib.sha256(str(repository_address(root)).encode())
    places = [root / name for name in within or [""]]
    for path in made_from(root):
        if not any(map(path.is_relative_to, places)) or not path.is_file():
            continue
        found.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def is_current(root: Path) -> bool:
    """Return whether the last build had no warnings and the same files."""
    if not ((root / INDEX).is_file() and (root / STAMP).is_file()):
        return False
    return (root / STAMP).read_text(encoding="utf-8") == digest(root)


def _build_edition(root: Path) -> int:
    """Build the edition in another language, where there is one, in its own process."""
    if not (root / "zh").is_dir():
        return 0
    done = run([sys.executable, "-m", "tools.translate", "build"], limit=1800, cwd=root)
    if done.returncode:
        print(f"In Chinese:\n{done.stdout}{done.stderr}", file=sys.stderr)
    return done.returncode


def _build(root: Path, everything: bool) -> int:
    """Run Jupyter Book in this process, which has most of it imported already."""
    from jupyter_book.cli.main import main as jupyter_book

    command = ["build", str(root), "-W", "-n", "--keep-going"]
    command += ["--all"] if everything else []
    log = root / "_build/site.log"
    log.parent.mkdir(exist_ok=True)
    try:
        # Warnings go to standard error, and stay visible.
        with log.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
            jupyter_book(command)
    except SystemExit as end:
        # Jupyter Book makes one of Ctrl-C, too.
        return 130 if isinstance(end.code, KeyboardInterrupt) else int(end.code or 0)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
