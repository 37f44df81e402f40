"""Links from names in code to their documentation: a part of the Sphinx extension.

In sentences, at a chapter's top, and under cells that show library code. And from a
report's checks to the sections that explain them.
"""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.ext.intersphinx import InventoryAdapter
from sphinx.util.logging import getLogger

from tools.record.shown import HEADER
from tools.site.api import LISTS, PACKAGE, SHOWN, modules
from tools.words import say

# What people write for what is meant; such a name must stand in a list.
SHORT = {"nn": "torch.nn", "F": "torch.nn.functional", "np": "numpy"}
DOTTED = re.compile(r"(nn|F|np|torch|numpy|math)((?:\.\w+)+)")
# A name there leads somewhere already, or is what the link would lead to.
CLOSED = (nodes.reference, nodes.title, nodes.rubric, addnodes.desc_signature)
TIME = say("chapter.time")
CHECK = re.compile(r'<span data-section="([^"]+)">(.*?)</span>')


class Line(nodes.paragraph):
    """A line of names, which are linked whatever its section links already."""


PLACES = (Line, addnodes.desc, nodes.section)  # Each links a name once.


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.connect("doctree-resolved", _link)
    app.connect("html-page-context", _link_checks)


def _link_checks(app: Any, page: str, template: str, context: Any, tree: Any) -> None:
    """Link the checks of a report that a chapter prints."""
    if page.startswith("chapters/"):
        context["body"] = CHECK.sub(r'<a href="\1">\2</a>', str(context["body"]))


def _link(app: Any, doctree: nodes.document, page: str) -> None:
    """Link names: each once per section, and not from its own entry."""
    if app.builder.format != "html":
        return
    folder, _, stem = page.rpartition("/")
    if folder == "chapters":
        _add_lines(doctree, modules(Path(app.srcdir), SHOWN).get(stem, []))
    known, seen = _addresses(app, page), set()
    for code in list(doctree.findall(nodes.literal)):
        before, name = str(code.previous_sibling()), code.astext()
        around: list[nodes.Element] = [code]
        while around[-1].parent:
            around.append(around[-1].parent)
        if name.isidentifier() and re.search("PyTorch['’]s $", before):
            name = f"F.{name}"
        full = DOTTED.sub(lambda found: SHORT.get(found[1], found[1]) + found[2], name)
        uri = known.get(full)
        if uri is None and DOTTED.fullmatch(code.astext()):
            text = "%s is in no list of %s: add it, with its address"
            getLogger(__name__).warning(text, full, LISTS, location=code)
        if uri is None or any(isinstance(node, CLOSED) for node in around):
            continue
        place: Any = next(node for node in around if isinstance(node, PLACES))
        is_own = uri.rpartition("#")[2] in place[0].get("ids", ())
        if not is_own and (place, uri) not in seen:
            seen.add((place, uri))
            link = nodes.reference("", "", code.deepcopy(), classes=["book-code"])
            link.update_all_atts({"refuri": uri, "internal": "://" not in uri})
            code.replace_self(link)


def _addresses(app: Any, page: str) -> dict[str, str]:
    """Return where each name is documented, as seen from a page."""
    found: dict[str, str] = {}
    for names in InventoryAdapter(app.env).main_inventory.values():
        # Without a dot a name may mean anything, unless it is the library's own.
        found |= {name: entry[2] for name, entry in names.items() if "." in name}
    for full, entry in app.env.get_domain("py").objects.items():
        address = app.builder.get_relative_uri(page, entry.docname)
        found[full] = f"{address}#{entry.node_id}"
        last = full.rpartition(".")[2]
        for short in (last, f"{PACKAGE}.{last}") if full.count(".") == 2 else ():
            found.setdefault(short, found[full])
    return found


def _add_lines(doctree: nodes.document, shown: list[str]) -> None:
    """Add to a chapter's head, and to its cells, the library code that they show."""
    for place in list(doctree.findall(nodes.TextElement)):
        header = HEADER.match(place.astext())
        if header and "cell_input" in place.parent.get("classes", ()):
            line, after = Line(classes=["book-shown"]), f" {say('library.in_api')}"
            names = [f"{header[1]}.{name}" for name in header[2].split(", ")]
        elif shown and place.astext().startswith(TIME) and place.children[1:]:
            line, after = Line(classes=["book-library"]), say("library.end")
            line += [nodes.strong("", say("library.names")), nodes.Text(" ")]
            names, shown = shown, []
        else:
            continue
        for name in names:
            line += [nodes.literal("", f"{PACKAGE}.{name}"), nodes.Text(", ")]
        line[-1] = nodes.Text(after)
        place.parent.insert(place.parent.index(place) + 1, line)
