"""The pages of the built site as the parts of one document for paper.

A part's anchors get the page's name in front, since each page has its own `exercises`.
What a reader would click is opened, left out, or moved: solutions go to the appendix.
"""

import copy
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Tag
from sphinx_external_toc.api import Document, SiteMap
from sphinx_external_toc.parsing import parse_toc_yaml

from tools.check.pages import parsed

# Nothing to click on paper, and the code of plots, which pages fold away too. A page's
# own contents repeat the headings below them.
LEFT_OUT = (
    "script, style, button, .headerlink, .copybtn, .sd-summary-state-marker, "
    "details.hide.above-input, details.hide > summary, nav.contents"
)
LONG = 25  # lines of code that may stand on two pages
HEADINGS = [f"h{level}" for level in range(1, 7)]
REFERENCES = ("for", "aria-labelledby", "aria-describedby", "headers")
BLANK = "000"  # as wide as any page's number


@dataclass
class Page:
    """One page of the site, ready for paper.

    Attributes:
        name: where Sphinx has it, such as `chapters/03-masks`.
        part: the caption that it stands under, or "" before the first.
        body: its content, headings one level lower than on the site.
        solutions: of each exercise the anchor, the title and what was folded.
    """

    name: str
    part: str
    body: Tag
    solutions: list[tuple[str, str, Tag]] = field(default_factory=list)

    @property
    def slug(self) -> str:
        """The page's own anchor."""
        return slug(self.name)

    @property
    def title(self) -> str:
        """The text of its first heading."""
        heading = self.body.find("h2")
        return " ".join(heading.get_text().split()) if heading else self.name


def read_pages(root: Path, home: str) -> list[Page]:
    """Return every page of `_toc.yml` in its order, its links leading inside.

    `home` is the path from the document to the site; pictures come from there.

    Raises:
        ValueError: a page is not built, or a link leads to no anchor.
    """
    site = root / "_build/html"
    names = list(page_names(parse_toc_yaml(str(root / "_toc.yml"))))
    pages = [Page(name, part, _body(site, name)) for name, part in names]
    for page in pages:
        _prepare(page)
    known = {page.name for page in pages}
    for page in pages:
        _lead_inside(page, known, home)
    anchors = {str(it["id"]) for page in pages for it in page.body.select("[id]")}
    anchors |= {page.slug for page in pages}
    for page in pages:
        for link in page.body.select("a[href^='#']:not(:has([data-page-of]))"):
            if str(link["href"])[1:] not in anchors:
                raise ValueError(f"{page.name}: {link['href']} leads to no anchor")
    return pages


def page_names(toc: SiteMap) -> Iterator[tuple[str, str]]:
    """Yield each page's name and the caption of its part, in reading order."""

    def below(document: Document, part: str) -> Iterator[tuple[str, str]]:
        for tree in document.subtrees:
            caption = part or tree.caption or ""
            for item in map(str, tree.items):
                name = item.removesuffix(".md")
                yield name, caption
                yield from below(toc[item], caption)

    yield str(toc.root.docname).removesuffix(".md"), ""
    yield from below(toc.root, "")


def slug(name: str) -> str:
    """Return a page's name as an anchor: `chapters-03-masks`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _body(site: Path, name: str) -> Tag:
    """Return what stands on a page beside the theme's frame."""
    path = site / f"{name}.html"
    if not path.is_file():
        raise ValueError(f"{path} is not there: run `make book` first")
    article = parsed(path).select_one("article.bd-article")
    if article is None:
        raise ValueError(f"{path} has no article: the theme has changed")
    # A tree of its own, which may be changed: others read the page, too.
    fresh = copy.copy(article)
    fresh.name, fresh["class"], fresh["id"] = "section", "page", slug(name)
    return fresh


def _prepare(page: Page) -> None:
    """Make of a page for the screen one for paper."""
    for tag in page.body.select(LEFT_OUT):
        tag.decompose()
    for image in page.body.select("img[loading]"):
        del image["loading"]  # what is not in sight would never come
    for link in page.body.select("a.image-reference, a.toc-backref"):
        link.unwrap()
    for level in range(5, 0, -1):
        for heading in page.body.find_all(f"h{level}"):
            heading.name = f"h{level + 1}"
    for code in page.body.find_all("pre"):
        if code.get_text().count("\n") > LONG:
            code["class"] = "long"
    for heading in page.body.find_all(HEADINGS):
        _anchor(heading)
    _move_solutions(page)
    _move_answers(page)
    for folded in page.body.find_all("details"):
        _unfold(folded)


def _anchor(heading: Tag) -> None:
    """Give a heading the anchors of its section, which may begin a page earlier."""
    section = heading.parent
    if section is None or section.name != "section" or not section.get("id"):
        return
    if heading.find_previous_sibling(HEADINGS):
        return
    for span in section.find_all("span", id=True, recursive=False):
        if span in heading.previous_siblings and not span.get_text():
            heading.insert(0, span.extract())
    if not heading.get("id") and section.get("class") != "page":
        heading["id"] = section["id"]
        del section["id"]


def _move_solutions(page: Page) -> None:
    """Take each solution out, and leave a line that says where it stands."""
    for folded in page.body.select("details.sd-dropdown"):
        content = folded.select_one(".sd-summary-content")
        if _summary(folded) != "Solution" or content is None:
            continue
        exercise = folded.find_previous(class_="exercise")
        title = exercise.select_one(".admonition-title") if exercise else None
        if exercise is None or title is None or not exercise.get("id"):
            raise ValueError(f"{page.name}: a solution follows no exercise with a name")
        anchor = f"{page.slug}--{exercise['id']}"
        page.solutions.append((anchor, title.get_text(), content.extract()))
        folded.replace_with(pointer("Solution", f"solution--{anchor}"))


def _move_answers(page: Page) -> None:
    """Put what quizzes tell behind the last of them, out of sight of the questions."""
    quizzes = page.body.select(".quiz")
    if not quizzes:
        return
    answers = Tag(name="div", attrs={"class": "answers"})
    title = Tag(name="p", attrs={"class": "answers-title"})
    title.string = "Answers"
    answers.append(title)
    for number, quiz in enumerate(quizzes, 1):
        folded, question = quiz.select_one("details"), quiz.select_one("p")
        if folded is None or question is None or folded.summary is None:
            raise ValueError(f"{page.name}: a quiz has no question, or no answers")
        question.insert(0, f"Question {number}. ")
        folded.summary.string = f"Question {number}"
        answers.append(folded.extract())
    quizzes[-1].insert_after(answers)


def pointer(word: str, anchor: str) -> Tag:
    """Return a line that leads to a place, with the number of its page, yet unknown."""
    text = (
        f'<p class="pointer"><a href="#{anchor}">{word}: page '
        f'<span data-page-of="{anchor}">{BLANK}</span></a></p>'
    )
    line = BeautifulSoup(text, "html.parser").p
    assert line is not None
    return line


def _summary(folded: Tag) -> str:
    return folded.summary.get_text().strip() if folded.summary else ""


def _unfold(folded: Tag) -> None:
    """Show what is folded, under its title where it has one."""
    if not folded.summary:
        folded.unwrap()
        return
    title = folded.summary
    title.name, title.attrs = "p", {"class": "unfolded-title"}
    folded.name, folded["class"] = "div", "unfolded"


def _lead_inside(page: Page, known: set[str], home: str) -> None:
    """Give anchors and links the names that they have in the whole document."""
    folder = posixpath.dirname(page.name)
    parts = [page.body, *(content for _, _, content in page.solutions)]
    for tag in (it for part in parts for it in part.select("[id]")):
        tag["id"] = f"{page.slug}--{tag['id']}"
    for name in REFERENCES:
        for tag in (it for part in parts for it in part.select(f"[{name}]")):
            ids = tag.get_attribute_list(name)
            tag[name] = " ".join(f"{page.slug}--{it}" for it in ids)
    for link in (it for part in parts for it in part.select("a[href]")):
        _lead(link, page, folder, known)
    for part in parts:
        for image in part.select("img[src]"):
            if not urlsplit(str(image["src"])).scheme:
                path = posixpath.join(home, folder, str(image["src"]))
                image["src"] = posixpath.normpath(path)


def _lead(link: Tag, page: Page, folder: str, known: set[str]) -> None:
    """Turn a link to another page into one to its part; drop one that leads nowhere."""
    parts = urlsplit(str(link["href"]))
    if parts.scheme or parts.netloc or "data-page-of" in str(link):
        return
    path = posixpath.normpath(posixpath.join(folder, unquote(parts.path)))
    name = path.removesuffix(".html") if parts.path else page.name
    if name not in known:
        link.unwrap()  # a list of all names, a file to download
        return
    fragment = f"--{unquote(parts.fragment)}" if parts.fragment else ""
    link["href"] = f"#{slug(name)}{fragment}"
