"""Mend what others' HTML does not tell a screen reader: a part of the extension.

Each entry names the rule of axe that it satisfies, and who wrote the HTML. None changes
a page that was mended before.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

from tools.chapters import site_pages
from tools.site.hooks import when_built

SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
# What is looked for, and what stands there instead.
MENDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    # aria-deprecated-role, aria-allowed-role, aria-required-children (Docutils)
    (re.compile(r'role="doc-biblioentry"'), 'role="listitem"'),
    # definition-list: one parameter a line is a list of nothing but meanings (Sphinx)
    (SIGNATURE, lambda found: _lines(found[0])),
    # landmark-unique: each list of contents in a page has its name (Docutils)
    (
        re.compile(r'<nav class="(contents[^"]*)" id="([^"]*)"(?! aria-label)'),
        r'<nav class="\1" id="\2" aria-label="Contents: \2"',
    ),
    # summary-name: the arrow that unfolds pages (pydata-sphinx-theme)
    (
        re.compile(r'<summary>(?=<span class="toctree-toggle")'),
        '<summary aria-label="Show the pages below">',
    ),
)


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    when_built(app, lambda app: mend_site(Path(app.outdir)))


def mended(page: str) -> str:
    """Return a page's HTML with all mends."""
    for pattern, replacement in MENDS:
        page = pattern.sub(replacement, page)
    return page


def _lines(signature: str) -> str:
    """Return a signature whose lines are no list of definitions."""
    for name, kind in (("dl", "sig-lines"), ("dd", "sig-line")):
        signature = signature.replace(f"<{name}>", f'<span class="{kind}">')
        signature = signature.replace(f"</{name}>", "</span>")
    return signature


def mend_site(site: Path) -> None:
    """Mend all pages of a built site."""
    for path in site_pages(site):
        page = path.read_text(encoding="utf-8")
        if (better := mended(page)) != page:
            path.write_text(better, encoding="utf-8")
        if page.count('<meta name="viewport"') > 1 or "fontawesome.js" in page:
            raise ExtensionError(f"{path.name}: mend book/_templates for a new theme")
