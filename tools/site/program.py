"""The program of `attention_lib`'s views: out of the records, once into the site.

Every view that a cell shows brings the program along, so that it works in any notebook.
A record leaves it out: what it shows stays the same when the program changes, and a
front end would not run it from a notebook that the reader has not run. A page of the
site loads it from one file.
"""

import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from nbformat import NotebookNode

from tools.site.hooks import when_built

PROGRAM = re.compile(
    r"\s*<script data-attention-program=\"views\">.*?</script>", re.DOTALL
)
BUILT = "attention_lib/explorer/views.js"
VIEW = 'class="attention-view"'


def without_program(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Return outputs whose HTML no longer holds the program of the views."""
    for output in outputs:
        text = output.get("data", {}).get("text/html")
        if isinstance(text, str):
            output.data["text/html"] = PROGRAM.sub("", text)
    return outputs


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.connect("html-page-context", _load_program)
    when_built(app, _copy_program)


def _load_program(
    app: Any, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Have a page with a view load the program."""
    raw = doctree.findall(nodes.raw) if doctree is not None else ()
    if any(VIEW in node.astext() for node in raw):
        app.add_js_file(Path(BUILT).name, loading_method="defer")


def _copy_program(app: Any) -> None:
    """Put the program beside what all pages load."""
    target = Path(app.outdir) / "_static" / Path(BUILT).name
    shutil.copyfile(Path(app.srcdir) / BUILT, target)
