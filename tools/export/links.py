"""Rewrite a notebook's links for its copy on Colab, which stands alone on a branch.

Colab follows no anchor that a text sets; it scrolls to a cell by the cell's id.
"""

import posixpath
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from nbformat import NotebookNode

ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
# A link's target, after code and formulas, in which the same signs mean other things.
TARGET = re.compile(
    r"^[> ]*(?P<fence>```+|~~~+).*?^[> ]*(?P=fence)"
    r"|`[^`\n]+`|\$\$.*?\$\$|\$[^$\n]+\$"
    r"|(?<=\]\()(?P<target>[^()\s]+)(?=\))",
    re.MULTILINE | re.DOTALL,
)
PICTURES = (".gif", ".jpg", ".png", ".svg")
Anchors = dict[str, dict[str, str]]  # of each notebook: the cell that holds an anchor


@dataclass(frozen=True)
class Links:
    """Where the targets of links are.

    Attributes:
        address: the repository's.
        commit: the one that pages and pictures are taken from.
        colab: what Colab opens the copies by, or None.
        anchors: every notebook's.
    """

    address: str
    commit: str
    colab: str | None
    anchors: Anchors

    def rewritten(self, text: str, name: str) -> str:
        """Return the Markdown of a cell of notebook `name`, each link leading on.

        Raises:
            ValueError: a link leads to no notebook, or to an anchor that is not there.
        """

        def put(match: re.Match[str]) -> str:
            target = match["target"]
            return self._address(target, name) if target else match[0]

        return TARGET.sub(put, text)

    def _address(self, target: str, name: str) -> str:
        """Return where a link leads to from outside the repository."""
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            return target
        path = posixpath.normpath(posixpath.join("notebooks", parts.path or name))
        if not path.endswith(".ipynb"):
            kind = "raw" if path.endswith(PICTURES) else "blob"
            return f"{self.address}/{kind}/{self.commit}/{_rest(path, parts.fragment)}"
        other = posixpath.basename(path)
        if path != f"notebooks/{other}" or other not in self.anchors:
            raise ValueError(f"{name}: {target} leads to no notebook")
        place = self._place(parts.fragment, other, name)
        if not parts.path:
            return place
        if self.colab is None:
            return f"{self.address}/blob/{self.commit}/{_rest(path, parts.fragment)}"
        return f"{self.colab}/{other}{place}"

    def _place(self, fragment: str, other: str, name: str) -> str:
        if not fragment:
            return ""
        if fragment not in self.anchors[other]:
            raise ValueError(f"{name}: {other} has no anchor {fragment!r}")
        return f"#scrollTo={self.anchors[other][fragment]}"


def cells_with_anchors(notebook: NotebookNode) -> dict[str, str]:
    """Return the id of the cell in which each anchor stands."""
    return {
        anchor: cell.id
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for anchor in ANCHOR.findall(cell.source)
    }


def _rest(path: str, fragment: str) -> str:
    return f"{path}#{fragment}" if fragment else path
