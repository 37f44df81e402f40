"""Links that leave the book: a dead one fails, one that a host keeps shut does not."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tools.check.outside_links import sort

ROOT = Path(__file__).resolve().parents[1]


def link(status: str, info: str = "") -> dict[str, Any]:
    """What the checker says of one link."""
    place = {"filename": "book/x.md", "lineno": 3, "uri": "https://x.org"}
    return {**place, "status": status, "info": info}


def test_dead_link_is_named_with_its_place() -> None:
    assert sort([link("broken", "404 Client Error: Not Found")]) == (
        ["book/x.md:3: https://x.org: 404 Client Error: Not Found"],
        [],
    )


@pytest.mark.parametrize("status", ["working", "redirected", "ignored", "unchecked"])
def test_other_link_is_not_named(status: str) -> None:
    assert sort([link(status, "403 Forbidden")]) == ([], [])


@pytest.mark.parametrize(
    ("status", "info"),
    [
        ("broken", "403 Client Error: Forbidden for url: https://x.org"),
        ("broken", "429 Client Error: Too Many Requests"),
        ("broken", "503 Server Error: Service Unavailable"),
        ("broken", "HTTPSConnectionPool(...): Read timed out."),
        ("timeout", ""),
    ],
)
def test_link_that_a_host_keeps_shut_is_not_dead(status: str, info: str) -> None:
    dead, unclear = sort([link(status, info)])
    assert (len(dead), len(unclear)) == (0, 1)


# The whole way: a book, and a host that answers.


class Host(BaseHTTPRequestHandler):
    """Answers with the number that is asked for."""

    def do_HEAD(self) -> None:
        self.send_response(int(self.path.strip("/")))
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def host() -> Iterator[str]:
    """The address of the host."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def visit(
    root: Path, page: str, first: str = "index"
) -> subprocess.CompletedProcess[str]:
    """Visit the links of a book of one page."""
    (root / "_config.yml").write_text("title: x\nexecute: {execute_notebooks: force}\n")
    (root / "_toc.yml").write_text(f"format: jb-book\nroot: {first}\n")
    (root / "index.md").write_text(f"# Title\n\n{page}\n")
    code = "import sys, pathlib; from tools.check.outside_links import main; "
    code += "sys.exit(main(pathlib.Path(sys.argv[1])))"
    return subprocess.run(
        [sys.executable, "-c", code, str(root)],
        cwd=ROOT,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_links_of_a_book_are_visited(tmp_path: Path, host: str) -> None:
    page = " ".join(f"[{n}]({host}/{n})" for n in (200, 404, 403))
    done = visit(tmp_path, page)
    assert done.returncode == 1
    said = [line[:40] for line in done.stdout.splitlines()[1:]]
    assert said[0].startswith("could not be checked: index.md:3: http")
    assert said[1].startswith("dead: index.md:3: http")
    assert said[2].startswith("3 links: 1 dead, 1 could not be checked")
    report = json.loads((tmp_path / "reports/links.json").read_text())
    assert {it["status"] for it in report} == {"working", "broken"}


def test_book_whose_links_live_passes(tmp_path: Path, host: str) -> None:
    done = visit(tmp_path, f"[live]({host}/200)")
    assert done.returncode == 0
    assert "1 links: 0 dead" in done.stdout


def test_book_that_cannot_be_read_says_where_to_look(tmp_path: Path) -> None:
    done = visit(tmp_path, "x", first="missing")
    assert done.returncode == 1
    assert "could not be read: see " in done.stderr


def test_book_without_links_fails(tmp_path: Path) -> None:
    # Then the checker saw nothing: this book cites papers.
    assert visit(tmp_path, "no link").returncode == 1
