"""The notebooks for handing out: no solution in them, all else as in the book."""

import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.chapters import chapter_paths, notebook_path
from tools.export import student
from tools.export.solutions import exercises_of
from tools.export.student import handed_out, without_solutions
from tools.record.drafts import Draft, examine
from tools.record.execute import execute

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = chapter_paths()
# As chapters write a solution; what follows its code stays out of the copies too.
SOLUTION = re.compile(
    r"^:::+\{dropdown\} Solution\n(.*?)^:::+$", re.MULTILINE | re.DOTALL
)
each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)


def made(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the command says that writes the copies of a whole book."""
    command = [sys.executable, "-m", "tools.export.student", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the copies of all chapters."""
    folder = tmp_path_factory.mktemp("student") / "copies"
    done = made(ROOT, "--output", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def copy_of(chapter: Path, copies: Path) -> NotebookNode:
    return nbformat.read(copies / f"{chapter.stem}.ipynb", as_version=4)


def telling_lines(chapter: Path) -> list[list[str]]:
    """For each solution its lines that stand nowhere else in the chapter."""
    text = chapter.read_text(encoding="utf-8")
    solutions, rest = SOLUTION.findall(text), SOLUTION.sub("", text)
    lines = [[line.strip() for line in it.splitlines()] for it in solutions]
    return [[line for line in it if line and line not in rest] for it in lines]


def leaks(chapter: Path, notebook: NotebookNode) -> list[str]:
    """Lines of solutions that a notebook holds, in texts, code or outputs."""
    held = "\n".join(
        cell.source + json.dumps(cell.get("outputs", ""), ensure_ascii=False)
        for cell in notebook.cells
    )
    return [line for it in telling_lines(chapter) for line in it if line in held]


@each_chapter
def test_copy_holds_no_line_of_a_solution(chapter: Path, copies: Path) -> None:
    assert leaks(chapter, copy_of(chapter, copies)) == []


@each_chapter
def test_leaks_are_found_in_the_record(chapter: Path) -> None:
    # Each solution has lines of its own to look for, and they are found where they are.
    lines = telling_lines(chapter)
    record = nbformat.read(notebook_path(chapter), as_version=4)
    assert len(lines) == len(list(exercises_of(record)))
    assert all(lines)
    assert set(leaks(chapter, record)) >= {it for lines in lines for it in lines[:1]}


@each_chapter
def test_copy_has_the_code_and_the_hints_of_the_record(
    chapter: Path, copies: Path
) -> None:
    record = nbformat.read(notebook_path(chapter), as_version=4)
    copy = copy_of(chapter, copies)
    sources = [
        [cell.source for cell in book.cells if cell.cell_type == "code"]
        for book in (record, copy)
    ]
    assert sources[0] == sources[1]
    hints = [str(book).count("<summary>Hint") for book in (record, copy)]
    assert hints[0] == hints[1] > 0


@each_chapter
def test_exercises_of_a_copy_have_not_run(chapter: Path, copies: Path) -> None:
    copy = copy_of(chapter, copies)
    assert [cell.outputs for cell in exercises_of(copy) if cell.outputs] == []
    others = [cell for cell in copy.cells if "exercise" not in str(cell.metadata)]
    assert any(cell.get("outputs") for cell in others)


@each_chapter
def test_copy_says_where_it_comes_from(chapter: Path, copies: Path) -> None:
    note = copy_of(chapter, copies).cells[1].source
    assert "Attention, step by step" in note
    assert "without solutions" in note
    assert "CC BY 4.0" in note
    assert "Apache-2.0" in note


@each_chapter
def test_links_of_a_copy_stay_in_the_folder(chapter: Path, copies: Path) -> None:
    texts = [it for it in copy_of(chapter, copies).cells if it.cell_type == "markdown"]
    targets = re.findall(r"\]\(([^()\s]+)\)", "\n".join(it.source for it in texts))
    inside = {it.partition("#")[0] for it in targets if "://" not in it} - {""}
    assert [it for it in inside if not (copies / it).is_file()] == []


def test_exercises_of_a_copy_run_and_ask_for_an_answer(copies: Path) -> None:
    chapter = CHAPTERS[2]
    notebook = copy_of(chapter, copies)
    assert execute(notebook, chapter) == []
    verdicts = [cell.outputs[-1].data["text/plain"] for cell in exercises_of(notebook)]
    assert {verdict[:15] for verdict in verdicts} == {"○ No answer yet"}


def test_copies_for_colab_fetch_the_library_and_leak_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, commit = "https://github.com/ada/book", "0123456789" * 4
    monkeypatch.setattr(student, "origin", lambda root: (address, commit))
    monkeypatch.setattr(student, "repository_address", lambda root: address)
    without = {f"{it.chapter.stem}.ipynb": handed_out(it) for it in examine(ROOT)}
    student.write(student.for_colab(without, ROOT), tmp_path, ROOT, colab=True)
    for chapter in CHAPTERS:
        notebook = copy_of(chapter, tmp_path)
        code = next(cell for cell in notebook.cells if cell.cell_type == "code")
        assert f'COMMIT = "{commit}"' in code.source
        assert leaks(chapter, notebook) == []
        assert "](../" not in str(notebook)
        assert f"({address})" in notebook.cells[1].source


def notebook(*folded: str) -> NotebookNode:
    exercise = new_code_cell("answer = ...", metadata={"tags": ["exercise"]})
    texts = [
        f"<details>\n<summary>{it}</summary>\n\nfour\n\n</details>" for it in folded
    ]
    return new_notebook(cells=[exercise, new_markdown_cell("\n\n".join(texts))])


def test_solution_goes_and_hint_stays() -> None:
    cells = without_solutions(notebook("Hint", "Solution"), "x").cells
    assert [cell.source for cell in cells[1:]] == [
        "<details>\n<summary>Hint</summary>\n\nfour\n\n</details>"
    ]


def test_cell_that_held_a_solution_only_goes() -> None:
    assert len(without_solutions(notebook("Solution"), "x").cells) == 1


@pytest.mark.parametrize("folded", [["Answer"], ["Hint"], ["Solution", "Solution"]])
def test_exercise_without_its_one_solution_is_refused(folded: list[str]) -> None:
    with pytest.raises(ValueError, match="one dropdown called Solution"):
        without_solutions(notebook(*folded), "09-kv-cache")


def test_stale_record_is_refused() -> None:
    plain = notebook("Solution")
    draft = Draft(ROOT / "chapters/09-kv-cache.md", plain, plain, ["code changed"])
    with pytest.raises(ValueError, match="09-kv-cache: code changed: run `make note"):
        handed_out(draft)


def test_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "grades.csv").write_text("ada,1\n")
    with pytest.raises(ValueError, match="name a folder of its own"):
        student.write({}, tmp_path, ROOT, colab=False)
    assert [path.name for path in tmp_path.iterdir()] == ["grades.csv"]
