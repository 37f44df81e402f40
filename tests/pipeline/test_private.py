"""Nothing that people are given tells of a machine or a person."""

import base64
import io
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbformat.v4 import writes as as_json
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tools.chapters import ROOT
from tools.record import private
from tools.record.private import details, own_names
from tools.record.rules import is_picture, picture_texts

# Put together here, so that no search for leaked keys finds them in this file.
GITHUB = "ghp" + "_" + "a1" * 18
TOKENS = [
    GITHUB,
    "github" + "_pat_" + "a1" * 20,
    "hf" + "_" + "aB" * 17,
    "key = 's" + "k-" + "proj-" + "a1" * 12 + "'",
    "AK" + "IA" + "Z1" * 8,
    "-----BEGIN " + "OPENSSH PRIVATE KEY-----",
    "http://localhost:8888/lab?token=" + "0f" * 12,
    "https://anna:secret@lab.org/x.git",
]
PATHS = ["open('/home/anna/x.py')", "/root/x.py:3", "/tmp/ipykernel_7/1.py"]
PATHS += ["see /Users/anna", r"C:\Users\anna", r"D:\work\book", "file:///srv/book"]
MAILS = ["ask anna@lab.org", "anna.b+book@cs.lab.ac.uk.", "<anna@lab.de>"]
GIVEN_AWAY = {"a token": TOKENS, "an absolute path": PATHS, "a mail address": MAILS}
HARMLESS = [
    "weights@value, query@key.mT, (q @ key.transpose(-2, -1)), query@key.to(device)",
    "https://lab.org/home/anna and https://x.org/tmp/y, http://localhost:8000",
    "you@example.org, 1+anna@users.noreply.github.com",
    "notebooks/03-masks.ipynb, ../attention_lib/masks.py, and/or/tmp",
    "@pytest.mark.skip, task-based risk-averse sk-learn",
]


READ = ("notebooks/*.ipynb", "chapters/*.md", "book/*.md", "*.md")


def book_files():
    """Return every notebook and page that people are given."""
    return sorted(path for pattern in READ for path in ROOT.glob(pattern))


def file_traces(path):
    """Return what a notebook or a page gives away, and where in it."""
    if path.suffix == ".ipynb":
        notebook = nbformat.read(path, as_version=4)
        cells = [(f"cell {n}", cell) for n, cell in enumerate(notebook.cells, 1)]
        parts = [("metadata", notebook.metadata), *cells]
    else:
        lines = path.read_text(encoding="utf-8").splitlines()
        parts = [(f"line {n}", line) for n, line in enumerate(lines, 1)]
    return [f"{place}: {it}" for place, value in parts for it in told(value)]


def told(value):
    """Return what the texts inside a value give away, however deep they stand."""
    if isinstance(value, str):
        return details(value)
    if isinstance(value, dict):
        value = [*value, *(_read(key, part) for key, part in value.items())]
    if not isinstance(value, list):
        return []
    return [it for part in value for it in told(part)]


def _read(key, part):
    """Return a part, or the texts inside a picture, whose letters mean nothing."""
    return picture_texts(part) if is_picture(key) and isinstance(part, str) else part


@pytest.mark.parametrize("path", book_files(), ids=lambda path: path.name)
def test_book_gives_nothing_away(path):
    assert file_traces(path) == []


def test_book_files_hold_notebooks_chapters_and_pages():
    folders = {path.parent.name for path in book_files()}
    assert {"notebooks", "chapters", "book"} <= folders


def test_details_are_found_and_what_is_harmless_passes():
    assert GIVEN_AWAY.keys() == private.PATTERNS.keys()
    missed = [
        text
        for kind, texts in GIVEN_AWAY.items()
        for text in texts
        if not any(it.startswith(f"{kind}: ") for it in details(text))
    ]
    assert missed == []
    assert [it for text in HARMLESS for it in details(text)] == []


def test_names_of_this_machine_are_found(monkeypatch):
    monkeypatch.setattr(private.Path, "home", lambda: Path("/srv/homes/annabel"))
    monkeypatch.setattr(private, "ROOT", Path("/srv/book"))
    monkeypatch.setattr(private.socket, "gethostname", lambda: "workhorse")
    monkeypatch.setattr(private, "own_names", own_names.__wrapped__)  # no memory
    monkeypatch.setenv("USER", "annab")
    for name in ("annab", "annabel", "workhorse", "/srv/homes/annabel", "/srv/book"):
        assert details(f"in {name}/x") == [f"a name of this machine: {str(name)!r}"]
    assert details("annabelle, workhorses, hannab") == []
    for word in ("max", "runner", "ubuntu", ""):  # tells nothing, as others have it
        monkeypatch.setenv("USER", word)
        assert details(f"x.{word}(), the {word} of all") == []


# Where they are looked for.

TRACE = "first\n/home/anna/x"


def showing(mime, value):
    """A cell with an output of one kind."""
    return new_code_cell("x", outputs=[new_output("display_data", data={mime: value})])


def picture_with(text):
    """A picture whose file holds a text, as a figure holds its drawing."""
    file, info = io.BytesIO(), PngInfo()
    info.add_itxt("Drawing", text, zip=True)
    Image.new("L", (8, 8)).save(file, format="png", pnginfo=info)
    return base64.b64encode(file.getvalue()).decode()


PARTS = {
    "text": new_markdown_cell(TRACE),
    "option": new_code_cell("x", metadata={"mystnb": {"image": {"alt": TRACE}}}),
    "key": new_code_cell("x", metadata={TRACE: 1}),
    "print": new_code_cell("x", outputs=[new_output("stream", text=TRACE)]),
    "svg": showing("image/svg+xml", TRACE),
    "json": showing("application/json", {"a": [TRACE]}),
    "error": new_code_cell("x", outputs=[new_output("error", traceback=[TRACE])]),
    "drawing": showing("image/png", picture_with(TRACE)),
}


@pytest.mark.parametrize("cell", PARTS.values(), ids=PARTS)
def test_every_part_of_a_cell_is_read(cell):
    assert told(cell) == ["an absolute path: '/home/anna/x'"]
    assert told(showing("image/png", TRACE)) == []


def test_traces_are_found_in_pages_and_notebooks(tmp_path):
    page, notebook = tmp_path / "page.md", tmp_path / "n.ipynb"
    page.write_text("# Page\n\nmail a@lab.org\n")
    notebook.write_text(as_json(new_notebook(metadata={"authors": ["b@lab.org"]})))
    assert file_traces(page) == ["line 3: a mail address: 'a@lab.org'"]
    assert file_traces(notebook) == ["metadata: a mail address: 'b@lab.org'"]
