"""What the search page adds to Sphinx's search: a part of the Sphinx extension."""

from typing import Any

SCRIPT = "search.js"


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.connect("html-page-context", _load)


def _load(
    app: Any, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Have the search page load the script, after Sphinx's own and before it runs."""
    if page == "search":
        app.add_js_file(SCRIPT, loading_method="defer")
