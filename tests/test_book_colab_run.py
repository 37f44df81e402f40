"""The copies for Colab, run as there: the set-up cell, then a whole chapter."""

import os
import re
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.check.colab_copies import Run, check, layer, row
from tools.export.copies import dependencies, set_up_source, stamp, write_copies

ROOT = Path(__file__).resolve().parents[1]
Said = tuple[int, list[str]]  # status, printed lines


# The set-up cell, run as Colab runs it: everything is there but attention_lib.


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with everything but attention_lib."""
    return layer(Path(sys.executable), tmp_path_factory.mktemp("fresh") / "environment")


@pytest.fixture
def source(origin: tuple[Path, str]) -> str:
    """The cell, for a repository on this machine."""
    folder, commit = origin
    return set_up_source(f"file://{folder}", commit, dependencies(ROOT))


def run(python: Path, place: Path, source: str, probe: str = "", **env: str) -> Said:
    """Run the cell, and then a probe, in IPython; gives status and printed lines."""
    (place / "cell.ipy").write_text(f"{source}\n{probe}\n")
    known = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [python, "-m", "IPython", "--colors=NoColor", "cell.ipy"],
        cwd=place,
        env={**known, "IPYTHONDIR": str(place / ".ipython"), "TERM": "dumb", **env},
        capture_output=True,
        text=True,
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def installed(python: Path) -> list[str]:
    """What stands in an environment's own folder of packages."""
    return sorted(p.name for p in python.parents[1].glob("lib/*/site-packages/*"))


def fetched(place: Path) -> list[Path]:
    """What was made beside the notebook."""
    return sorted(place.glob("attention-book-*"))


def test_everything_but_the_library_is_there(fresh: Path, tmp_path: Path) -> None:
    names = [need.split(">")[0] for need in dependencies(ROOT)]
    probe = f"print([find_spec(n) is None for n in {['attention_lib', *names]}])"
    _, lines = run(fresh, tmp_path, "from importlib.util import find_spec", probe)
    assert lines == [str([True, *[False for _ in names]])]


def test_dependencies_are_found_under_their_names() -> None:
    for need in dependencies(ROOT):
        assert re.fullmatch(r"[a-z]+>=[\d.]+", need)
        assert find_spec(need.split(">")[0])


def test_set_up_fetches_the_commit_and_installs_nothing(
    fresh: Path, origin: tuple[Path, str], source: str, tmp_path: Path
) -> None:
    before = installed(fresh)
    probe = "print(find_spec('attention_lib').origin)"
    status, lines = run(fresh, tmp_path, source, probe)
    assert status == 0, lines
    folder = tmp_path / f"attention-book-{origin[1][:8]}"
    assert lines == [
        f"Set-up: attention_lib from the folder {folder.name}, fetching it from "
        f"file://{origin[0]}",
        str(folder / "attention_lib/__init__.py"),
    ]
    ours, theirs = ROOT / "attention_lib", folder / "attention_lib"
    for path in theirs.rglob("*.py"):
        assert path.read_bytes() == (ours / path.relative_to(theirs)).read_bytes()
    assert "later commit" in (origin[0] / "attention_lib/toy.py").read_text()
    assert [p.name for p in folder.iterdir() if p.name != ".git"] == ["attention_lib"]
    assert fetched(tmp_path) == [folder]
    assert installed(fresh) == before


def test_set_up_is_silent_where_the_library_is(source: str, tmp_path: Path) -> None:
    python = layer(Path(sys.executable), tmp_path / "environment", ROOT)
    assert run(python, tmp_path, source) == (0, [])
    assert fetched(tmp_path) == []


def test_set_up_run_again_is_silent(fresh: Path, source: str, tmp_path: Path) -> None:
    status, lines = run(fresh, tmp_path, source, source.partition("import shutil")[2])
    assert (status, len(lines)) == (0, 1)


def test_set_up_after_a_restart_keeps_edits_and_needs_no_network(
    fresh: Path, origin: tuple[Path, str], source: str, tmp_path: Path
) -> None:
    run(fresh, tmp_path, source)
    (folder,) = fetched(tmp_path)
    (folder / "attention_lib/toy.py").write_text("mine = 1\n")
    dead = set_up_source("file:///nowhere", origin[1], dependencies(ROOT))
    probe = "print(open(find_spec('attention_lib').origin[:-11] + 'toy.py').read())"
    _, lines = run(fresh, tmp_path, dead, probe)
    assert lines == [
        f"Set-up: attention_lib from the folder {folder.name}, fetched before",
        "mine = 1",
        "",
    ]


def test_set_up_of_another_commit_leaves_the_first_alone(
    fresh: Path, origin: tuple[Path, str], source: str, tmp_path: Path
) -> None:
    run(fresh, tmp_path, source)
    (first,) = fetched(tmp_path)
    (first / "attention_lib/toy.py").write_text("mine = 1\n")
    head = ["git", "rev-parse", "HEAD"]
    later = subprocess.check_output(head, cwd=origin[0], text=True).strip()
    run(fresh, tmp_path, set_up_source(f"file://{origin[0]}", later, []))
    assert (first / "attention_lib/toy.py").read_text() == "mine = 1\n"
    (second,) = set(fetched(tmp_path)) - {first}
    assert "later commit" in (second / "attention_lib/toy.py").read_text()


def test_set_up_after_an_interruption_starts_anew(
    fresh: Path, origin: tuple[Path, str], source: str, tmp_path: Path
) -> None:
    part = tmp_path / f"attention-book-{origin[1][:8]}.part"
    (part / ".git").mkdir(parents=True)
    (part / ".git/index.lock").touch()
    status, lines = run(fresh, tmp_path, source)
    assert (status, len(lines)) == (0, 1), lines
    assert not part.exists()


@pytest.mark.parametrize(
    ("address", "cause"),
    [
        ("file:///nowhere", "'/nowhere' does not appear to be a git repository"),
        ("https://127.0.0.1:9/ada/book", "unable to access 'https://127.0.0.1:9/"),
    ],
)
def test_set_up_without_a_network_explains_itself(
    fresh: Path, origin: tuple[Path, str], tmp_path: Path, address: str, cause: str
) -> None:
    source = set_up_source(address, origin[1], dependencies(ROOT))
    _, lines = run(fresh, tmp_path, source, "print('the next cell')")
    assert lines[0].startswith("Set-up: ")
    assert cause in lines[1]
    assert f"does {address} open in a browser?" in lines[2]
    assert "you can read on" in lines[-1]
    assert len(lines) < 8
    assert "the next cell" not in lines
    assert not (tmp_path / f"attention-book-{origin[1][:8]}").exists()


def test_set_up_of_a_lost_commit_explains_itself(
    fresh: Path, origin: tuple[Path, str], tmp_path: Path
) -> None:
    source = set_up_source(f"file://{origin[0]}", "0" * 40, [])
    _, lines = run(fresh, tmp_path, source)
    assert "0000" in lines[1]
    assert any("Is the commit gone?" in line for line in lines)
    assert len(lines) < 8


def test_set_up_without_git_explains_itself(
    fresh: Path, source: str, tmp_path: Path
) -> None:
    _, lines = run(fresh, tmp_path, source, PATH=str(tmp_path))
    assert "No such file or directory: 'git'" in lines[1]
    assert len(lines) < 8


def wheel(folder: Path, name: str, version: str, *requires: str) -> None:
    """A package that holds nothing but its version."""
    info = f"{name}-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {text}\n" for text in requires)
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}"
    built = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {
        f"{name}/__init__.py": f"__version__ = '{version}'\n",
        f"{info}/METADATA": about,
        f"{info}/WHEEL": built,
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for path_inside, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path_inside, text)


@pytest.fixture
def index(tmp_path: Path) -> dict[str, str]:
    """Where pip finds what is missing, and a numpy newer than what is there."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel(folder, "bookneed", "1.0", "numpy")
    wheel(folder, "greedy", "1.0", "numpy>=99")
    wheel(folder, "numpy", "99.0")
    return {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "PIP_CONFIG_FILE": os.devnull,
    }


def test_set_up_installs_what_is_missing_and_moves_nothing(
    origin: tuple[Path, str], index: dict[str, str], tmp_path: Path
) -> None:
    python = layer(Path(sys.executable), tmp_path / "environment")
    needs = [*dependencies(ROOT), "bookneed>=1.0"]
    source = set_up_source(f"file://{origin[0]}", origin[1], needs)
    probe = "import bookneed, numpy; print(bookneed.__version__, numpy.__file__)"
    before = installed(python)
    _, lines = run(python, tmp_path, source, probe, **index)
    assert lines[0].endswith("; pip installs bookneed>=1.0")
    assert lines[1] == f"1.0 {find_spec('numpy').origin}"  # type: ignore[union-attr]
    new = {name for name in installed(python) if name not in before}
    assert new == {"bookneed", "bookneed-1.0.dist-info"}


def test_set_up_rather_fails_than_moves_what_is_installed(
    origin: tuple[Path, str], index: dict[str, str], tmp_path: Path
) -> None:
    python = layer(Path(sys.executable), tmp_path / "environment")
    source = set_up_source(f"file://{origin[0]}", origin[1], ["greedy>=1.0"])
    before = installed(python)
    _, lines = run(python, tmp_path, source, **index)
    assert any("ERROR" in line for line in lines)
    assert "you can read on" in lines[-1]
    assert installed(python) == before


# A chapter, top to bottom.


@pytest.fixture(scope="module")
def served(origin: tuple[Path, str]) -> tuple[str, str]:
    """Address and commit of the repository on this machine."""
    return f"file://{origin[0]}", origin[1]


def test_chapter_runs_from_its_copy(
    origin: tuple[Path, str], served: tuple[str, str], tmp_path: Path
) -> None:
    first, *_ = write_copies(origin[0], tmp_path / "copies", *served)
    python = Path(sys.executable)
    done, cells = check(ROOT, python, Run("this"), first, tmp_path / "run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [cell["compared"] for cell in cells] == [False] + [True] * (len(cells) - 1)
    assert sum(cell["picture_count"] for cell in cells[1:]) >= 4


def small_copy(served: tuple[str, str], folder: Path, text: str) -> Path:
    """A copy with one cell, which prints `a cat`, and whose record says `text`."""
    printed = [new_output("stream", name="stdout", text=text)]
    cell = new_code_cell("print('a cat')", outputs=printed, execution_count=1)
    notebook = new_notebook(cells=[new_markdown_cell("# Small"), cell])
    path = folder / "small.ipynb"
    stamp(notebook, set_up_source(*served, []))
    nbformat.write(notebook, path)
    return path


def test_check_fails_where_an_output_differs(
    served: tuple[str, str], tmp_path: Path
) -> None:
    path = small_copy(served, tmp_path, "a hat\n")
    done, cells = check(ROOT, Path(sys.executable), Run("this"), path, tmp_path / "run")
    assert done.returncode == 1
    assert "1 cells failed" in row("this", "small", done, cells)


def test_check_fails_where_nothing_was_fetched(
    served: tuple[str, str], tmp_path: Path
) -> None:
    path = small_copy(served, tmp_path, "a cat\n")
    path.write_text(path.read_text().replace("    set_up()", "    pass"))
    done, cells = check(ROOT, Path(sys.executable), Run("this"), path, tmp_path / "run")
    assert done.returncode == 1
    assert "fetched nothing" in row("this", "small", done, cells)
