"""The labels of the chapters, which links name."""

import re
from functools import cache

from tools.chapters import chapter_paths

LABEL = re.compile(
    r"^\(([a-z0-9-]+)\)=$|^\$\$ \((.+)\)$|^:name: (\S+)$|^    name: (\S+)$",
    re.MULTILINE,
)


@cache
def chapters_of_labels():
    """In which chapter each label stands."""
    found = {}
    for path in chapter_paths():
        labels = LABEL.findall(path.read_text(encoding="utf-8"))
        found |= dict.fromkeys(map("".join, labels), int(path.name[:2]))
    return found
