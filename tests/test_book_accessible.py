"""What others' HTML lacks is mended, once."""

import pytest

from tools.site.accessible import mended

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


@pytest.mark.parametrize("case", CASES)
def test_page_is_mended_once(case: str) -> None:
    page, better = CASES[case]
    assert mended(page) == better
    assert mended(better) == better
