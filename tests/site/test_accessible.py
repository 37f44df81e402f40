"""What others' HTML lacks is mended, once; where nothing lacks it, the build fails."""

from types import SimpleNamespace

import pytest
from sphinx.errors import ExtensionError

from tests.running import written
from tools.site import launch
from tools.site.accessible import mend_site, mended

CASES = {
    "citation": ('<div role="doc-biblioentry">', '<div role="listitem">'),
    "contents": (
        '<nav class="contents local" id="themes">',
        '<nav class="contents local" id="themes" aria-label="Contents: themes">',
    ),
    "arrow": (
        '<summary><span class="toctree-toggle">',
        '<summary aria-label="Show the pages below"><span class="toctree-toggle">',
    ),
    "fold": (
        '<summary aria-label="Toggle hidden content">\n<p class="collapsed">Show it',
        '<summary>\n<p class="collapsed">Show it',
    ),
    "long name": (
        '<span class="pre">nn.MultiheadAttention(embed_dim)</span>',
        '<span class="pre">nn.<wbr>MultiheadAttention(embed_<wbr>dim)</span>',
    ),
    "short name": ('<span class="pre">num_heads</span>',) * 2,
    "code": (
        '<span class="nb">len</span><span class="p">(</span><span class="n">x</span>',
        '<span class="nb">len</span>(<span class="n">x</span>',
    ),
    "our own": ("<summary>Hint</summary>", "<summary>Hint</summary>"),
}
VIEWPORT = '<meta name="viewport" content="">'


@pytest.mark.parametrize("case", CASES)
def test_page_is_mended_once(case):
    page, better = CASES[case]
    assert mended(page) == better
    assert mended(better) == better


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "", None),
        ("doc-biblioentry", "doc-entry", "no page needs .*listitem"),
        ('class="p"', 'class="punctuation"', "no page needs .*</span>"),
        ("toctree-toggle", "toggle", "no page needs .*Show the pages below"),
        (VIEWPORT, VIEWPORT * 2, "has not one viewport"),
        (VIEWPORT, VIEWPORT + "<script src=fontawesome.js>", "loads icons"),
    ],
)
def test_theme_that_changed_is_refused(tmp_path, old, new, words):
    page = VIEWPORT + "".join(before for before, _ in CASES.values())
    (tmp_path / "page.html").write_text(page.replace(old, new) if old else page)
    if words is None:
        mend_site(tmp_path)
        mend_site(tmp_path)  # as the next build, which writes no page
        return
    with pytest.raises(ExtensionError, match=words):
        mend_site(tmp_path)


def test_template_that_the_theme_lacks_is_refused(tmp_path, monkeypatch):
    theme = SimpleNamespace(get_theme_dirs=lambda: [str(tmp_path / "theme")])
    app = SimpleNamespace(builder=SimpleNamespace(format="html", theme=theme))
    monkeypatch.setattr(launch, "TEMPLATES", tmp_path / "ours")
    names = "theme/deep/parts/a.html", "ours/parts/a.html", "ours/404.html"
    written(tmp_path, dict.fromkeys(names, ""))
    launch._compare_templates(app)
    (tmp_path / "theme/deep/parts/a.html").rename(tmp_path / "theme/deep/a.html")
    with pytest.raises(ExtensionError, match=r"no parts/a\.html: mend book/_templates"):
        launch._compare_templates(app)
