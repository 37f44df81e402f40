"""What views and pages say stands in tables: a second language is a second table."""

import ast
import json
import re

import pytest

from attention_lib.course.views import _strings
from attention_lib.course.views._maps import AXES
from attention_lib.course.views.sentence_model import KINDS
from tests.running import ROOT
from tools.words import TABLE

PATHS = [*(ROOT / "explorer_source/src").glob("*.jsx")]
PATHS += [ROOT / "explorer_source/src/pipe_words.js"]
PATHS += [
    path
    for path in (ROOT / "book/_static").glob("*.js")
    if path.name not in ("words.js", "finding_words.js", "minisearch.js")
]
# Comments, imports, selectors.
UNSAID = r"""(?x) ^import\ .* | (?:^|\s)//.* | /\*[\s\S]*?\*/
  | \.(?:closest|querySelector\w*)\([^()]*\)"""
FILLED = r"\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"
STRING = r'"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`'
# Words between tags; what is heard; strings of two words, or of one with a capital.
TEXT = r"[>}]\s*(?!else|catch)([A-Za-z“][^<>{}()=;&|?`\"]*[a-z][^<>{}()=;&|?`\"]*)[<{]"
HEARD = (
    rf"(?:aria-label|aria-valuetext|title|ariaLabel|textContent)(?:=\{{?|: )({STRING})"
)
WORDS = r"(?<![\w-])[A-Za-z’]{2,}[,.]? [A-Za-z’]{2,}(?![\w-])|^[A-Z][a-z]{2,}[.:]?$"
CODE = {"ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Escape", "Home", "End"}
CODE |= {
    "Enter",
    "view: ",
    "transpose: ",
    "var bookPlaces = ;\\n",
    "var attentionWords = ",
}
BUILD = [*ROOT.glob("tools/site/*.py"), *ROOT.glob("book/_templates/**/*.html")]
BUILD += [ROOT / "tools/check/reproduces.py", ROOT / "benchmarks/report.py"]
CODE |= {"Refresh", "Drawing", "math notranslate", "Link to this equation"}  # not ours
# What is told to who builds.
CODE |= {"%s is in no list of %s: add it, with its address", ": run `make notebooks`"}
CODE |= {"# Sphinx inventory version 2\n# Project: ", "Read the book at http://"}
CODE |= {"; stop with Ctrl-C", "; measure everything"}
# Views without a script: a line of code, what their models read, what errors say.
VIEWS = [
    path
    for path in ROOT.glob("attention_lib/course/views/*.py")
    if path.stem != "_strings"
]
CODE |= {"query, key, value = x @ w_q, x @ w_k, x @ w_v"}
CODE |= {text for text, _ in KINDS} | {AXES, "a state of ", "a page of "}
CODE |= {": give them unmasked, and `mask=` beside them", "Interactive"}
CODE |= {"the number of lengths"}
# Of the benchmarks, the names of what was measured, and what such names are made of.
MEASURED = json.loads((ROOT / "benchmarks/results.json").read_text("utf-8")).values()
ROWS = [row for rows in MEASURED if isinstance(rows, list) for row in rows]
CODE |= {row[it] for row in ROWS for it in ("name", "which") if it in row}
CODE |= {"our sdpa / floor", "our split / textbook split", "Hugging Face "}
ASIDE = ("print", "show", "compile", "search")
ASIDE += ("startswith", "warning", "argument", "Error")
LATER = r'(?s)\{#.*?#\}|<script>.*?</script>|(class|rel)=".*?"'
JINJA, TITLE = r"\{[{%].*?[}%]\}", re.compile(r'"[A-Z][^"]+"|"[^"]+ [^"]+"')


def said_by(script):
    """The words that a script says by itself, and not out of a table."""
    script = re.sub(UNSAID, "", script, flags=re.MULTILINE)
    strings = [re.sub(FILLED, "", text[1:-1]) for text in re.findall(STRING, script)]
    heard = [re.sub(FILLED, "", text[1:-1]) for text in re.findall(HEARD, script)]
    said = [text for text in strings if re.search(WORDS, text)]
    said += [text for text in heard if re.search("[a-z]{2}", text)]
    return [*re.findall(TEXT, script), *(text for text in said if text not in CODE)]


@pytest.mark.parametrize("path", sorted(PATHS), ids=lambda path: path.name)
def test_script_says_only_what_stands_in_a_table(path):
    assert said_by(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "literal",
    [
        "<p>Two words</p>",
        "<td>{n} tokens</td>",
        '<i aria-label="query" />',
        "<i aria-label={`query ${n}`} />",
        'say(right ? "Right." : "Not yet.")',
        "`${n} of them stay`",
    ],
)
def test_literal_is_found(literal):
    assert said_by(literal)


def written_by(text):
    """The words that a template, or a module of the build, writes by itself."""
    if text[:1] == "{":
        text = re.sub(LATER, "", text)
        return said_by(re.sub(JINJA, lambda it: " ".join(TITLE.findall(it[0])), text))
    nodes, aside = [*ast.walk(ast.parse(text))], set()
    for node in nodes:
        docs = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docs or ast.unparse(getattr(node, "func", [])).endswith(ASIDE):
            aside.update(ast.walk(node))
    strings = [getattr(it, "value", 0) for it in nodes if it not in aside]
    said = '"'.join(it for it in strings if isinstance(it, str))
    parts = re.split('[<>"]|::', re.sub(r'<\w+ |[\w-]+="', '"', said))
    return [it for it in parts if re.search(WORDS, it.strip()) and it not in CODE]


@pytest.mark.parametrize("path", [*BUILD, *VIEWS], ids=lambda path: path.name)
def test_python_writes_only_what_stands_in_a_table(path):
    assert written_by(path.read_text(encoding="utf-8")) == []


def test_all_words_of_the_table_are_used():
    files = [*ROOT.glob("tools/**/*.py"), *ROOT.glob("tools/export/paper.*"), *BUILD]
    files += ROOT.glob("benchmarks/*.py")
    used = re.findall(
        r"[\"'](\w+\.\w+)[\"']", "".join(it.read_text("utf-8") for it in files)
    )
    assert {f"{group}.{it}" for group in TABLE for it in TABLE[group]} <= {*used}


def test_all_words_of_views_are_used():
    modules = [path.read_text("utf-8") for path in VIEWS]
    tables = {name: table for name, table in vars(_strings).items() if name.isupper()}
    assert len(tables) > 20
    for name, table in tables.items():
        (code,) = (it for it in modules if re.search(rf"_strings import {name}\b", it))
        # Those chosen among several stand in the code, too.
        unused = [it for it in table if not re.search(rf"[\"']{it}[\"']", code)]
        assert unused == [], name
