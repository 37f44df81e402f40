"""One light style sheet: without unused rules, with fonts inside.

A phone far away waits longest for the number of files, so all sheets are joined. A font
inside lets nothing jump, and needs no leave in a page opened as a file. So these faces
are cut to the characters of the pages; others are fetched when a page asks. Of others'
sheets, one of which brings all of Bootstrap, a rule is left out when its selectors ask
for what no page has and no script names.
"""

import base64
import hashlib
import io
import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

from tools.chapters import ROOT, site_pages
from tools.site.build import digest
from tools.site.hooks import when_built
from tools.words import say

HERE = Path(__file__).parent
SHEET = "site.css"
THEME = "styles/pydata-sphinx-theme.css"
# The fonts inside. A formula may ask for others, which then come as files.
FONTS = (
    "fa-solid-900",
    *(
        f"source-serif-4-latin-{it}"
        for it in ("400-normal", "400-italic", "600-normal")
    ),
    "source-sans-3-latin-wght-normal",
    "source-code-pro-latin-400-normal",
    "KaTeX_Main-Regular",
    "KaTeX_Math-Italic",
    *(f"KaTeX_Size{size}-Regular" for size in (1, 2, 3, 4)),
)
# Cutting takes seconds, and most edits need no new glyph.
KEPT = ROOT / "_build/fonts"
NAMED = re.compile(r'\b(?:class|id)="([^"]*)"')
WORD = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
# Bootstrap's script makes these of two words.
MADE = re.compile(r"bs-tooltip-|tooltip|show|fade|collaps|modal|dropdown")
RULE = re.compile(r"([^{};]+)\{([^{}]*)\}")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# Commas of a list of selectors; those in brackets are no ends of one.
COMMA = re.compile(r",(?![^(]*\))")
IN_BRACKETS = re.compile(r"\([^()]*\)|\[[^]]*\]")
CLASS_OR_ID = re.compile(r"[.#](-?[A-Za-z_][\w-]*)", re.ASCII)
# An icon's character lies where no language has any.
ICON = re.compile(r'content:"\\([ef][0-9a-f]{3})"')
CODE = re.compile(r"\\([ef][0-9a-f]{3})\b|[\ue000-\uf8ff]")


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    # The template webpack-macros.html links the sheet, of the version of the page.
    link = {"css_files": [], "book_sheet": digest(ROOT)[:8]}
    app.connect("html-page-context", lambda *said: said[3].update(link), priority=950)
    when_built(app, _write_sheet, priority=900)  # the theme writes pygments.css


def _write_sheet(app: Any) -> None:
    """Join all sheets, in the order in which a page would load them."""
    static, formulas = Path(app.outdir) / "_static", HERE / "katex"
    left_out = shutil.ignore_patterns("*.js")
    shutil.copytree(formulas, static / "katex", ignore=left_out, dirs_exist_ok=True)
    shutil.copy(HERE / "faces.css", static)
    asked = sorted(app.builder._css_files, key=lambda sheet: sheet.priority)
    files = [it.filename.removeprefix("_static/") for it in asked]
    names, characters = _shown(Path(app.outdir))
    # No font of ours has Chinese characters: new ones need no new cut.
    characters = {it for it in characters if it < "\u2e80" or "\ue000" <= it < "\uf900"}
    css = ""
    for name in ("basic.css", THEME, "faces.css", "katex/katex.min.css", *files):
        text = (static / name).read_text(encoding="utf-8").replace("url(../", "url(")
        text = text.replace("url(fonts/Ka", "url(katex/fonts/Ka")
        # Our scripts put names together, which no search of them finds.
        own = (name, {}) in app.config.html_css_files
        text = COMMENT.sub("", text) if own else purged(text, names)
        css += f"/*! {name} */\n{with_silent_icons(text) if name == THEME else text}\n"
    before, after = say("page.chapter", number="@").split("@")
    css = css.replace("var(--said-chapter)", f'"{before}"')
    css = css.replace("var(--said-chapter-end)", f'"{after}"')
    for icon in CODE.finditer(css):
        characters.add(chr(int(icon[1], 16)) if icon[1] else icon[0])
    (static / SHEET).write_text(embedded(css, static / SHEET, FONTS, characters))


def _shown(site: Path) -> tuple[set[str], set[str]]:
    """Return the names that rules may select, and the characters of all pages."""
    names, characters = set[str](), {*map(chr, range(32, 127)), "\xa0"}
    for page in site_pages(site):
        text = page.read_text(encoding="utf-8")
        characters.update(unescape(text))
        names.update(*(found.split() for found in NAMED.findall(text)))
    for script in site.rglob("*.js"):
        if "places" not in script.relative_to(site).as_posix():  # any name, no code
            text = script.read_text(encoding="utf-8")
            characters.update(text)
            names.update(WORD.findall(text))
    return names, characters


def purged(css: str, names: set[str]) -> str:
    """Return a style sheet without rules for classes or ids outside of `names`."""

    def can_match(selector: str) -> bool:
        found = CLASS_OR_ID.findall(IN_BRACKETS.sub("", selector))
        return all(name in names or MADE.match(name) for name in found)

    def replace(rule: re.Match[str]) -> str:
        kept = ",".join(filter(can_match, COMMA.split(rule[1])))
        return f"{kept}{{{rule[2]}}}" if kept else ""

    licences = [text for text in COMMENT.findall(css) if text.startswith("/*!")]
    return "\n".join([*licences, RULE.sub(replace, COMMENT.sub("", css))])


def with_silent_icons(css: str) -> str:
    """Return the theme's sheet with icons that screen readers skip."""
    # The empty text after the slash is what is said.
    css, count = ICON.subn(r'content:"\\\1";content:"\\\1"/""', css)
    if not count:
        raise ExtensionError(f"{THEME} shows no icon of a page: mend {__file__}")
    return css


def embedded(
    css: str, sheet: Path, fonts: tuple[str, ...], characters: set[str]
) -> str:
    """Return the text of a sheet with these fonts inside, cut."""
    for font in fonts:
        address = re.compile(rf"url\(([^)]*/{font}\.woff2)\)")
        if not (found := address.search(css)):
            raise ExtensionError(f"{sheet.name} names no {font}.woff2: mend {__file__}")
        data = base64.b64encode(_cut_once(sheet.parent / found[1], characters))
        css = address.sub(f"url(data:font/woff2;base64,{data.decode()})", css)
    return css


def _cut_once(font: Path, characters: set[str]) -> bytes:
    """Return a font with these characters only, from the last build if possible."""
    asked = font.read_bytes() + "".join(sorted(characters)).encode()
    path = KEPT / f"{font.stem}-{hashlib.sha256(asked).hexdigest()[:16]}.woff2"
    if not path.is_file():
        KEPT.mkdir(parents=True, exist_ok=True)
        for old in KEPT.glob(f"{font.stem}-*"):
            old.unlink(missing_ok=True)
        path.write_bytes(cut(font, characters))
    return path.read_bytes()


def cut(font: Path, characters: set[str]) -> bytes:
    """Return a font with those of the characters that it has."""
    from fontTools import subset  # type: ignore[import-untyped]
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]

    options = subset.Options(flavor="woff2", hinting=False, desubroutinize=True)
    with TTFont(font, recalcTimestamp=False) as whole:
        cutter = subset.Subsetter(options)
        cutter.populate(text="".join(characters))
        cutter.subset(whole)
        whole.flavor = "woff2"
        whole.save(file := io.BytesIO())
    return file.getvalue()
