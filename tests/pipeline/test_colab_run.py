"""The copies for Colab, run as there: the set-up cell, then a whole chapter."""

import os
import sys
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.running import ROOT, ran
from tools.check.colab_copies import check, layer
from tools.export.copies import dependencies, set_up_source, stamp, write_copies

# The set-up cell, run as Colab runs it: everything is there but attention_lib.


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """An interpreter with everything but attention_lib."""
    return layer(Path(sys.executable), tmp_path_factory.mktemp("fresh") / "environment")


@pytest.fixture
def source(origin):
    """The cell, for a repository on this machine."""
    return set_up_source(f"file://{origin[0]}", origin[1], dependencies(ROOT))


def run(python, place, source, probe="", **env):
    """Run the cell, and then a probe, in IPython; gives status and printed lines."""
    (place / "cell.ipy").write_text(f"{source}\n{probe}\n")
    known = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = ran(
        [python, "-m", "IPython", "--colors=NoColor", "cell.ipy"],
        cwd=place,
        env={**known, "IPYTHONDIR": str(place / ".ipython"), "TERM": "dumb", **env},
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def installed(python):
    """What stands in an environment's own folder of packages."""
    return {path.name for path in python.parents[1].glob("lib/*/site-packages/*")}


def test_set_up_fetches_the_commit_installs_nothing(fresh, origin, source, tmp_path):
    before = installed(fresh)
    again = source.partition("import shutil")[2]  # run twice, it is silent
    probe = f"{again}\nprint(find_spec('attention_lib').origin)"
    folder = tmp_path / f"attention-book-{origin[1][:8]}"
    part = folder.with_suffix(".part")  # of a run that was interrupted
    (part / ".git").mkdir(parents=True)
    (part / ".git/index.lock").touch()
    status, lines = run(fresh, tmp_path, source, probe)
    assert status == 0
    assert lines[0].endswith(f"{folder.name}, fetching it from file://{origin[0]}")
    assert lines[1:] == [str(folder / "attention_lib/__init__.py")]
    ours, theirs = ROOT / "attention_lib", folder / "attention_lib"
    for path in theirs.rglob("*.py"):
        assert path.read_bytes() == (ours / path.relative_to(theirs)).read_bytes()
    assert "later commit" in (origin[0] / "attention_lib/toy.py").read_text()
    assert [p.name for p in folder.iterdir() if p.name != ".git"] == ["attention_lib"]
    assert list(tmp_path.glob("attention-book-*")) == [folder]
    assert installed(fresh) == before


def test_set_up_is_silent_where_the_library_is(source, tmp_path):
    python = layer(Path(sys.executable), tmp_path / "environment", ROOT)
    assert run(python, tmp_path, source) == (0, [])
    assert not list(tmp_path.glob("attention-book-*"))


@pytest.mark.slow
def test_set_up_keeps_edits_after_a_restart(fresh, origin, source, tmp_path):
    run(fresh, tmp_path, source)
    (first,) = tmp_path.glob("attention-book-*")
    (first / "attention_lib/toy.py").write_text("mine = 1\n")
    dead = set_up_source("file:///nowhere", origin[1], dependencies(ROOT))
    probe = "print(open(find_spec('attention_lib').origin[:-11] + 'toy.py').read())"
    assert run(fresh, tmp_path, dead, probe)[1] == [
        f"Set-up: attention_lib from the folder {first.name}, fetched before",
        "mine = 1",
        "",
    ]


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"address": "https://127.0.0.1:9/a/b"}, "unable to access 'https://127.0.0."),
        ({"commit": "0" * 40}, "0000"),
        ({"PATH": "/nowhere"}, "No such file or directory: 'git'"),
    ],
    ids=["no network", "lost commit", "no git"],
)
def test_set_up_that_fails_explains_itself(fresh, origin, tmp_path, changed, cause):
    known = {"address": f"file://{origin[0]}", "commit": origin[1], **changed}
    address, commit = known.pop("address"), known.pop("commit")
    source = set_up_source(address, commit, dependencies(ROOT))
    _, lines = run(fresh, tmp_path, source, "print('the next cell')", **known)
    assert lines[0].startswith("Set-up: ")
    assert cause in lines[1]
    assert f"does {address} open in a browser?" in lines[2]
    assert any("Is the commit gone?" in line for line in lines)
    assert "you can read on" in lines[-1]
    assert "the next cell" not in lines
    assert not (tmp_path / f"attention-book-{commit[:8]}").exists()


@pytest.mark.parametrize("ending", ["exit 1", "wait"])
def test_set_up_waits_for_no_child_of_a_step(fresh, origin, tmp_path, ending):
    git = tmp_path / "bin/git"
    git.parent.mkdir()
    git.write_text(f"#!/bin/sh\nsleep 200 &\n{ending}\n")
    git.chmod(0o755)
    source = set_up_source(f"file://{origin[0]}", origin[1], dependencies(ROOT))
    source, path = source.replace("LIMIT = 300", "LIMIT = 2"), os.environ["PATH"]
    start = time.monotonic()
    _, lines = run(fresh, tmp_path, source, PATH=f"{git.parent}{os.pathsep}{path}")
    assert time.monotonic() - start < 100
    assert ("timed out after 2 seconds" in lines[1]) == (ending == "wait"), lines


def wheel(folder, name, version, *requires):
    """A package that holds nothing but its version."""
    info = f"{name}-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {text}\n" for text in requires)
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}"
    built = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}/__init__.py", f"__version__ = '{version}'\n")
        archive.writestr(f"{info}/METADATA", about)
        archive.writestr(f"{info}/WHEEL", built)
        names = [*archive.namelist(), f"{info}/RECORD"]
        archive.writestr(names[-1], "".join(f"{path},,\n" for path in names))


@pytest.mark.slow
def test_set_up_installs_what_is_missing_and_moves_nothing(origin, tmp_path):
    wheel(tmp_path, "bookneed", "1.0", "numpy")
    wheel(tmp_path, "greedy", "1.0", "numpy>=99")
    wheel(tmp_path, "numpy", "99.0")  # newer than what is there
    index = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    index["PIP_FIND_LINKS"] = str(tmp_path)
    python = layer(Path(sys.executable), tmp_path / "environment")
    before = installed(python)
    needs = [*dependencies(ROOT), "bookneed>=1.0"]
    source = set_up_source(f"file://{origin[0]}", origin[1], needs)
    probe = "import bookneed, numpy; print(bookneed.__version__, numpy.__file__)"
    _, lines = run(python, tmp_path, source, probe, **index)
    assert lines[0].endswith("; pip installs bookneed>=1.0")
    assert lines[1] == f"1.0 {find_spec('numpy').origin}"
    assert installed(python) - before == {"bookneed", "bookneed-1.0.dist-info"}
    # Rather than moving what is installed, it fails.
    source = set_up_source(f"file://{origin[0]}", origin[1], ["greedy>=1.0"])
    _, lines = run(python, tmp_path, source, **index)
    assert "you can read on" in lines[-1]
    assert installed(python) - before == {"bookneed", "bookneed-1.0.dist-info"}


# A chapter, top to bottom.


@pytest.mark.slow
def test_chapter_runs_from_its_copy(origin, tmp_path):
    address = f"file://{origin[0]}"
    first, *_ = write_copies(origin[0], tmp_path / "copies", address, origin[1])
    faults, cells = check([first], Path(sys.executable))
    assert faults == []
    assert [cell["compared"] for cell in cells] == [False] + [True] * (len(cells) - 1)
    assert sum(cell["picture_count"] for cell in cells[1:]) >= 4


@pytest.mark.slow
def test_check_fails_where_an_output_differs_or_nothing_was_fetched(origin, tmp_path):
    printed = [new_output("stream", name="stdout", text="a hat\n")]
    cell = new_code_cell("print('a cat')", outputs=printed, execution_count=1)
    notebook = new_notebook(cells=[new_markdown_cell("# Small"), cell])
    served = (f"file://{origin[0]}", origin[1])
    source = set_up_source(*served, []).replace("    set_up()", "    pass")
    path = tmp_path / "small.ipynb"
    stamp(notebook, source)
    nbformat.write(notebook, path)
    faults, cells = check([path], Path(sys.executable))
    assert [cell["outcome"] for cell in cells] == ["passed", "failed"]
    assert faults[0] == "small, code cell 2"
    assert "pytest ended with 1" in faults[1]
    assert "fetched nothing" in faults[2]
