"""The reading order, and chapters read as the site reads them."""

from symtable import symtable

import pytest
from nbformat.v4 import new_code_cell

from tests.running import sample, written
from tools.chapters import ROOT, chapter_paths, code_of, notebook_path, read_chapter
from tools.record.rules import needs_model

CHAPTER = sample("chapter.md")


@pytest.fixture
def root(tmp_path):
    """A book of two chapters, of which the later one comes first in the folder."""
    files = {
        **{f"chapters/{name}.md": CHAPTER for name in ("09-first", "10-second")},
        "_config.yml": "parse: {myst_enable_extensions: [colon_fence, dollarmath]}",
        "_toc.yml": "root: book/index\n"
        "parts:\n"
        "- chapters: [{file: chapters/10-second.md, sections: [{file: book/x}]}]\n"
        "- chapters: [{file: chapters/09-first}]\n",
    }
    return written(tmp_path, files)


def test_chapter_paths_have_the_order_of_the_contents(root):
    assert [path.stem for path in chapter_paths(root)] == ["10-second", "09-first"]
    (root / "chapters" / "09-first.md").unlink()
    with pytest.raises(FileNotFoundError, match=r"_toc\.yml names chapters/09-first"):
        chapter_paths(root)
    assert sorted(chapter_paths()) == sorted((ROOT / "chapters").glob("*.md"))


def test_read_chapter_keeps_code_and_takes_options_as_metadata(root):
    path = root / "chapters" / "10-second.md"
    _, code, _ = read_chapter(path).cells  # what stands in a note is no cell
    assert code.source == "x = 1\n\ny = 2"
    tags = ["exercise", "tolerance-1e-3"]
    assert code.metadata == {"tags": tags, "reason": "float32: it moves"}
    assert notebook_path(path) == root / "notebooks" / "10-second.ipynb"


@pytest.mark.parametrize("path", chapter_paths(), ids=lambda path: path.stem)
def test_chapter_is_short_enough_to_be_read(path):
    cells = read_chapter(path).cells
    text = [cell.source for cell in cells if cell.cell_type == "markdown"]
    code = [cell for cell in cells if cell.cell_type == "code"]
    seen = [it for it in code if "hide-input" not in it.metadata.get("tags", [])]
    lines = [len(cell.source.splitlines()) for cell in seen]
    assert sum(len(part.split()) for part in text) <= 3500  # formulas, boxes, all
    assert len(code) <= 50
    assert sum(lines) <= 450
    assert max(lines) <= 30


def sets(cell):
    """The names that a cell sets."""
    symbols = symtable(cell.source, "cell", "exec").get_symbols()
    return {it.get_name() for it in symbols if it.is_assigned() or it.is_imported()}


def uses(table):
    """The names from outside that code uses, also inside of functions."""
    outer = table.get_type() == "module"
    own = [it for it in table.get_symbols() if outer or it.is_global()]
    found = {it.get_name() for it in own if it.is_referenced()}
    return found.union(*map(uses, table.get_children()))


def left_without_the_model(cells):
    """What other cells use that only cells with the model set, by their first line."""
    plain, real, found = set(), set(), []
    for cell in cells:
        if needs_model(cell):
            real |= sets(cell)
        else:
            plain |= sets(cell)
            missing = uses(symtable(cell.source, "cell", "exec")) & real - plain
            found += [f"{cell.source.splitlines()[0]}: {it}" for it in sorted(missing)]
    return found


@pytest.mark.parametrize("path", chapter_paths(ROOT), ids=lambda path: path.stem)
def test_chapter_runs_where_the_model_is_missing(path):
    assert left_without_the_model(code_of(read_chapter(path))) == []


def test_cell_that_needs_the_model_untagged_is_found():
    tagged = new_code_cell("a, b = 1, 2", metadata={"tags": ["real-model"]})
    cells = [tagged, new_code_cell("b = 3"), new_code_cell("# x\nprint(a + b)")]
    assert left_without_the_model(cells) == ["# x: a"]
