"""Nothing that people are given tells of a machine or a person."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbformat.v4 import writes as as_json

from tools.check.traces import book_files, file_traces, main, notebook_traces
from tools.record import private
from tools.record.private import details, own_names
from tools.record.rules import record_faults

# Put together here, so that no search for leaked keys finds them in this file.
GITHUB, AMAZON, FACE = "ghp" + "_", "AK" + "IA", "hf" + "_"
GIVEN_AWAY = {
    "an absolute path": [
        "open('/home/anna/book/x.py')",
        "/root/x.py:3",
        "/tmp/ipykernel_7/1.py",
        "see /Users/anna",
        "/mnt/disk/book",
        "/workspace/book",
        r"C:\Users\anna",
        r"D:\work\book",
        "file:///srv/book",
    ],
    "a mail address": [
        "ask anna@lab.org",
        "anna.b+book@cs.lab.ac.uk.",
        "<anna@lab.de>",
        "(anna@mail.lab.com)",
    ],
    "an account on a machine": [
        "anna@box:~$ make",
        "anna@box:/srv",
        "scp x anna@b1:~/",
    ],
    "a token": [
        GITHUB + "a1" * 18,
        "github" + "_pat_" + "a1" * 20,
        "gl" + "pat-" + "a1" * 10,
        FACE + "aB" * 17,
        "key = 's" + "k-" + "proj-" + "a1" * 12 + "'",
        "AI" + "za" + "a1_" * 11 + "zz",
        AMAZON + "Z1" * 8,
        "xo" + "xb-" + "123456789-abc",
        "npm" + "_" + "a1" * 18,
        "py" + "pi-" + "A1" * 30,
        "-----BEGIN " + "OPENSSH PRIVATE KEY-----",
        "ey" + "JhbGciOiJI." + "ey" + "JzdWIiOiIx.abc",
        "http://localhost:8888/lab?token=" + "0f" * 12,
        "https://anna:secret@lab.org/x.git",
    ],
    "a machine's name": [
        "anna-laptop.local",
        "on ip-10-1-2-3.eu.compute.internal",
        "nas.lan",
        "x.localdomain",
    ],
    "a network card": ["link 52:54:00:a1:b2:c3"],
    "a machine's address": [
        "host 10.1.2.3",
        "192.168.0.17:22",
        "(172.16.4.1)",
        "from 93.184.215.14.",
        "169.254.169.254",
        "fe80::a1b2:1",
        "2a01:4f8:c17:b0f::2",
        "http://lab.org:8888/x",
        "http://buildbox/x",
        "https://1.1.1.1/dns",
        "http://[fe80::1:2]/",
    ],
}
HARMLESS = [
    "jupyter-book 1.0.4.1, torch==13.2.0.1, types-docutils 0.21.0.20250809",
    "Section 3.2.2.1 of the paper",
    "weights@value, query@key.mT, (query @ key.transpose(-2, -1))",
    "query@key.to(device)",
    "x[::2], x[1::2], x[1000::2], x[:, :, None], a[::-1]",
    "at 12:34:56 or 00:01:02.5, ratio 1:2:3 or 1::2:3",
    "loss 10.25, 10.125, [0.5 0.25 0.125]",
    r"$W_Q:\mathbb{R}^{4}$, $Q:\alpha$, f:\ x",
    "threading.local(), self.internal.x, lanes, locally",
    "https://arxiv.org/abs/1706.03762v7, https://doi.org/10.1109/72.279181",
    "https://lab.org/home/anna and https://x.org/tmp/y",
    "http://localhost:8000, http://127.0.0.1:8888/lab, 0.0.0.0, ::1",
    "192.0.2.7, 198.51.100.1, 203.0.113.9, 2001:db8:a1b2::1",
    "you@example.org, http://host.example.com:8080/x",
    "notebooks/03-masks.ipynb, ../attention_lib/masks.py, and/or/tmp",
    "@pytest.mark.skip, @torch.no_grad()",
    "task-based risk-averse sk-learn",
]


@pytest.mark.parametrize("path", book_files(), ids=lambda path: path.name)
def test_book_gives_nothing_away(path: Path) -> None:
    assert file_traces(path) == []


def test_book_files_hold_notebooks_chapters_and_pages() -> None:
    folders = {path.parent.name for path in book_files()}
    assert {"notebooks", "chapters", "book"} <= folders


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, it in GIVEN_AWAY.items() for text in it]
)
def test_details_are_found(kind: str, text: str) -> None:
    assert any(found.startswith(f"{kind}: ") for found in details(text))


def test_every_pattern_has_its_mistake() -> None:
    assert {*private.PATTERNS, "a machine's address"} == set(GIVEN_AWAY)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_harmless_passes(text: str) -> None:
    assert details(text) == []


@pytest.fixture
def anna(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine of that name, and its user."""
    monkeypatch.setattr(private.getpass, "getuser", lambda: "annab")
    monkeypatch.setattr(private.Path, "home", lambda: Path("/srv/homes/annabel"))
    monkeypatch.setattr(private.socket, "gethostname", lambda: "workhorse")
    own_names.cache_clear()
    yield
    own_names.cache_clear()


@pytest.mark.usefixtures("anna")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("made by annab", "an account's name"),
        ("~annabel/x", "an account's name"),
        ("workhorse: done", "a machine's name"),
        ("in /srv/homes/annabel", "an absolute path"),
        (f"in {private.ROOT}/x", "an absolute path"),
    ],
)
def test_names_of_this_machine_are_found(text: str, kind: str) -> None:
    assert f"{kind}: " in " ".join(details(text))


@pytest.mark.usefixtures("anna")
def test_parts_of_other_words_are_no_names() -> None:
    assert details("annabelle, workhorses, hannab") == []


@pytest.mark.usefixtures("anna")
@pytest.mark.parametrize("name", ["max", "runner", "ubuntu"])
def test_account_named_by_a_word_is_no_trace(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(private.getpass, "getuser", lambda: name)
    assert details(f"x.{name}(), the {name} of all") == []


@pytest.mark.usefixtures("anna")
def test_account_without_a_name_is_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise OSError("No username set in the environment")

    monkeypatch.setattr(private.getpass, "getuser", nameless)
    assert details("anything") == []


# Where they are looked for.

TRACE = "first\n/home/anna/x"


def output(mime: str, value: object) -> object:
    """An output of one kind."""
    return new_output("display_data", data={mime: value})


@pytest.mark.parametrize(
    "cell",
    [
        new_markdown_cell(TRACE),
        new_code_cell(TRACE),
        new_code_cell("x", metadata={"mystnb": {"image": {"alt": TRACE}}}),
        new_code_cell("x", metadata={TRACE: 1}),
        new_code_cell("x", outputs=[new_output("stream", text=TRACE)]),
        new_code_cell("x", outputs=[output("text/html", TRACE)]),
        new_code_cell("x", outputs=[output("image/svg+xml", TRACE)]),
        new_code_cell("x", outputs=[output("application/json", {"a": [TRACE]})]),
        new_code_cell("x", outputs=[new_output("error", traceback=[TRACE])]),
    ],
    ids=["text", "code", "option", "key", "print", "html", "svg", "json", "error"],
)
def test_every_part_of_a_cell_is_read(cell: object) -> None:
    found = notebook_traces(new_notebook(cells=[cell]))
    assert [it.split(": ", 1)[1] for it in found] == [
        "an absolute path: '/home/anna/x'"
    ]


def test_metadata_of_a_notebook_is_read() -> None:
    notebook = new_notebook(metadata={"authors": [{"name": "a@lab.org"}]})
    assert notebook_traces(notebook) == ["metadata: a mail address: 'a@lab.org'"]


def test_letters_of_a_picture_are_not_read() -> None:
    picture = output("image/png", "iVBO/tmp/" + AMAZON + "Z1" * 8)
    assert (
        notebook_traces(new_notebook(cells=[new_code_cell("x", outputs=[picture])]))
        == []
    )


def test_recording_refuses_a_token_in_an_output() -> None:
    made = [new_output("stream", text=GITHUB + "a1" * 18)]
    notebook = new_notebook(cells=[new_code_cell("x", execution_count=1, outputs=made)])
    assert "its record holds a token" in record_faults(notebook)[0]


def test_command_names_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, notebook = tmp_path / "page.md", tmp_path / "n.ipynb"
    page.write_text("# Page\n\nmail a@lab.org\n")
    notebook.write_text(as_json(new_notebook(cells=[new_markdown_cell("nas.lan")])))
    monkeypatch.setattr("sys.argv", ["traces", str(page), str(notebook)])
    assert main() == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{page}: line 3: a mail address: 'a@lab.org'",
        f"{notebook}: cell 1, source: a machine's name: 'nas.lan'",
    ]
