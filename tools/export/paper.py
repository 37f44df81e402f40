"""The pages of the built site as one document for paper, laid out by paper.html."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Tag
from jinja2 import Environment, FileSystemLoader

from tools.address import repository_address
from tools.chapters import ROOT, files, read_yaml
from tools.site.languages import edition
from tools.site.scripts import VIEWS, styles
from tools.words import say

SITE = "../html"  # from _build/pdf
# Nothing to click on paper, and the code of plots, which pages fold away too. A page's
# own contents repeat the headings below them.
LEFT_OUT = (
    "script, style, button, .headerlink, .copybtn, .sd-summary-state-marker, [hidden], "
    "details.hide.above-input, details.hide > summary, nav.contents, .ways, "
    ".hero details"
)
LONG = 25  # lines of code that may stand on two sheets
HEADINGS = ["h1", "h2", "h3", "h4", "h5"]
MOVED = say("chapter.solution"), say("quiz.answers")


@dataclass(frozen=True)
class Page:
    """One page of the site, ready for paper."""

    name: str
    part: str
    body: Tag
    samples: list[str]
    moved: list[tuple[str, str, str]]

    @property
    def contents(self) -> dict[str, str]:
        """Return the anchors and titles of the page and of a chapter's sections."""
        chapter = self.name.startswith("chapters/")
        found = self.body.select("h2[id], h3[id]", limit=0 if chapter else 1)
        return {str(it["id"]): " ".join(it.get_text().split()) for it in found}


def read_pages(root: Path) -> list[Page]:
    """Return every page of `_toc.yml` in its order, but for what waits in English."""
    toc, known = read_yaml(root / "_toc.yml"), edition(root)

    def names(part: Any) -> list[str]:
        found = [it.removesuffix(".md") for it in files(part)]
        own = known.get("ids", found)
        return [it for it in found if it in own and it not in known.get("english", ())]

    first = {its[0]: it["caption"] for it in toc["parts"] if (its := names(it))}
    found = [toc["root"].removesuffix(".md"), *names(toc)]
    pages = [_page(root / "_build/html", it, first.get(it, ""), found) for it in found]
    pages[0].body.select("h2")[0].string = say("paper.about")
    return pages


def document(root: Path, pages: list[Page], state: str) -> str:
    """Return the document, for `_build/pdf`."""
    drawn = any(page.body.select_one(".sentence-lines") for page in pages)
    here = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    return here.get_template("paper.html").render(
        site=SITE,
        config=read_yaml(root / "_config.yml"),
        address=repository_address(root),
        state=state,
        pages=pages,
        say=say,
        # A drawing that is made of words has its style from its view.
        views=styles(ROOT / VIEWS, "sentence") if drawn else {},
    )


def anchor(name: str, fragment: str = "") -> str:
    """Return an anchor's name in the document: each page has its own `exercises`."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return f"{slug}--{fragment}" if fragment else slug


def _page(site: Path, name: str, part: str, known: list[str]) -> Page:
    """Convert a page for the screen to one for paper."""
    path = site / f"{name}.html"
    if not path.is_file():
        raise ValueError(f"{path} is not there: run `make book` first")
    page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    body = page.select_one("article.bd-article")
    if body is None:
        raise ValueError(f"{path} has no article: the theme has changed")
    body.name, body["class"] = "section", "page"
    for tag in body.select(LEFT_OUT):
        tag.decompose()
    plain = [it for it in body.find_all(["p", "pre"]) if not it.find(class_="math")]
    samples = [it.get_text() for it in plain]
    for code in (it for it in plain if it.get_text().count("\n") > LONG):
        code["class"] = "long"
    for tag in body.select("[id]:not(svg *)"):
        tag["id"] = anchor(name, str(tag["id"]))
    body["id"] = anchor(name)
    _lead_inside(body, name, known)
    for heading in body.find_all(HEADINGS):
        heading.name = f"h{int(heading.name[1]) + 1}"
    # A section may begin on the sheet before its heading: the heading gets its anchor.
    for section in body.select("section[id]"):
        title = section.find([*HEADINGS, "h6"], recursive=False)
        if isinstance(title, Tag) and not title.get("id"):
            title["id"] = section.attrs.pop("id")
            for span in title.find_previous_siblings("span", id=True):
                title.insert(0, span.extract())
    moved = list(_moved(body, name))
    for folded in body.find_all("details"):
        if summary := folded.summary:
            summary.name, summary["class"] = "p", "unfolded-title"
        folded.name, folded["class"] = "div", "unfolded" if summary else "shown"
    if part:
        body.insert(0, BeautifulSoup(f'<h1 class="part">{part}</h1>', "html.parser"))
    return Page(name, part, body, samples, moved)


def _lead_inside(body: Tag, name: str, known: list[str]) -> None:
    """Make links and pictures of a page lead to the same places in the document."""
    folder = posixpath.dirname(name)
    for image in body.find_all("img"):
        image["src"] = posixpath.normpath(f"{SITE}/{folder}/{image['src']}")
        image.attrs.pop("loading", None)  # what is not in sight would never come
    for link in body.find_all("a", href=True):
        parts = urlsplit(str(link["href"]))
        path = posixpath.normpath(posixpath.join(folder, unquote(parts.path)))
        other = path.removesuffix(".html") if parts.path else name
        if other in known:
            link["href"] = f"#{anchor(other, unquote(parts.fragment))}"
        elif not parts.scheme:
            link.unwrap()  # a list of all names, a file to download


def _moved(body: Tag, name: str) -> Iterator[tuple[str, str, str]]:
    """Take solutions and answers out, and leave lines that say where they are."""
    questions = 0
    for folded in body.find_all("details"):
        word = folded.summary.get_text().strip() if folded.summary else ""
        if folded.summary is None or word not in MOVED:
            continue
        quiz = folded.find_parent(class_="quiz")
        owner = quiz or folded.find_previous(class_="exercise")
        asked = owner and owner.select_one(".admonition-title, .quiz-question")
        if not owner or not asked or not owner.get("id"):
            raise ValueError(f"{name}: {word!r} follows no exercise with a name")
        title, place = asked.get_text(), str(owner["id"])
        if quiz:
            questions += 1
            title = say("paper.question", number=questions)
            asked.insert(0, f"{title}. ")
        folded.summary.replace_with(_pointer(say("paper.back"), place))
        folded.replace_with(_pointer(word, f"end--{place}"))
        yield place, title, folded.decode_contents()


def _pointer(word: str, place: str) -> Tag:
    """Return a line that leads to an anchor, with its page number to be filled in."""
    number = f'<span data-page-of="{place}">000</span>'
    words = say("paper.pointer", what=word, page=number)
    text = f'<p class="pointer"><a href="#{place}">{words}</a></p>'
    return BeautifulSoup(text, "html.parser")
