"""Definitions that can stand alone, since pages show them where a term is used."""

import re

import pytest

from tools.chapters import ROOT, chapter_paths

GLOSSARY = (ROOT / "book/glossary.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^(\S[^\n]*)\n  ([^\n]+)$", re.MULTILINE)
TERM = re.compile(r"\{term\}`(?:[^`<]*<)?([^`<>]+)>?`")


def complaints(glossary: str) -> list[str]:
    """What is wrong with the definitions, one line each."""
    found = []
    terms = [term for term, _ in ENTRY.findall(glossary)]
    if terms != sorted(terms, key=str.lower):
        found.append("the terms are not in alphabetical order")
    for term, text in ENTRY.findall(glossary):
        definition, _, where = text.partition(" See ")
        sentences = re.split(r"(?<=\.)\s", definition)
        if not where:
            found.append(f"{term}: no link to where it is explained")
        if len(sentences) > 2 or not definition.endswith("."):
            found.append(f"{term}: one or two sentences")
        if len(sentences[0].split()) < 5 or not re.match("[A-Z]", definition):
            found.append(f"{term}: its first sentence cannot stand alone")
    return found


def test_definitions_stand_alone() -> None:
    assert complaints(GLOSSARY) == []


def test_terms_of_the_chapters_are_defined() -> None:
    defined = {term.lower() for term, _ in ENTRY.findall(GLOSSARY)}
    for path in chapter_paths():
        used = TERM.findall(path.read_text(encoding="utf-8"))
        assert {term.lower() for term in used} <= defined, path.name


GOOD = "block\n  A part that every model repeats. See {ref}`block`.\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + "\n" + GOOD.replace("block", "a block"), "alphabetical"),
        (GOOD.replace(" See {ref}`block`.", ""), "block: no link"),
        (GOOD.replace("A part that", "A part. A thing. That"), "block: one or two"),
        (GOOD.replace("A part that every model repeats", "A part"), "cannot stand"),
        (GOOD.replace("A part", "a part"), "block: its first sentence"),
    ],
)
def test_definitions_complain(text: str, words: str) -> None:
    assert complaints(GOOD) == []
    assert words in "\n".join(complaints(text))
