"""The icons of the pages: a small style sheet instead of Font Awesome's whole script.

The theme loads 1.5 MB of script, which turns each `<i class="fa-solid fa-bars">` into a
picture. Its own style sheet can show the same icon from a font, so the script is left
out (`book/_templates`), and the font is cut to the icons whose names stand in a page or
script, and to those that style sheets show. An icon that was missed would still come,
from the whole font.
"""

import re
from pathlib import Path
from typing import Any

from tools.site.fonts import embedded_face

STYLE = "icons.css"
THEME_STYLE = "styles/pydata-sphinx-theme.css"
RULE = re.compile(
    r'((?:\.fa-[a-z0-9-]+:before,?)+)\{content:"\\([0-9a-f]+) ?"\}', re.ASCII
)
NAME = re.compile(r"\bfa-[a-z0-9-]+")
STYLES = re.compile(r"\b(fa[srb] (?=fa-)|fa-(?:solid|regular|brands)\b)")
# A style sheet may write the character itself.
SHOWN = re.compile(r"[\ue000-\uf8ff]|\\(e[0-9a-f]{3}|f[0-9a-f]{3})\b")
# Style, family, weight, file, and the classes that ask for it.
FONTS = (
    ("Font Awesome 6 Free", 900, "fa-solid-900", {"fas", "fa-solid"}),
    ("Font Awesome 6 Free", 400, "fa-regular-400", {"far", "fa-regular"}),
    ("Font Awesome 6 Brands", 400, "fa-brands-400", {"fab", "fa-brands"}),
)
HEAD = """\
/* Icons of Font Awesome Free by Fonticons, Inc., https://fontawesome.com, a selection.
   Icons: CC BY 4.0, https://creativecommons.org/licenses/by/4.0/. Fonts: OFL 1.1. */
"""
# What the theme's script made of three icons, for which the theme has rules of its own.
SAME_SIZE = """\
.theme-switch-button .theme-switch.fa-lg{font-size:1em;line-height:1;vertical-align:0}
.bd-sidebar-secondary .onthispage i.fa-solid{padding-right:0}
.prev-next-area a i.fa-solid{font-size:1em}
"""


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    templates = Path(app.srcdir) / "book/_templates"
    app.connect(
        "config-inited",
        lambda _, config: config.templates_path.append(str(templates)),
    )
    app.add_css_file(STYLE, priority=400)
    app.connect("build-finished", _write_style)


def _write_style(app: Any, error: Exception | None) -> None:
    """Write the icons' style sheet, and shorten the theme's."""
    if error is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    theme_style = next(
        path
        for folder in app.builder.theme.get_theme_dirs()
        if (path := Path(folder) / "static" / THEME_STYLE).is_file()
    )
    css = theme_style.read_text(encoding="utf-8")
    html = "".join(p.read_text(encoding="utf-8") for p in _pages(Path(app.outdir)))
    for path in static.glob("scripts/fontawesome.js*"):
        path.unlink()
    scripts = "".join(p.read_text(encoding="utf-8") for p in static.rglob("*.js"))
    sheets = [p for p in static.rglob("*.css") if p.name not in {STYLE, "katex.css"}]
    sheets = [p for p in sheets if p != static / THEME_STYLE]
    others = "".join(path.read_text(encoding="utf-8") for path in sheets)
    shown = shown_characters(RULE.sub("", css) + others)
    text = style(css, html + scripts, shown, static / "vendor/fontawesome/webfonts")
    (static / STYLE).write_text(text, encoding="utf-8")
    (static / THEME_STYLE).write_text(without_icons(css), encoding="utf-8")


def _pages(folder: Path) -> list[Path]:
    """List the built pages, without the theme's own fragments of HTML."""
    return [
        path
        for path in sorted(folder.rglob("*.html"))
        if "_static" not in path.relative_to(folder).parts
    ]


def icons(css: str) -> dict[str, str]:
    """Return the character of each icon that Font Awesome's style sheet names."""
    return {
        name: chr(int(rule[2], 16))
        for rule in RULE.finditer(css)
        for name in NAME.findall(rule[1])
    }


def shown_characters(css: str) -> set[str]:
    """Return the icons that a style sheet shows by their character."""
    found = SHOWN.finditer(css)
    return {chr(int(m[1], 16)) if m[1] else m[0] for m in found}


def without_icons(css: str) -> str:
    """Return the theme's style sheet without its rules for single icons."""
    return re.sub(r"/\*# sourceMappingURL=.*?\*/", "", RULE.sub("", css))


def style(css: str, pages: str, shown: set[str], fonts: Path) -> str:
    """Return the style sheet for the icons that pages and scripts name."""
    names, known = set(NAME.findall(pages)), icons(css)
    used = {name: known[name] for name in sorted(names & known.keys())}
    characters = {" ", *used.values(), *shown}
    words = {word.strip() for word in STYLES.findall(pages)}
    faces = [
        embedded_face(
            fonts / f"{file}.woff2",
            characters,
            family=family,
            weight=weight,
            style="normal",
        )
        for family, weight, file, classes in FONTS
        if classes & words
    ]
    # The empty text after the slash is what a screen reader says of the icon.
    rules = [
        f'.{name}::before{{content:"\\{ord(character):x}";'
        f'content:"\\{ord(character):x}"/""}}\n'
        for name, character in used.items()
    ]
    return HEAD + "".join(faces + rules) + SAME_SIZE
