"""The book in two languages: a part of the extension.

The source of an edition has a file `edition.json`, made by `tools.translate.edition`.
Its sections keep the ids that they have in English, so that a page leads to the same
section of the other edition. A page that is still in English says so.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.nodes import fully_normalize_name, make_id
from markdown_it import MarkdownIt
from markdown_it.token import Token
from sphinx.transforms import SphinxTransform

from tools.words import say

FOLDER, EDITION = "zh", "edition.json"


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.add_transform(EnglishIds)
    app.connect("html-page-context", _lead, priority=450)


def edition(source: str | Path) -> dict[str, Any]:
    """Return what is known of an edition; nothing of the English book."""
    path = Path(source, EDITION)
    text = path.read_text(encoding="utf-8") if path.is_file() else "{}"
    return dict(json.loads(text))


class EnglishIds(SphinxTransform):
    """Give the sections of a page the ids that they have in English."""

    default_priority = 200  # before targets join the sections that they name

    def apply(self, **_: Any) -> None:
        """Rename them."""
        ids = edition(self.env.srcdir).get("ids", {}).get(self.env.docname)
        if ids is None:
            return
        for section, new in zip(self.document.findall(nodes.section), ids, strict=True):
            old = section["ids"][0] if section["ids"] else ""
            if new and new != old and new not in self.document.ids:
                section["ids"] = [new, *section["ids"][1:]]
                self.document.ids[new] = self.document.ids.pop(old, section)
                for name in section["names"]:
                    self.document.nameids[name] = new


def _lead(app: Any, page: str, template: str, context: Any, tree: Any) -> None:
    """Lead to the page in the other language; mark one that is not translated."""
    if page not in app.env.found_docs:
        return
    known = edition(app.srcdir)
    here, up = app.builder.get_target_uri(page), "../" * page.count("/")
    site = (app.config.book_site or "").removesuffix(f"{FOLDER}/" if known else "")
    is_english = page in known.get("english", ()) or page.startswith("book/api/")
    is_in_both = page in known.get("ids", ()) and not is_english
    is_in_both = is_in_both or (not known and page in _finished(app.srcdir))
    other = ("en", f"{up}../{here}") if known else ("zh-CN", f"{up}{FOLDER}/{here}")
    absolute = {"en": f"{site}{here}", "zh-CN": f"{site}{FOLDER}/{here}"}
    context["book_languages"] = {
        "other": other if known or is_in_both else None,
        "absolute": absolute | {"x-default": absolute["en"]}
        if site and is_in_both
        else {},
    }
    if known and is_english and isinstance(context.get("body"), str):
        words = f'<p class="book-untranslated">{say("page.untranslated")}</p>'
        context["body"] = f'{words}<div lang="en">{context["body"]}</div>'
        # For search engines it is the English page, once more.
        context["pageurl"] = site and absolute["en"]


def _finished(source: str | Path) -> list[str]:
    """Return the pages of the English book that the edition has, too."""
    path = Path(source, FOLDER, "edition.toml")
    text = path.read_text(encoding="utf-8") if path.is_file() else "finished = []"
    return list(tomllib.loads(text)["finished"])


def section_ids(text: str, parser: MarkdownIt) -> list[str]:
    """Return the ids that Sphinx gives the sections of a page, from their headings."""
    tokens = parser.parse(text)
    heads = [n + 1 for n, it in enumerate(tokens) if it.type == "heading_open"]
    titles = ("".join(map(_words, tokens[n].children or [])) for n in heads)
    return [make_id(fully_normalize_name(title)) for title in titles]


def _words(token: Token) -> str:
    if token.type in ("softbreak", "hardbreak"):
        return " "
    read = token.type in ("text", "code_inline", "math_inline")
    return token.content if read else ""
