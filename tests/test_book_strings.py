"""What views and pages say stands in tables: a second language is a second table."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
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
CODE |= {"Enter", "view: ", "transpose: ", "var bookPlaces = ;\\n"}


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
