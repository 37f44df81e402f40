"""Chapters in; records brought up to date, or what is wrong with them, out.

Run as `python -m tools.record [--all] [--check] [chapter ...]`. What is stale is
executed, once; where only prose changed, the record is kept in step.
"""

import argparse
import copy
import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from tools.chapters import ROOT, chapter_paths
from tools.record.drafts import PROSE, Draft, examine, store, strays, with_outputs
from tools.record.execute import execute
from tools.record.freshness import fingerprints, seal
from tools.record.moved import moved


def update(drafts: list[Draft]) -> list[str]:
    """Bring records up to date, side by side; return the faults of those left."""
    faults: list[str] = []
    jobs = {}
    pool = ThreadPoolExecutor(os.cpu_count())
    for draft in drafts:
        stem = draft.chapter.stem
        if draft.record is not None and draft.causes == [PROSE]:
            store(draft.chapter, with_outputs(draft.plain, draft.record))
            print(f"{stem}: prose updated, nothing executed")
        elif draft.causes:
            print(f"{stem}: recording, {', '.join(draft.causes)}", flush=True)
            jobs[pool.submit(_record, draft)] = stem
    try:
        for job in as_completed(jobs):
            faults += job.result()
            outcome = "not recorded, see below" if job.result() else "recorded"
            print(f"{jobs[job]}: {outcome}", flush=True)
    except KeyboardInterrupt:
        # Waiting for the threads would take as long as the chapters; the kernels
        # end with this process, and the old records stand.
        os._exit(130)
    return faults


def _record(draft: Draft) -> list[str]:
    """Execute one chapter and store it, unless it has faults; these are returned."""
    notebook = copy.deepcopy(draft.plain)
    root = draft.chapter.parent.parent
    # Taken before: the library that ran is that of the beginning.
    found = fingerprints(notebook, root)
    if not (faults := execute(notebook, draft.chapter)):
        notebook.metadata["attention_book"] = found | seal(notebook)
        for line in moved(draft.chapter, draft.record or notebook, notebook):
            print(line)
        store(draft.chapter, notebook)
    return faults


def _run(options: argparse.Namespace, root: Path) -> list[str]:
    """Do what was requested, and return what is wrong."""
    known = [path.stem for path in chapter_paths(root)]
    stems = [Path(name).stem for name in options.chapter] or known
    if unknown := [stem for stem in stems if stem not in known]:
        raise ValueError(f"{unknown[0]} is none of {', '.join(known)}")
    found = examine(root, again=options.all)
    drafts = [draft for draft in found if draft.chapter.stem in stems]
    if options.check:
        return [
            f"{draft.chapter.stem}: {', '.join(draft.causes)}: run `make notebooks`"
            for draft in drafts
            if draft.causes
        ] + strays(root)
    if options.all:
        drafts = [replace(draft, causes=["asked for"]) for draft in drafts]
    return update(drafts) + strays(root)


def main(root: Path = ROOT, arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="tools.record", description=__doc__)
    parser.add_argument("--all", action="store_true", help="record fresh ones too")
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    parser.add_argument("chapter", nargs="*", help="a path or a stem; all by default")
    try:
        faults = _run(parser.parse_args(arguments), root)
    except (ValueError, FileNotFoundError) as error:
        faults = [str(error)]
    print("\n".join(faults) or "every record is fresh")
    return 1 if faults else 0
