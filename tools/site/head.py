r"""What search engines, tabs and messengers read of a page: a part of the extension.

Each page's description is its first paragraph: sphinxext-opengraph would cut words in
two, and show `\sqrt{D}`. The template `layout.html` writes the tags. What holds an
address of the site, as the link to the PDF, comes only where that is known.
"""

import re
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from docutils import nodes

from tools.address import repository_address, site_address
from tools.site.hooks import when_built
from tools.words import say

PDF = "book.pdf"
LONGEST = 160  # what search engines show of a description
WORDS = {"404": say("missing.about"), "search": say("search.about")}
SITEMAP = '<?xml version="1.0" encoding="UTF-8"?>\n'
SITEMAP += (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{}\n</urlset>\n'
)


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    # "env": pages hold links to the address.
    app.add_config_value("book_site", None, "env", [str, type(None)])
    app.add_role("pdf", _link_pdf)
    app.connect("config-inited", _find_address)
    app.connect("html-page-context", _say)
    when_built(app, _write_sitemap)


def _find_address(app: Any, config: Any) -> None:
    config.book_site = site_address(repository_address(Path(app.srcdir)))
    # Sphinx writes the canonical address of each page.
    config.html_baseurl = config.book_site or ""


def _link_pdf(name: str, raw: str, text: str, line: int, inliner: Any, *_: Any) -> Any:
    """Turn {pdf}`words` into a link to the PDF, if there is one to link."""
    site = inliner.document.settings.env.config.book_site
    if not site:
        return [nodes.Text(text)], []
    return [nodes.reference(raw, text, refuri=urljoin(site, PDF))], []


def _say(app: Any, page: str, template: str, context: Any, tree: Any) -> None:
    """Pass `book_head` to the templates: the content of the page's head."""
    known = page in app.env.titles
    title = app.env.titles[page].astext() if known else WORDS.get(page, "")
    site = app.config.book_site or ""
    context["book_head"] = {
        "title": title or app.config.project,
        "text": describe(tree) or f"{title} · {app.config.project}",
        "type": "article" if known else "website",
        "name": app.config.project,
        "site": site,
        "base": urlsplit(site).path,
    }


def describe(tree: nodes.document | None) -> str:
    """Return a page's first paragraph outside of lists and boxes, cut, or ""."""
    for paragraph in tree.findall(nodes.paragraph) if tree else ():
        text = _plain(paragraph)
        kinds = (nodes.document, nodes.section)
        if isinstance(paragraph.parent, kinds) and len(text) > 40:
            return shorten(text)
    return ""


def _plain(paragraph: nodes.paragraph) -> str:
    r"""Return a paragraph's words, `\sqrt{D}` as √D, other formulas without signs."""
    copy = paragraph.deepcopy()
    for formula in list(copy.findall(nodes.math)):
        tex = re.sub(r"\\sqrt\b\s*", "√", formula.astext())
        formula.replace_self(nodes.Text(re.sub(r"\\[A-Za-z]+|[\\{}_^$]", "", tex)))
    return " ".join(copy.astext().split())


def shorten(text: str, longest: int = LONGEST) -> str:
    """Return the sentences that fit, or as many words as fit, then an ellipsis."""
    if len(text) <= longest:
        return text
    end = text.rfind(". ", 0, longest)
    if end >= longest // 2:
        return text[: end + 1]
    return text[: longest - 1].rpartition(" ")[0].rstrip(",;:") + "…"


def _write_sitemap(app: Any) -> None:
    """Write a map of the site if its address is known."""
    path, site = Path(app.outdir, "sitemap.xml"), app.config.book_site
    path.unlink(missing_ok=True)
    if site:
        pages = sorted(app.builder.get_target_uri(page) for page in app.env.found_docs)
        urls = "\n".join(f"<url><loc>{escape(site + p)}</loc></url>" for p in pages)
        path.write_text(SITEMAP.format(urls), encoding="utf-8")
