"""Chapter 12's download, from a local server with the layout of the published one."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.running import fresh_tqdm
from tools.chapters import ROOT, code_of, read_chapter

FILES = {
    "config.json": b"{}",
    "tokenizer.json": b"some text",
    "model.safetensors": bytes(range(256)) * 9000,  # more than two blocks
}


def listed(name, content):
    """What the server's list says of a file: a large one has a second checksum."""
    oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    entry = {"type": "file", "path": name, "size": len(content), "oid": oid}
    if name.endswith("safetensors"):
        digest = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 134}
    return entry


class Hub(BaseHTTPRequestHandler):
    """Lists a model's files, and sends them by way of another address."""

    def do_GET(self):
        self.server.asked.append(self.path)
        name, head = self.path.split("/")[-1], {}
        if self.path == "/api/models/owner/model/tree/main":
            body = json.dumps([listed(*file) for file in FILES.items()]).encode()
        elif self.path.startswith("/owner/model/resolve/main/"):
            body, head = b"", {"Location": f"/far/away/{name}"}
        else:
            body = FILES[name]
        if name == "model.safetensors" and self.server.fault == "silent":
            self.server.stopped.wait(20)
        self.send_response(302 if head else 200)
        for field, value in {**head, "Content-Length": len(body)}.items():
            self.send_header(field, value)
        self.end_headers()
        if name == "model.safetensors" and self.server.fault == "cut":
            body = body[: len(body) // 2]
        if name == "model.safetensors" and self.server.fault == "changed":
            body = body[:-1] + b"?"
        self.wfile.write(body)

    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.fault, server.asked, server.stopped = "", [], threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.stopped.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def open_model(hub, monkeypatch, tmp_path):
    """The chapter's function, run as a reader's notebook runs it."""
    address = f"http://127.0.0.1:{hub.server_port}"
    options = {"HF_ENDPOINT": address, "HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    options["no_proxy"] = "127.0.0.1"
    for name, value in options.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    cells = code_of(read_chapter(ROOT / "chapters/12-real-weights.md"))
    wanted = "import hashlib", "def download", "def open_model"
    space = {}
    for cell in cells:
        code = cell.source.split("folder = open_model()")[0]
        if any(word in code for word in wanted):
            exec(code, space)
    space |= {"place": tmp_path, "PATIENCE": 0.5, "tqdm": fresh_tqdm()}
    return space["open_model"]


def test_download_gives_all_files_with_progress_and_asks_once(open_model, hub, capsys):
    folder = open_model("owner/model")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    out, err = capsys.readouterr()
    assert "owner/model: 0.00 GB to download" in out
    assert "model.safetensors: 100%" in err
    hub.asked.clear()
    assert open_model("owner/model") == folder
    assert hub.asked == ["/api/models/owner/model/tree/main"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [("changed", "model.safetensors did not come whole"),
     ("cut", "model.safetensors did not come whole"), ("silent", "timed out"),
     ("gone", "")],
)  # fmt: skip
def test_download_that_fails_leaves_the_tiny_folder(
    open_model, hub, capsys, tmp_path, fault, words
):
    hub.fault = fault
    if fault == "gone":
        hub.shutdown()
        hub.server_close()
    assert open_model("owner/model") == tmp_path / "llama"
    said = capsys.readouterr().out
    assert f"No download ({words}" in said
    assert not list(tmp_path.rglob("model.safetensors"))
    if fault == "changed":  # the next try begins anew
        hub.fault = ""
        assert (open_model("owner/model") / "model.safetensors").exists()
