"""Every symbol of the chapters' formulas stands in the notation, at its first use."""

import re

from tests.site.labels import chapters_of_labels
from tools.chapters import ROOT, chapter_paths

NOTATION = (ROOT / "book/notation.md").read_text(encoding="utf-8")
CODE = re.compile(r"^(```|~~~)\{?[a-z-]+.*?^\1$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<!\\)\$([^$\n]+)\$", re.DOTALL)
WORDS = re.compile(r"\\(?:mathrm|text|begin|end|tag|operatorname)\{[^}]*\}")
LINK = re.compile(r"\{(?:ref|eq)\}`(?:[^`<]*<)?([a-z0-9-]+)>?`")
SYMBOL = re.compile(r"\\?[A-Za-z]+")
# What a formula is built with: no symbol of ours.
SIGN = re.compile(
    r"\\(?:allowbreak|approx|cdot|cos|dots|erf|exp|frac|infty|left|le|ldots|lVert|ln|log|max|mid|min"
    r"|partial|pm|qquad|quad|right|rVert|sin|sqrt|sum|tanh|tfrac|times|to|top|underbrace)(?![a-z])"
)


def symbols(text):
    r"""The letters of all formulas, such as `D`, and Greek ones, such as `\tau`."""
    found = set()
    for display, inline in FORMULA.findall(text):
        plain = SIGN.sub(" ", WORDS.sub(" ", display or inline))
        for word in SYMBOL.findall(plain):
            found |= {word} if word.startswith("\\") else set(word)
    return found


def used():
    """The first chapter that uses each symbol in a formula."""
    found = {}
    for path in chapter_paths():
        text = CODE.sub(" ", path.read_text(encoding="utf-8"))
        for symbol in symbols(text):
            found.setdefault(symbol, int(path.name[:2]))
    return found


def explained(text, labels):
    """The first chapter that the notation names for each symbol of its tables."""
    found = {}
    for row in re.findall(r"^\| (.+) \|$", text, re.MULTILINE):
        first, *_, last = row.split(" | ")
        places = [labels[name] for name in LINK.findall(last)]
        for symbol in symbols(first) if places else ():
            found[symbol] = min([*places, found.get(symbol, min(places))])
    return found


def test_notation_holds_every_symbol_at_its_first_use():
    assert symbols("$\\mathrm{head}_h$, $$\\frac{\\tau}{D}$$") == {"h", "\\tau", "D"}
    text = "| $D$ | width | {ref}`one` |\n| $W$, $K$ | others | {ref}`two` |"
    assert explained(text, {"one": 1, "two": 2}) == {"D": 1, "W": 2, "K": 2}
    known, first = explained(NOTATION, chapters_of_labels()), used()
    assert {"D", "H", "K", "Q", "V", "W", "\\gamma", "\\tau"} <= first.keys()
    lacking = [name for name in first if name not in known]
    assert lacking == []
    assert [name for name in first if known[name] > first[name]] == []


def test_notation_leads_to_the_chapters_that_it_names():
    labels = chapters_of_labels()
    assert set(LINK.findall(NOTATION)) <= labels.keys()
    for number, name in re.findall(r"`chapter (\d+) <([a-z0-9-]+)>`", NOTATION):
        assert labels[name] == int(number), name
