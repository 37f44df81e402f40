"""Where the repository is, and the button on each page that depends on it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from tools import site
from tools.address import colab_folder, plain_address, repository_address

ROOT = Path(__file__).resolve().parents[1]
ADDRESS = "https://github.com/ada/book"
COLAB = "https://colab.research.google.com/github/ada/book/blob/colab"

# The address.


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No CI says where the repository is."""
    for name in ("GITHUB_REPOSITORY", "GITHUB_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)


def repository(folder: Path, remote: str | None) -> Path:
    """A repository without commits."""
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    if remote:
        command = ["git", "remote", "add", "origin", remote]
        subprocess.run(command, cwd=folder, check=True)
    return folder


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://github.com/ada/book", ADDRESS),
        ("https://github.com/ada/book.git", ADDRESS),
        ("https://github.com/ada/book/", ADDRESS),
        ("https://ada:ghp_secret@github.com/ada/book.git", ADDRESS),
        ("https://x-access-token:secret@github.com/ada/book", ADDRESS),
        ("git@github.com:ada/book.git", ADDRESS),
        ("github.com:ada/book", ADDRESS),
        ("ssh://git@github.com/ada/book.git", ADDRESS),
        (
            "ssh://git@git.example.org:2222/a/b/book.git",
            "https://git.example.org/a/b/book",
        ),
        (
            "https://git.example.org:8443/ada/book",
            "https://git.example.org:8443/ada/book",
        ),
        ("git://example.org/book.git", "https://example.org/book"),
        ("http://example.org/book.git", "http://example.org/book"),
        ("/srv/git/book.git", None),
        ("../book.git", None),
        ("C:/books/book", None),
        ("file:///srv/git/book.git", None),
        ("https://github.com", None),
    ],
)
def test_address_is_what_a_browser_opens(remote: str, address: str | None) -> None:
    assert plain_address(remote) == address


@pytest.mark.usefixtures("nowhere")
def test_address_comes_from_the_remote(tmp_path: Path) -> None:
    root = repository(tmp_path / "fork", "git@github.com:bob/fork.git")
    assert repository_address(root) == "https://github.com/bob/fork"


def test_address_of_ci_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "fork", "git@github.com:bob/fork.git")
    monkeypatch.setenv("GITHUB_REPOSITORY", "ada/book")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://git.example.org")
    assert repository_address(root) == "https://git.example.org/ada/book"
    monkeypatch.delenv("GITHUB_SERVER_URL")
    assert repository_address(root) == ADDRESS


@pytest.mark.usefixtures("nowhere")
def test_address_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outer = repository(tmp_path / "outer", "git@github.com:bob/other.git")
    inner = outer / "a-copy-of-the-book"
    inner.mkdir()
    assert repository_address(inner) is None
    assert repository_address(repository(tmp_path / "new", None)) is None
    (tmp_path / "plain").mkdir()
    assert repository_address(tmp_path / "plain") is None
    monkeypatch.setenv("PATH", str(tmp_path))  # no git
    assert repository_address(outer) is None


def test_colab_opens_from_github_only() -> None:
    assert colab_folder(ADDRESS) == COLAB
    assert colab_folder("https://git.example.org/ada/book") is None
    assert colab_folder("https://github.com/ada") is None
    assert colab_folder(None) is None


# The site's button.

Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Build a small site, as often as asked, with the button, theme and style."""
    root = tmp_path_factory.mktemp("small-site")
    for name, text in {
        "book/index.md": "# Welcome\n\n```{toctree}\n../chapters/01-a\n```\n",
        "chapters/01-a.md": "# A chapter\n\nText.\n",
    }.items():
        (root / name).parent.mkdir()
        (root / name).write_text(text)
    settings = {
        "extensions": "myst_parser,tools.launch",
        "html_theme": "sphinx_book_theme",
        "root_doc": "book/index",
        "html_static_path": str(ROOT / "book/_static"),
        "html_css_files": "book.css",
    }

    def make(**env: str) -> Path:
        command = [sys.executable, "-m", "sphinx", "-W", "-q", "-C", "-b", "html"]
        for name, value in settings.items():
            command += ["-D", f"{name}={value}"]
        known = {k: v for k, v in os.environ.items() if not k.startswith("GITHUB_")}
        done = subprocess.run(
            [*command, str(root), str(root / "html")],
            cwd=root,
            env={**known, "PYTHONPATH": str(ROOT), **env},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return root / "html"

    return make


def buttons(page: Path) -> list[str]:
    """Where the links of a page to Colab lead."""
    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    hrefs = [str(tag["href"]) for tag in soup.find_all("a", href=True)]
    return [href for href in hrefs if "colab" in href]


def test_button_follows_the_address(build: Build) -> None:
    for name in ("ada/book", "bob/fork", ""):
        folder = build(GITHUB_REPOSITORY=name)
        place = f"https://colab.research.google.com/github/{name}/blob/colab"
        expected = [f"{place}/01-a.ipynb"] if name else []
        assert buttons(folder / "chapters/01-a.html") == expected
        assert buttons(folder / "book/index.html") == []


def test_extension_of_the_site_adds_the_button() -> None:
    class App:
        events: list[str] = []  # noqa: RUF012

        def add_config_value(self, name: str, *_: object) -> None:
            self.events.append(name)

        def connect(self, event: str, *_: object, **__: object) -> None:
            self.events.append(event)

    site.setup(App())
    assert {"book_colab_folder", "html-page-context"} <= {*App.events}


def test_address_makes_the_site_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in site.SETTINGS:
        (tmp_path / name).touch()
    monkeypatch.setenv("GITHUB_REPOSITORY", "ada/book")
    before = site.digest(tmp_path)
    assert site.digest(tmp_path) == before
    monkeypatch.setenv("GITHUB_REPOSITORY", "bob/fork")
    assert site.digest(tmp_path) != before
