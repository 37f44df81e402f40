"""Keep results from other machines in book/reproduces.json, and fill its pages.

A blank of a page is between the comments `% results: NAME` and `% end`. A chapter that
ran with other code cells or outputs than those of its present record is not counted.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.record.freshness import states
from tools.words import say

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path("book/reproduces.json")
PAGES = Path("book/reproduces.md"), Path("book/index.md")
BLANK = re.compile(r"(% results: (\w+)\n)(.*?)(% end\n)", re.DOTALL)
COUNTS = ("cells", "compared", "pictures", "drawings", "failed")
Row = dict[str, Any]
States = dict[str, str]  # by chapter, a hash of its record


def write(rows: dict[str, Row], titles: dict[str, str]) -> None:
    """Add new rows to older ones, and fill the pages.

    A row that could not be measured now does not replace an older one; a row of some
    chapters keeps the rest. `titles` names all rows, in their order.
    """
    path, now = ROOT / RESULTS, states(ROOT)
    kept: Row = json.loads(path.read_text("utf-8")) if path.is_file() else {"rows": {}}
    for name, row in rows.items():
        old = kept["rows"].get(name, {})
        if "missing" not in row or "chapters" not in old:
            kept["rows"][name] = merged(old, row, now)
    found = [name for name in titles if name in kept["rows"]]
    kept["rows"] = {name: kept["rows"][name] | {"what": titles[name]} for name in found}
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    made = texts(kept, now)
    for page in (ROOT / name for name in PAGES):
        page.write_text(fill(page.read_text("utf-8"), made), encoding="utf-8")


def merged(old: Row, row: Row, now: States) -> Row:
    """Return a new row with those chapters of an older one that it did not run."""
    if not (now.keys() - row.get("chapters", now)):  # all, or "missing"
        return row
    alike = all(old.get(name) == row[name] for name in ("versions", "on", "machine"))
    chapters = (old["chapters"] if alike else {}) | row["chapters"]
    return row | {"chapters": {it: chapters[it] for it in now if it in chapters}}


def current(row: Row, now: States) -> Row:
    """Return the results of the chapters that have not changed since they ran."""
    found = row.get("chapters", {})
    return {stem: found[stem] for stem in found if found[stem]["of"] == now.get(stem)}


def fill(page: str, made: dict[str, str]) -> str:
    """Return a page with its blanks filled, each by the text of its name."""
    return BLANK.sub(lambda match: f"{match[1]}\n{made[match[2]]}\n\n{match[4]}", page)


def texts(kept: Row, now: States) -> dict[str, str]:
    """Return the text of each blank of the page.

    The first page uses the rows with most unchanged chapters.
    """
    rows, first = kept["rows"], kept["rows"]["as-recorded"]
    every = ran = [held for row in rows.values() if (held := current(row, now))]
    most = max(ran, key=len, default={}).keys()
    ran = [chapters for chapters in ran if chapters.keys() == most]
    proof = "reproduces.proof" if len(ran) > 1 else "reproduces.proof_of_one"
    left = now.keys() - most if ran else []
    if not ran:
        proof = "reproduces.proof_earlier"
        every = [row["chapters"] for row in rows.values() if "chapters" in row]
        ran = [held for held in every if _of(held) == _of(first["chapters"])]
    cells, compared, pictures, *_ = _counts(ran[0])
    found: Row = {"cells": cells, "outputs": compared, "figures": pictures}
    found |= {"out": cells - compared, "share": (cells - compared) / cells}
    found |= {"kinds": len(ran), "differ": sum(_counts(it)[-1] for it in every)}
    found |= {"table": summary(rows, now), "day": _day(first)}
    rest = say("reproduces.left", left=_named(left)) if left else ""
    return {
        "proof": say(proof, **found) + rest,
        "variations": say("reproduces.run", machine=first["machine"], **found),
        "chapters": show(rows, now),
        "exceptions": say("reproduces.exceptions", **found),
    }


def show(rows: dict[str, Row], now: States) -> str:
    """Return a table: the largest difference over its tolerance, run by chapter.

    Brackets: the chapter has changed since.
    """
    measured, lines = [row for row in rows.values() if "chapters" in row], list[str]()
    stems = sorted({stem for row in measured for stem in row["chapters"]})
    for part in filter(None, (stems[:12], stems[12:])):  # paper is not wide
        heads = " | ".join([say("reproduces.chapter"), *(stem[:2] for stem in part)])
        lines += ["", f"| {heads} |", "|---|" + "---:|" * len(part)]
        for row in measured:
            entries = [
                _entry(row["chapters"].get(stem), now.get(stem)) for stem in part
            ]
            lines.append(f"| {row['what']} | {' | '.join(entries)} |")
    return "\n".join(lines[1:])


def _entry(entry: Row | None, now: str | None) -> str:
    if not entry:
        return "–"
    found = f"{entry['largest']:.2f}" if entry["largest"] else "0"
    found = say("reproduces.differ", **entry) if entry["failed"] else found
    return found if entry.get("of") == now else f"({found})"


def _named(stems: Iterable[str]) -> str:
    return ", ".join(f"{int(stem[:2])}" for stem in sorted(stems))


def _of(chapters: Row) -> States:
    return {stem: it["of"] for stem, it in chapters.items()}


def _day(row: Row) -> str:
    """Return the day on which a row's oldest result was found."""
    return str(min(it["date"] for it in row["chapters"].values()))


def summary(rows: dict[str, Row], now: States) -> str:
    """Return a table: variations, versions, how much was compared, and when."""
    lines = [say("reproduces.heads"), "|---|---:|---:|---:|---|"]
    for row in rows.values():
        if "missing" in row:
            lines.append(f"| {row['what']} | {say('reproduces.missing', **row)} |")
            continue
        chapters = current(row, now)
        others = now.keys() - chapters.keys()
        cells, compared, pictures, drawings, failed = _counts(
            chapters or row["chapters"]
        )
        first = rows.get("as-recorded", row)
        usual = row is not first and row["versions"] == first["versions"]
        notes = [] if usual else [", ".join(row["versions"].values())]
        notes += [row["on"]] if row["on"] else []
        notes += [row["machine"]] if row["machine"] != first["machine"] else []
        day = _day(row)
        notes += [say("reproduces.on", date=day)] if day != _day(first) else []
        if others:
            words = "reproduces.without" if chapters else "reproduces.earlier"
            notes.append(say(words, left=_named(others)))
        drawn = say("reproduces.drawn", n=pictures) if drawings else f"{pictures}"
        counted = say("reproduces.compared", n=compared, cells=cells)
        counted += f" | {drawn} | {failed}"
        lines.append(f"| {row['what']} | {counted} | {'; '.join(notes)} |")
    return "\n".join(lines)


def _counts(chapters: Row) -> list[int]:
    """Return the sums over the chapters of a row."""
    return [sum(it[name] for it in chapters.values()) for name in COUNTS]
