"""The button "Open in Colab" on each chapter's page: a part of the Sphinx extension.

The theme's own opens the page's source, a `.md`, which Colab cannot read.
"""

from pathlib import Path
from typing import Any

from tools.address import colab_folder, repository_address


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    # "html": when the address changes, every page is written anew.
    app.add_config_value("book_colab_folder", None, "html", [str, type(None)])
    app.connect("config-inited", _find_address)
    # After the theme has put its own buttons there, at 501.
    app.connect("html-page-context", _add_button, priority=600)


def _find_address(app: Any, config: Any) -> None:
    """Keep where Colab finds the copies, or None."""
    config.book_colab_folder = colab_folder(repository_address(Path(app.srcdir)))


def _add_button(
    app: Any, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Put the button first on a chapter's page, where the address is known."""
    folder, _, stem = pagename.rpartition("/")
    if folder != "chapters" or app.config.book_colab_folder is None:
        return
    context["header_buttons"].insert(
        0,
        {
            "type": "link",
            "url": f"{app.config.book_colab_folder}/{stem}.ipynb",
            "text": "Open in Colab",
            "tooltip": "Run this chapter in your browser",
            "icon": "fas fa-rocket",
            "label": "colab-button",
        },
    )
