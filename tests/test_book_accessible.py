"""What others' HTML lacks is mended, once."""

from pathlib import Path

import pytest
from sphinx.errors import ExtensionError

from tools.site.accessible import mend_site, mended

SIGNATURE = '<dt class="sig sig-object">f(<dl>\n<dd><em>x</em>,</dd>\n</dl>)</dt>'
CASES = {
    "citation": ('<div role="doc-biblioentry">', '<div role="listitem">'),
    "signature": (
        SIGNATURE + "<dd><dl><dd>kept</dd></dl></dd>",
        '<dt class="sig sig-object">f(<span class="sig-lines">\n'
        '<span class="sig-line"><em>x</em>,</span>\n</span>)</dt>'
        "<dd><dl><dd>kept</dd></dl></dd>",
    ),
    "contents": (
        '<nav class="contents local" id="themes">',
        '<nav class="contents local" id="themes" aria-label="Contents: themes">',
    ),
    "arrow": (
        '<summary><span class="toctree-toggle">',
        '<summary aria-label="Show the pages below"><span class="toctree-toggle">',
    ),
    "our own": ("<summary>Hint</summary>", "<summary>Hint</summary>"),
}
VIEWPORT = '<meta name="viewport" content="">'


@pytest.mark.parametrize("case", CASES)
def test_page_is_mended_once(case: str) -> None:
    page, better = CASES[case]
    assert mended(page) == better
    assert mended(better) == better


@pytest.mark.parametrize("added", [VIEWPORT, "<script src=fontawesome.js>"])
def test_theme_that_changed_is_refused(tmp_path: Path, added: str) -> None:
    (tmp_path / "page.html").write_text(VIEWPORT)
    mend_site(tmp_path)
    (tmp_path / "page.html").write_text(VIEWPORT + added)
    with pytest.raises(ExtensionError, match="mend book/_templates"):
        mend_site(tmp_path)
