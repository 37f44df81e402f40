"""A view: HTML that a script brings to life, and that says the same without one."""

import html
import json
from functools import cache
from importlib.resources import files
from typing import Any


class Interactive:
    """An output that the reader can touch, in the site and in every notebook.

    Where scripts are off, or stripped as from a notebook that is not trusted, the
    reader sees the static part.

    Args:
        kind: which view of `views.js` draws it.
        data: what the view needs; whatever JSON can hold.
        static: HTML that shows the same without a script: headings, tables, text.
        text: one line, for where there is no HTML.
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
    """Gives the program of all views; records and pages hold it once or not at all."""
    program = files(__package__).joinpath("views.js").read_text(encoding="utf-8")
    return f'<script data-attention-program="views">{program}</script>'
