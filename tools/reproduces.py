"""Keep what was found on other machines in book/reproduces.json, and fill its page."""

import json
from pathlib import Path
from typing import Any

from tools.blanks import fill

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = Path("book/reproduces.json"), Path("book/reproduces.md")
Row = dict[str, Any]


def write(rows: dict[str, Row], repeated: Row | None, machine: str) -> None:
    """Keep new rows beside older ones, and fill the page.

    A row that could not be measured now does not replace one that once was.
    """
    path = ROOT / RESULTS
    kept: Row = {"rows": {}, "repeated": None}
    if path.is_file():
        kept = json.loads(path.read_text(encoding="utf-8"))
    for name, row in rows.items():
        if "missing" not in row or "chapters" not in kept["rows"].get(name, {}):
            kept["rows"][name] = row
    kept["machine"] = machine
    kept["repeated"] = repeated or kept["repeated"]
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    refill(ROOT)


def refill(root: Path) -> None:
    """Fill the page from what is kept."""
    kept = json.loads((root / RESULTS).read_text(encoding="utf-8"))
    page = root / PAGE
    page.write_text(
        fill(page.read_text(encoding="utf-8"), texts(kept)), encoding="utf-8"
    )


def texts(kept: Row) -> dict[str, str]:
    """Return the text of each blank of the page."""
    return {
        "variations": _summary(kept["rows"]),
        "chapters": show(kept["rows"]),
        "exceptions": _exceptions(kept["rows"]),
        "repeated": _repeated(kept["repeated"]),
    }


def show(rows: dict[str, Row]) -> str:
    """Return a table: the largest difference over its tolerance, run by chapter."""
    measured = [row for row in rows.values() if "chapters" in row]
    if not measured:
        return "Nothing was measured."
    stems = sorted({stem for row in measured for stem in row["chapters"]})
    lines = [
        "| | " + " | ".join(stem[:2] for stem in stems) + " |",
        "|---|" + "---:|" * len(stems),
    ]
    for row in measured:
        entries = [row["chapters"].get(stem) for stem in stems]
        lines.append(f"| {row['what']} | " + " | ".join(map(_entry, entries)) + " |")
    return "\n".join(lines)


def _entry(entry: Row | None) -> str:
    if entry is None:
        return "–"
    if entry["failed"]:
        return f"**{entry['failed']} differ**"
    return f"{entry['largest']:.2f}" if entry["largest"] else "0"


def _summary(rows: dict[str, Row]) -> str:
    """Return a table: variations, versions, how much was compared, and when."""
    lines = [
        "| run | Python, torch, NumPy, matplotlib | cells | pictures | differ | date |",
        "|---|---|---:|---:|---:|---|",
    ]
    for row in rows.values():
        if "missing" in row:
            lines.append(
                f"| {row['what']} | still to be measured: {row['missing']} ||||"
            )
            continue
        cells, compared, pictures, drawings, failed = (
            sum(entry[name] for entry in row["chapters"].values())
            for name in ("cells", "compared", "pictures", "drawings", "failed")
        )
        numbers = ", ".join(row["versions"].values())
        drawn = f"{pictures}, by contents" if drawings else f"{pictures}"
        lines.append(
            f"| {row['what']} | {numbers} | {compared} of {cells} | {drawn} | {failed} "
            f"| {row['date']} |"
        )
    return "\n".join(lines)


def _exceptions(rows: dict[str, Row]) -> str:
    """Say how many cells are not compared."""
    measured = [row["chapters"] for row in rows.values() if "chapters" in row]
    chapters = measured[0].values()
    cells = sum(entry["cells"] for entry in chapters)
    left_out = cells - sum(entry["compared"] for entry in chapters)
    return f"Of {cells} cells, {left_out} are not compared ({left_out / cells:.1%})."


def _repeated(repeated: Row | None) -> str:
    if not repeated:
        return "Repetitions: still to be counted."
    return (
        f"All notebooks ran {repeated['times']} more times as recorded; "
        f"{repeated['failed']} of these runs found a difference."
    )
