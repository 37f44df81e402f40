"""Texts for readers, from the table `book/words.toml`."""

import tomllib
from pathlib import Path

PATH = Path(__file__).parents[1] / "book/words.toml"
TABLE = tomllib.loads(PATH.read_text(encoding="utf-8"))


def say(place: str, /, **parts: object) -> str:
    """Return the text of a key, such as `quiz.answers`, with its parts filled in."""
    group, _, name = place.partition(".")
    return str(TABLE[group][name]).format(**parts)
