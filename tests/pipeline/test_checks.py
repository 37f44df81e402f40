"""The book as it stands: records fresh, shown code in step, the site built from them.

What makes each check red is tested beside it: test_book_record, test_book_shown.
"""

from tools.chapters import ROOT
from tools.record import shown, update
from tools.site.build import is_current


# First, since browsers wait for it.
def test_site_is_built_without_a_warning(site):
    assert is_current(ROOT), "the last build failed: run `python -m tools.site --check`"


def test_site_is_built_with_nothing_executed(site):
    log = (ROOT / "_build/site.log").read_text(encoding="utf-8")
    assert "Executing notebook" not in log


def test_shown_code_is_the_librarys(capsys):
    assert shown.main(["--check"]) == 0, capsys.readouterr().err


def test_records_are_fresh(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["update", "--check"])
    assert update.main() == 0, capsys.readouterr().out
