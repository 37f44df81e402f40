"""What the parts of the extension share: steps that work on the finished site."""

from collections.abc import Callable
from typing import Any

Step = Callable[[Any], None]


def when_built(app: Any, step: Step) -> None:
    """Have a step called, with Sphinx's application, when all pages are written.

    Steps run in the order of the parts in `tools.site.extension`; after a build that
    failed, or was not for browsers, none does.
    """

    def finish(app: Any, error: Exception | None) -> None:
        if error is None and app.builder.format == "html":
            step(app)

    app.connect("build-finished", finish)
