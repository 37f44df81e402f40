"""Light style sheets: without the rules that no page can need, with fonts inside.

A font inside its style sheet lets nothing jump, and needs no leave in a page opened as
a file. So these faces are cut to the characters of the pages; others are
fetched when a page asks. Of the theme's sheet, which brings all of Bootstrap, a rule is
left out when its selectors ask for what no page has and no script names.
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
from tools.site.hooks import when_built

HERE = Path(__file__).parent
THEME = "styles/pydata-sphinx-theme.css"
# The fonts that a sheet gets. A formula may ask for others, which then come as files.
FONTS = {
    THEME: ("fa-solid-900",),
    "fonts.css": (
        "source-serif-4-latin-400-normal",
        "source-serif-4-latin-400-italic",
        "source-serif-4-latin-600-normal",
        "source-sans-3-latin-wght-normal",
        "source-code-pro-latin-400-normal",
    ),
    "katex.css": (
        "KaTeX_Main-Regular",
        "KaTeX_Math-Italic",
        *(f"KaTeX_Size{size}-Regular" for size in (1, 2, 3, 4)),
    ),
}
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
    app.add_css_file("fonts.css", priority=400)
    app.connect("html-page-context", _load)
    when_built(app, _write_sheets)


def _load(app: Any, page: str, template: str, context: Any, tree: Any) -> None:
    """Have pages load it that hold formulas, or terms, whose meanings may."""
    if re.search('class="[^"]*(math no|std-term)', context.get("body", "")):
        app.add_css_file("katex.css", priority=400)


def _write_sheets(app: Any) -> None:
    """Write the three sheets anew from their sources."""
    static, katex = Path(app.outdir) / "_static", HERE / "katex"
    shutil.copytree(katex / "fonts", static / "katex/fonts", dirs_exist_ok=True)
    shutil.copy(katex / "LICENSE", static / "katex")
    names, characters = _shown(Path(app.outdir))
    folders = [Path(folder) / "static" for folder in app.builder.theme.get_theme_dirs()]
    theme = next(path for folder in folders if (path := folder / THEME).is_file())
    formulas = (katex / "katex.min.css").read_text(encoding="utf-8")
    sheets = {
        THEME: with_silent_icons(purged(theme.read_text(encoding="utf-8"), names)),
        "fonts.css": (HERE / "faces.css").read_text(encoding="utf-8"),
        "katex.css": formulas.replace("url(fonts/", "url(katex/fonts/"),
    }
    others = set(static.rglob("*.css")) - {static / name for name in sheets}
    texts = [*sheets.values(), *(path.read_text(encoding="utf-8") for path in others)]
    for icon in (icon for text in texts for icon in CODE.finditer(text)):
        characters.add(chr(int(icon[1], 16)) if icon[1] else icon[0])
    for name, css in sheets.items():
        (static / name).write_text(
            embedded(css, static / name, FONTS[name], characters)
        )


def _shown(site: Path) -> tuple[set[str], set[str]]:
    """Return the names that rules may ask for, and the characters of all pages."""
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
    """Return a style sheet without what needs a class or an id outside of `names`."""

    def can_match(selector: str) -> bool:
        found = CLASS_OR_ID.findall(IN_BRACKETS.sub("", selector))
        return all(name in names or MADE.match(name) for name in found)

    def replace(rule: re.Match[str]) -> str:
        kept = ",".join(filter(can_match, COMMA.split(rule[1])))
        return f"{kept}{{{rule[2]}}}" if kept else ""

    licences = [text for text in COMMENT.findall(css) if text.startswith("/*!")]
    return "\n".join([*licences, RULE.sub(replace, COMMENT.sub("", css))])


def with_silent_icons(css: str) -> str:
    """Return the theme's sheet with icons of which a screen reader says nothing."""
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
    """Return a font with these characters only, from the last build where it can be."""
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
