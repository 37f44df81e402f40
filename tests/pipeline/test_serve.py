"""`make serve` says when it watches, rebuilds on a change, leaves nothing behind."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest
from websockets.asyncio.client import connect

from tools.chapters import ROOT
from tools.site import serve

LIMIT = 240  # seconds, far more than a build takes on a busy machine


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Something to watch."""
    for name in ("chapters", "book", "attention_lib"):
        (tmp_path / name).mkdir()
    for name in ("_config.yml", "_toc.yml"):
        (tmp_path / name).touch()
    monkeypatch.setattr(serve, "ROOT", tmp_path)
    return tmp_path


def test_watcher_says_when_it_watches_and_rebuilds_once(tree, monkeypatch, capsys):
    rebuilt = []

    async def rebuild():
        rebuilt.append(tree)

    monkeypatch.setattr(serve, "rebuild", rebuild)

    async def edit_once_it_watches():
        watcher = serve.Watcher("host:1")
        async with asyncio.timeout(LIMIT), watcher.lifespan(None):
            said = ""
            while "Read the book at http://host:1" not in said:
                await asyncio.sleep(0.05)
                said += capsys.readouterr().out
            assert rebuilt == []
            (tree / "book/page.md").write_text("edited")
            await watcher.flag.wait()

    asyncio.run(edit_once_it_watches())
    assert rebuilt == [tree]
    assert "changed: book/page.md" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(4 * LIMIT)
def test_serve_reloads_on_a_change(tmp_path):
    copied = ("attention_lib", "book", "chapters", "notebooks", "tools")
    for name in (*copied, "explorer_source/src"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for path in (*ROOT.glob("_*.yml"), *ROOT.glob("*.t*t"), *ROOT.glob("*.toml")):
        shutil.copy(path, tmp_path)
    asyncio.run(serve_and_edit(tmp_path))


async def serve_and_edit(book):
    """Serve the copy, edit a page, and be told to reload it."""
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-um", "tools.site.serve"),
        cwd=book,
        env={**os.environ, "PYTHONPATH": str(book)},
        stdout=subprocess.PIPE,
        start_new_session=True,  # a group, which ends as one
    )
    assert server.stdout is not None
    try:
        async with asyncio.timeout(3 * LIMIT):
            while b"Read the book at" not in (line := await server.stdout.readline()):
                assert line, "the server ended"
            host = line.decode().split("http://")[1].split(";")[0]
            async with connect(f"ws://{host}/websocket-reload") as socket:
                path = book / "book/how-to-use.md"
                path.write_text(path.read_text() + "\nGiraffe.\n")
                assert await socket.recv() == "refresh"
            page = f"http://{host}/book/how-to-use.html"
            with await asyncio.to_thread(urlopen, page, timeout=LIMIT) as answer:
                assert b"Giraffe." in answer.read()
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        async with asyncio.timeout(LIMIT):
            await server.wait()
