"""What the search looks through: the places of the book, and the text of each.

A place is a section, an entry of the glossary or a name of the library. `places.js` has
all places and their words, and a script for each page has its texts: a page opened as a
file may load nothing but scripts. `finding.js` does everything else.
"""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

from tools.site.head import plain
from tools.site.hooks import when_built

PROGRAM, PLACES = "book/_static/finding.js", "_static/places"
# What people paste of code: names of several words.
NAME = re.compile(r"\b(?:\w+\.)*[A-Za-z]+_\w+|\b[A-Za-z]\w*\.\w+|\b[A-Z][a-z]+[A-Z]\w*")
KINDS = (nodes.section, addnodes.desc, nodes.definition_list_item)
TEXTS = (nodes.paragraph, nodes.caption, nodes.literal_block)


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.connect("builder-inited", lambda app: setattr(app.builder, "search", False))
    app.connect("html-page-context", _keep)
    when_built(app, _write)


def _kept(app: Any, page: str) -> Path:
    return Path(app.doctreedir, f"{page}.places")


def _keep(app: Any, page: str, template: str, context: Any, tree: Any) -> None:
    """Keep a page's places, since the next build may not write the page."""
    if tree:
        numbers = app.env.toc_secnumbers.get(page, {})
        found = list[list[str]]()
        for anchor, *rest in places(tree):
            number = numbers.get(f"#{anchor}" if found else "", ())
            found.append([anchor, ".".join(map(str, number)), *rest])
        _kept(app, page).write_text(json.dumps(found), encoding="utf-8")


def places(tree: nodes.document) -> Iterator[tuple[str, str, str]]:
    """Yield the anchor, the title and the text, with a line of names in code."""
    found: dict[nodes.Element, tuple[list[str], dict[str, None]]] = {}
    for node in tree.findall(lambda node: isinstance(node, KINDS + TEXTS)):
        if isinstance(node, KINDS):
            if node["ids"] or node[0].get("ids"):
                found[node] = ([], {})
            continue
        place = node.parent
        while place and place not in found:
            place = place.parent
        if place and isinstance(node, nodes.literal_block):
            found[place][1].update(dict.fromkeys(NAME.findall(node.astext())))
        elif place:
            found[place][0].append(plain(node))
    for place, (texts, names) in found.items():
        text = " ".join(texts)
        line = ", ".join(name for name in names if name not in text)
        title = place[0].get("fullname") or plain(place[0])
        yield (place["ids"] or place[0]["ids"])[0], title, f"{text}\n{line}"


def _write(app: Any) -> None:
    """Write what `finding.js` reads."""
    from py_mini_racer import MiniRacer

    folder = Path(app.outdir, PLACES)
    shutil.rmtree(folder, ignore_errors=True)
    pages, texts = [], list[str]()
    for name in sorted(app.env.found_docs):
        found = json.loads(_kept(app, name).read_bytes())
        page = app.builder.get_target_uri(name)
        pages.append([page, plain(app.env.titles[name]), [it[:-1] for it in found]])
        texts += (own := [it[-1] for it in found])
        path = folder / f"{name}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"(globalThis.bookTexts ??= {{}})[{_js(page)}] = {_js(own)};\n")
    with MiniRacer() as engine:
        engine.eval((Path(app.srcdir) / PROGRAM).read_text(encoding="utf-8"))
        packed = engine.call("bookFinding.pack", texts)
    folder.with_suffix(".js").write_text(f"var bookPlaces = {_js([pages, packed])};\n")


def _js(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
