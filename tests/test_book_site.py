"""The site is built from the records: when they change, and with nothing executed."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from websockets.asyncio.client import connect

from tools.chapters import chapter_paths
from tools.site import build as site
from tools.site.build import INDEX, ROOT, SETTINGS, SOURCES, STAMP, digest

# Whether anything is built: the builder and the recorder are left out.

Calls = list[tuple[str, object]]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """One file of each kind that the site is made from."""
    for name in (*SETTINGS, *(f"{folder}/file.md" for folder in SOURCES), INDEX):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Collect the calls of recorder and builder, which both succeed."""
    made: Calls = []

    def recorder(root: Path) -> bool:
        made.append(("record", root))
        return True

    def builder(root: Path, everything: bool) -> int:
        made.append(("build", everything))
        (root / INDEX).parent.mkdir(parents=True, exist_ok=True)
        (root / INDEX).touch()
        return 0

    monkeypatch.setattr(site, "_records_are_ready", recorder)
    monkeypatch.setattr(site, "_build", builder)
    monkeypatch.setattr(sys, "argv", ["site"])
    return made


def test_main_records_then_builds(tree: Path, calls: Calls) -> None:
    assert site.main(tree) == 0
    assert calls == [("record", tree), ("build", True)]


def test_main_prints_where_the_book_is(
    tree: Path, calls: Calls, capsys: pytest.CaptureFixture[str]
) -> None:
    site.main(tree)
    assert capsys.readouterr().out.strip().endswith(str(tree / INDEX))


def test_main_again_does_nothing(tree: Path, calls: Calls) -> None:
    site.main(tree)
    calls.clear()
    assert site.main(tree) == 0
    assert calls == []


@pytest.mark.parametrize("folder", SOURCES)
def test_main_again_after_an_edit_builds_what_changed(
    tree: Path, calls: Calls, folder: str
) -> None:
    site.main(tree)
    calls.clear()
    (tree / folder / "file.md").write_text("edited")
    site.main(tree)
    assert calls == [("record", tree), ("build", False)]


def test_main_again_without_its_page_builds(tree: Path, calls: Calls) -> None:
    site.main(tree)
    calls.clear()
    (tree / INDEX).unlink()
    site.main(tree)
    assert ("build", False) in calls


def test_main_after_a_build_that_failed_builds_everything(
    tree: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.main(tree)
    (tree / "book/file.md").write_text("edited")
    with monkeypatch.context() as patch:
        patch.setattr(site, "_build", lambda root, everything: 1)
        assert site.main(tree) == 1
    calls.clear()
    site.main(tree)
    assert ("build", True) in calls


def test_main_without_records_builds_nothing(
    tree: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "_records_are_ready", lambda root: False)
    assert site.main(tree) == 1
    assert calls == []


def test_check_builds_everything_and_records_nothing(
    tree: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.main(tree)
    calls.clear()
    monkeypatch.setattr(sys, "argv", ["site", "--check"])
    left = tree / "_build/html/left.html"
    left.touch()
    site.main(tree)
    assert calls == [("build", True)]
    assert not left.exists()


def test_changed_part_of_the_extension_reads_every_page_anew(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class App:
        asked: dict[str, tuple[object, ...]] = {}  # noqa: RUF012

        def add_config_value(self, name: str, *rest: object) -> None:
            self.asked[name] = rest

        def connect(self, *_: object) -> None:
            pass

    part = tree / "tools/quiz.py"
    part.parent.mkdir(parents=True)
    part.write_text("before")
    monkeypatch.setattr(site, "ROOT", tree)
    monkeypatch.setattr(site, "PARTS", ())
    site.setup(App())
    before, when, _ = App.asked["book_extension"]
    part.write_text("after")
    site.setup(App())
    assert App.asked["book_extension"][0] != before
    assert when == "env"


def test_digest_leaves_out_compiled_files(tree: Path) -> None:
    before = digest(tree)
    (tree / "tools/file.pyc").touch()
    assert digest(tree) == before


def test_digest_sees_a_file_that_moved(tree: Path) -> None:
    before = digest(tree)
    (tree / "book/file.md").rename(tree / "book/other.md")
    assert digest(tree) != before


# What is built: in a copy of the book, which all of these tests share.


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the book, built by Jupyter Book's own command."""
    root = tmp_path_factory.mktemp("book")
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    for name in SETTINGS:
        shutil.copy(ROOT / name, root)
    command = Path(sys.executable).with_name("jupyter-book")
    result = run(root, command, "build", ".", "-W", "-n", "--keep-going")
    assert result.returncode == 0, result.stderr
    (root / "by-command.log").write_text(result.stdout)
    (root / STAMP).write_text("spare the first test to build all pages again")
    return root


def build(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Build a copy."""
    return run(root, sys.executable, "-m", "tools.site.build", *arguments)


def run(root: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a copy."""
    env = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True)


@contextmanager
def edited(path: Path, old: str, new: str) -> Iterator[None]:
    """Replace something that must be there, and put it back in the end."""
    before = path.read_text(encoding="utf-8")
    assert old in before
    path.write_text(before.replace(old, new, 1), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


def page(root: Path, name: str) -> str:
    """Read a built page."""
    return (root / "_build/html" / f"{name}.html").read_text(encoding="utf-8")


def log(root: Path) -> str:
    """Read what the last build said."""
    return (root / "_build/site.log").read_text(encoding="utf-8")


def test_jupyter_book_command_executes_nothing(book: Path) -> None:
    said = (book / "by-command.log").read_text()
    assert said.count("Using cached notebook") == len(chapter_paths(book))
    assert "Executing notebook" not in said


def test_root_leads_to_the_first_page(book: Path) -> None:
    assert "url=book/index.html" in (book / INDEX).read_text()


def test_edit_of_a_style_alone_reaches_the_site(book: Path) -> None:
    path = book / "book/_static/book.css"
    with edited(path, path.read_text(), "/* zebra */"):
        assert build(book).returncode == 0
    static = book / "_build/html/_static"
    assert (static / "book.css").read_text() == "/* zebra */"
    (sheet,) = static.glob("all-*.css")
    assert "/* zebra */" in sheet.read_text()
    assert sheet.name in page(book, "chapters/03-masks")


def test_edit_of_prose_rebuilds_page_and_notebook(book: Path) -> None:
    with edited(book / "chapters/01-toy-attention.md", "\n\n", "\n\nZebra.\n\n"):
        assert build(book).returncode == 0
    assert log(book).count("Using cached notebook") == 1
    assert "Executing notebook" not in log(book)
    assert "Zebra." in page(book, "chapters/01-toy-attention")
    assert "Zebra." in (book / "notebooks/01-toy-attention.ipynb").read_text()


def test_new_record_rebuilds_its_page(book: Path) -> None:
    path = book / "notebooks/03-masks.ipynb"
    with edited(path, '"text/plain": [\n', '"text/plain": [\n      "Zebra",\n'):
        assert build(book).returncode == 0
        assert "Zebra" in page(book, "chapters/03-masks")


def test_serve_reloads_on_a_change(book: Path) -> None:
    asyncio.run(asyncio.wait_for(serve_and_edit(book), 120))


async def serve_and_edit(book: Path) -> None:
    """Serve the copy, edit a page, and be told to reload it."""
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-um", "tools.site.serve"),
        cwd=book,
        env={**os.environ, "PYTHONPATH": str(book)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdout is not None
    try:
        while b"Read the book at" not in (line := await server.stdout.readline()):
            assert line, "the server ended"
        host = line.decode().split("http://")[1].split(";")[0]
        async with connect(f"ws://{host}/websocket-reload") as socket:
            with edited(book / "book/how-to-use.md", "\n\n", "\n\nGiraffe.\n\n"):
                assert await socket.recv() == "refresh"
                with urlopen(f"http://{host}/book/how-to-use.html") as answer:
                    assert b"Giraffe." in answer.read()
                server.kill()  # before it sees that the edit is taken back
    finally:
        with suppress(ProcessLookupError):
            server.kill()
        await server.wait()


# What fails. A build that fails makes the next one read all pages, so these come last.


def test_broken_references_fail_the_build(book: Path) -> None:
    faults = "[](#nowhere) ![A picture](lost.png) {cite:p}`nobody1900`"
    with edited(book / "book/how-to-use.md", "\n\n", f"\n\n{faults}\n\n"):
        result = build(book)
    assert result.returncode == 1
    named = [w for w in ("nowhere", "lost.png", "nobody1900") if w in result.stderr]
    assert named == ["nowhere", "lost.png", "nobody1900"]


def test_stale_record_stops_the_build(book: Path) -> None:
    with edited(book / "chapters/03-masks.md", "import torch\n", "import torch, os\n"):
        result = build(book, "--check")
    assert result.returncode == 1
    assert "03-masks: its code cells changed: run `make notebooks`" in result.stderr
    assert "Executing notebook" not in log(book)
    assert not (book / STAMP).exists()
