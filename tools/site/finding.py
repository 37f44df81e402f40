"""The data of the search: a part of the extension.

A search result is a section, an entry of the glossary or a name of the library, as the
finished pages have it. `finding.js` packs them, into scripts, since a page opened as a
file may load nothing else, and finds them in the reader's browser.
"""

import json
import re
import shutil
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

from lxml import html

from tools.chapters import ROOT
from tools.site.hooks import when_built
from tools.site.kept import Kept
from tools.site.languages import edition

PROGRAMS, PLACES = ("finding_words.js", "finding.js"), "_static/places"
# No words of a place: signs, results, what is drawn, and labels of the library's pages.
NOISE = "//script|//style|//svg|//summary|//a[@class='headerlink']"
# A view's exhibits are places.
NOISE += "|//*[contains(@class,'output')][not(.//section)]"
NOISE += "|//dl[contains(@class,'field-list')]/dt"
NOISE += "|//p[@class='book-shown']"  # where the API shows what a cell shows
NOISE += "|//dd/p[@class='rubric']|//dt[@id]/following-sibling::dd/p[1][{}]".format(
    "starts-with(., 'Bases:') or starts-with(., '基类')"
)
PLACE = "//section[@id] | //dt[@id][not(following-sibling::*[1][self::dt])]"


def setup(app: Any) -> None:
    """Hook into Sphinx, without its own search."""
    app.connect("builder-inited", lambda app: setattr(app.builder, "search", False))
    when_built(app, _write)


def asked() -> dict[str, str]:
    """Return, by label, how people ask for a place, and what they asked in public."""
    words: dict[str, str] = {}
    for path in sorted((ROOT / "contributing/asked").glob("*.toml")):
        held = tomllib.loads(path.read_text(encoding="utf-8"))
        said = [*held.get("words", {}).items()]
        for it in held.get("asked", []):
            said.append((it["section"], f"{it['query']} {it['question']}"))
        for label, text in said:
            words[label] = f"{words.get(label, '')} {text}"
    return words


def places(page: Path, said: dict[str, str]) -> list[list[Any]]:
    """Return the anchor, heading, code, text and askers' words of a page's sections.

    And for an entry of the glossary or a question the pages and the headings where one
    reads on.
    """
    article: Any = html.parse(page).find(".//article")
    for noise in article.xpath(NOISE):
        noise.drop_tree()
    for formula in article.xpath("//span[@class='katex']"):
        tex, tail = formula.xpath("string(.//annotation)"), formula.tail
        formula.clear()
        formula.text, formula.tail = f"\ue000{tex}\ue000", tail
    found = []
    # Inner ones first: what they hold is theirs alone.
    for place in reversed(article.xpath(PLACE)):
        is_entry = place.tag == "dt"
        body = place.getnext() if is_entry else place
        # An entry may have two names, each a line of its own.
        twin = place.xpath("preceding-sibling::*[1][self::dt]")
        head = (
            [*twin, place]
            if is_entry
            else place.xpath("*[starts-with(name(), 'h')][1]")
        )
        code = body.xpath(".//pre")
        title = " ".join(it.text_content() for it in head)
        texts = [title, "\n".join(part.text_content() for part in code)]
        for part in (*code, *head):
            part.drop_tree()
        links = body.xpath(".//a[not(starts-with(@href, '#'))]")
        text, reads_on = body.text_content(), []
        if place.get("id").startswith("term-"):
            named = {link.text_content(): link.get("href") for link in links}
            title = "|".join(map(re.escape, named)) or "(?!)"
            link = rf"“?(?P<first>{title})”?"
            more = rf"([,、，和]?\s*“?({title})”?)*"
            see = rf"\s*(?:See|参?见)\s*{link}{more}[.。]"
            if first := re.search(see, text):
                page_of = named[first["first"]].partition("#")[0].lstrip("./")
                reads_on = [[page_of, first["first"]]]
            text = re.sub(see, "", text)
        for link in body.xpath("./p[starts-with(., '→')]/a"):
            page_of = link.get("href").partition("#")[0].lstrip("./")
            reads_on.append([page_of, link.text_content()])
        labels = body.xpath("@id | ./span/@id | ./*[starts-with(name(), 'h')]//@id")
        words = " ".join(said.get(label, "") for label in labels)
        found.append([place.get("id"), *texts, text, words, *reads_on])
        body.drop_tree()
    return found[::-1]


def _write(app: Any) -> None:
    """Pack the sections, and write the scripts."""
    from py_mini_racer import MiniRacer

    site = Path(app.outdir)
    pages = [app.builder.get_target_uri(name) for name in sorted(app.env.found_docs)]
    with MiniRacer() as engine:
        for program in (site / "_static" / name for name in PROGRAMS):
            engine.eval(program.read_text(encoding="utf-8"))
        known = edition(app.srcdir)
        said = asked()
        kept = Kept(site.parent / "places.json", Path(app.srcdir), json.dumps(said))
        found = []
        for page in pages:
            make = partial(places, site / page, said)
            found.append([page, kept.value(page, make, site / page)])
        kept.write()
        # Of a page that is still in English, an edition finds no code, to stay small.
        english = {app.builder.get_target_uri(it) for it in known.get("english", [])}
        for place in (it for page, its in found if page in english for it in its):
            place[2] = ""
        scripts = engine.call("bookFinding.write", found)
    shutil.rmtree(site / PLACES, ignore_errors=True)
    for name, text in scripts.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
