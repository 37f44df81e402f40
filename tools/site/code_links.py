"""Links from names in code to what documents them: a part of the Sphinx extension.

Names in a sentence, `causal_mask` or `nn.Linear`; the modules that a chapter shows, at
its top; the cells that show library code. On the site only: a notebook stays plain.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

from tools.site.elsewhere import address_elsewhere
from tools.site.in_chapters import shown_modules, shown_names
from tools.site.names import PACKAGE, Entry, api_page, modules, public_names

STYLE = "library.css"
# Without a dot a name may mean anything, unless it is the library's own.
DOTTED = re.compile(r"(?:torch|nn|F|np|numpy|math)(?:\.\w+)+")
# A name there leads somewhere already, or is what the link would lead to.
CLOSED = (nodes.reference, nodes.title, nodes.rubric, addnodes.desc_signature)


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.add_css_file(STYLE)
    app.connect("env-get-outdated", _written_anew)
    app.connect("doctree-resolved", _link)


def _written_anew(app: Any, env: Any, *_: Any) -> list[str]:
    """Have the pages written again when the library has other names than before."""
    known = sorted(e.address for e in public_names(Path(app.srcdir)).values())
    before, env.book_names = getattr(env, "book_names", None), known
    return [] if before == known else sorted(env.found_docs)


def _link(app: Any, doctree: nodes.document, page: str) -> None:
    """Add every link to one page."""
    if app.builder.format != "html":
        return
    links = Links(Path(app.srcdir), page, app.builder)
    folder, _, stem = page.rpartition("/")
    if folder == "chapters":
        links.name_modules(doctree, shown_modules(links.root).get(stem, []))
        links.caption_cells(doctree)
    links.link_names(doctree)


class Links:
    """The links of one page."""

    def __init__(self, root: Path, page: str, builder: Any) -> None:
        self.root, self.page, self.builder = root, page, builder
        self.names, self.modules = public_names(root), modules(root)

    def name_modules(self, doctree: nodes.document, shown: list[str]) -> None:
        """Say under a chapter's time which modules it shows."""
        time = next((p for p in doctree.findall(nodes.paragraph) if _is_time(p)), None)
        if not shown or time is None:
            return
        line = nodes.paragraph("", classes=["book-library"])
        line += [nodes.strong("", "Library:"), nodes.Text(" ")]
        for number, module in enumerate(shown):
            code = nodes.literal("", f"{PACKAGE}.{module}")
            line += [nodes.Text(", ")] if number else []
            line += self._reference(code, self._own(api_page(module)))
        time.parent.insert(time.parent.index(time) + 1, [line, nodes.Text("\n")])

    def caption_cells(self, doctree: nodes.document) -> None:
        """Put under each cell that shows library code where that is documented."""
        for block in list(doctree.findall(nodes.literal_block)):
            names = [n for _, found in shown_names(block.astext()) for n in found]
            entries = [self.names[name] for name in names if name in self.names]
            if not entries or not _is_input(block):
                continue
            line = nodes.paragraph("", classes=["book-shown"])
            for number, entry in enumerate(entries):
                line += [nodes.Text(", ")] if number else []
                text = nodes.inline("", entry.address)
                line += self._reference(text, self._entry(entry), "book-shown-name")
            line += nodes.Text(" in the API")
            block.parent.insert(block.parent.index(block) + 1, line)

    def link_names(self, doctree: nodes.document) -> None:
        """Link names in sentences: each once a section, which is enough."""
        seen: set[tuple[int, str]] = set()
        for code in list(doctree.findall(nodes.literal)):
            address = self._address(_meant(code))
            around = list(_around(code))
            if address is None or any(isinstance(node, CLOSED) for node in around):
                continue
            place = next((n for n in around if _is_place(n)), doctree)
            if (id(place), address) in seen or _documents(place, address):
                continue
            seen.add((id(place), address))
            code.replace_self(self._reference(code.deepcopy(), address))

    def _address(self, name: str) -> str | None:
        """Return where a name is documented, as seen from this page; or None."""
        first, _, last = name.removeprefix(f"{PACKAGE}.").partition(".")
        if name.startswith(f"{PACKAGE}.") and not last and first in self.modules:
            return self._own(api_page(first))
        entry = self.names.get(last or first)
        if entry and name in {entry.name, entry.address, f"{PACKAGE}.{entry.name}"}:
            return self._entry(entry)
        return address_elsewhere(name) if DOTTED.fullmatch(name) else None

    def _own(self, page: str) -> str:
        """Return how another page is reached from this one."""
        return str(self.builder.get_relative_uri(self.page, page))

    def _entry(self, entry: Entry) -> str:
        """Return how a name on a page of the library is reached."""
        return f"{self._own(entry.page)}#{entry.address}"

    def _reference(
        self, content: nodes.Element, address: str, kind: str = "book-code"
    ) -> nodes.reference:
        """Wrap something into a link."""
        internal = "://" not in address
        return nodes.reference(
            "", "", content, internal=internal, refuri=address, classes=[kind]
        )


def _meant(code: nodes.literal) -> str:
    """Return a name in code, as PyTorch's own where the sentence says so."""
    before = code.previous_sibling()
    said = before.astext().rstrip() if isinstance(before, nodes.Text) else ""
    is_torch = (
        said.endswith(("PyTorch's", "PyTorch’s")) and code.astext().isidentifier()
    )
    return f"F.{code.astext()}" if is_torch else code.astext()


def _around(node: nodes.Node) -> Iterator[nodes.Node]:
    """Yield what a node stands in, from the inside out."""
    while (parent := node.parent) is not None:
        yield parent
        node = parent


def _is_place(node: nodes.Node) -> bool:
    """Whether a name is linked anew here."""
    return isinstance(node, nodes.section | addnodes.desc)


def _documents(place: nodes.Node, address: str) -> bool:
    """Whether a place is itself what an address leads to."""
    name = address.rpartition("#")[2]
    signatures = place.children if isinstance(place, addnodes.desc) else []
    heads = [s for s in signatures if isinstance(s, addnodes.desc_signature)]
    return any(name in head["ids"] for head in heads)


def _is_time(paragraph: nodes.paragraph) -> bool:
    """Whether a paragraph says how long a chapter takes."""
    bold = any(isinstance(child, nodes.strong) for child in paragraph)
    return bold and paragraph.astext().startswith("Time:")


def _is_input(block: nodes.literal_block) -> bool:
    """Whether code stands in the input of a cell, not in what it printed."""
    return "cell_input" in block.parent.get("classes", ())
