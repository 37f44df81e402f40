"""Keep what was found on other machines in book/reproduces.json, and fill its page."""

import json
from pathlib import Path
from typing import Any

from tools.check.blanks import fill

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = Path("book/reproduces.json"), Path("book/reproduces.md")
Row = dict[str, Any]


def write(
    rows: dict[str, Row],
    repeated: Row | None = None,
    *,
    machine: str,
    titles: dict[str, str],
) -> None:
    """Keep new rows beside older ones, and fill the page.

    A row that could not be measured now does not replace one that once was. `titles`
    names all rows, in their order.
    """
    path = ROOT / RESULTS
    kept: Row = {"rows": {}, "repeated": None}
    if path.is_file():
        kept = json.loads(path.read_text(encoding="utf-8"))
    for name, row in rows.items():
        if "missing" not in row or "chapters" not in kept["rows"].get(name, {}):
            kept["rows"][name] = row
    kept["rows"] = {
        name: kept["rows"][name] | {"what": title}
        for name, title in titles.items()
        if name in kept["rows"]
    }
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
    first = kept["rows"]["as-recorded"]
    where = (
        f"Run on {first['date']}, on {kept['machine']}, in {_minutes(kept)} minutes."
    )
    return {
        "variations": f"{summary(kept['rows'])}\n\n{where}",
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
        "| chapter | " + " | ".join(stem[:2] for stem in stems) + " |",
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


def summary(rows: dict[str, Row]) -> str:
    """Return a table: variations, versions, how much was compared, and when."""
    lines = [
        "| run | cells | figures | differ | Python, torch, NumPy, matplotlib |",
        "|---|---:|---:|---:|---|",
    ]
    usual = ""
    for row in rows.values():
        if "missing" in row:
            why = f"still to be measured: {row['missing']}"
            lines.append(f"| {row['what']} | – | – | – | {why} |")
            continue
        cells, compared, pictures, drawings, failed = (
            sum(entry[name] for entry in row["chapters"].values())
            for name in ("cells", "compared", "pictures", "drawings", "failed")
        )
        numbers = ", ".join([*row["versions"].values(), row["on"]]).rstrip(", ")
        usual = usual or numbers
        notes = [] if numbers == usual and len(lines) > 2 else [numbers]
        notes += _age(row, rows)
        drawn = f"{pictures}, by contents" if drawings else f"{pictures}"
        lines.append(
            f"| {row['what']} | {compared}\u00a0of\u00a0{cells} | {drawn} | "
            f"{failed} | {'; '.join(notes)} |"
        )
    return "\n".join(lines)


def _minutes(kept: Row) -> int:
    return round(sum(row.get("seconds", 0) for row in kept["rows"].values()) / 60)


def _age(row: Row, rows: dict[str, Row]) -> list[str]:
    """Say when a run was made, where that was on another day or in an earlier state."""
    first = rows.get("as-recorded", row)
    notes = [f"on {row['date']}"] if row["date"] != first["date"] else []
    same = row["records"] == first["records"]
    return notes if same else [*notes, "an earlier state of the book"]


def _exceptions(rows: dict[str, Row]) -> str:
    """Say how many cells are not compared."""
    chapters = rows["as-recorded"]["chapters"].values()
    cells = sum(entry["cells"] for entry in chapters)
    left_out = cells - sum(entry["compared"] for entry in chapters)
    return f"Of {cells} cells, {left_out} are not compared ({left_out / cells:.1%})."


def _repeated(repeated: Row | None) -> str:
    if not repeated:
        return "More repetitions of the plain run are still to be counted."
    return (
        f"The first line was repeated {repeated['times']} times; "
        f"{repeated['failed']} of these runs found a difference."
    )
