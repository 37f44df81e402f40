"""Shared by the parts of the extension: steps that work on the finished site."""

from collections.abc import Callable
from typing import Any


def when_built(app: Any, step: Callable[[Any], None], priority: int = 500) -> None:
    """Call a step, with Sphinx's application, when all pages are written."""

    def finish(app: Any, error: Exception | None) -> None:
        if error is None and app.builder.format == "html":
            step(app)

    app.connect("build-finished", finish, priority=priority)
