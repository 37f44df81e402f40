"""Where the repository is, and the button on each page that depends on it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from bs4 import BeautifulSoup

from tools.address import (
    colab_folder,
    page_links,
    plain_address,
    repository_address,
    site_address,
)
from tools.site import build as site

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


def test_page_links_are_those_of_the_host() -> None:
    source, title = "chapters/03-masks.md", "Masks & more"
    links = page_links(ADDRESS, source, title)
    assert links["edit"] == f"{ADDRESS}/edit/main/{source}"
    report = urlsplit(links["report"])
    assert report.path == "/ada/book/issues/new"
    fields = parse_qs(report.query)
    assert fields["title"] == ["Masks & more: "]
    assert source in fields["body"][0]
    links = page_links("https://gitlab.com/ada/book", source, title)
    assert links["edit"] == f"https://gitlab.com/ada/book/-/edit/main/{source}"
    assert "issue[title]" in parse_qs(urlsplit(links["report"]).query)
    assert page_links("https://git.example.org/ada/book", source, title) == {}
    assert page_links(None, source, title) == {}


def test_site_address_is_that_of_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOOK_SITE", raising=False)
    assert site_address("https://github.com/Ada/book") == "https://ada.github.io/book/"
    own = "https://github.com/ada/ada.github.io"
    assert site_address(own) == "https://ada.github.io/"
    assert site_address("https://gitlab.com/ada/book") is None
    assert site_address(None) is None
    monkeypatch.setenv("BOOK_SITE", "https://book.example.org")
    assert site_address(None) == "https://book.example.org/"


# The site's buttons.

Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Build a small site, as often as asked, with the button, theme and style."""
    root = tmp_path_factory.mktemp("small-site")
    contents = "```{toctree}\n../chapters/01-a\n```"
    for name, text in {
        "book/index.md": f"# Welcome\n\n{{pdf}}`On paper`\n\n{contents}\n",
        "chapters/01-a.md": "# A chapter\n\nText.\n",
        "notebooks/01-a.ipynb": "{}",
    }.items():
        (root / name).parent.mkdir()
        (root / name).write_text(text)
    settings = {
        "extensions": "myst_parser,tools.site.launch,tools.site.head",
        "exclude_patterns": "notebooks",
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


TOOLS = ("Open in Colab", "Download notebook", "Edit this page", "Report a mistake")


def buttons(page: Path) -> dict[str, set[str]]:
    """What a page offers to do with it, and where each link leads."""
    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    found: dict[str, set[str]] = {}
    for tag in soup.find_all("a", href=True):
        if tag.get_text().strip() in TOOLS:
            found.setdefault(tag.get_text().strip(), set()).add(str(tag["href"]))
    return found


def test_buttons_follow_the_address(build: Build) -> None:
    for name in ("ada/book", "bob/fork", ""):
        folder = build(GITHUB_REPOSITORY=name)
        chapter = buttons(folder / "chapters/01-a.html")
        assert chapter.pop("Download notebook") == {"../notebooks/01-a.ipynb"}
        assert (folder / "notebooks/01-a.ipynb").read_text() == "{}"
        place = f"https://colab.research.google.com/github/{name}/blob/colab"
        expected = {f"{place}/01-a.ipynb"} if name else set()
        assert chapter.pop("Open in Colab", set()) == expected
        edit = {f"https://github.com/{name}/edit/main/chapters/01-a.md"}
        assert chapter.pop("Edit this page", set()) == (edit if name else set())
        (report,) = chapter.pop("Report a mistake", set()) or {""}
        assert ("A%20chapter" in report) == bool(name)
        assert not chapter
        welcome = buttons(folder / "book/index.html")
        assert {*welcome} == ({"Edit this page", "Report a mistake"} if name else set())
        # What search engines read, too, is written only where the address is known.
        site = f"https://{name.partition('/')[0]}.github.io/{name.partition('/')[2]}/"
        text = (folder / "chapters/01-a.html").read_text(encoding="utf-8")
        assert (f'href="{site}chapters/01-a.html"' in text) == bool(name)
        assert ('rel="canonical"' in text) == bool(name)
        text = (folder / "book/index.html").read_text(encoding="utf-8")
        assert (f'href="{site}book.pdf"' in text) == bool(name)
        for file in ("sitemap.xml", "robots.txt"):
            assert (folder / file).is_file() == bool(name)
            assert not name or site in (folder / file).read_text(encoding="utf-8")


def test_extension_of_the_site_adds_the_button(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class App:
        events: list[str] = []  # noqa: RUF012

        def add_config_value(self, name: str, *_: object) -> None:
            self.events.append(name)

        def connect(self, event: str, *_: object, **__: object) -> None:
            self.events.append(event)

    assert "parts.launch" in site.PARTS
    monkeypatch.setattr(site, "PARTS", ["parts.launch"])
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
