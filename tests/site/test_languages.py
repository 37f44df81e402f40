"""The site in two languages: the same sections, and a way from each to the other."""

import json
import re
from unittest.mock import Mock

import pytest

from tests.browsing import lay_out
from tests.pages import complaints, target, tree
from tests.running import sample, written
from tests.site.searching import DIALOG, READY, found, missed
from tests.site.weight import total
from tools.chapters import ROOT, SITE
from tools.language import language
from tools.site import languages, launch, pictures
from tools.translate.catalogue import page_paths, settings

pytestmark = pytest.mark.usefixtures("site")
OWN = SITE / "zh"
FINISHED = settings(ROOT)["finished"]
# How many are missed, at most. The second are from other threads, written afterwards.
QUERIES = {"queries-zh.txt": 6, "queries-zh-2.txt": 5}
QUERIES |= {"queries-zh-3.txt": 3}  # 40 of 60 before any askers' words were written
QUERIES |= {"queries-zh-4.txt": 5}  # 11 of 22 before they were, and 14 after
QUERIES |= {"queries-zh-5.txt": 5}  # 9 of 14 before they were, and 9 after
QUERIES |= {"queries-zh-6.txt": 15}  # titles as they are: 49 of 74, then 52
QUERIES |= {"queries-zh-7.txt": 7}  # written with the book closed: 99 of 113
QUERIES |= {"queries-zh-8.txt": 4}  # 60 on finished pages, by somebody new: 56 unseen
QUERIES |= {"queries-zh-9.txt": 4}  # 40 more, in shorter words: 36 unseen
# Where people look for words: not in code, names, or sentences that models read.
WORDS = "//div[contains(@class, 'attention-static')]"
WORDS += "//text()[not(ancestor::code or ancestor::td)]"
SENTENCE = re.compile(r"(?:\b[A-Za-z][a-z]+\b[ ,]+){4,}[a-z]+")

# Beside Chinese, words that no model reads: "第 1 the one that a word belongs to".
MIXED = re.compile("[\u4e00-\u9fff] ?(?:[a-z]+ ){3,}")


def links(page):
    """The buttons that lead to the other edition."""
    return tree(page).xpath("//a[contains(@class, 'book-language')]")


@pytest.mark.parametrize("name", page_paths(ROOT))
def test_sections_have_their_english_ids(name):
    both = [tree(folder / f"{name}.html") for folder in (SITE, OWN)]
    english, own = (it.xpath("//article//section/@id") for it in both)
    assert english == own


@pytest.mark.parametrize("name", page_paths(ROOT))
def test_page_leads_to_the_other_edition(name):
    english, own = (folder / f"{name}.html" for folder in (SITE, OWN))
    assert tree(own).get("lang") == "zh-CN"
    (back,) = links(own)
    assert back.get("lang") == "en"
    assert target(own, back.get("href")) == english
    there = [target(english, it.get("href")) for it in links(english)]
    assert there == ([own] if name in FINISHED else [])


@pytest.mark.parametrize("name", page_paths(ROOT))
def test_page_that_is_not_finished_says_so(name):
    page = tree(OWN / f"{name}.html")
    said = page.xpath("//*[contains(@class, 'book-untranslated')]")
    assert len(said) == (name not in FINISHED)
    assert len(page.xpath("//div[@lang='en']//h1")) == (name not in FINISHED)


@pytest.mark.parametrize("page", ["chapters/01-a", "chapters/02-b"])
def test_search_engines_are_led_to_one_page_of_each_language(tmp_path, page):
    """A page that is still in English is the English one, once more."""
    known = {"ids": {"chapters/01-a": [], "chapters/02-b": []}}
    known["english"] = ["chapters/02-b"]
    written(tmp_path, {"edition.json": json.dumps(known)})
    app, context = Mock(srcdir=tmp_path), {"body": "<p>…</p>"}
    app.config.book_site = (site := "https://ada.github.io/book/") + "zh/"
    app.builder.get_target_uri = "{}.html".format
    app.env.found_docs = {page}
    languages._lead(app, page, "", context, None)
    absolute = context["book_languages"]["absolute"]
    if page in known["english"]:
        assert context["pageurl"] == f"{site}{page}.html"
        assert absolute == {}
    else:
        assert "pageurl" not in context  # Sphinx's own
        own, english = f"{site}zh/{page}.html", f"{site}{page}.html"
        assert absolute == {"en": english, "zh-CN": own, "x-default": english}


def test_pages_of_the_edition_pass():
    assert complaints(OWN) == []


def test_queries_in_chinese_find_their_place_among_the_first_three(browser):
    with browser.new_page() as page:
        page.goto((OWN / "chapters/03-masks.html").as_uri())
        page.keyboard.press("Control+k")
        page.wait_for_function(READY)
        for name, most in QUERIES.items():
            asked = [line.split(" | ") for line in sample(name).splitlines()]
            misses = missed(page, asked, "zh/")
            assert len(misses) <= most, (name, misses)
        marks = page.locator(f"{DIALOG} mark")
        found(page, "因果掩码")
        marks.first.wait_for()
        assert "因果掩码" in marks.all_text_contents()


def test_first_use_of_the_search_in_chinese_weighs_little():
    """Pairs of characters are many: in English it is less than 150 KB."""
    names = ("minisearch", "places", "finding_words", "finding")
    assert total(OWN / f"_static/{name}.js" for name in names) < 190_000


def test_new_words_of_figures_have_all_pages_written_anew(tmp_path):
    written(tmp_path, {"edition.json": '{"figures": {"loss": "损失"}}'})
    pictures.setup(app := Mock(srcdir=tmp_path))
    app.add_config_value.assert_called_once_with(
        "figure_words", {"loss": "损失"}, "html", [dict]
    )


@pytest.mark.parametrize("name", FINISHED)
def test_words_in_figures_are_chinese(name):
    """A single English word may be a name, or one that a model reads."""
    texts = letters(OWN / f"{name}.html")
    assert [it for it in texts if re.search(r"[a-z]{2,},? [a-z]{2,}", it)] == []


def letters(page):
    """What is written in the figures of a page."""
    texts = tree(page).xpath("//svg[@role='img']//text/text()")
    return [" ".join(it.split()) for it in texts]


def test_words_of_the_table_are_in_figures():
    shown = {it for name in FINISHED for it in letters(SITE / f"{name}.html")}
    lines = settings(ROOT)["figures"]
    assert [it for it in lines if it not in shown] == []


@pytest.mark.parametrize("name", FINISHED)
def test_what_views_say_is_chinese(name):
    """Also without a script. What they draw is data: sentences that a model reads."""
    said = tree(OWN / f"{name}.html").xpath(WORDS)
    assert [text for text in said if SENTENCE.search(text)] == []


# What is seen of views, once their programs run: texts, and what is said of parts.
SEEN_IN_VIEWS = sample("seen-in-views.js")


def test_views_say_nothing_in_english_that_has_chinese_words(browser, monkeypatch):
    """Also names in their data, which a program looks up: “causal”."""
    monkeypatch.setenv("ATTENTION_LANGUAGE", "zh")
    english = {it for it, own in language.spoken().items() if it != own}
    left = []
    with browser.new_page() as page:
        for name in FINISHED:
            if "attention-view" in (path := OWN / f"{name}.html").read_text("utf-8"):
                page.goto(path.as_uri())
                lay_out(page)
                seen = page.evaluate(SEEN_IN_VIEWS)
                left += [(name, it) for it in seen if it in english]
                left += [(name, it) for it in seen if MIXED.search(it)]
    assert left == []


@pytest.mark.parametrize(
    ("page", "source"),
    [("chapters/01-a", "zh/chapters/01-a.po"), ("chapters/02-b", "chapters/02-b.md")],
)
def test_chinese_is_edited_in_its_catalogue(tmp_path, page, source):
    known = {"ids": {"chapters/01-a": [], "chapters/02-b": []}}
    known["english"] = ["chapters/02-b"]
    written(tmp_path, {"edition.json": json.dumps(known)})
    app, context = Mock(srcdir=tmp_path), {"pathto": Mock()}
    app.config.book_address = "https://github.com/ada/book"
    app.env.found_docs, app.env.titles = {page}, {page: Mock()}
    app.env.titles[page].astext.return_value = "A"
    app.env.doc2path.return_value = f"{page}.md"
    launch._add_tools(app, page, "", context, None)
    edit = context["book_tools"]["edit"]
    assert edit == f"https://github.com/ada/book/edit/main/{source}"
