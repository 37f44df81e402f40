"""Questions that people asked in public threads, from `contributing/asked`.

Each is rephrased, with the address of the thread, with what the asker would type into
a search, and with the label of the section that answers.
"""

import tomllib
from functools import cache
from typing import Any

from sphinx.util.inventory import InventoryFile

from tests.pages import tree
from tools.chapters import ROOT, SITE

ASKED = [
    entry
    for path in sorted((ROOT / "contributing/asked").glob("*.toml"))
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("asked", [])
]


@cache
def labels() -> dict[str, Any]:
    """What the inventory of the built site says of each label."""
    with (SITE / "objects.inv").open("rb") as file:
        return InventoryFile.load(file, "", lambda _, address: address)["std:label"]


def place(label: str) -> str:
    """The address of the section that a label names, as the search shows it."""
    page, _, anchor = labels()[label][2].partition("#")
    named = f"//*[@id='{anchor}']/ancestor-or-self::section"
    return f"{page}#{tree(SITE / page).xpath(named)[-1].get('id')}"
