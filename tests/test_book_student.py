"""The notebooks for handing out: no solution in them, all else as in the book."""

import json
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.chapters import chapter_paths, notebook_path
from tools.export.copies import take_solutions_out, write_copies

ADDRESS = "https://github.com/ada/book"
# As chapters write a solution; what follows its code stays out of the copies too.
SOLUTION = re.compile(
    r"^:::+\{dropdown\} Solution\n(.*?)^:::+$", re.MULTILINE | re.DOTALL
)
each_chapter = pytest.mark.parametrize(
    "chapter", chapter_paths(), ids=lambda path: path.stem
)


@pytest.fixture(scope="module", params=[False, True], ids=["jupyter", "colab"])
def copies(
    request: pytest.FixtureRequest,
    origin: tuple[Path, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder with the copies of all chapters."""
    folder = tmp_path_factory.mktemp("student") / "copies"
    where = {"colab": request.param, "student": True}
    write_copies(origin[0], folder, ADDRESS, origin[1], **where)
    return folder


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


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
def test_copy_is_the_record_without_its_solutions(chapter: Path, copies: Path) -> None:
    record = read(notebook_path(chapter))
    copy = read(copies / f"{chapter.stem}.ipynb")
    assert leaks(chapter, copy) == []
    # Each solution has lines of its own to look for, and they are found where they are.
    lines = telling_lines(chapter)
    assert set(leaks(chapter, record)) >= {it[0] for it in lines}
    hints = [str(book).count("<summary>Hint") for book in (record, copy)]
    assert hints[0] == hints[1] > 0
    codes = [
        [it for it in book.cells if it.cell_type == "code" and it.id != "set-up"]
        for book in (record, copy)
    ]
    exercises = 0
    for before, after in zip(*codes, strict=True):
        assert before.source == after.source
        if "exercise" in before.metadata.get("tags", []):
            exercises += 1
            assert (after.outputs, after.execution_count) == ([], None)
        else:
            assert before.outputs == after.outputs
    assert exercises == len(lines)


@each_chapter
def test_copy_leads_on_and_says_where_it_comes_from(
    chapter: Path, copies: Path, origin: tuple[Path, str]
) -> None:
    copy = read(copies / f"{chapter.stem}.ipynb")
    note = copy.cells[1].source
    for words in ("without solutions", "CC BY 4.0", "Apache-2.0", f"({ADDRESS})"):
        assert words in note
    texts = [it.source for it in copy.cells if it.cell_type == "markdown"]
    targets = re.findall(r"\]\(([^()\s]+)\)", "\n".join(texts))
    inside = {it.partition("#")[0] for it in targets if "://" not in it} - {""}
    assert [it for it in inside if not (copies / it).is_file()] == []
    if set_up := [it.source for it in copy.cells if it.id == "set-up"]:
        assert f'COMMIT = "{origin[1]}"' in set_up[0]
        assert inside == set()


def notebook(*folded: str) -> NotebookNode:
    exercise = new_code_cell("answer = ...", metadata={"tags": ["exercise"]})
    texts = [
        f"<details>\n<summary>{it}</summary>\n\nfour\n\n</details>" for it in folded
    ]
    return new_notebook(cells=[exercise, new_markdown_cell("\n\n".join(texts))])


@pytest.mark.parametrize(
    ("folded", "left"),
    [
        (
            ["Hint", "Solution"],
            ["<details>\n<summary>Hint</summary>\n\nfour\n\n</details>"],
        ),
        (["Solution"], []),
    ],
)
def test_solution_goes_and_hint_stays(folded: list[str], left: list[str]) -> None:
    book = notebook(*folded)
    take_solutions_out(book, "x")
    assert [cell.source for cell in book.cells[1:]] == left


@pytest.mark.parametrize("folded", [["Answer"], ["Hint"], ["Solution", "Solution"]])
def test_exercise_without_its_one_solution_is_refused(folded: list[str]) -> None:
    with pytest.raises(ValueError, match="one dropdown called Solution"):
        take_solutions_out(notebook(*folded), "09-kv-cache")
