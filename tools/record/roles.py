"""Roles, links and pictures of a paragraph in, links that work in a notebook out."""

import re
from os.path import normpath, relpath
from pathlib import Path

from markdown_it.token import Token

from tools.record.book import SPANS, Book, Place, escaped, normal
from tools.record.citations import cite

# What is passed over comes first: escapes, code, formulas.
SPAN = re.compile(
    r"\\.|(?<!`)(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
    r"|(?P<math>\$\$?(?:\\.|[^$\\\n]|\n(?![\n|]))+\$\$?)"
    r"|\{(?P<role>[\w:]+)\}`(?P<content>[^`]+)`"
    r"|(?<!!)\[(?P<text>(?:`[^`]*`|[^][`]|\[[^][]*\])*)\]\((?P<target>\S*?)\)",
    re.DOTALL,
)
ROLES = ("ref", "eq", "numref", "term", "doc", "cite:p", "cite:t")


def plain_spans(text: str, parsed: list[Token], place: Place, book: Book) -> str:
    """Return a text with its roles and links in plain Markdown, all else unchanged.

    `parsed` is the text as the site reads it, which says what must be found.
    """
    found: list[str] = []

    def plain(match: re.Match[str]) -> str:
        here = place.below(text.count("\n", 0, match.start()))
        if match["role"]:
            found.append("myst_role")
            return _role(match["role"], match["content"], here, book)
        if match["target"] is None:
            return match[0]
        found.append("link_open")
        return _plain_link(match, here, book)

    result = SPAN.sub(plain, text)
    if found != [t.type for t in parsed if t.type in SPANS and t.info != "auto"]:
        raise place.error("a link or role stands in another; or a picture in a text")
    return result


def file_link(target: str, place: Place) -> str:
    """Return how the notebook reaches a file that the chapter names."""
    return _path_link(_path(target, place), place)


def _plain_link(match: re.Match[str], place: Place, book: Book) -> str:
    """Return a link; an empty text becomes the target's own title."""
    text, target = match["text"], match["target"]
    if target.startswith("view:"):  # sets a view of the page; a notebook's are not set
        return text
    if re.match(r"[a-z]+:", target):
        return match[0]
    link, title = _link(target, place, book)
    return _titled(text, title, link, target, place)


def _role(name: str, content: str, place: Place, book: Book) -> str:
    """Return a role as a link: its own text, or the title of what it names."""
    content = " ".join(content.split())
    match = re.fullmatch(r"(.+?)\s*<([^<>]+)>", content)
    text, target = match.groups() if match else ("", content)
    if name not in ROLES:
        raise place.error(f"unknown role {{{name}}}; use one of {', '.join(ROLES)}")
    if name.startswith("cite:"):
        keys = re.split(r"\s*,\s*", target)
        links = cite(keys, book.entries, place, in_text=name == "cite:t")
        book.cited.update(keys)
        return links
    if name == "term":
        return f"[{escaped(text or target)}](../book/glossary.md)"
    named = f"{target}.md" if name == "doc" else f"#{target}"
    link, title = _link(named, place, book)
    return _titled(escaped(text), title, link, target, place)


def _titled(text: str, title: str, link: str, target: str, place: Place) -> str:
    """Return a link with its own text, or with the title of what it names."""
    if not (text or title):
        raise place.error(f"{target!r} has no title; give the reference a text")
    return f"[{text or title}]({link})"


def _link(target: str, place: Place, book: Book) -> tuple[str, str]:
    """Return where a link leads from the notebook, and its target's title."""
    if not target.startswith("#"):
        path = _path(target, place)
        return _path_link(path, place), book.titles.get(path, "")
    name = target[1:]
    label = book.labels.get(normal(name))
    if label is None:
        raise place.error(f"unknown label {name!r}; correct it, or add ({name})=")
    path = label.place.path
    link = "" if path == place.path else _path_link(path, place)
    link += "" if link.endswith(".md") else f"#{label.name}"  # a page has no anchors
    return link, label.title


def _path_link(path: Path, place: Place) -> str:
    """Return a file's address: for a chapter its notebook, else the file itself."""
    if path.parent == place.path.parent and path.suffix == ".md":
        return f"{path.stem}.ipynb"
    return Path(relpath(path, place.path.parent.parent / "notebooks")).as_posix()


def _path(target: str, place: Place) -> Path:
    """Return the file that a link names."""
    path = Path(normpath(place.path.parent / target))
    if not path.is_file():
        raise place.error(f"there is no file {target}; correct the link")
    return path
