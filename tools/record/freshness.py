"""A chapter and its record in; why the record is stale out.

A record carries three fingerprints: of the chapter's code cells, of what they reach of
`attention_lib`, and of the pinned versions of what an execution can import. A fourth
seals its outputs: what was edited by hand is named, and nothing runs for that.
"""

import hashlib
import json
import re
from pathlib import Path

from nbformat import NotebookNode, from_dict

from tools.chapters import code_of
from tools.record.convert import unfolded
from tools.record.reach import LIBRARY, reached_files
from tools.record.rules import tags


def fingerprints(notebook: NotebookNode, root: Path) -> dict[str, str]:
    """Return what the outputs of a notebook depend on, as one short hash per cause."""
    cells = code_cells(notebook)
    files = reached_files([str(cell["source"]) for cell in cells], root)
    # It sets the environment of every recording.
    files.add(root / LIBRARY / "reproducibility.py")
    named = {path.relative_to(root).as_posix(): path for path in sorted(files)}
    library = [f"{name}\n{named[name].read_text(encoding='utf-8')}" for name in named]
    return {
        "code": _hash(json.dumps(cells, sort_keys=True)),
        "library": _hash(*library),
        "versions": _hash(*pins(root / "requirements.txt")),
    }


def stale_causes(
    chapter: NotebookNode, record: NotebookNode | None, root: Path
) -> list[str]:
    """Return why a record's outputs no longer belong to a chapter; [] if they do."""
    if record is None:
        return ["not recorded yet"]
    words = {"code": "its code cells", "library": LIBRARY, "versions": "its versions"}
    words["outputs"] = "its outputs, by hand,"
    now = fingerprints(chapter, root) | seal(record)
    then = record.metadata.get("attention_book", {})
    causes = {name for name in words if now[name] != then.get(name)}
    # A record may have been edited by hand under an old fingerprint.
    if code_cells(chapter) != code_cells(record):
        causes.add("code")
    return [f"{words[name]} changed" for name in words if name in causes]


def seal(record: NotebookNode) -> dict[str, str]:
    """Return the hash of everything that an execution left in a record."""
    left = [[cell.execution_count, cell.outputs] for cell in code_of(record)]
    return {"outputs": _hash(json.dumps(left, sort_keys=True))}


def states(root: Path) -> dict[str, str]:
    """Return, by chapter, a hash of its record: of code, and of outputs compared."""
    found = {}
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        record = from_dict(json.loads(path.read_text(encoding="utf-8")))
        compared = [it for it in code_of(record) if "not-compared" not in tags(it)]
        outputs = json.dumps([it.outputs for it in compared], sort_keys=True)
        code = str(record.metadata.get("attention_book", {}).get("code"))
        found[path.stem] = _hash(code, outputs)[:8]
    return found


def code_cells(notebook: NotebookNode) -> list[dict[str, object]]:
    """Return the code cells' source and metadata: the site finds a record by them."""
    cells = code_of(notebook)
    return [{"source": cell.source, "metadata": unfolded(cell)} for cell in cells]


def pins(requirements: Path) -> list[str]:
    """Return the pins of all packages that the library and a kernel need.

    `uv` writes below each package what asked for it. Where nothing is said, it counts.
    """
    text = requirements.read_text(encoding="utf-8")
    packages = [
        (pin, {line.strip(" #").removeprefix("via ") for line in asked_by})
        for pin, *asked_by in map(str.splitlines, re.split(r"\n(?=\S)", text))
        if not pin.startswith("#")
    ]
    needed = {"attention-lib (pyproject.toml)", "ipykernel"}
    while new := {
        name
        for pin, asked_by in packages
        if (name := pin.partition("==")[0]) not in needed
        and (not asked_by or asked_by & needed)
    }:
        needed |= new
    return sorted(pin for pin, _ in packages if pin.partition("==")[0] in needed)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
