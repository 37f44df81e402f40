"""Compare the outputs of one cell with its record, and show where they differ."""

from dataclasses import dataclass, field
from decimal import Decimal
from difflib import unified_diff
from itertools import islice
from pathlib import Path

from nbformat import NotebookNode

from tools.check import pictures
from tools.check.numbers import compare_text
from tools.record.rules import is_picture, picture_texts, text_of

ROWS = 80  # of a message
COLUMNS = 300


@dataclass
class Comparison:
    """The result for one cell, with the largest differences over their tolerances."""

    faults: list[str] = field(default_factory=list)
    numbers: float = 0.0
    pictures: float = 0.0
    picture_count: int = 0
    drawing_count: int = 0  # of these, compared by what they draw


def compare_outputs(
    reference: list[NotebookNode],
    result: list[NotebookNode],
    tolerance: Decimal | None,
    stem: Path,
    other_drawer: bool = False,
) -> Comparison:
    """Compare all outputs of a cell; pictures that differ are stored next to `stem`.

    `other_drawer`: another version of matplotlib may have drawn them.
    """
    found = Comparison()
    kind, other = ("\n".join(map(_kind, it)) for it in (reference, result))
    if kind != other:
        errors = [it.text[:COLUMNS] for it in result if it.get("name") == "stderr"]
        shown = "\n".join([_differences(kind, other), *errors])
        found.faults.append(f"the outputs differ in number or kind\n{shown}")
        return found
    for one, two in zip(reference, result, strict=True):
        for (mime, a), (_, b) in zip(_values(one), _values(two), strict=True):
            if is_picture(mime):
                _compare_picture(found, a, b, stem, other_drawer)
            else:
                _compare_value(found, mime, a, b, tolerance)
    return found


def _compare_value(
    found: Comparison, what: str, old: str, new: str, tolerance: Decimal | None
) -> None:
    """Compare two texts of one kind."""
    verdict = compare_text(old, new, tolerance)
    found.numbers = max(found.numbers, verdict.largest)
    if verdict.fault:
        shown = _differences(old, new, tolerance)
        found.faults.append(f"{what}: {verdict.fault}\n{shown}")


def _compare_picture(
    found: Comparison, old: str, new: str, stem: Path, other_drawer: bool
) -> None:
    """Compare two pictures, and the drawings in their files, which pages show."""
    found.picture_count += 1
    what = f"picture {found.picture_count}"
    texts = picture_texts(old), picture_texts(new)
    one, two = (it.get("Drawn by", "nobody") for it in texts)
    if one != two and not other_drawer:
        asked = "to compare what they draw: --other-drawer"
        found.faults.append(f"{what} was drawn by {one}, and now by {two}; {asked}")
    elif one != two and all("Contents" in it for it in texts):
        found.drawing_count += 1
        a, b = (it["Contents"] for it in texts)
        _compare_value(found, f"{what}, what it draws", a, b, None)
    elif _pixels_agree(found, what, old, new, stem) and one == two:
        drawings = (it.get("Drawing", "") for it in texts)
        for a, b, tolerance in pictures.drawn(*drawings):
            _compare_value(found, f"{what}, its drawing", a, b, tolerance)


def _pixels_agree(found: Comparison, what: str, old: str, new: str, stem: Path) -> bool:
    """Compare the pixels of two pictures, and store them where they differ."""
    one, two = pictures.decode(old), pictures.decode(new)
    stored = {"reference": one, "result": two}
    if one.size == two.size:
        rms, x, y = pictures.worst_block(one, two)
        found.pictures = max(found.pictures, rms / pictures.THRESHOLD)
        if rms <= pictures.THRESHOLD:
            return True
        stored["difference"] = pictures.difference(one, two)
        allowed = f"allowed: {pictures.THRESHOLD:g}"
        fault = f"differs by {rms:.1f} in the block at {x}, {y}; {allowed}"
    else:
        fault = f"has another size: {one.size} became {two.size}"
    stem.parent.mkdir(parents=True, exist_ok=True)
    for name, picture in stored.items():
        path = stem.with_name(f"{stem.name}-{found.picture_count}-{name}.png")
        picture.save(path)
        fault += f"\n  {path}"
    found.faults.append(f"{what} {fault}")
    return False


def _differences(reference: str, result: str, tolerance: Decimal | None = None) -> str:
    """Show the lines that disagree; those that agree are the reference's."""
    old, new = reference.splitlines(), result.splitlines()
    if len(old) == len(new):
        pairs = zip(old, new, strict=True)
        new = [a if not compare_text(a, b, tolerance).fault else b for a, b in pairs]
    lines = unified_diff(old, new, "reference", "result", n=2, lineterm="")
    return "\n".join(f"  {line[:COLUMNS]}" for line in islice(lines, ROWS))


def _kind(output: NotebookNode) -> str:
    """Return what must agree before values are compared."""
    name = str(output.get("name", output.output_type))
    return f"[{name}: {', '.join(mime for mime, _ in _values(output))}]"


def _values(output: NotebookNode) -> list[tuple[str, str]]:
    """Return an output's values as text, in an order that does not vary."""
    if output.output_type == "stream":
        return [("text", output.text)]
    if output.output_type == "error":
        return [("error", f"{output.ename}: {output.evalue}")]
    return [(mime, text_of(value)) for mime, value in sorted(output.data.items())]
