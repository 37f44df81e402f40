"""A view: HTML that a script makes interactive, and that is complete without one."""

import html
import json
from functools import cache
from importlib.resources import files
from typing import Any

from attention_lib.course.language import (
    lines_of,
    program_words,
    say_line,
    table,
    view_in_words,
)


class Interactive:
    """An interactive output of a cell that ends with it, on the site and in notebooks.

    If scripts are off, or stripped as from an untrusted notebook, the reader sees the
    static part.

    Args:
        kind: which view it is: its program is `KIND.js`.
        data: the view's data, in JSON's types.
        static: HTML with the same content, without a script: headings, tables, text.
        text: one line, for output without HTML.
    """

    def __init__(self, kind: str, data: dict[str, Any], static: str, text: str) -> None:
        self.kind, self.data, self.static, self.text = kind, data, static, text

    def __repr__(self) -> str:
        return say_line(self.text, lines_of(table()))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # "<" could end the script that holds the data.
        data = json.dumps(self.data, separators=(",", ":")).replace("<", "\\u003c")
        view = (
            f'<div class="attention-view" data-kind="{html.escape(self.kind)}">\n'
            f'<div class="attention-static">\n{self.static}\n</div>\n'
            f'<script type="application/json">{data}</script>\n</div>\n'
        )
        # As text: JSON escapes what is not ASCII.
        words = program_words((program := _program(self.kind)) + str(self.data))
        script = f'<script data-attention-program="views">{words}{program}</script>'
        return {"text/html": view_in_words(view) + script, "text/plain": repr(self)}


@cache
def _program(kind: str) -> str:
    """Return a view's program behind the runtime; records and pages leave it out."""
    here = files(__package__)
    runtime, program = (
        here.joinpath(f"{name}.js").read_text(encoding="utf-8")
        for name in ("runtime", kind)
    )
    return runtime + program
