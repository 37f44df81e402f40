"""Keep what was found on other machines in book/reproduces.json, and fill its pages.

A blank of a page stands between the comments `% results: NAME` and `% end`.
"""

import json
import os
import platform
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path("book/reproduces.json")
PAGES = Path("book/reproduces.md"), Path("book/index.md")
BLANK = re.compile(r"(% results: (\w+)\n)(.*?)(% end\n)", re.DOTALL)
COUNTS = ("cells", "compared", "pictures", "drawings", "failed")
Row = dict[str, Any]


def write(rows: dict[str, Row], titles: dict[str, str]) -> None:
    """Keep new rows beside older ones, and fill the pages.

    A row that could not be measured now does not replace one that once was. `titles`
    names all rows, in their order.
    """
    path = ROOT / RESULTS
    kept: Row = json.loads(path.read_text("utf-8")) if path.is_file() else {"rows": {}}
    for name, row in rows.items():
        if "missing" not in row or "chapters" not in kept["rows"].get(name, {}):
            kept["rows"][name] = row
    found = [name for name in titles if name in kept["rows"]]
    kept["rows"] = {name: kept["rows"][name] | {"what": titles[name]} for name in found}
    kept["machine"] = f"a machine with {os.cpu_count()} cores, {platform.machine()}"
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for page in (ROOT / name for name in PAGES):
        page.write_text(fill(page.read_text("utf-8"), texts(kept)), encoding="utf-8")


def fill(page: str, made: dict[str, str]) -> str:
    """Return a page with its blanks filled, each by the text of its name."""
    return BLANK.sub(lambda match: f"{match[1]}\n{made[match[2]]}\n\n{match[4]}", page)


def texts(kept: Row) -> dict[str, str]:
    """Return the text of each blank of the page."""
    rows, first = kept["rows"], kept["rows"]["as-recorded"]
    minutes = round(sum(row.get("seconds", 0) for row in rows.values()) / 60)
    cells, compared, pictures, *_ = _counts(first)
    as_now = [row for row in rows.values() if row.get("records") == first["records"]]
    differ = [_counts(row)[-1] for row in as_now]
    return {
        "proof": f"{compared} outputs and {pictures} figures were computed again, as "
        f"on {len(differ)} kind{'s' * (len(differ) > 1)} of machine: "
        f"**{sum(differ)} differ**.",
        "variations": f"{summary(rows)}\n\n"
        f"Run on {first['date']}, on {kept['machine']}, in {minutes} minutes.",
        "chapters": show(rows),
        "exceptions": f"Of {cells} cells, {cells - compared} are not compared "
        f"({(cells - compared) / cells:.1%}).",
    }


def show(rows: dict[str, Row]) -> str:
    """Return a table: the largest difference over its tolerance, run by chapter."""
    measured, lines = [row for row in rows.values() if "chapters" in row], list[str]()
    stems = sorted({stem for row in measured for stem in row["chapters"]})
    for part in filter(None, (stems[:12], stems[12:])):  # paper is not wide
        heads = " | ".join(stem[:2] for stem in part)
        lines += ["", f"| chapter | {heads} |", "|---|" + "---:|" * len(part)]
        for row in measured:
            entries = [_entry(row["chapters"].get(stem)) for stem in part]
            lines.append(f"| {row['what']} | {' | '.join(entries)} |")
    return "\n".join(lines[1:])


def _entry(entry: Row | None) -> str:
    if entry is None:
        return "–"
    if entry["failed"]:
        return f"**{entry['failed']} differ**"
    return f"{entry['largest']:.2f}" if entry["largest"] else "0"


def summary(rows: dict[str, Row]) -> str:
    """Return a table: variations, versions, how much was compared, and when."""
    heads = "| run | cells | figures | differ | Python, torch, NumPy, matplotlib |"
    lines = [heads, "|---|---:|---:|---:|---|"]
    for row in rows.values():
        if "missing" in row:
            why = f"still to be measured: {row['missing']}"
            lines.append(f"| {row['what']} | – | – | – | {why} |")
            continue
        cells, compared, pictures, drawings, failed = _counts(row)
        first = rows.get("as-recorded", row)
        usual = row is not first and row["versions"] == first["versions"]
        notes = [] if usual else [", ".join(row["versions"].values())]
        notes += [row["on"]] if row["on"] else []
        notes += [f"on {row['date']}"] if row["date"] != first["date"] else []
        earlier = row["records"] != first["records"]
        notes += ["an earlier state of the book"] if earlier else []
        drawn = f"{pictures}, by contents" if drawings else f"{pictures}"
        counted = f"{compared}\u00a0of\u00a0{cells} | {drawn} | {failed}"
        lines.append(f"| {row['what']} | {counted} | {'; '.join(notes)} |")
    return "\n".join(lines)


def _counts(row: Row) -> list[int]:
    """Return the sums over the chapters of a row."""
    return [sum(it[name] for it in row["chapters"].values()) for name in COUNTS]
