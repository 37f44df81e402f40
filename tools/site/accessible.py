"""Fix third-party HTML for screen readers: a part of the extension.

Each entry names the rule of axe that it satisfies, if any, and who wrote the HTML. All
leave a page that was fixed before as it is. A fix that no page needs any more fails
the build, as does a page that is not what the theme's templates were replaced for.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

from tools.chapters import site_pages
from tools.site.hooks import when_built
from tools.words import say

LISTED = say("page.contents", name="@").split("@")
LONG = re.compile(r'(?<=<span class="pre">)[^<]{20,}(?=</span>)')
UNFOLD = f'<summary aria-label="{say("page.unfold")}">'
# What is looked for, what stands there instead, and a piece of that.
MENDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str], str], ...] = (
    # aria-deprecated-role, aria-allowed-role, aria-required-children (Docutils)
    (re.compile(r'role="doc-biblioentry"'), 'role="listitem"', 'role="listitem"'),
    # landmark-unique: each list of contents in a page has its name (Docutils)
    (
        re.compile(r'<nav class="(contents[^"]*)" id="([^"]*)"(?! aria-label)'),
        rf'<nav class="\1" id="\2" aria-label="{LISTED[0]}\2{LISTED[1]}"',
        f'aria-label="{LISTED[0]}',
    ),
    # summary-name: the arrow that unfolds pages (pydata-sphinx-theme)
    (re.compile(r'<summary>(?=<span class="toctree-toggle")'), UNFOLD, UNFOLD),
    # label-content-name-mismatch: what folds says what it holds (MyST-NB)
    (re.compile(' aria-label="Toggle hidden content"'), "", 'class="collapsed'),
    # A long name breaks at its parts (Docutils)
    (LONG, lambda found: re.sub(r"(?<=[._])(?=\w)", "<wbr>", found[0]), "_<wbr>"),
    # Code: what has the colour of the text needs no element, nor its bytes (Pygments)
    (re.compile(r'<span class="[pw]">([^<]*)</span>'), r"\1", "</span>(<span"),
)


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    when_built(app, lambda app: mend_site(Path(app.outdir)))


def mended(page: str) -> str:
    """Return a page's HTML with all fixes."""
    for pattern, replacement, _ in MENDS:
        page = pattern.sub(replacement, page)
    return page


def mend_site(site: Path) -> None:
    """Fix all pages of a built site.

    Raises:
        ExtensionError: the theme or Sphinx writes other HTML than this was made for.
    """
    needed = set[str]()
    for path in site_pages(site):
        page = path.read_text(encoding="utf-8")
        if (better := mended(page)) != page:
            path.write_text(better, encoding="utf-8")
        needed.update(piece for _, _, piece in MENDS if piece in better)
        if 'http-equiv="Refresh"' in page:
            continue
        if page.count('<meta name="viewport"') != 1:
            raise ExtensionError(f"{path.name} has not one viewport: mend layout.html")
        if "fontawesome.js" in page:
            raise ExtensionError(f"{path.name} loads icons: mend webpack-macros.html")
    for _, _, piece in MENDS:
        if piece not in needed:
            raise ExtensionError(f"no page needs {piece}: mend {__file__}")
