"""The book as it stands: records fresh, shown code in step, the site built from them.

What else makes each check red is tested beside it: test_book_record, test_book_shown.
"""

import shutil

import pytest

from tools.chapters import ROOT, notebook_path, read_chapter
from tools.record import shown, update
from tools.record.drafts import read_record
from tools.record.freshness import stale_causes
from tools.site.build import is_current


# First, since browsers wait for it.
def test_site_is_built_without_a_warning(site):
    assert is_current(ROOT), "the last build failed: run `python -m tools.site --check`"


def test_site_is_built_with_nothing_executed(site):
    log = (ROOT / "_build/site.log").read_text(encoding="utf-8")
    assert "Executing notebook" not in log


def test_shown_code_is_the_librarys():
    assert shown.main(["--check"]) == 0


def test_records_are_fresh(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["update", "--check"])
    assert update.main() == 0, capsys.readouterr().out


@pytest.fixture
def chapter(tmp_path):
    """A copy of a chapter, of its record and of what it shows and runs."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "attention_lib", tmp_path / "attention_lib", ignore=ignored)
    for name in ("chapters/03-masks.md", "notebooks/03-masks.ipynb"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("_config.yml", "pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path / "chapters/03-masks.md"


def test_a_changed_library_is_noticed(chapter):
    root, record = chapter.parents[1], read_record(notebook_path(chapter))
    assert {old == new for _, old, new in shown.shown_cells(chapter)} == {True}
    assert stale_causes(read_chapter(chapter), record, root) == []
    module = root / "attention_lib/masks.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text.replace("def causal_mask(", "def causal_mask( ", 1))
    drifted = [old for _, old, new in shown.shown_cells(chapter) if old != new]
    assert ["causal_mask" in cell[0] for cell in drifted] == [True]
    causes = stale_causes(read_chapter(chapter), record, root)
    assert causes == ["attention_lib changed"]
