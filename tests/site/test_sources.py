"""Every idea of the five articles leads to the chapters that teach it."""

import re

from tests.site.labels import chapters_of_labels
from tools.chapters import ROOT

SOURCES = (ROOT / "book/sources.md").read_text(encoding="utf-8")
IDEAS = SOURCES.partition("## Ideas")[2].partition("\n## ")[0]
LINK = re.compile(r"\{(?:ref|eq|numref)\}`(?:[^`<]*<)?([a-z0-9-]+)>?`")
LAST = {"A": 9, "B": 6, "C": 6, "D": 15, "E": 10}
EVERY_ID = {f"{letter}{n}" for letter in LAST for n in range(1, LAST[letter] + 1)}
EVERY_ID.add("D0")


def rows():
    """The cells of each idea's row."""
    found = [line[2:-2].split(" | ") for line in IDEAS.splitlines() if line[:2] == "| "]
    return found[1:]  # the first is the head


def ids(cell):
    """The ids that a cell names, such as `D4, D5` or `E6 to E10`."""
    names = re.findall(r"[A-E]\d+", cell)
    if " to " in cell:
        first, last = (int(name[1:]) for name in names)
        return [f"{cell[0]}{number}" for number in range(first, last + 1)]
    return names


def chapters(text):
    """The chapters in which the sections that a text links to stand."""
    known = chapters_of_labels()
    return {known[name] for name in LINK.findall(text) if name in known}


def test_sources_name_every_id_once():
    named = [name for first, *_ in rows() for name in ids(first)]
    assert sorted(named) == sorted(EVERY_ID)


def test_sources_name_the_chapters_of_their_sections():
    for name, _, stated, where in rows():
        numbers = {int(number) for number in re.findall(r"\d+", stated)}
        assert numbers == chapters(where), name
        assert numbers or "to come" in where, f"{name} leads nowhere"
