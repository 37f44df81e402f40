"""The copies for Colab: their links, exercises and notes, and the command."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt
from nbformat import NotebookNode

from tools.export import copies as command
from tools.export.copies import Links, write_copies
from tools.record.private import details

ROOT = Path(__file__).resolve().parents[1]
ADDRESS = "https://github.com/ada/book"
COLAB = "https://colab.research.google.com/github/ada/book/blob/colab"
STEMS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
each_chapter = pytest.mark.parametrize("stem", STEMS)

# The copies.


@pytest.fixture(scope="module")
def copies(
    origin: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, NotebookNode]:
    """The copies of all chapters."""
    folder, commit = origin
    output = tmp_path_factory.mktemp("copies")
    paths = write_copies(folder, output, ADDRESS, commit)
    return {path.stem: nbformat.read(path, as_version=4) for path in paths}


def recorded(stem: str) -> NotebookNode:
    """A chapter's own notebook."""
    return nbformat.read(ROOT / f"notebooks/{stem}.ipynb", as_version=4)


def codes(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def targets(text: str) -> list[str]:
    """What the links and pictures of a text lead to, found by another reader."""
    soup = BeautifulSoup(MarkdownIt().enable("table").render(text), "html.parser")
    found = [tag.get("href") or tag.get("src") for tag in soup.find_all(["a", "img"])]
    return [str(target) for target in found if target]


def links(notebook: NotebookNode) -> list[str]:
    """All links of a notebook."""
    texts = [c.source for c in notebook.cells if c.cell_type == "markdown"]
    return [target for text in texts for target in targets(text)]


@each_chapter
def test_copy_is_the_record_and_one_cell(
    copies: dict[str, NotebookNode], stem: str
) -> None:
    copy = copies[stem]
    nbformat.validate(copy)
    assert copy.metadata.colab == {"provenance": [], "toc_visible": True}
    assert copy.metadata.kernelspec.name == "python3"
    assert all(cell.metadata.id == cell.id for cell in copy.cells)  # Colab looks there
    first, *others = codes(copy)
    assert first.id == "set-up"
    assert (first.outputs, first.execution_count) == ([], None)
    assert first.metadata.tags == ["not-compared"]
    assert first.metadata.reason
    for one, two in zip(others, codes(recorded(stem)), strict=True):
        assert (one.source, one.outputs) == (two.source, two.outputs)
        assert one.metadata.get("tags") == two.metadata.get("tags")
    assert str(ROOT) not in str(copy)
    assert "file://" not in str(copy)
    assert [fault for cell in copy.cells for fault in details(cell.source)] == []


@each_chapter
def test_links_of_a_copy_lead_somewhere(
    copies: dict[str, NotebookNode], stem: str
) -> None:
    ids = {name: {cell.id for cell in copy.cells} for name, copy in copies.items()}
    found = links(copies[stem])
    assert len(found) == len(links(recorded(stem)))
    for link in found:
        page, _, fragment = link.partition("#")
        other = Path(page).stem if page else stem
        if link.startswith((COLAB, "#")):
            assert not fragment or fragment.removeprefix("scrollTo=") in ids[other]
        assert link.startswith(("https://", "#scrollTo="))
        if match := re.match(rf"{ADDRESS}/(raw|blob)/[0-9a-f]{{40}}/(.*)", page):
            assert (ROOT / match[2]).is_file()
            assert (match[1] == "raw") == (not match[2].endswith(".md"))


@each_chapter
def test_exercises_have_stub_and_check_and_folded_solution(
    copies: dict[str, NotebookNode], stem: str
) -> None:
    cells = copies[stem].cells
    places = [
        n for n, cell in enumerate(cells) if "exercise" in cell.metadata.get("tags", [])
    ]
    assert len(places) >= 3
    for start, end in zip(places, [*places[1:], len(cells)], strict=True):
        # No answer yet, or a mistake to find.
        assert re.search("[○✗]", str(cells[start].outputs))
        assert "exercises.check_" in cells[start].source.splitlines()[-1]
        after = "\n\n".join(
            c.source for c in cells[start + 1 : end] if c.cell_type == "markdown"
        )
        folded = re.findall(
            r"^<details>.*?^</details>", after, re.DOTALL | re.MULTILINE
        )
        assert sum("<summary>Solution</summary>" in text for text in folded) == 1
        outside = after
        for text in folded:
            outside = outside.replace(text, "")
        assert "```" not in outside.partition("\n## ")[0]


def test_folder_holds_the_copies_of_now_and_a_note(
    tmp_path: Path, origin: tuple[Path, str]
) -> None:
    output = tmp_path / "colab"
    write_copies(origin[0], output, ADDRESS, origin[1])
    (output / "99-gone.ipynb").touch()
    write_copies(origin[0], output, ADDRESS, origin[1])
    assert sorted(it.stem for it in output.iterdir()) == sorted([*STEMS, "README"])
    said = (output / "README.md").read_text()
    for words in (ADDRESS, origin[1], "generated by `make colab`"):
        assert words in said


def test_other_files_are_left_alone(tmp_path: Path, origin: tuple[Path, str]) -> None:
    own = tmp_path / "thesis.ipynb"
    own.touch()
    with pytest.raises(ValueError, match="holds something else"):
        write_copies(origin[0], tmp_path, ADDRESS, origin[1])
    assert own.exists()


# Links, one by one.


def rewritten(text: str, address: str = ADDRESS, *, colab: bool = True) -> str:
    """A text of notebook 01, in a book with two notebooks."""
    anchors = {"01-a.ipynb": {"top": "11"}, "02-b.ipynb": {"far": "22"}}
    return Links(address, "c0ffee", colab, anchors).rewritten(text, "01-a.ipynb")


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a](#top)", "[a](#scrollTo=11)"),
        ("[b](02-b.ipynb)", f"[b]({COLAB}/02-b.ipynb)"),
        ("[b](02-b.ipynb#far)", f"[b]({COLAB}/02-b.ipynb#scrollTo=22)"),
        ("[*b* (2.1)](02-b.ipynb)", f"[*b* (2.1)]({COLAB}/02-b.ipynb)"),
        ("[c](../book/c.md)", f"[c]({ADDRESS}/blob/c0ffee/book/c.md)"),
        ("[c](../book/c.md#d)", f"[c]({ADDRESS}/blob/c0ffee/book/c.md#d)"),
        (
            "![e](../book/_static/e.svg)",
            f"![e]({ADDRESS}/raw/c0ffee/book/_static/e.svg)",
        ),
        ("[g](https://example.org/02-b.ipynb)", None),
        ("`list[0](x)`", None),
        ("```python\nlist[0](x)\n```", None),
        ("> ```python\n> list[0](x)\n> ```", None),
        ("$f[0](x)$ and $$g[0](x)$$", None),
    ],
)
def test_link_is_rewritten(link: str, expected: str | None) -> None:
    it = expected or link
    assert rewritten(f"See\n\n{link}\n\n{link}") == f"See\n\n{it}\n\n{it}"


def test_link_to_a_notebook_elsewhere_than_on_github() -> None:
    address = "https://git.example.org/ada/book"
    expected = f"[b]({address}/blob/c0ffee/notebooks/02-b.ipynb#far)"
    assert rewritten("[b](02-b.ipynb#far)", address) == expected


def test_link_between_copies_beside_each_other_stays() -> None:
    text = "[b](02-b.ipynb#far) and [a](#top)"
    assert rewritten(text, colab=False) == text


@pytest.mark.parametrize("link", ["#nowhere", "02-b.ipynb#top", "03-c.ipynb"])
def test_link_to_nothing_is_refused(link: str) -> None:
    with pytest.raises(ValueError, match=r"01-a\.ipynb: .*(no anchor|no notebook)"):
        rewritten(f"[x]({link})")


# The command.


@pytest.fixture
def book(
    origin: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A clone, whose address CI says."""
    clone = ["git", "clone", "--quiet", f"file://{origin[0]}", tmp_path / "book"]
    subprocess.run(clone, check=True, timeout=120)
    monkeypatch.delenv("GITHUB_SERVER_URL", raising=False)
    monkeypatch.setenv("GITHUB_REPOSITORY", "ada/book")
    monkeypatch.setattr(sys, "argv", ["copies", "--colab"])
    return tmp_path / "book"


@pytest.mark.parametrize("kind", ["colab", "student"])
def test_command_writes_the_copies(
    book: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["copies", f"--{kind}"])
    assert command.main(book) == 0
    paths = sorted((book / f"_build/{kind}").glob("*.ipynb"))
    assert [path.stem for path in paths] == STEMS
    first = codes(nbformat.read(paths[0], 4))[0].source
    assert (f'ADDRESS = "{ADDRESS}"' in first) == (kind == "colab")


def test_command_without_an_address_says_what_to_do(
    book: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_REPOSITORY")
    assert command.main(book) == 1
    assert "git remote add origin ADDRESS" in capsys.readouterr().err
    assert not (book / "_build").exists()


@pytest.mark.parametrize(
    "name", ["attention_lib/toy.py", "attention_lib/new.py", "notebooks/03-masks.ipynb"]
)
def test_command_refuses_what_the_commit_has_not(
    book: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (book / name).write_text("# edited\n")
    assert command.main(book) == 1
    said = capsys.readouterr().err
    assert f"{name} differ from commit" in said
    assert "commit or undo" in said


def test_command_without_a_commit_says_so(
    book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(tmp_path) == 1
    assert "no commit can be read here" in capsys.readouterr().err
