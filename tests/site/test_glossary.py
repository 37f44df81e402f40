"""Definitions that can stand alone, since pages show them where a term is used."""

import re

import pytest

from tests.pages import parsed
from tools.chapters import ROOT, SITE

GLOSSARY = (ROOT / "book/glossary.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^(\S[^\n]*)\n  ([^\n]+)$", re.MULTILINE)


def test_definitions_stand_alone():
    entries = ENTRY.findall(GLOSSARY)
    terms = [term for term, _ in entries]
    assert terms == sorted(terms, key=str.lower)
    for term, text in entries:
        definition, _, where = text.partition(" See ")
        first, *others = re.split(r"(?<=\.)\s", definition)
        assert where, f"{term}: no link to where it is explained"
        assert len(others) < 2, f"{term}: one or two sentences"
        assert re.match(r"[A-Z].*\.$", definition), term
        assert len(first.split()) >= 5, f"{term}: its first sentence says little"


@pytest.mark.usefixtures("site")
def test_letters_lead_to_their_first_entries():
    page = parsed(SITE / "book/glossary.html")
    letters = {a.get_text(): a["href"] for a in page.select(".book-letters a")}
    terms = {f"#{dt['id']}": dt.get_text() for dt in page.select("dl.glossary > dt")}
    firsts = {}
    for place, term in terms.items():
        firsts.setdefault(term[0].upper(), place)
    assert letters == {it: firsts[it] for it in firsts if it.isalpha()}
    assert len(letters) > 15
