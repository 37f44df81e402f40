r"""What search engines, tabs and messengers read of a page: a part of the extension.

Each page's description is its first paragraph, a formula in it in plain letters: a
library that does this (sphinxext-opengraph) cuts words in two, and shows `\sqrt{D}`. A
canonical address, a picture, sitemap and robots.txt come only where the site's address
is known; so does the link to the PDF, which publishing puts beside the first page.
"""

import re
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes

from tools.address import repository_address, site_address
from tools.site.hooks import when_built

PDF, PICTURE = "book.pdf", "_static/readme.png"
LONGEST = 160  # what search engines show of a description
COLOURS = {"light": "#fdfcf9", "dark": "#14181d"}  # --book-paper in book.css
WORDS = {
    "404": "There is no page at this address",
    "search": "Search every page",
}
VIEWPORT = re.compile(r'<meta\b[^>]*name="viewport"[^>]*>')


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    # "env": pages hold links to the address.
    app.add_config_value("book_site", None, "env", [str, type(None)])
    app.add_role("pdf", _link_pdf)
    app.connect("config-inited", _find_address)
    app.connect("html-page-context", _add_tags)
    when_built(app, _write_sitemap)


def _find_address(app: Any, config: Any) -> None:
    config.book_site = site_address(repository_address(Path(app.srcdir)))
    # Sphinx writes the canonical address of each page.
    config.html_baseurl = config.book_site or ""


def _link_pdf(
    name: str, raw: str, text: str, line: int, inliner: Any, *_: Any
) -> tuple[list[Any], list[Any]]:
    """Turn {pdf}`words` into a link to the PDF, where there is one to link."""
    site = inliner.document.settings.env.config.book_site
    if not site:
        return [nodes.Text(text)], []
    return [nodes.reference(raw, text, refuri=f"{site}{PDF}")], []


def describe(doctree: Any, title: str, book: str) -> str:
    """Return a page's description: its first paragraph, cut at a sentence or a word.

    Where a page has none, its title and the book's. Lists and boxes do not count, since
    they make no sense alone.
    """
    paragraphs = [] if doctree is None else doctree.findall(nodes.paragraph)
    for paragraph in paragraphs:
        text = _plain(paragraph)
        kinds = (nodes.document, nodes.section)
        if isinstance(paragraph.parent, kinds) and len(text) > 40:
            return shorten(text)
    return f"{title} · {book}"


def _plain(paragraph: nodes.paragraph) -> str:
    r"""Return a paragraph's words, `\sqrt{D}` as √D, other formulas without signs."""
    copy = paragraph.deepcopy()
    for formula in list(copy.findall(nodes.math)):
        tex = re.sub(r"\\sqrt\b\s*", "√", formula.astext())
        formula.replace_self(nodes.Text(re.sub(r"\\[A-Za-z]+|[\\{}_^$]", "", tex)))
    return " ".join(copy.astext().split())


def shorten(text: str, longest: int = LONGEST) -> str:
    """Return the sentences that fit, or as many words as do, then an ellipsis.

    >>> shorten("One two. Three four five.", 12)
    'One two.'
    >>> shorten("One two three", 9)
    'One two…'
    """
    if len(text) <= longest:
        return text
    end = text.rfind(". ", 0, longest)
    if end >= longest // 2:
        return text[: end + 1]
    return text[: longest - 1].rpartition(" ")[0].rstrip(",;:") + "…"


def _add_tags(
    app: Any, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Add the tags to `metatags`, which the theme writes into the page's head."""
    book, site = str(app.config.project), app.config.book_site
    known = pagename in app.env.titles
    title = app.env.titles[pagename].astext() if known else WORDS.get(pagename, book)
    text = describe(doctree, title, book)
    said = {
        "og:title": title,
        "og:description": text,
        "og:type": "article" if known else "website",
        "og:site_name": book,
    }
    if site:
        said |= {"og:image": site + PICTURE, "og:url": context.get("pageurl") or site}
        # A page that is not there may be asked for in any folder.
        context["book_base"] = urlsplit(site).path
    tags = [_tag(name="description", content=text)]
    tags += [_tag(property=name, content=words) for name, words in said.items()]
    for scheme, colour in COLOURS.items():
        media = f"(prefers-color-scheme: {scheme})"
        tags.append(_tag(name="theme-color", content=colour, media=media))
    # For browsers and home screens that take no SVG.
    picture = context["pathto"]("_static/favicon.png", 1)
    tags.append(f'<link rel="alternate icon" type="image/png" href="{picture}">')
    tags.append(f'<link rel="apple-touch-icon" href="{picture}">')
    # Sphinx's layout has the viewport already.
    given = VIEWPORT.sub("", str(context.get("metatags") or ""))
    context["metatags"] = "\n".join([given, *tags])


def _tag(**attributes: str) -> str:
    pairs = (f'{name}="{escape(value)}"' for name, value in attributes.items())
    return f"<meta {' '.join(pairs)}>"


def _write_sitemap(app: Any) -> None:
    """Write sitemap.xml and robots.txt where the site's address is known."""
    folder, site = Path(app.outdir), app.config.book_site
    for name in ("sitemap.xml", "robots.txt"):
        (folder / name).unlink(missing_ok=True)
    if not site:
        return
    pages = sorted(app.builder.get_target_uri(page) for page in app.env.found_docs)
    lines = [f"<url><loc>{escape(site + page)}</loc></url>" for page in pages]
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    text = "\n".join([head, f'<urlset xmlns="{space}">', *lines, "</urlset>", ""])
    (folder / "sitemap.xml").write_text(text, encoding="utf-8")
    rules = f"User-agent: *\nAllow: /\nSitemap: {site}sitemap.xml\n"
    (folder / "robots.txt").write_text(rules, encoding="utf-8")
