"""The reading order, and chapters read as the site reads them."""

from pathlib import Path

import pytest

from tools.chapters import ROOT, chapter_paths, notebook_path, read_chapter

CHAPTER = """---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

# Heading

```{code-cell} ipython3
---
tags: [exercise, tolerance-1e-3]
reason: "float32: it moves"
---
x = 1

y = 2
```
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A book of two chapters, of which the later one comes first in the folder."""
    (tmp_path / "chapters").mkdir()
    for name in ("01-first", "02-second"):
        (tmp_path / "chapters" / f"{name}.md").write_text(CHAPTER)
    (tmp_path / "_config.yml").write_text(
        "parse: {myst_enable_extensions: [colon_fence, dollarmath]}"
    )
    (tmp_path / "_toc.yml").write_text(
        "root: book/index\n"
        "parts:\n"
        "- chapters: [{file: chapters/02-second.md, sections: [{file: book/x}]}]\n"
        "- chapters: [{file: chapters/01-first}]\n"
    )
    return tmp_path


def test_chapter_paths_have_the_order_of_the_contents(root: Path) -> None:
    assert [path.stem for path in chapter_paths(root)] == ["02-second", "01-first"]


def test_chapter_paths_name_a_missing_chapter(root: Path) -> None:
    (root / "chapters" / "01-first.md").unlink()
    with pytest.raises(FileNotFoundError, match=r"_toc\.yml names chapters/01-first"):
        chapter_paths(root)


def test_chapter_paths_hold_every_chapter_of_the_book() -> None:
    assert sorted(chapter_paths()) == sorted((ROOT / "chapters").glob("*.md"))


def test_notebook_path_shares_the_stem(root: Path) -> None:
    chapter = root / "chapters" / "02-second.md"
    assert notebook_path(chapter) == root / "notebooks" / "02-second.ipynb"


def test_read_chapter_keeps_code_to_the_character(root: Path) -> None:
    code = read_chapter(root / "chapters" / "01-first.md").cells[1]
    assert code.source == "x = 1\n\ny = 2"


def test_read_chapter_reads_options_as_metadata(root: Path) -> None:
    code = read_chapter(root / "chapters" / "01-first.md").cells[1]
    tags = ["exercise", "tolerance-1e-3"]
    assert code.metadata == {"tags": tags, "reason": "float32: it moves"}


def test_read_chapter_takes_the_extensions_from_the_settings(root: Path) -> None:
    chapter = root / "chapters" / "01-first.md"
    cell = "```{code-cell} ipython3\n1\n```"
    chapter.write_text(f"{CHAPTER}\n:::{{note}}\n{cell}\n:::\n")
    inside_a_note = len(read_chapter(chapter).cells)
    (root / "_config.yml").write_text("parse: {myst_enable_extensions: []}")
    assert len(read_chapter(chapter).cells) > inside_a_note
