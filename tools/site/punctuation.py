"""Keep a formula and the punctuation next to it on one line.

A browser may break the line at either side of a formula, even before a comma. So both
are in one element in which lines break nowhere but between the formula's boxes.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

CLASS = "joined"
OPENING = re.compile(r"[(\[“‘（《]+$")
CLOSING = re.compile(r"^[.,;:!?…)\]”’–—，。；：！？、）》-]+")


class JoinPunctuation(SphinxPostTransform):
    """Wrap each formula and its punctuation in one element."""

    default_priority = 900  # after what makes formulas of other things
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Wrap them in one page."""
        for formula in list(self.document.findall(nodes.math)):
            parent, place = formula.parent, formula.parent.index(formula)
            before = _sign(parent, place - 1, OPENING)
            after = _sign(parent, place + 1, CLOSING)
            if before or after:
                signs = [nodes.Text(before), formula, nodes.Text(after)]
                parent[place] = nodes.inline("", "", *signs, classes=[CLASS])


def _sign(parent: nodes.Element, place: int, sign: re.Pattern[str]) -> str:
    """Take the punctuation from a text next to a formula, and return it, or ""."""
    if not 0 <= place < len(parent) or not isinstance(parent[place], nodes.Text):
        return ""
    text = str(parent[place])
    found = sign.search(text)
    if not found:
        return ""
    parent[place] = nodes.Text(text[: found.start()] + text[found.end() :])
    return found[0]


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.add_post_transform(JoinPunctuation)
