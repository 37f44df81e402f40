"""The whole book as one HTML document: title, contents, pages, solutions."""

import subprocess
import tomllib
from html import escape
from pathlib import Path
from typing import Any

import yaml
from bs4 import Tag

from tools.address import git, repository_address
from tools.export.paper_pages import BLANK, Page, pointer, read_pages

STYLE = Path(__file__).with_name("paper.css")
SHEETS = ("pygments.css", "katex.css")
SITE = "../html"  # from _build/pdf
SOLUTIONS = "Solutions"
FIRST = "About this book"  # the site's first page is called as the book is
LICENCES = """<p>Text and figures: Creative Commons Attribution 4.0 International,
<a href="https://creativecommons.org/licenses/by/4.0/">CC BY 4.0</a>. Code: Apache
License 2.0, <a href="https://www.apache.org/licenses/LICENSE-2.0">Apache-2.0</a>.</p>
<p>Every output on these pages was computed. The site has the same pages, with
what can be touched.</p>"""


def whole_book(root: Path) -> str:
    """Return the document, to be written into `_build/pdf`.

    Raises:
        ValueError: a page is not built, or a link leads nowhere.
    """
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    pages = read_pages(root, SITE)
    _rename(pages[0])
    parts: list[str] = []
    for number, page in enumerate(pages):
        if page.part and (number == 0 or pages[number - 1].part != page.part):
            page.body.insert(0, _part_heading(page.part))
        parts.append(str(page.body))
    title, author = escape(config["title"]), escape(config["author"])
    static = root / "_build/html/_static"
    sheets = [it for it in SHEETS if (static / it).is_file()]
    return "\n".join(
        [
            f'<!doctype html><html lang="en" data-theme="light"><head>'
            f'<meta charset="utf-8"><title>{title}</title>',
            *(f'<link rel="stylesheet" href="{SITE}/_static/{it}">' for it in sheets),
            f"<style>{STYLE.read_text(encoding='utf-8')}{_running(pages)}</style>",
            "</head><body>",
            _title_page(title, author, config, root),
            contents(pages),
            *parts,
            appendix(pages),
            "</body></html>",
        ]
    )


def contents(pages: list[Page]) -> str:
    """Return the table of contents: parts, pages and, in chapters, their sections."""
    lines = ['<nav class="contents" id="contents"><h1>Contents</h1>']
    part = ""
    for page in pages:
        if page.part != part:
            part = page.part
            lines.append(f'<p class="contents-part">{escape(part)}</p>')
        lines.append(_line(page.slug, page.title, "contents-page"))
        if page.name.startswith("chapters/"):
            lines += _sections(page)
    if any(page.solutions for page in pages):
        lines.append(_line("solutions", SOLUTIONS, "contents-page contents-last"))
    return "\n".join([*lines, "</nav>"])


def appendix(pages: list[Page]) -> str:
    """Return the solutions, each with a way back to its exercise."""
    given = [page for page in pages if page.solutions]
    if not given:
        return ""
    lines = ['<section class="page" id="solutions"><h1>Solutions</h1>']
    for page in given:
        lines.append(f"<h2>{escape(page.title)}</h2>")
        for anchor, title, content in page.solutions:
            content.name, content.attrs = "div", {}
            lines.append(
                f'<div class="solution" id="solution--{anchor}">'
                f"<h3>{escape(title)}</h3>{pointer('Exercise', anchor)}{content}</div>"
            )
    return "\n".join([*lines, "</section>"])


def commit_and_date(root: Path) -> str:
    """Return the commit that is checked out and its day, or "" outside of git."""
    try:
        return git(root, "log", "-1", "--format=commit %h, %cs")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _title_page(title: str, author: str, config: dict[str, Any], root: Path) -> str:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    version = f"Version {project['project']['version']}"
    state = ", ".join(it for it in (version, commit_and_date(root)) if it)
    address = repository_address(root)
    logo = f"{SITE}/_static/{Path(config['logo']).name}" if "logo" in config else ""
    return "\n".join(
        [
            '<section class="title-page">',
            f'<img src="{logo}" alt="">' if logo else "",
            f'<p class="title">{title}</p><p class="author">{author}</p>',
            f'<div class="imprint"><p>{state}</p>',
            f'<p><a href="{address}">{address}</a></p>' if address else "",
            f"{LICENCES}</div></section>",
        ]
    )


def _running(pages: list[Page]) -> str:
    """Return the rules that put each page's title on top of its sheets of paper."""
    titles = {page.slug: page.title for page in pages} | {"solutions": SOLUTIONS}
    return "".join(
        f'@page {slug} {{ @top-left {{ content: "{_css(title)}" }} }}\n'
        f"#{slug} {{ page: {slug} }}\n"
        for slug, title in titles.items()
    )


def _css(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _part_heading(part: str) -> Tag:
    heading = Tag(name="h1", attrs={"class": "part"})
    heading.string = part
    return heading


def _rename(page: Page) -> None:
    heading = page.body.find("h2")
    if heading:
        for tag in list(heading.children):
            if not (isinstance(tag, Tag) and tag.get("id")):
                tag.extract()
        heading.append(FIRST)


def _sections(page: Page) -> list[str]:
    """Return a line for each section of a chapter."""
    found = []
    for heading in page.body.find_all("h3"):
        if heading.get("id"):
            text = " ".join(heading.get_text().split())
            found.append(_line(str(heading["id"]), text, "contents-section"))
    return found


def _line(anchor: str, text: str, kind: str) -> str:
    return (
        f'<p class="{kind}"><a href="#{anchor}"><span>{escape(text)}</span>'
        '<span class="dots"></span>'
        f'<span data-page-of="{anchor}">{BLANK}</span></a></p>'
    )
