"""Recording: what is stale is executed, once; what fails leaves the old record."""

import shutil
from pathlib import Path

import nbformat
import pytest

from tests.running import ROOT, written
from tools.chapters import code_of
from tools.record import execute
from tools.record import update as record
from tools.record.drafts import examine, store
from tools.record.moved import moved
from tools.record.update import update

CHAPTER = """\
---
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# {title}

Some text.
"""
CELL = "\n```{{code-cell}} ipython3\n{}\n```\n"
FILES = {
    "_toc.yml": "chapters: [{file: chapters/01-one.md}, {file: chapters/02-two.md}]\n",
    "requirements.txt": "torch==1\n    # via attention-lib (pyproject.toml)\n",
    "book/references.bib": "",
    "book/glossary.md": "# Glossary\n",
    "attention_lib/__init__.py": "",
    "attention_lib/toy.py": "NAME = 'toy'\n",
    "attention_lib/reproducibility.py": "RUN_ENVIRONMENT = {'BOOK_TEST': 'set'}\n",
}


@pytest.fixture
def root(tmp_path):
    """A book of two chapters."""
    root = written(tmp_path, FILES)
    shutil.copy(ROOT / "_config.yml", root)
    write(root, "01-one", "print('one')")
    write(root, "02-two", "print('two')")
    return root


def write(root, stem, *cells):
    code = "".join(CELL.format(cell) for cell in cells)
    written(root, {f"chapters/{stem}.md": CHAPTER.format(title=stem) + code})


def load(root, stem="01-one"):
    return nbformat.read(root / "notebooks" / f"{stem}.ipynb", as_version=4)


def text(root, stem="01-one"):
    return (root / "notebooks" / f"{stem}.ipynb").read_text()


def failures(root, *cells):
    write(root, "01-one", *cells)
    return update(examine(root)[:1])


def fake_records(root):
    for draft in examine(root):
        made = draft.plain
        for cell in code_of(made):
            cell.execution_count = 1
        prints = record.fingerprints(made, root) | record.seal(made)
        made.metadata["attention_book"] = prints
        store(draft.chapter, made)


def causes(root):
    return [draft.causes for draft in examine(root)]


@pytest.fixture
def executed(monkeypatch):
    """Collect the chapters that would be executed, and execute none."""
    stems = []

    def note(notebook, chapter):
        stems.append(chapter.stem)
        return []

    monkeypatch.setattr(record, "execute", note)
    return stems


def test_update_executes_what_is_stale_and_nothing_else(root, executed):
    assert causes(root) == [["not recorded yet"]] * 2
    update(examine(root))
    assert sorted(executed) == ["01-one", "02-two"]
    assert causes(root) == [[], []]
    write(root, "02-two", "print('changed')")
    update(examine(root))
    assert sorted(executed) == ["01-one", "02-two", "02-two"]


def test_chapter_in_step_is_not_compared_again_until_something_changes(root):
    def compared(**options):
        return [draft.chapter.stem for draft in examine(root, **options)]

    fake_records(root)
    assert compared() == ["01-one", "02-two"]
    assert compared() == []
    assert compared(again=True) == ["01-one", "02-two"]
    write(root, "01-one", "print('one')", "print('more')")
    assert compared() == compared() == ["01-one"]  # as long as it is stale
    assert causes(root) == [["its code cells changed"]]
    fake_records(root)
    assert [compared(), compared()] == [["01-one"], []]
    others = ["book/glossary.md", "attention_lib/toy.py", "requirements.txt"]
    for file in ["chapters/01-one.md", *others]:  # a title that others may show
        before = (root / file).read_text()
        for now in (before.replace("# ", "# Other ") + "# more\n", before):
            (root / file).write_text(now)
            assert compared()[-1:] == ["02-two"], file
        assert compared() == []


def test_update_after_a_change_of_prose_executes_nothing(root, executed):
    fake_records(root)
    kept = load(root)
    kept.cells[-1].outputs = [nbformat.v4.new_output("stream", text="kept")]
    kept.metadata["attention_book"] |= record.seal(kept)
    store(root / "chapters/01-one.md", kept)
    path = root / "chapters/01-one.md"
    path.write_text(path.read_text().replace("Some text.", "Other text."))
    assert causes(root)[0] == ["its prose is not in step"]
    update(examine(root))
    assert executed == []
    assert "Other text." in load(root).cells[0].source
    assert load(root).cells[1].outputs[0].text == "kept"


def test_interrupted_write_leaves_the_old_record(root, monkeypatch):
    fake_records(root)
    before, kept = text(root), load(root)
    kept.cells[0].source = "new"

    def killed(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        store(root / "chapters/01-one.md", kept)
    assert text(root) == before


# How it is executed. Starting a kernel takes a second, so one run serves these tests.

CELLS = {
    "x = 6\nprint(x * 7)": "42",
    "import os; print(os.environ['BOOK_TEST'])": "set",
    "print(os.path.basename(os.getcwd()))": "notebooks",
    "from attention_lib import toy; print(toy.NAME)": "toy",
    "import sys\nfor part in 'ab':\n    print(part); sys.stdout.flush()": "a\nb",
}
VIEW = """from IPython.display import HTML
HTML('<p>V</p><script data-attention-program="views">1</script>')"""


@pytest.mark.slow
def test_record_holds_what_was_shown_and_nothing_of_the_moment_or_the_machine(root):
    assert failures(root, *CELLS, VIEW) == []
    *printed, view = [cell.outputs[0] for cell in code_of(load(root))]
    assert [output.text for output in printed] == [f"{it}\n" for it in CELLS.values()]
    assert view.data["text/html"] == "<p>V</p>"
    assert load(root).metadata["language_info"] == {"name": "python"}
    assert load(root).cells[-1].metadata == {}
    assert causes(root)[0] == []
    before = text(root)
    (root / "notebooks/01-one.ipynb").unlink()
    update(examine(root)[:1])
    assert text(root) == before


def test_new_record_names_numbers_that_moved_and_who_still_says_the_old(tmp_path):
    code = "print(f'{share:.4f} of {count:,}')"
    head = '---\nmystnb:\n  image:\n    alt: "A bar of 0.36"\n---\n'
    chapter = tmp_path / "03-masks.md"
    prose = "It is 0.36, or 36 of 1,024; 0.41 too.\n\n0.3551 and x_0.36"
    chapter.write_text(f"# T\n\n{prose}\n\n```{{code-cell}}\n{head}{code}\n0.36\n```\n")

    def printed(text):
        outputs = [nbformat.v4.new_output("stream", text=text)]
        cells = [nbformat.v4.new_code_cell(code, outputs=outputs)]
        return nbformat.v4.new_notebook(cells=cells)

    said = moved(chapter, printed("0.3551 of 1,024"), printed("0.4102 of 1,025"))
    assert said == [
        "03-masks: 0.3551 became 0.4102; line 3 says 0.36; line 5 says 0.3551; "
        "line 11 says 0.36",
        "03-masks: 1024 became 1025; line 3 says 1024",
    ]
    assert moved(chapter, printed("0.3551"), printed("0.3551")) == []


def test_failing_chapter_is_reported_and_alone(root):
    fake_records(root)
    before = text(root)
    write(root, "01-one", "x = 1", "y = x / 0", "z = 2")
    write(root, "02-two", "print(6 * 7)")
    (fault,) = update(examine(root))
    place = "chapters/01-one.md:17: code cell 2: ZeroDivisionError: division by zero"
    assert fault == f"{place}\n    y = x / 0"
    assert text(root) == before
    assert causes(root)[1] == []
    assert code_of(load(root, "02-two"))[0].outputs[0].text == "42\n"


def test_record_refuses_what_no_record_may_hold(root):
    cells = "import sys; print('odd', file=sys.stderr)", "print(object())"
    error, address = failures(root, *cells)
    assert "code cell 1: its record holds standard error: 'odd" in error
    assert "code cell 2: its record holds an address" in address
    assert not (root / "notebooks/01-one.ipynb").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        ("import os; os._exit(1)", "code cell 1: Kernel died"),
        ("while True: pass", "code cell 1: A cell timed out"),
    ],
)
def test_cell_that_never_ends_well_is_reported(root, monkeypatch, cell, fault):
    monkeypatch.setattr(execute, "SECONDS_PER_CELL", 1)
    (said,) = failures(root, cell)
    assert fault in said


def test_check_names_chapter_and_cause_and_executes_nothing(root, capsys, executed):
    fake_records(root)
    assert record.main(root, ["--check"]) == 0
    assert capsys.readouterr().out == "every record is fresh\n"
    write(root, "02-two", "print('changed')")
    assert record.main(root, ["--check"]) == 1
    expected = "02-two: its code cells changed: run `make notebooks`\n"
    assert capsys.readouterr().out == expected
    assert executed == []


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("01-one", "<<<<<<< HEAD\n", "01-one: not recorded yet"),
        ("03-left", "{}", "notebooks/03-left.ipynb has no chapter"),
    ],
)
def test_check_fails_on_a_file_that_is_no_record(root, capsys, name, content, fault):
    fake_records(root)
    (root / f"notebooks/{name}.ipynb").write_text(content)
    assert record.main(root, ["--check"]) == 1
    assert capsys.readouterr().out.startswith(fault)


def test_command_records_what_is_asked_for(root, executed):
    assert record.main(root, ["chapters/02-two.md"]) == 0
    assert executed == ["02-two"]
    fake_records(root)
    assert record.main(root, ["--all"]) == 0
    assert sorted(executed) == ["01-one", "02-two", "02-two"]


def test_command_names_what_it_cannot_record(root, capsys):
    assert record.main(root, ["04-four"]) == 1
    assert capsys.readouterr().out == "04-four is none of 01-one, 02-two\n"
    path = root / "chapters/01-one.md"
    path.write_text(path.read_text() + "\nSee {ref}`nowhere`.\n")
    assert record.main(root, []) == 1
    assert "01-one.md:" in capsys.readouterr().out
