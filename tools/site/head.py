"""What search engines, tabs and messengers read of a page: a part of the extension.

Each page's description is its first paragraph. Nothing is loaded for any of it. A
canonical address, sitemap and robots.txt come only where the site's address is known;
so does the link to the PDF, which publishing puts beside the first page.
"""

from html import escape
from pathlib import Path
from typing import Any

from tools.address import repository_address, site_address

PDF = "book.pdf"
LONGEST = 160  # what search engines show of a description
COLOURS = {"light": "#fdfcf9", "dark": "#14181d"}  # --book-paper in book.css
UNLISTED = {"genindex", "search", "py-modindex"}
WORDS = {
    "genindex": "Index of every name and term",
    "py-modindex": "Index of every module",
    "search": "Search every page",
}


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    # "env": pages hold links to the address.
    app.add_config_value("book_site", None, "env", [str, type(None)])
    app.add_role("pdf", _link_pdf)
    app.connect("config-inited", _find_address)
    app.connect("html-page-context", _add_tags, priority=600)
    app.connect("build-finished", _write_sitemap)


def _find_address(app: Any, config: Any) -> None:
    config.book_site = site_address(repository_address(Path(app.srcdir)))


def _link_pdf(
    name: str, raw: str, text: str, line: int, inliner: Any, *_: Any
) -> tuple[list[Any], list[Any]]:
    """Turn {pdf}`words` into a link to the PDF, where there is one to link."""
    from docutils import nodes

    site = inliner.document.settings.env.config.book_site
    if not site:
        return [nodes.Text(text)], []
    return [nodes.reference(raw, text, refuri=f"{site}{PDF}")], []


def describe(doctree: Any, title: str, book: str) -> str:
    """Return a page's description: its first paragraph, cut at a sentence or a word.

    Where a page has none, its title and the book's. Lists and boxes do not count, since
    they make no sense alone.
    """
    from docutils import nodes

    kinds = (nodes.document, nodes.section)
    paragraphs = [] if doctree is None else doctree.findall(nodes.paragraph)
    for paragraph in paragraphs:
        text = " ".join(paragraph.astext().split())
        if isinstance(paragraph.parent, kinds) and len(text) > 40:
            return shorten(text)
    return f"{title} · {book}"


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
    book = str(app.config.project)
    known = pagename in app.env.titles
    title = app.env.titles[pagename].astext() if known else WORDS.get(pagename, book)
    text = describe(doctree, title, book)
    tags = [
        _tag(name="description", content=text),
        _tag(property="og:title", content=title),
        _tag(property="og:description", content=text),
        _tag(property="og:type", content="article" if known else "website"),
        _tag(property="og:site_name", content=book),
    ]
    for scheme, colour in COLOURS.items():
        media = f"(prefers-color-scheme: {scheme})"
        tags.append(_tag(name="theme-color", content=colour, media=media))
    # For browsers and home screens that take no SVG.
    picture = context["pathto"]("_static/favicon.png", 1)
    tags.append(f'<link rel="alternate icon" type="image/png" href="{picture}">')
    tags.append(f'<link rel="apple-touch-icon" href="{picture}">')
    if app.config.book_site and pagename not in UNLISTED:
        address = f"{app.config.book_site}{app.builder.get_target_uri(pagename)}"
        tags.append(f'<link rel="canonical" href="{escape(address)}">')
        tags.append(_tag(property="og:url", content=address))
    context["metatags"] = "\n".join([str(context.get("metatags") or ""), *tags])


def _tag(**attributes: str) -> str:
    pairs = (f'{name}="{escape(value)}"' for name, value in attributes.items())
    return f"<meta {' '.join(pairs)}>"


def _write_sitemap(app: Any, exception: Exception | None) -> None:
    """Write sitemap.xml and robots.txt where the site's address is known."""
    if exception or app.builder.format != "html":
        return
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
