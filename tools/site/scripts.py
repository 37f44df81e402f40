"""The scripts of a page, each only where it has something to do.

`views.js` and those of `OWN` are the programs of `attention_lib`'s views. `terms.js`
shows a term's meaning beside its link, by the glossary's entries in `definitions.js`.
None keeps a page from being shown.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup

from tools.site.hooks import when_built

VIEWS, GLOSSARY = "attention_lib/explorer", "book/glossary.html"
# Kinds of view with a program of their own.
OWN = (
    "align", "costs", "flash", "latent", "museum", "pages", "pipe", "reach",
    "sentence", "snapshots", "split",
)  # fmt: skip
PROGRAMS = {f"{kind}.js": f'data-kind="{kind}"' for kind in OWN}
PROGRAMS["views.js"] = f'data-kind="(?!(?:{"|".join(OWN)})")'


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    # After all others have put theirs there.
    app.connect("html-page-context", _load, priority=900)
    when_built(app, _write)


def _load(
    app: Any, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Have a page load what it has a use for."""
    body = str(context.get("body", ""))
    names = [name for name, sign in PROGRAMS.items() if re.search(sign, body)]
    if "sentence.js" in names:  # its words stand where they will stay
        app.add_css_file("sentence.css")
    if re.search('class="[^"]*(math no|std-term)', body):  # meanings may hold formulas
        app.add_css_file("katex.css", priority=400)
    if 'std-term"' in body:
        names += ["definitions.js", "terms.js"]
        app.add_css_file("terms.css")
    for name in names:
        app.add_js_file(name, loading_method="defer")
    context["script_files"] = [*map(deferred, context.get("script_files", ()))]


def deferred(script: Any) -> Any:
    """Return a script of a page's head that waits; one without a file, as a module."""
    waits = {"defer": "defer"} if script.filename else {"type": "module"}
    attributes = waits | dict(script.attributes)
    return type(script)(script.filename, priority=script.priority, **attributes)


def _write(app: Any) -> None:
    """Put the program, and what each term means, beside what all pages load."""
    static, glossary = Path(app.outdir) / "_static", Path(app.outdir) / GLOSSARY
    for name in PROGRAMS:
        shutil.copyfile(Path(app.srcdir) / VIEWS / name, static / name)
    if glossary.is_file():
        found = meanings(glossary.read_text(encoding="utf-8"))
        text = f"window.bookTerms = {json.dumps(found, ensure_ascii=False)};\n"
        (static / "definitions.js").write_text(text, encoding="utf-8")


def meanings(glossary: str) -> dict[str, str]:
    """Return the HTML of each definition, by the name of its place on the page."""
    terms = BeautifulSoup(glossary, "html.parser").select("dl.glossary > dt[id]")
    entries = ((term, term.find_next_sibling("dd")) for term in terms)
    return {str(t["id"]): entry.decode_contents() for t, entry in entries if entry}
