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
from sphinx.ext.intersphinx import InventoryAdapter
from sphinx.util import logging

from tools.record.shown import HEADER
from tools.site.api import LISTS, PACKAGE, shown_modules

# What people write for what is meant; such a name must stand in a list.
SHORT = {"nn": "torch.nn", "F": "torch.nn.functional", "np": "numpy"}
DOTTED = re.compile(r"(nn|F|np|torch|numpy|math)((?:\.\w+)+)")
# A name there leads somewhere already, or is what the link would lead to.
CLOSED = (nodes.reference, nodes.title, nodes.rubric, addnodes.desc_signature)


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.add_css_file("library.css")
    app.connect("doctree-resolved", _link)


def _link(app: Any, doctree: nodes.document, page: str) -> None:
    """Add every link to one page."""
    if app.builder.format != "html":
        return
    known = _addresses(app, page)
    if page.startswith("chapters/"):
        _name_modules(doctree, Path(app.srcdir) / f"{page}.md", known)
        _caption_cells(doctree, known)
    seen = set()
    for code in list(doctree.findall(nodes.literal)):
        around = list(_around(code))
        name = DOTTED.sub(lambda m: SHORT.get(m[1], m[1]) + m[2], _meant(code))
        if any(isinstance(node, CLOSED) for node in around):
            continue
        if name not in known:
            if DOTTED.fullmatch(code.astext()):
                text = "%s: add it to a list in %s, with its address"
                logging.getLogger(__name__).warning(text, name, LISTS, location=code)
            continue
        # Once a section is enough, and an entry does not lead to itself.
        place = next((n for n in around if isinstance(n, nodes.section | addnodes.desc)))
        anchor = known[name].rpartition("#")[2]
        if (place, name) not in seen and anchor not in place[0].get("ids", ()):
            seen.add((place, name))
            code.replace_self(_reference(code.deepcopy(), known[name]))


def _addresses(app: Any, page: str) -> dict[str, str]:
    """Return where each name is documented, as seen from a page."""
    found = {}
    for names in InventoryAdapter(app.env).main_inventory.values():
        # Without a dot a name may mean anything, unless it is the library's own.
        found |= {name: entry[2] for name, entry in names.items() if "." in name}
    short = {}
    for full, entry in app.env.get_domain("py").objects.items():
        address = app.builder.get_relative_uri(page, entry.docname)
        found[full] = f"{address}#{entry.node_id}"
        if full.count(".") == 2:
            last = full.rpartition(".")[2]
            short |= {last: found[full], f"{PACKAGE}.{last}": found[full]}
    return short | found


def _name_modules(doctree: nodes.document, chapter: Path, known: dict[str, str]) -> None:
    """Say under a chapter's time which modules it shows."""
    modules = [f"{PACKAGE}.{module}" for module in shown_modules(chapter)]
    times = (p for p in doctree.findall(nodes.paragraph) if p.astext()[:5] == "Time:")
    if modules and (time := next(times, None)):
        line = nodes.paragraph("", classes=["book-library"])
        line += [nodes.strong("", "Library:"), nodes.Text(" ")]
        line += _listed([nodes.literal("", name) for name in modules], known)
        time.parent.insert(time.parent.index(time) + 1, [line, nodes.Text("\n")])


def _caption_cells(doctree: nodes.document, known: dict[str, str]) -> None:
    """Put under each cell that shows library code where that is documented."""
    for block in list(doctree.findall(nodes.literal_block)):
        header = HEADER.match(block.astext())
        if header and "cell_input" in block.parent.get("classes", ()):
            names = [f"{PACKAGE}.{header[1]}.{n}" for n in header[2].split(", ")]
            line = nodes.paragraph("", classes=["book-shown"])
            line += _listed([nodes.inline("", name) for name in names], known)
            line += nodes.Text(" in the API")
            block.parent.insert(block.parent.index(block) + 1, line)


def _listed(names: list[nodes.Element], known: dict[str, str]) -> Iterator[nodes.Node]:
    """Yield links to names, with commas between them."""
    for number, name in enumerate(names):
        yield from [nodes.Text(", ")] if number else []
        yield _reference(name, known[name.astext()])


def _reference(content: nodes.Element, address: str) -> nodes.reference:
    """Wrap something into a link."""
    kind = "book-code" if isinstance(content, nodes.literal) else "book-shown-name"
    internal = "://" not in address
    return nodes.reference(
        "", "", content, internal=internal, refuri=address, classes=[kind]
    )


def _meant(code: nodes.literal) -> str:
    """Return a name in code, as PyTorch's own where the sentence says so."""
    before, name = code.previous_sibling(), code.astext()
    said = before.astext().rstrip() if isinstance(before, nodes.Text) else ""
    torchs = said.endswith(("PyTorch's", "PyTorch’s")) and name.isidentifier()
    return f"F.{name}" if torchs else name


def _around(node: nodes.Node) -> Iterator[nodes.Node]:
    """Yield what a node stands in, from the inside out."""
    while (parent := node.parent) is not None:
        yield parent
        node = parent
