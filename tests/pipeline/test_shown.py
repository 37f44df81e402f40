"""Cells that show library code hold what the library holds."""

import pytest

from tests.running import written
from tools.record.shown import library_code, main

LIBRARY = '''"""Masks."""

from functools import cache

LIMIT: int = 3


@cache
def causal(length):
    """See the past."""
    return length  # (K,)


class Layer:
    size = 2
'''
HEAD = "---\njupytext: {text_representation: {format_name: myst}}\n---\n\n# Title\n\n"
CELL = "```{code-cell} ipython3\n---\ntags: [hide-input]\n---\n%s\n```\n"
CAUSAL = (
    '@cache\ndef causal(length):\n    """See the past."""\n    return length  # (K,)'
)


@pytest.fixture
def root(tmp_path):
    """A book with one library module and one chapter."""
    files = {
        "attention_lib/masks.py": LIBRARY,
        "_config.yml": "parse: {myst_enable_extensions: []}",
        "_toc.yml": "chapters: [{file: chapters/03-masks.md}]",
    }
    return written(tmp_path, files)


def write(root, *cells):
    """Write a chapter with these code cells."""
    text = HEAD + "\nSome text.\n\n".join(CELL % cell for cell in cells)
    return written(root, {"chapters/03-masks.md": text}) / "chapters/03-masks.md"


def test_main_fills_cells_of_library_code_and_leaves_others(root, capsys):
    old = "# attention_lib.masks: causal\ndef causal(n):\n    pass\n\n\nx = 1"
    others = ["x = 1\n# attention_lib.masks: causal", "# attention_lib"]
    chapter = write(root, old, *others, "# attention_lib.masks: Layer, LIMIT\nolder")
    before = chapter.read_text()
    assert main(["--check"], root) == 1
    assert "chapters/03-masks.md:11: # attention_lib" in capsys.readouterr().err
    assert chapter.read_text() == before
    main([], root)
    filled = [f"# attention_lib.masks: causal\n{CAUSAL}", *others]
    joined = "class Layer:\n    size = 2\n\n\nLIMIT: int = 3"
    filled += [f"# attention_lib.masks: Layer, LIMIT\n{joined}"]
    expected = HEAD + "\nSome text.\n\n".join(CELL % cell for cell in filled)
    assert chapter.read_text() == expected
    assert main(["--check"], root) == 0


@pytest.mark.parametrize("header", ["masks: causl", "msks: causal"])
def test_main_names_the_line_of_an_unknown_object(root, header):
    write(root, f"# attention_lib.{header}")
    with pytest.raises(ValueError, match=r"chapters/03-masks\.md:11: .*(causl|msks)"):
        main([], root)


def test_library_code_refuses_what_would_end_the_cell(tmp_path):
    module = tmp_path / "masks.py"
    module.write_text('def f():\n    """\n    ```\n    """\n')
    with pytest.raises(ValueError, match="ends a cell"):
        library_code(module, ["f"])
