"""Keep results from other machines in book/reproduces.json, and fill its pages.

A blank of a page is between the comments `% results: NAME` and `% end`. What ran on
other code cells or outputs than those of the present records is not counted.
"""

import json
import os
import platform
import re
from pathlib import Path
from typing import Any

from tools.record.freshness import state
from tools.words import say

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path("book/reproduces.json")
PAGES = Path("book/reproduces.md"), Path("book/index.md")
BLANK = re.compile(r"(% results: (\w+)\n)(.*?)(% end\n)", re.DOTALL)
COUNTS = ("cells", "compared", "pictures", "drawings", "failed")
Row = dict[str, Any]


def write(rows: dict[str, Row], titles: dict[str, str]) -> None:
    """Add new rows to older ones, and fill the pages.

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
    if rows:
        here = {"of": platform.machine(), "n": os.cpu_count()}
        kept["machine"] = say("reproduces.machine", **here)
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    made = texts(kept, state(ROOT))
    for page in (ROOT / name for name in PAGES):
        page.write_text(fill(page.read_text("utf-8"), made), encoding="utf-8")


def fill(page: str, made: dict[str, str]) -> str:
    """Return a page with its blanks filled, each by the text of its name."""
    return BLANK.sub(lambda match: f"{match[1]}\n{made[match[2]]}\n\n{match[4]}", page)


def texts(kept: Row, now: str) -> dict[str, str]:
    """Return the text of each blank of the page; `now` is the state of the records."""
    rows, first = kept["rows"], kept["rows"]["as-recorded"]
    ran = [row for row in rows.values() if row.get("records") == now]
    proof = "reproduces.proof" if len(ran) > 1 else "reproduces.proof_of_one"
    if not ran:
        proof = "reproduces.proof_earlier"
        ran = [row for row in rows.values() if row.get("records") == first["records"]]
    cells, compared, pictures, *_ = _counts(ran[0])
    found: Row = {"cells": cells, "outputs": compared, "figures": pictures}
    found |= {"out": cells - compared, "share": (cells - compared) / cells}
    found |= {"kinds": len(ran), "differ": sum(_counts(row)[-1] for row in ran)}
    found["minutes"] = round(sum(it.get("seconds", 0) for it in rows.values()) / 60)
    found |= {"table": summary(rows, now), "day": first["date"]}
    return {
        "proof": say(proof, **found),
        "variations": say("reproduces.run", machine=kept["machine"], **found),
        "chapters": show(rows),
        "exceptions": say("reproduces.exceptions", **found),
    }


def show(rows: dict[str, Row]) -> str:
    """Return a table: the largest difference over its tolerance, run by chapter."""
    measured, lines = [row for row in rows.values() if "chapters" in row], list[str]()
    stems = sorted({stem for row in measured for stem in row["chapters"]})
    for part in filter(None, (stems[:12], stems[12:])):  # paper is not wide
        heads = " | ".join([say("reproduces.chapter"), *(stem[:2] for stem in part)])
        lines += ["", f"| {heads} |", "|---|" + "---:|" * len(part)]
        for row in measured:
            entries = [_entry(row["chapters"].get(stem)) for stem in part]
            lines.append(f"| {row['what']} | {' | '.join(entries)} |")
    return "\n".join(lines[1:])


def _entry(entry: Row | None) -> str:
    if not entry or entry["failed"]:
        return say("reproduces.differ", **entry) if entry else "–"
    return f"{entry['largest']:.2f}" if entry["largest"] else "0"


def summary(rows: dict[str, Row], now: str) -> str:
    """Return a table: variations, versions, how much was compared, and when."""
    lines = [say("reproduces.heads"), "|---|---:|---:|---:|---|"]
    for row in rows.values():
        if "missing" in row:
            lines.append(f"| {row['what']} | {say('reproduces.missing', **row)} |")
            continue
        cells, compared, pictures, drawings, failed = _counts(row)
        first = rows.get("as-recorded", row)
        usual = row is not first and row["versions"] == first["versions"]
        notes = [] if usual else [", ".join(row["versions"].values())]
        notes += [row["on"]] if row["on"] else []
        notes += [say("reproduces.on", **row)] if row["date"] != first["date"] else []
        notes += [say("reproduces.earlier")] if row["records"] != now else []
        drawn = say("reproduces.drawn", n=pictures) if drawings else f"{pictures}"
        counted = say("reproduces.compared", n=compared, cells=cells)
        counted += f" | {drawn} | {failed}"
        lines.append(f"| {row['what']} | {counted} | {'; '.join(notes)} |")
    return "\n".join(lines)


def _counts(row: Row) -> list[int]:
    """Return the sums over the chapters of a row."""
    return [sum(it[name] for it in row["chapters"].values()) for name in COUNTS]
