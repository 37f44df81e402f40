"""The scripts of a page, each only where it is used.

Each kind of view in `attention_lib` has a program, which needs `runtime.js`. A phrase
that sets a view is a link to it, whose `data-set` the program reads. `terms.js`
shows a term's meaning next to its link, by the glossary's entries in `definitions.js`.
All run once the page's text is seen; in chapters, where views stand further down, and
for what copies code, once somebody is there (`webpack-macros.html`). The sheets that
programs would add stand in the page, which would else be laid out once more.
"""

import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from sphinx.errors import ExtensionError

from tools.chapters import ROOT
from tools.language import language
from tools.site.formulas import engine
from tools.site.hooks import when_built
from tools.site.languages import edition

VIEWS, GLOSSARY = "attention_lib/course/views", "book/glossary.html"
RUNTIME, WORDS = "runtime", "view_words"
KINDS = sorted({path.stem for path in (ROOT / VIEWS).glob("*.js")} - {RUNTIME})
SETS = re.compile(r'<a class="reference external" href="view:(\w+)\?([^"]+)"')
# Lists of the themes. What scrolls is measured when it is shown, by `scrolling.js`;
# notes in the margin, of which no page has any, would be looked for in all of it.
LISTS = {
    "pydata-sphinx-theme": re.compile(r'\["(?:pre"|unmeasured")[^]]*\]'),
    "sphinx-book-theme": re.compile(r'\["(?:marginnote"|unmeasured")[^]]*\]'),
}
# For a list of versions (without a file), for tabs, of which no page has any, and for
# Sphinx's own search and keys.
UNUSED = re.compile("None|design-tabs|doctools|sphinx_highlight|translations")
COPY = re.compile("clipboard|copybutton")


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    # After all others have put theirs there.
    app.connect("html-page-context", _load, priority=900)
    when_built(app, _write)


def _load(app: Any, page: str, template: str, context: Any, tree: Any) -> None:
    """Make a page load the scripts that it uses."""
    body = str(context.get("body", ""))
    kinds = [kind for kind in KINDS if f'data-kind="{kind}"' in body]
    programs = (WORDS, RUNTIME) if edition(app.srcdir) else (RUNTIME,)
    names = [f"{name}.js" for name in (*programs, *kinds) if kinds]
    sheets: dict[str, str] = {}
    for kind in kinds:
        sheets |= styles(Path(app.srcdir, VIEWS), kind)
    context["book_styles"] = list(sheets.items())
    if 'std-term"' in body:
        names += ["definitions.js", "terms.js"]
    # A view of another page is on its first screen.
    when = {"data-when": "read"} if page.startswith("chapters/") else {}
    for name in names:
        app.add_js_file(name, loading_method="defer", **when)
    files = context.get("script_files", ())
    used = [file for file in files if not UNUSED.search(str(file.filename))]
    for file in used:
        if COPY.search(str(file.filename)):
            file.attributes["data-when"] = "read"
    context["script_files"] = used
    context["body"] = with_phrases(body, page)


def with_phrases(body: str, page: str) -> str:
    """Make the first view of each kind what phrases of the page lead to."""
    for kind in sorted({kind for kind, _ in SETS.findall(body)}):
        view = f'data-kind="{kind}"'
        if view not in body:
            raise ExtensionError(f"{page}: there is no view {kind!r} to set")
        body = body.replace(view, f'id="view-{kind}" {view}', 1)
    # MyST escapes "&", and Sphinx does so again.
    body = SETS.sub(lambda it: it[0].replace("&amp;amp;", "&amp;"), body)
    return SETS.sub(r'<a class="view-phrase" href="#view-\1" data-set="\2"', body)


@cache
def styles(views: Path, kind: str) -> dict[str, str]:
    """Return the style sheets that a view's program adds, by their names."""
    runtime, program = (
        (views / f"{name}.js").read_text(encoding="utf-8") for name in (RUNTIME, kind)
    )
    found: dict[str, str] = json.loads(engine().call("stylesOf", runtime, program))
    return found


def _write(app: Any) -> None:
    """Write the programs, and the definitions of terms, to the site's static files."""
    static, glossary = Path(app.outdir) / "_static", Path(app.outdir) / GLOSSARY
    for kind in (RUNTIME, *KINDS):
        shutil.copy(Path(app.srcdir) / VIEWS / f"{kind}.js", static)
    if edition(app.srcdir):
        words = language.as_data(language.spoken())
        (static / f"{WORDS}.js").write_text(f"var attentionWords = {words};\n")
    for name, listed in LISTS.items():
        theme = static / f"scripts/{name}.js"
        text = listed.sub('["unmeasured"]', theme.read_text(encoding="utf-8"))
        theme.write_text(text, encoding="utf-8")
    if glossary.is_file():
        found = meanings(glossary.read_text(encoding="utf-8"))
        text = f"window.bookTerms = {json.dumps(found, ensure_ascii=False)};\n"
        (static / "definitions.js").write_text(text, encoding="utf-8")


def meanings(glossary: str) -> dict[str, str]:
    """Return the HTML of each definition, by its anchor on the page."""
    terms = BeautifulSoup(glossary, "html.parser").select("dl.glossary > dt[id]")
    entries = ((term, term.find_next_sibling("dd")) for term in terms)
    return {str(t["id"]): entry.decode_contents() for t, entry in entries if entry}
