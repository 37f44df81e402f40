"""Links that leave the book: a dead one fails, one that a host keeps shut does not."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tools.check.outside_links import main


class Host(BaseHTTPRequestHandler):
    """Answers with the number that is asked for."""

    def do_HEAD(self):
        self.send_response(int(self.path.strip("/")))
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def host():
    """The address of the host."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Host) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_only_a_dead_link_fails(tmp_path, host, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    Path("_config.yml").write_text("title: x\n")
    Path("_toc.yml").write_text("format: jb-book\nroot: index\n")
    page = Path("index.md")
    page.write_text(f"# Title\n\n[lives]({host}/200), [shut]({host}/403)\n")
    assert main() == 0
    assert "2 links: 0 dead, 1 kept shut" in capsys.readouterr().out
    page.write_text(f"# Title\n\n[gone]({host}/404)\n")
    assert main() == 1
    assert f"dead: index.md:3: {host}/404: 404 Client Error" in capsys.readouterr().out


def test_book_without_links_fails(tmp_path, monkeypatch):
    # Then the checker saw nothing: this book cites papers.
    monkeypatch.setattr("tools.check.outside_links.run", lambda *_, **__: 0)
    monkeypatch.setattr("tools.check.outside_links.shutil.rmtree", lambda *_, **__: 0)
    monkeypatch.chdir(tmp_path)
    Path("_build/links/_build/html").mkdir(parents=True)
    Path("_build/links/_build/html/output.json").write_text("")
    assert main() == 1
