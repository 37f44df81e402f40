"""The site is built from the records: when they change, and with nothing executed."""

import os
import re
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from sphinx.errors import ExtensionError

from tests.running import ran, written
from tools.chapters import chapter_paths
from tools.record import update
from tools.site import build as site
from tools.site import extension, progress
from tools.site.build import INDEX, ROOT, SETTINGS, SOURCES, STAMP, digest
from tools.site.kept import Kept


@pytest.fixture
def tree(tmp_path):
    """One file of each kind that the site is made from."""
    folders = (*SOURCES, "tools", "tools/check")
    names = *SETTINGS, *(f"{folder}/file.py" for folder in folders), INDEX
    return written(tmp_path, {str(name): "made" for name in names})


@pytest.fixture
def calls(monkeypatch):
    """Collect the calls of recorder and builder, which both succeed."""
    made = []

    def builder(root, everything):
        made.append(("build", everything))
        (root / INDEX).parent.mkdir(parents=True, exist_ok=True)
        (root / INDEX).touch()
        return 0

    monkeypatch.setattr(update, "main", lambda root, _: made.append(("record", root)))
    monkeypatch.setattr(site, "_build", builder)
    monkeypatch.setattr(site, "_build_edition", lambda root: 0)
    monkeypatch.setattr(sys, "argv", ["site"])
    return made


def test_main_records_then_builds_then_does_nothing(tree, calls, capsys):
    for _ in range(2):
        assert site.main(tree) == 0
        assert capsys.readouterr().out.strip().endswith(str(tree / INDEX))
        assert calls == [("record", tree), ("build", True)]


@pytest.mark.parametrize("folder", ["book", "tools/site", "tools", "tools/check"])
def test_main_again_after_an_edit_builds_what_changed(tree, calls, folder):
    site.main(tree)
    calls.clear()
    code = digest(tree, "tools")
    (tree / folder / "file.py").write_text("edited")
    site.main(tree)
    # What only checks the pages neither makes them nor has them read anew.
    used = folder != "tools/check"
    assert calls == ([("record", tree), ("build", False)] if used else [])
    assert (digest(tree, "tools") != code) == (used and "tools" in folder)


def test_main_after_a_step_that_failed_builds_nothing_or_all(tree, calls, monkeypatch):
    site.main(tree)
    (tree / "book/file.py").write_text("edited")
    calls.clear()
    with monkeypatch.context() as patch:
        patch.setattr(update, "main", lambda root, _: 1)
        assert site.main(tree) == 1
        assert calls == []
    with monkeypatch.context() as patch:
        patch.setattr(site, "_build", lambda root, everything: 1)
        assert site.main(tree) == 1
    calls.clear()
    site.main(tree)
    assert ("build", True) in calls


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (SystemExit(None), 0),
        (SystemExit(2), 2),
        (SystemExit(KeyboardInterrupt()), 130),
        (RuntimeError("no"), 1),
    ],
)
def test_build_returns_how_jupyter_book_ended(tmp_path, monkeypatch, end, status):
    def main(command):
        raise end

    made = SimpleNamespace(main=main)
    monkeypatch.setitem(sys.modules, "jupyter_book.cli.main", made)
    (tmp_path / "_build").mkdir()
    assert site._build(tmp_path, True) == status


def test_check_builds_everything_and_records_nothing(tree, calls, monkeypatch):
    site.main(tree)
    calls.clear()
    monkeypatch.setattr(sys, "argv", ["site", "--check"])
    left = tree / "_build/html/left.html"
    left.touch()
    site.main(tree)
    assert calls == [("build", True)]
    assert not left.exists()
    monkeypatch.setattr(sys, "argv", ["site", "--check", "changed"])
    site.main(tree)
    assert calls[1:] == [("build", False)]


# What the theme imports late sets up logging, unless somebody did so before.
CUT = """
import sys
from pathlib import Path
from unittest.mock import Mock
from pygments.styles import get_all_styles
from tools.site import extension, sheets

if sys.argv[2] == "ours":
    extension.setup(Mock(srcdir="."))
assert "a11y-dark" in get_all_styles()
sheets.cut(Path(sys.argv[1]), {"a", "b"})
"""


@pytest.mark.parametrize("which", ["ours", "none"])
def test_extension_silences_what_others_note(which):
    font = ROOT / "tools/site/katex/fonts/KaTeX_Main-Regular.woff2"
    said = ran([sys.executable, "-c", CUT, font, which], check=True)
    assert said.stdout == ""
    assert ("INFO fontTools" in said.stderr) == (which == "none"), said.stderr
    assert which == "none" or said.stderr == ""


@pytest.mark.parametrize(
    ("total", "lines"), [(0, []), (1, [1]), (3, [1, 2, 3]), (89, [23, 45, 67, 89])]
)
def test_build_says_four_times_how_far_it_is(total, lines, monkeypatch):
    said = []
    monkeypatch.setattr(progress, "show", said.append)
    assert len([*progress.counted("read", total)]) == total
    assert said == [f"  {number} of {total} pages read" for number in lines]


def test_chapter_without_a_record_stops_the_build(tmp_path):
    (tmp_path / "chapters").mkdir()
    chapter = chapter_paths(ROOT)[0]
    shutil.copy(chapter, tmp_path / "chapters")
    shutil.copy(ROOT / "_config.yml", tmp_path)
    contents = f"root: book/index.md\nchapters:\n- file: chapters/{chapter.name}\n"
    (tmp_path / "_toc.yml").write_text(contents)
    env = SimpleNamespace(execution_cache_path=str(tmp_path / "cache"))
    app = SimpleNamespace(srcdir=tmp_path, env=SimpleNamespace(mystnb_config=env))
    with pytest.raises(ExtensionError, match=f"^{chapter.stem}: .*make notebooks"):
        extension._fill_cache(app)


def test_chapter_is_made_again_when_it_or_what_is_shared_changes(tmp_path):
    chapter, module = tmp_path / "chapters/a.md", tmp_path / "attention_lib/b.py"
    for file in (chapter, module):
        file.parent.mkdir()
        file.write_text("x")

    def is_new(extra="", file=chapter):
        kept = Kept(tmp_path / "kept.json", tmp_path, extra)
        found = kept.is_new("a", file)
        kept.write()
        return found

    assert [is_new(), is_new()] == [True, False]
    for file in (chapter, module):
        file.write_text("y")
        assert [is_new(), is_new()] == [True, False]
    assert [is_new("titles"), is_new("titles")] == [True, False]
    assert is_new("titles", tmp_path / "gone.md")


def test_what_was_made_of_a_page_is_kept_while_the_page_stays(tmp_path):
    page, made = tmp_path / "a.md", []

    def value():
        kept = Kept(tmp_path / "kept.json", tmp_path)
        found = kept.value("a", lambda: made.append(page.read_text()) or [*made], page)
        kept.write()
        return found

    for text in ("one", "two"):
        page.write_text(text)
        assert value() == value() == made
    assert made == ["one", "two"]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A copy of the book, built by Jupyter Book's own command."""
    root = tmp_path_factory.mktemp("book")
    for name in (*SOURCES[:4], "tools", "explorer_source/src"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    for name in SETTINGS:
        shutil.copy(ROOT / name, root / name)
    command = Path(sys.executable).with_name("jupyter-book")
    result = run(root, command, "build", ".", "-W", "-n", "--keep-going")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.count("Using cached notebook") == len(chapter_paths(root))
    assert "Executing notebook" not in result.stdout
    (root / STAMP).write_text("spare the first test to build all pages again")
    return root


def build(root):
    return run(root, sys.executable, "-m", "tools.site")


def run(root, *command):
    env = {**os.environ, "PYTHONPATH": str(root)}
    return ran(command, cwd=root, env=env)


@contextmanager
def edited(path, old, new):
    """Replace something that must be there, and put it back in the end."""
    before = path.read_text(encoding="utf-8")
    assert old in before
    path.write_text(before.replace(old, new, 1), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


@pytest.mark.slow
def test_edits_reach_the_site_and_execute_nothing(book):
    style = book / "book/_static/book.css"
    record = book / "notebooks/03-masks.ipynb"
    with (
        edited(style, style.read_text(), "/* zebra */"),
        edited(book / "chapters/01-toy-attention.md", "\n\n", "\n\nZebra.\n\n"),
        edited(record, '"text/plain": [\n', '"text/plain": [\n      "Zebra",\n'),
    ):
        result = build(book)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "Comparing the records with their chapters"
    assert any(re.match("Building 2 chapters and", line) for line in lines)
    assert len(lines) < 24  # a screen
    assert lines[-1].endswith(str(book / INDEX))
    html = book / "_build/html"
    assert "Zebra" in (html / "chapters/03-masks.html").read_text()
    assert (html / "_static/book.css").read_text() == "/* zebra */"
    assert "Zebra." in (html / "chapters/01-toy-attention.html").read_text()
    assert "Zebra." in (book / "notebooks/01-toy-attention.ipynb").read_text()
    log = (book / "_build/site.log").read_text()
    assert log.count("Using cached notebook") == 2
    assert "Executing notebook" not in log


@pytest.mark.slow
def test_broken_references_fail_the_build(book):
    faults = "[](#nowhere) ![A picture](lost.png) {cite:p}`nobody1900`"
    with edited(book / "book/how-to-use.md", "\n\n", f"\n\n{faults}\n\n"):
        result = build(book)
    assert result.returncode == 1
    named = [w for w in ("nowhere", "lost.png", "nobody1900") if w in result.stderr]
    assert named == ["nowhere", "lost.png", "nobody1900"]
