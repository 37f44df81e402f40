"""Each page of the site asks for one style sheet, which does what its many did."""

import re
from pathlib import Path

import pytest

from tools.chapters import SITE, site_pages
from tools.check.pages import parsed
from tools.site.bundle import join_pages, shared
from tools.site.sheets import joined, moved

LINKS = """\
<link rel="stylesheet" href="{0}_static/a.css?v=1" />
<link href={0}_static/b.css rel=stylesheet>"""


def test_pages_link_one_sheet_each() -> None:
    found = {page: parsed(page).select("link[rel=stylesheet]") for page in pages()}
    assert len(found) >= 20
    assert {len(links) for links in found.values()} == {1}
    names = {Path(str(links[0]["href"])).name for links in found.values()}
    assert {path.name for path in SITE.glob("_static/all-*.css")} == names
    assert len(names) == 1


def test_joined_sheet_leads_to_files_that_are_there() -> None:
    (sheet,) = SITE.glob("_static/all-*.css")
    css = sheet.read_text(encoding="utf-8")
    assert "@import" not in css
    assert "@charset" not in css
    found = {a for a in re.findall(r'url\("([^")]+)"\)', css) if ":" not in a}
    assert len(found) > 5
    assert [a for a in found if not (sheet.parent / a).is_file()] == []


def pages() -> list[Path]:
    """List the pages of the site that are more than a way to another."""
    return [
        page for page in site_pages(SITE) if not parsed(page).select("[http-equiv]")
    ]


# On a small site.


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "_static/deep").mkdir(parents=True)
    for name, text in {"a": "p{x:a}", "b": "p{x:b}", "deep/c": "p{x:c}"}.items():
        (tmp_path / f"_static/{name}.css").write_text(text)
    write(tmp_path, "one", LINKS)
    write(tmp_path, "two", LINKS)
    write(
        tmp_path,
        "in/three",
        LINKS + '<link rel="stylesheet" href="{0}_static/deep/c.css">',
    )
    return tmp_path


def write(site: Path, name: str, links: str) -> None:
    """Write a page with links, `{0}` for the way up."""
    path = site / f"{name}.html"
    path.parent.mkdir(exist_ok=True)
    links = links.format("../" * name.count("/"))
    path.write_text(f"<head>{links}</head><p>words</p>")


def sheets(site: Path, name: str) -> list[str]:
    """Return the texts of what a page links."""
    page = site / f"{name}.html"
    found = re.findall(r'<link rel="stylesheet" href="([^"]*)"', page.read_text())
    return [(page.parent / address).read_text() for address in found]


def test_pages_share_a_sheet_in_their_order(site: Path) -> None:
    join_pages(site)
    assert sheets(site, "one") == ["p{x:a}\np{x:b}\np{x:c}\n"]
    assert sheets(site, "in/three") == sheets(site, "two") == sheets(site, "one")
    assert len([*site.glob("_static/all-*.css")]) == 1


def test_page_with_fewer_sheets_has_its_own(site: Path) -> None:
    write(site, "few", '<link rel="stylesheet" href="_static/b.css">')
    write(site, "none", "")
    join_pages(site)
    assert sheets(site, "few") == ["p{x:b}\n"]
    assert sheets(site, "none") == []


def test_pages_that_disagree_share_nothing() -> None:
    a, b = ("a.css", ""), ("b.css", "")
    assert shared([(a, b), (b, a)]) == {}


def test_second_build_changes_nothing(site: Path) -> None:
    def files() -> dict[Path, bytes]:
        return {p: p.read_bytes() for p in site.rglob("*") if p.is_file()}

    join_pages(site)
    before = files()
    join_pages(site)
    assert files() == before
    write(site, "two", LINKS)  # as a build does that writes this page only
    join_pages(site)
    assert files() == before


def test_edited_sheet_reaches_the_pages_that_were_not_written(site: Path) -> None:
    join_pages(site)
    (site / "_static/b.css").write_text("p{x:new}")
    join_pages(site)
    assert sheets(site, "in/three") == ["p{x:a}\np{x:new}\np{x:c}\n"]
    assert len([*site.glob("_static/all-*.css")]) == 1


def test_media_are_kept(site: Path) -> None:
    link = '<link rel="stylesheet" media="{}" href="_static/a.css">'
    write(site, "print", link.replace("{}", "print and (min-width: 9cm)"))
    write(site, "all", link.replace("{}", "all"))
    for _ in range(2):
        join_pages(site)
        assert sheets(site, "print") == [
            "@media print and (min-width: 9cm){p{x:a}\n}\n"
        ]
        assert sheets(site, "all") == ["p{x:a}\n"]


def test_other_links_stay_and_early_ones_go(site: Path) -> None:
    others = '<link rel="icon" href="a.svg">'
    others += '<link rel="stylesheet" href="https://x.org/a.css">'
    others += '<link rel="alternate stylesheet" href="_static/b.css">'
    early = '<link rel="preload" as="style" href="_static/a.css">'
    write(site, "one", early + LINKS + others)
    join_pages(site)
    html = (site / "one.html").read_text()
    assert others in html
    assert "preload" not in html


def test_imports_stand_in_their_place(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    css = '@charset "UTF-8";@import "../base.css";@import url(p.css) print;p{x:1}'
    (tmp_path / "s/a.css").write_text(css)
    (tmp_path / "base.css").write_text("b{background:url(x.png)}")
    (tmp_path / "s/p.css").write_text("i{background:url('y.png')}")
    text = joined(tmp_path, [("s/a.css", "")], "_static")
    assert re.sub(r"\s", "", text) == (
        'b{background:url("../x.png")}@mediaprint{i{background:url("../s/y.png")}}p{x:1}'
    )


@pytest.mark.parametrize("what", ['"https://x.org/a.css"', '"b.css" layer(x)'])
def test_import_that_cannot_be_joined_is_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / "a.css").write_text(f"@import {what};")
    (tmp_path / "b.css").write_text("")
    with pytest.raises(ValueError, match=r"a\.css cannot be joined"):
        joined(tmp_path, [("a.css", "")], "")


def test_comments_and_texts_are_no_addresses(tmp_path: Path) -> None:
    css = """/* url(a.png) @import "b"; */p{content:"url(a.png)"}"""
    css += """p{background:url("data:x,url(#a)")}"""
    (tmp_path / "a.css").write_text(css)
    assert joined(tmp_path, [("a.css", "")], "_static") == css + "\n"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("url(x.png)", 'url("s/x.png")'),
        ("url( '../v/x.woff2?#iefix' )", 'url("../v/x.woff2?#iefix")'),
        ("url(data:image/png;base64,AA)", "url(data:image/png;base64,AA)"),
        ("url(#mark)", "url(#mark)"),
        ("url(/x.png)", "url(/x.png)"),
        ("url(//x.org/x.png)", "url(//x.org/x.png)"),
    ],
)
def test_addresses_lead_from_the_new_place(address: str, expected: str) -> None:
    start = "_static/s" if ".." not in address else "_static"
    assert moved(address, start, "_static") == expected
