"""The glossary's definitions on the pages that use its terms: a part of the extension.

A page holds, hidden and once, the definition of each term that it links to. They are
copied before references are resolved and formulas are set, so that both come out as
anywhere on the page. `terms.js` shows one beside its link; without it the link stays.
"""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import docname_join

GLOSSARY = "book/glossary"
SCRIPT, STYLE = "terms.js", "terms.css"


class definitions(nodes.comment):  # noqa: N801
    """What a page holds for `terms.js`: a comment, so that the search skips it."""


class CopyDefinitions(SphinxPostTransform):
    """Put the definitions that a page needs at its end."""

    default_priority = 5  # before references are resolved, at 10
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Find the terms that the page links to, and copy what they mean."""
        if self.env.docname == GLOSSARY:
            return  # it has them in full
        wanted = {
            " ".join(str(node["reftarget"]).lower().split())
            for node in self.document.findall(addnodes.pending_xref)
            if node["reftype"] == "term"
        }
        if not wanted:
            return
        box = definitions()
        for item in self.env.get_doctree(GLOSSARY).findall(nodes.definition_list_item):
            for term in (node for node in item if isinstance(node, nodes.term)):
                if " ".join(term.astext().lower().split()) in wanted:
                    box += _copy(item, str(term["ids"][0]), self.env.docname)
        self.document += box


def _copy(item: nodes.definition_list_item, name: str, page: str) -> nodes.container:
    """Return what a term means, under its entry's name, as part of another page."""
    box = nodes.container("", name=name)
    definition = next(node for node in item if isinstance(node, nodes.definition))
    box += [child.deepcopy() for child in definition]
    for node in box.findall(nodes.Element):
        node["ids"] = []
        if isinstance(node, addnodes.pending_xref):
            node["refdoc"] = page
            if node["reftype"] == "doc":
                node["reftarget"] = "/" + docname_join(GLOSSARY, node["reftarget"])
    return box


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.add_node(definitions, html=(_open, _close), latex=(_skip, None))
    app.add_post_transform(CopyDefinitions)
    app.connect("source-read", _depend_on_glossary)
    app.connect("html-page-context", _load)


def _open(translator: Any, node: nodes.Element) -> None:
    translator.body.append('<div id="term-definitions" hidden>\n')
    for box in node:
        assert isinstance(box, nodes.container)
        translator.body.append(f'<div data-term="{box["name"]}">')
        for child in box:
            child.walkabout(translator)
        translator.body.append("</div>\n")
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def _close(translator: Any, node: nodes.Element) -> None:
    """Nothing is left to do."""


def _skip(translator: Any, node: nodes.Element) -> None:
    raise nodes.SkipNode


def _depend_on_glossary(app: Any, page: str, source: list[str]) -> None:
    """Have a page built again when the meaning of its terms changes."""
    if "{term}" in source[0]:
        app.env.note_dependency(str(Path(app.srcdir) / f"{GLOSSARY}.md"))


def _load(
    app: Any, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Have a page with terms load what shows their meaning."""
    if doctree is not None and 'std-term"' in context.get("body", ""):
        app.add_js_file(SCRIPT, loading_method="defer")
        app.add_css_file(STYLE)
