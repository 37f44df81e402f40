"""A cell with its outputs in; what no record may hold out."""

import base64
import binascii
import io
import json
import re
from decimal import Decimal

from nbformat import NotebookNode
from PIL import Image, UnidentifiedImageError

from tools.record.private import details

TOLERANCE = re.compile(r"tolerance-(\d+(?:\.\d+)?(?:e-?\d+)?)")
SKIP = {"nbval-skip", "skip-execution"}  # one for the comparison, one for the site
TAGS = SKIP | {"hide-input", "hide-output", "hide-cell", "exercise", "predict"}
TAGS |= {"remove-cell"}  # its output is shown by another page
TAGS |= {"not-compared", "real-model", "raises-exception"}
# What differs from run to run. What tells of a machine stands in private.py.
PASSING = {
    "an address": re.compile(r"\b0x[0-9a-fA-F]{9,}\b|0x7f[0-9a-fA-F]*|\bat 0x"),
    "a view's number in all its digits": re.compile(r"[,:]-?\d+\.\d{9,}(?=[,\]}])"),
    "a progress bar's timing": re.compile(r"\d ?(?:it/s|s/it)|\d\d:\d\d<(?:\d\d:|\?)"),
}


def cell_faults(cell: NotebookNode) -> list[str]:
    """Return what is wrong with one code cell's tags and stored outputs."""
    faults = _tag_faults(set(tags(cell)), bool(reason(cell)))
    if cell.source.strip() and cell.execution_count is None and not skipped(cell):
        faults.append("it was never run: run `make notebooks`")
    held = [it for output in cell.outputs for it in _output_faults(output)]
    return faults + [f"its record holds {it}" for it in held]


def tags(cell: NotebookNode) -> list[str]:
    """Return a cell's tags."""
    return list(cell.metadata.get("tags", []))


def reason(cell: NotebookNode) -> str:
    """Return why a cell has its own way of comparison."""
    return str(cell.metadata.get("reason") or "").strip()


def skipped(cell: NotebookNode) -> bool:
    """Return whether a cell is executed neither here nor for the site."""
    return set(tags(cell)) >= SKIP


def needs_model(cell: NotebookNode) -> bool:
    """Return whether a cell runs the small language model, which may be missing."""
    return "real-model" in tags(cell)


def tolerance(cell: NotebookNode) -> Decimal | None:
    """Return a cell's own tolerance, or None."""
    found = [TOLERANCE.fullmatch(tag) for tag in tags(cell)]
    return next((Decimal(match[1]) for match in found if match), None)


def first_line(cell: NotebookNode) -> str:
    """Return the line that identifies the cell for a reader."""
    return next((line for line in cell.source.splitlines() if line.strip()), "empty")


def text_of(value: object) -> str:
    """Return one value of an output as text: JSON comes as a dictionary."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def is_picture(mime: str) -> bool:
    """Say whether a value is compared by its pixels; SVG is text."""
    return mime.startswith("image/") and mime != "image/svg+xml"


def picture_texts(encoded: str) -> dict[str, str]:
    """Return the texts inside a picture's file: pages show one of them, a drawing."""
    try:
        with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
            picture.load()  # texts may stand behind the pixels
            return {str(it): str(text) for it, text in picture.info.items()}
    except (binascii.Error, UnidentifiedImageError):
        return {}


def _tag_faults(found: set[str], has_reason: bool) -> list[str]:
    own = sorted(tag for tag in found if TOLERANCE.fullmatch(tag))
    ways = [*own, *sorted(found & {"not-compared"}), *sorted(found & SKIP)]
    faults = [f"unknown tag {tag!r}" for tag in sorted(found - TAGS - set(own))]
    if ways and not has_reason:
        faults.append(f"tag {ways[0]!r} needs a `reason:` beside it")
    if found & SKIP and not found >= SKIP:
        faults.append("tags 'nbval-skip' and 'skip-execution' need each other")
    if len(ways) > 1 and set(ways) != SKIP:
        faults.append(f"tags {', '.join(map(repr, ways))} exclude each other")
    return faults


def _output_faults(output: NotebookNode) -> list[str]:
    """Return what is forbidden in one stored output."""
    if output.output_type == "error":
        return [f"an error: {output.ename}: {output.evalue}"]
    if output.get("name") == "stderr":
        return [f"standard error: {output.text!r}"]
    data = output.get("data", {})
    found, texts = list[str](), [output.get("text", "")]
    for mime, value in data.items():
        texts += picture_texts(value).values() if is_picture(mime) else [text_of(value)]
    for text in texts:
        matches = [(name, pattern.search(text)) for name, pattern in PASSING.items()]
        found += [f"{name}: {match[0]!r}" for name, match in matches if match]
        found += details(text)
    return found
