"""Questions that people asked in public threads, from `contributing/asked`.

They stand there in other words, with the address of the thread, with what the asker
would type into a search, and with the label of the section that answers.
"""

import tomllib
from functools import cache

from sphinx.util.inventory import InventoryFile

from tools.chapters import ROOT, SITE

ASKED = [
    entry
    for path in sorted((ROOT / "contributing/asked").glob("*.toml"))
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["asked"]
]


@cache
def places():
    """The address of each label, as the inventory of the built site has it."""
    with (SITE / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda _, address: address)
    return {label: item[2] for label, item in inventory["std:label"].items()}
