"""The program of `attention_lib`'s views, once into the site.

Records hold the views without it (`tools.record.execute`); a page of the site loads it
from one file.
"""

import shutil
from pathlib import Path
from typing import Any

from docutils import nodes

from tools.site.hooks import when_built

BUILT = "attention_lib/explorer/views.js"
VIEW = 'class="attention-view"'


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
