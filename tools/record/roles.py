"""Roles, links and pictures of a paragraph in, links that work in a notebook out."""

import re
from os.path import relpath
from pathlib import Path

from markdown_it.token import Token

from tools.record.citations import cite
from tools.record.labels import Book, Label
from tools.record.myst import Place, escaped, normal

# What is passed over comes first: escapes, code, formulas.
SPAN = re.compile(
    r"\\.|(?<!`)(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
    r"|(?P<math>\$\$?(?:\\.|[^$\\\n]|\n(?![\n|]))+\$\$?)"
    r"|\{(?P<role>[\w:]+)\}`(?P<content>[^`]+)`"
    r"|(?P<image>!?)\[(?P<text>(?:`[^`]*`|[^][`]|\[[^][]*\])*)\]\((?P<target>\S*?)\)",
    re.DOTALL,
)
ROLES = ("ref", "eq", "numref", "term", "doc", "cite:p", "cite:t")


def plain_spans(text: str, parsed: list[Token], place: Place, book: Book) -> str:
    """Return a text with its roles and links in plain Markdown, all else as it is.

    `parsed` is the text as the site reads it, which says what must be found.

    Raises:
        ValueError: what leads nowhere, or cannot be found.
    """
    found: list[str] = []

    def plain(match: re.Match[str]) -> str:
        here = place.below(text.count("\n", 0, match.start()))
        if match["role"]:
            found.append("myst_role")
            return _role(match["role"], match["content"], here, book)
        if match["target"] is None:
            return match[0]
        found.append("image" if match["image"] else "link_open")
        return _plain_link(match, here, book)

    result = SPAN.sub(plain, text)
    kinds = ("myst_role", "link_open", "image")
    if found != [t.type for t in parsed if t.type in kinds and t.info != "auto"]:
        raise place.error("a link or role stands in another, or is cut; part the two")
    return result


def file_link(target: str, place: Place, book: Book) -> str:
    """Return how the notebook reaches a file that the chapter names."""
    return _path_link(_existing(target, place, book), place)


def _plain_link(match: re.Match[str], place: Place, book: Book) -> str:
    """Return a link or a picture; an empty text becomes the target's own title."""
    text, target = match["text"], match["target"]
    if re.match(r"[a-z]+:", target):
        return match[0]
    if match["image"]:
        return f"![{text}]({file_link(target, place, book)})"
    link, title = _link(target, place, book)
    return f"[{text or _titled(title, target, place)}]({link})"


def _role(name: str, content: str, place: Place, book: Book) -> str:
    """Return a role as a link: its own text, or the title of what it names."""
    match = re.fullmatch(r"(.+?)\s*<([^<>]+)>", " ".join(content.split()))
    text, target = (match[1], match[2]) if match else ("", content.strip())
    if name.startswith("cite:") and name in ROLES:
        keys = re.split(r"\s*,\s*", target)
        links = cite(keys, book.entries, place, in_text=name == "cite:t")
        book.cited.update(keys)
        return links
    if name == "term":
        if target.lower() not in book.terms:
            raise place.error(f"unknown term {target!r}; add it to book/glossary.md")
        link, title = "../book/glossary.md", escaped(target)
    elif name == "doc":
        link, title = _link(f"{target}.md", place, book)
    elif name == "ref":
        label = _label(target, place, book)
        link, title = _label_link(label, place), label.title
    elif name == "eq":
        label = _numbered("equation", target, place, book)
        link, title = _label_link(label, place), f"({label.number})"
    elif name == "numref":
        label = _numbered("figure", target, place, book)
        link, title = _label_link(label, place), f"Figure {label.number}"
        text = text.replace("%s", label.number)
    else:
        raise place.error(f"unknown role {{{name}}}; use one of {', '.join(ROLES)}")
    return f"[{escaped(text) or _titled(title, target, place)}]({link})"


def _link(target: str, place: Place, book: Book) -> tuple[str, str]:
    """Return where a Markdown link leads from the notebook, and its target's title."""
    name, _, label_name = target.partition("#")
    if not name:
        label = _label(label_name, place, book)
        number = f"({label.number})" if label.kind == "equation" else ""
        return _label_link(label, place), number or label.title
    path = _existing(name, place, book)
    if label_name:  # MyST looks for a heading's slug there, not for a label
        raise place.error(f"the site does not find {target}; write #{label_name}")
    return _path_link(path, place), book.titles.get(path, "")


def _label(name: str, place: Place, book: Book) -> Label:
    """Find a label."""
    label = book.labels.get(normal(name))
    if label is None:
        raise place.error(f"unknown label {name!r}; correct it, or add ({name})=")
    return label


def _numbered(kind: str, name: str, place: Place, book: Book) -> Label:
    """Find a label that has a number."""
    label = _label(name, place, book)
    if label.kind != kind or not label.number:
        raise place.error(f"{name!r} is no numbered {kind}; refer to it with {{ref}}")
    return label


def _titled(title: str, target: str, place: Place) -> str:
    """Return a title, which must not be empty."""
    if not title:
        raise place.error(f"{target!r} has no title; give the reference a text")
    return title


def _label_link(label: Label, place: Place) -> str:
    """Return the address of a label, seen from the notebook of `place`."""
    if label.place.path == place.path:
        return f"#{label.name}"
    link = _path_link(label.place.path, place)
    return f"{link}#{label.name}" if link.endswith(".ipynb") else link


def _path_link(path: Path, place: Place) -> str:
    """Return a file's address: of a chapter its notebook, else the file itself."""
    if path.parent == place.path.parent and path.suffix == ".md":
        return f"{path.stem}.ipynb"
    return Path(relpath(path, place.path.parent.parent / "notebooks")).as_posix()


def _existing(target: str, place: Place, book: Book) -> Path:
    """Return the file that a link names, from the chapter or from the book's root."""
    base = book.root if target.startswith("/") else place.path.parent
    path = Path(relpath(base / target.lstrip("/"), book.root))
    if not (book.root / path).is_file():
        raise place.error(f"there is no file {target}; correct the link")
    return book.root / path
