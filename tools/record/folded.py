"""Cells whose code is folded in notebooks: it would give the answer away.

A chapter's author writes the tag `predict` alone. What each front end wants is added to
the notebook, and left out again where code cells are compared or looked up.
"""

from copy import deepcopy
from typing import Any

from nbformat import NotebookNode

TAG = "predict"
# JupyterLab and nbclassic read the first, Colab the second.
FOLDED: dict[str, Any] = {"jupyter": {"source_hidden": True}, "cellView": "form"}


def fold(cell: NotebookNode) -> None:
    """Add what folds the code of a prediction."""
    if TAG in cell.metadata.get("tags", []):
        cell.metadata.update(deepcopy(FOLDED))


def unfolded(cell: NotebookNode) -> dict[str, Any]:
    """Return a cell's metadata as its chapter has it."""
    added = FOLDED if TAG in cell.metadata.get("tags", []) else {}
    return {name: it for name, it in cell.metadata.items() if name not in added}
