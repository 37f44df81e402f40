"""MyST roles and links as plain Markdown links, which work in a notebook."""

import re
from collections.abc import Callable
from os.path import relpath
from pathlib import Path

from tools.record.citations import cite
from tools.record.labels import Book, Label
from tools.record.myst import Place, Span, escaped

Edit = tuple[int, int, str]


def span_edit(span: Span, content: str, place: Place, book: Book) -> Edit | None:
    """Return the change that makes one role, link or image plain Markdown."""
    if span.token.type == "myst_role":
        name = str(span.token.meta["name"])
        return span.start, span.end, _role(name, span.token.content, place, book)
    is_image = span.token.type == "image"
    target = str(span.token.attrs["src" if is_image else "href"])
    if re.match(r"[a-z]+:", target):
        return None
    if is_image:
        new = file_link(target, place, book)
        start = content.rindex(target, span.start, span.end)
        return start, start + len(target), new
    link, text = _link(target, place, book)
    if span.label_end == span.start + 1:  # [](target): the target's own title
        return span.start, span.end, f"[{_titled(text, target, place)}]({link})"
    return span.label_end + 1, span.end, f"({link})"


def file_link(target: str, place: Place, book: Book) -> str:
    """Return how the notebook reaches a file that the chapter names."""
    return _path_link(_existing(target, place, book), place)


def _role(name: str, content: str, place: Place, book: Book) -> str:
    """Return a role as Markdown."""
    if name not in ROLES:
        raise place.error(f"unknown role {{{name}}}; use one of {', '.join(ROLES)}")
    match = re.fullmatch(r"(.+?)\s*<([^<>]+)>", content)
    text, target = (match[1], match[2]) if match else ("", content.strip())
    return ROLES[name](text, target, place, book)


def _ref(text: str, target: str, place: Place, book: Book) -> str:
    """{ref}`text <label>`, or {ref}`label` with the title that stands there."""
    label = _label(target, place, book)
    shown = escaped(text) or _titled(label.title, target, place)
    return f"[{shown}]({_label_link(label, place)})"


def _eq(text: str, target: str, place: Place, book: Book) -> str:
    """{eq}`label`: the number in parentheses."""
    label = _numbered("equation", target, place, book)
    return f"[({label.number})]({_label_link(label, place)})"


def _numref(text: str, target: str, place: Place, book: Book) -> str:
    """{numref}`label`, or {numref}`text %s <label>`."""
    label = _numbered("figure", target, place, book)
    shown = (text or "Figure %s").replace("%s", label.number)
    return f"[{escaped(shown)}]({_label_link(label, place)})"


def _term(text: str, target: str, place: Place, book: Book) -> str:
    """{term}`x` or {term}`text <x>`: a link to the glossary."""
    if target.lower() not in book.terms:
        raise place.error(f"unknown term {target!r}; add it to book/glossary.md")
    return f"[{escaped(text or target)}](../book/glossary.md)"


def _doc(text: str, target: str, place: Place, book: Book) -> str:
    """{doc}`text </book/notation>`: a page, without its suffix."""
    link, title = _link(f"{target}.md", place, book)
    return f"[{escaped(text) or title}]({link})"


def _cite(in_text: bool) -> Callable[[str, str, Place, Book], str]:
    """Return the reader of {cite:t} or {cite:p}."""

    def read(text: str, target: str, place: Place, book: Book) -> str:
        keys = [key.strip() for key in target.split(",")]
        links = cite(keys, book.entries, place, in_text=in_text)
        book.cited.update(keys)
        return links

    return read


ROLES: dict[str, Callable[[str, str, Place, Book], str]] = {
    "ref": _ref,
    "eq": _eq,
    "numref": _numref,
    "term": _term,
    "doc": _doc,
    "cite:p": _cite(in_text=False),
    "cite:t": _cite(in_text=True),
}


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
    label = book.labels.get(" ".join(name.lower().split()))
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
