"""The pages are light: what a reader's browser fetches, and what it no longer does."""

import re
import shutil
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Browser

from tools.chapters import SITE, site_pages
from tools.check.pages import parsed
from tools.check.weight import (
    Weight,
    chapters,
    following,
    total,
    travelling,
    weigh,
    weigh_pages,
)
from tools.site import fonts
from tools.site.fonts import embedded_face
from tools.site.icons import icons, shown_characters, style, without_icons
from tools.site.lightness import lighter, svg_size, to_webp
from tools.site.purge import purged
from tools.site.typefaces import others

FIRST, NEXT = 400_000, 100_000
SHIFT = """() => new Promise((done) => {
    let shift = 0;
    const add = (list) => list.getEntries().forEach((e) => { shift += e.value; });
    new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
    setTimeout(() => done(shift), 200);
})"""


@pytest.fixture(scope="module")
def weights(browser: Browser) -> dict[Path, Weight]:
    return weigh_pages(browser, SITE, chapters(SITE))


def test_chapters_weigh_little(weights: dict[Path, Weight]) -> None:
    assert len(weights) >= 8
    heavy = {p.stem: total(w.whole) for p, w in weights.items()}
    assert {name: size for name, size in heavy.items() if size > FIRST} == {}


def test_next_chapter_adds_little(weights: dict[Path, Weight]) -> None:
    heavy = {page.stem: following(page, weights) for page in weights}
    assert {name: size for name, size in heavy.items() if size > NEXT} == {}


def test_chapters_ask_for_nothing_that_is_missing(weights: dict[Path, Weight]) -> None:
    assert {path for weight in weights.values() for path in weight.absent} == set()


def test_no_page_loads_what_was_left_out(weights: dict[Path, Weight]) -> None:
    names = {file.name for weight in weights.values() for file in weight.whole}
    assert any(name.startswith("all-") for name in names)
    # Whole fonts would come only for a glyph that the style sheets miss.
    left_out = [n for n in names if n.endswith(".woff2")]
    left_out += [n for n in names if re.search("fontawesome|mathjax|katex.*js", n)]
    assert left_out == []
    for page in site_pages(SITE):
        html = page.read_text(encoding="utf-8")
        assert not re.search("<script[^>]*(fontawesome|mathjax)", html, re.IGNORECASE)


@pytest.mark.parametrize("width", [375, 1440])
def test_chapters_do_not_jump(browser: Browser, width: int) -> None:
    # Opened as files, which must work too.
    with browser.new_page(viewport={"width": width, "height": 900}) as page:
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "console",
            lambda line: (
                said.append(line.text) if line.type in {"error", "warning"} else None
            ),
        )
        for chapter in chapters(SITE)[1:6:4]:
            page.goto(chapter.as_uri())
            assert page.evaluate(SHIFT) < 0.01
        page.goto((SITE / "search.html").as_uri())
        assert said == []


def test_icon_stands_in_for_its_script(browser: Browser) -> None:
    with browser.new_page() as page:
        page.goto(chapters(SITE)[0].as_uri())
        assert page.evaluate(
            """async () => {
                await document.fonts.ready;
                const icons = [...document.querySelectorAll("[class*='fa-']")];
                const bare = icons.filter((e) =>
                    /^(none|normal)$/.test(getComputedStyle(e, "::before").content));
                return [icons.length > 8, bare.map((e) => e.className)];
            }"""
        ) == [True, []]


def test_picture_says_its_size_and_waits() -> None:
    for page in chapters(SITE):
        images = parsed(page).select(".bd-article img")
        waiting = [image for image in images if image.get("loading") == "lazy"]
        assert waiting == images[1:]
        for image in images:
            assert image.get("width"), image
            assert image.get("height"), image
            assert not str(image["src"]).endswith(".png")


# The parts, on their own.


def test_weigh_sees_all_that_a_page_asks_for(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("p { background: url(b.png) }" + " " * 5000)
    (tmp_path / "b.png").write_bytes(b"0" * 3000)
    (tmp_path / "far.png").write_bytes(b"0" * 7000)
    (tmp_path / "page.html").write_text(
        '<!doctype html><link rel="stylesheet" href="a.css"><p>words</p>'
        '<img src="absent.png"><div style="height: 90000px"></div>'
        '<img src="far.png" loading="lazy">'
    )
    with browser.new_context() as context:
        weight = weigh(context, tmp_path, tmp_path / "page.html")
    assert {file.name for file in weight.first} == {"page.html", "a.css", "b.png"}
    assert {file.name for file in weight.whole - weight.first} == {"far.png"}
    assert [address.rpartition("/")[2] for address in weight.absent] == ["absent.png"]
    assert travelling(tmp_path / "a.css") < 200
    assert travelling(tmp_path / "b.png") == 3000


def test_following_leaves_out_what_the_other_page_had(tmp_path: Path) -> None:
    sizes = {"a": 100, "b": 10, "both": 1}
    files = {name: tmp_path / f"{name}.png" for name in sizes}
    for name, size in sizes.items():
        files[name].write_bytes(b"0" * size)
    page, other = (frozenset({files[name], files["both"]}) for name in ("a", "b"))
    weights = {
        Path(name): Weight(found, found, frozenset())
        for name, found in (("page", page), ("other", other))
    }
    assert following(Path("page"), weights) == 100


CSS = (
    '.fa-bars:before,.fa-navicon:before{content:"\\f0c9"}'
    '.fa-moon:before{content:"\\f186"}.kept{color:red}'
    ':root{--pst-icon-download:"\uf019"}'
)
FONTS = SITE / "_static/vendor/fontawesome/webfonts"


def test_icons_reads_every_name() -> None:
    assert icons(CSS) == {
        "fa-bars": "\uf0c9",
        "fa-navicon": "\uf0c9",
        "fa-moon": "\uf186",
    }


def test_icons_style_holds_what_is_used() -> None:
    page = '<i class="fa-solid fa-moon"></i> too far away'
    css = style(CSS, page, shown_characters(without_icons(CSS)), FONTS)
    assert '.fa-moon::before{content:"\\f186"' in css
    assert ".fa-bars" not in css
    assert re.findall("unicode-range:([^;]*)", css) == ["U+20,U+F019,U+F186"]
    assert "CC BY 4.0" in css


def test_icons_of_scripts_are_found(tmp_path: Path) -> None:
    assert ".fa-bars::before" in style(CSS, 'x.className = "fas fa-bars"', set(), FONTS)


def test_without_icons_keeps_the_rest() -> None:
    left = without_icons(CSS)
    assert ".kept{color:red}" in left
    assert "fa-" not in left


def test_embedded_face_without_glyphs_is_empty() -> None:
    face = embedded_face(
        FONTS / "fa-solid-900.woff2",
        {"漢", " "},
        family="A",
        weight=400,
        style="normal",
    )
    assert face == ""


def test_font_is_cut_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cuts: list[str] = []

    def cut(font: Path, characters: str, limits: object) -> bytes:
        cuts.append(characters)
        return characters.encode()

    monkeypatch.setattr(fonts, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(fonts, "MOST", 3)
    monkeypatch.setattr(fonts, "_cut", cut)
    font = tmp_path / "a.woff2"
    font.write_bytes(b"one")

    def ask(characters: str, limits: tuple[int, int] | None = None) -> bytes:
        fonts._subset.cache_clear()  # as another build
        return fonts._subset(font, characters, limits)

    assert ask("ab") == ask("ab") == b"ab"
    assert cuts == ["ab"]
    assert ask("abc") == b"abc"
    ask("ab", (400, 700))
    font.write_bytes(b"two")
    ask("ab")
    assert cuts == ["ab", "abc", "ab", "ab"]
    for number in range(9):
        ask(str(number))
    assert len(list(fonts.KEPT.iterdir())) <= fonts.MOST + 1
    fonts._subset.cache_clear()


@pytest.mark.parametrize(
    ("css", "left"),
    [
        (".a{x:1}.gone{x:1}", ".a{x:1}"),
        (".a .gone,.a>b,#gone{x:1}", ".a>b{x:1}"),
        (".a:not(.gone){x:1}", ".a:not(.gone){x:1}"),
        (":is(.gone,.a) b,[c=gone]{x:1}", ":is(.gone,.a) b,[c=gone]{x:1}"),
        ("@media print{.gone{x:1}}@media print{p{x:1}}", "@media print{p{x:1}}"),
        (
            "@font-face{src:url(b)}@import url(c);",
            "@font-face{src:url(b)}@import url(c);",
        ),
        (".tooltip-arrow{x:1}/* words *//*! MIT */", ".tooltip-arrow{x:1}/*! MIT */"),
    ],
)
def test_purged_keeps_what_a_page_can_need(css: str, left: str) -> None:
    assert purged(css, {"a"}) == left


def test_whole_fonts_answer_for_no_character_of_the_cut_ones() -> None:
    assert others({"\0", "b", "c", "\U0010ffff"}) == "U+1-61,U+64-10FFFE"


def test_webp_has_the_same_pixels(tmp_path: Path) -> None:
    picture = Image.linear_gradient("L").convert("P")
    picture.putpixel((3, 4), 200)
    picture.save(tmp_path / "a.png")
    assert to_webp(tmp_path / "a.png", tmp_path / "a.webp") == (256, 256)
    with Image.open(tmp_path / "a.webp") as made, Image.open(tmp_path / "a.png") as png:
        assert (
            ImageChops.difference(made.convert("RGB"), png.convert("RGB")).getbbox()
            is None
        )


def test_webp_follows_its_source(tmp_path: Path) -> None:
    for size in (10, 20):
        Image.new("RGB", (size, size)).save(tmp_path / "a.png")
        shutil.copystat(__file__, tmp_path / "a.webp") if size == 20 else None
        to_webp(tmp_path / "a.png", tmp_path / "a.webp")
    with Image.open(tmp_path / "a.webp") as made:
        assert made.size == (20, 20)


@pytest.mark.parametrize("lazy", [True, False])
def test_lighter_changes_the_tag(tmp_path: Path, lazy: bool) -> None:
    Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
    tag = '<img alt="A" src="../_images/a.png" style="width: 15px;" />'
    got = lighter(tag, "../_images/a.png", tmp_path / "a.png", tmp_path, lazy)
    assert 'src="../_images/a.webp"' in got
    assert 'width="30" height="20"' in got
    assert ('loading="lazy"' in got) == lazy


@pytest.mark.parametrize(
    ("svg", "size"),
    [
        ('<svg viewBox="0 0 40 30.5" />', (40, 30.5)),
        ('<svg width="80" height="61" viewBox="0 0 40 30.5" />', (80, 61)),
        ("<svg />", None),
    ],
)
def test_svg_size_is_what_the_drawing_asks_for(
    tmp_path: Path, svg: str, size: tuple[float, float] | None
) -> None:
    (tmp_path / "a.svg").write_text(svg)
    assert svg_size(tmp_path / "a.svg") == size
