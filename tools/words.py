"""Texts for readers, from the table `book/words.toml`."""

import tomllib
from pathlib import Path

PATH = Path(__file__).parents[1] / "book/words.toml"
TABLE = tomllib.loads(PATH.read_text(encoding="utf-8"))
# In the source of an edition in another language, that language's words; what it lacks
# is said in English.
OWN = PATH.with_name("words.own.toml")
if OWN.is_file():
    for _group, _words in tomllib.loads(OWN.read_text(encoding="utf-8")).items():
        TABLE[_group] |= _words


def say(place: str, /, **parts: object) -> str:
    """Return the text of a key, such as `quiz.answers`, with its parts filled in."""
    group, _, name = place.partition(".")
    return str(TABLE[group][name]).format(**parts)
