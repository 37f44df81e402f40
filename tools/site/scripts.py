"""The scripts of a page, each only where it is used.

`views.js` and those of `OWN` are the programs of `attention_lib`'s views. `terms.js`
shows a term's meaning next to its link, by the glossary's entries in `definitions.js`.
All run once the page's text is seen (`webpack-macros.html`). The sheets that programs
would add stand in the page, which a browser would else style and lay out once more.
"""

import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup

from tools.chapters import ROOT
from tools.site.formulas import engine
from tools.site.hooks import when_built

VIEWS, GLOSSARY = "attention_lib/course/views", "book/glossary.html"
# Kinds of view with a program of their own.
OWN = sorted({path.stem for path in (ROOT / VIEWS).glob("*.js")} - {"views"})
PROGRAMS = {f"{kind}.js": f'data-kind="{kind}"' for kind in OWN}
# The theme's list of what it measures at once: `scrolling.js` does so when it is shown.
MEASURED = re.compile(r'\["(?:pre"|unmeasured")[^]]*\]')
# For a list of versions (without a file) and for tabs, of which no page has any.
UNUSED = re.compile("None|design-tabs")
PROGRAMS["views.js"] = f'data-kind="(?!(?:{"|".join(OWN)})")'


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    # After all others have put theirs there.
    app.connect("html-page-context", _load, priority=900)
    when_built(app, _write)


def _load(app: Any, page: str, template: str, context: Any, tree: Any) -> None:
    """Make a page load the scripts that it uses."""
    body = str(context.get("body", ""))
    names = [name for name, sign in PROGRAMS.items() if re.search(sign, body)]
    context["book_styles"] = [style(Path(app.srcdir, VIEWS, name)) for name in names]
    if 'std-term"' in body:
        names += ["definitions.js", "terms.js"]
    for name in names:
        app.add_js_file(name, loading_method="defer")
    files = context.get("script_files", ())
    used = [file for file in files if not UNUSED.search(str(file.filename))]
    context["script_files"] = used


@cache
def style(program: Path) -> list[str]:
    """Return the name and the text of the style sheet that a program adds."""
    text = program.read_text(encoding="utf-8")
    return list(engine().call("styleOf", text, [*OWN, "weights"]))


def _write(app: Any) -> None:
    """Write the script, and the definitions of terms, to the site's static files."""
    static, glossary = Path(app.outdir) / "_static", Path(app.outdir) / GLOSSARY
    for name in PROGRAMS:
        shutil.copyfile(Path(app.srcdir) / VIEWS / name, static / name)
    theme = static / "scripts/pydata-sphinx-theme.js"
    text = MEASURED.sub('["unmeasured"]', theme.read_text(encoding="utf-8"))
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
