"""Record the chapters: execute those that are stale, once, and keep the prose in step.

Run as `python -m tools.record [--all] [--check] [chapter ...]`.
"""

import argparse
import copy
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from tools.chapters import ROOT
from tools.record.drafts import (
    PROSE,
    Draft,
    code_of,
    examine,
    store,
    strays,
    with_outputs,
)
from tools.record.execute import execute
from tools.record.freshness import fingerprints


def update(drafts: list[Draft]) -> list[str]:
    """Bring records up to date, and return the faults of those left as they were.

    Each stale chapter runs in its own kernel, as many at once as there are cores.
    """
    for draft in drafts:
        if draft.record is not None and draft.causes == [PROSE]:
            store(draft.chapter, with_outputs(draft.plain, draft.record))
            print(f"{draft.chapter.stem}: prose updated, nothing executed")
    stale = [draft for draft in drafts if draft.runs]
    cells = sum(len(code_of(draft.plain)) for draft in stale)
    on_terminal = sys.stderr.isatty() and bool(stale)
    with tqdm(total=cells, unit="cell", disable=not on_terminal) as bar:
        try:
            return _record_all(stale, bar.update)
        except KeyboardInterrupt:
            # Waiting for the threads would take as long as the chapters; the kernels
            # end with this process, and the old records stand.
            os._exit(130)


def _record_all(stale: list[Draft], advance: Callable[[], object]) -> list[str]:
    """Record chapters side by side; one that fails does not stop the others."""
    faults: list[str] = []
    pool = ThreadPoolExecutor(os.cpu_count())
    jobs = {pool.submit(_record, draft, advance): draft for draft in stale}
    for draft in stale:
        tqdm.write(f"{draft.chapter.stem}: recording, {', '.join(draft.causes)}")
    for job in as_completed(jobs):
        faults += job.result()
        outcome = "not recorded, see below" if job.result() else "recorded"
        tqdm.write(f"{jobs[job].chapter.stem}: {outcome}")
    return faults


def _record(draft: Draft, advance: Callable[[], object]) -> list[str]:
    """Execute one chapter and store it, unless it has faults; these are returned."""
    notebook = copy.deepcopy(draft.plain)
    faults = execute(notebook, draft.chapter, advance)
    if not faults:
        root = draft.chapter.parent.parent
        notebook.metadata["attention_book"] = fingerprints(draft.plain, root)
        store(draft.chapter, notebook)
    return faults


def _chosen(drafts: list[Draft], names: list[str]) -> list[Draft]:
    """Return the chapters that are named, by path or by stem; all when none is."""
    by_stem = {draft.chapter.stem: draft for draft in drafts}
    stems = [Path(name).stem for name in names] or list(by_stem)
    unknown = [stem for stem in stems if stem not in by_stem]
    if unknown:
        raise ValueError(
            f"{unknown[0]} is no chapter: choose from {', '.join(by_stem)}"
        )
    return [by_stem[stem] for stem in stems]


def _run(options: argparse.Namespace, root: Path) -> list[str]:
    """Do what was asked for, and return what is wrong."""
    drafts = _chosen(examine(root), options.chapter)
    if options.check:
        return [
            f"{draft.chapter.stem}: {', '.join(draft.causes)}: run `make notebooks`"
            for draft in drafts
            if draft.causes
        ] + strays(root)
    if options.all:
        drafts = [replace(draft, causes=["asked for"]) for draft in drafts]
    return update(drafts) + strays(root)


def main(root: Path = ROOT) -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="tools.record.update", description=__doc__)
    parser.add_argument("--all", action="store_true", help="record fresh ones too")
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    parser.add_argument("chapter", nargs="*", help="a path or a stem; all by default")
    try:
        faults = _run(parser.parse_args(), root)
    except (ValueError, FileNotFoundError) as error:
        faults = [str(error)]
    print("\n".join(faults) or "every record is fresh")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
