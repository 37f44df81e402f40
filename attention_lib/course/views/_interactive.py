"""A view: HTML that a script makes interactive, and that is complete without one."""

import html
import json
from functools import cache
from importlib.resources import files
from typing import Any


class Interactive:
    """An interactive output, on the site and in every notebook.

    If scripts are off, or stripped as from an untrusted notebook, the reader sees the
    static part.

    Args:
        kind: which view of `views.js` draws it.
        data: the view's data, in JSON's types.
        static: HTML with the same content, without a script: headings, tables, text.
        text: one line, for output without HTML.
    """

    def __init__(self, kind: str, data: dict[str, Any], static: str, text: str) -> None:
        self.kind, self.data, self.static, self.text = kind, data, static, text

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # "<" could end the script that holds the data.
        data = json.dumps(self.data, separators=(",", ":")).replace("<", "\\u003c")
        view = (
            f'<div class="attention-view" data-kind="{html.escape(self.kind)}">\n'
            f'<div class="attention-static">\n{self.static}\n</div>\n'
            f'<script type="application/json">{data}</script>\n</div>\n'
        )
        return {"text/html": view + _script(), "text/plain": self.text}


@cache
def _script() -> str:
    """Return the script of all views; records and pages hold it at most once."""
    program = files(__package__).joinpath("views.js").read_text(encoding="utf-8")
    return f'<script data-attention-program="views">{program}</script>'
