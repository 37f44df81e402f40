"""Equations and figures bear the same numbers on the pages and in the notebooks."""

import re

import nbformat
import pytest

from tests.pages import parsed
from tools.chapters import SITE, chapter_paths, notebook_path

pytestmark = pytest.mark.usefixtures("site")
IN_NOTEBOOK = re.compile(
    r'<a id="([\w-]+)"></a>\s+'
    r"(?:\$\$(?:(?!\$\$).)*?\\tag\{([\d.]+)\}|(?:!\[[^\n]*\n\s+)?\*Figure ([\d.]+):)",
    re.DOTALL,
)
# As the chapters have them.
LABELLED = re.compile(
    r"^\$\$ \((eq-[\w-]+)\)$|^(?:    |:)name: (fig-[\w-]+)$", re.MULTILINE
)


def site_numbers(chapter):
    page = SITE / f"chapters/{chapter.stem}.html"
    found = {}
    for number in parsed(page).select(".eqno, .caption-number"):
        parent = number.find_parent(["div", "figure"], id=True)
        label = str(parent["id"]).removeprefix("equation-")
        found[label] = re.findall(r"\d+\.\d+", number.get_text())[0]
    return found


def notebook_numbers(chapter):
    notebook = nbformat.read(notebook_path(chapter), as_version=4)
    text = "\n\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    return {m[1]: m[2] or m[3] for m in IN_NOTEBOOK.finditer(text)}


@pytest.mark.parametrize("chapter", chapter_paths(), ids=lambda path: path.stem)
def test_numbers_agree_with_the_site(chapter):
    numbers = notebook_numbers(chapter)
    named = LABELLED.findall(chapter.read_text(encoding="utf-8"))
    assert set(numbers) == set(map("".join, named)) != set()
    assert numbers == site_numbers(chapter)
