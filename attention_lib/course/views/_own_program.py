"""A view with a separate script, so that other outputs do not carry it."""

from importlib.resources import files
from typing import Any

from attention_lib.course.views._interactive import Interactive

MARK = "<script data-attention-program"


class OwnProgram(Interactive):
    """An ``Interactive`` that includes `KIND.js` instead of `views.js`."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_()
        view = bundle["text/html"].split(MARK)[0]
        path = files(__package__).joinpath(f"{self.kind}.js")
        script = path.read_text(encoding="utf-8")
        return bundle | {"text/html": f'{view}{MARK}="views">{script}</script>'}
