"""The site in two languages: the same sections, and a way from each to the other."""

import pytest

from tests.pages import complaints, target, tree
from tools.chapters import ROOT, SITE
from tools.translate.catalogue import page_paths, settings

pytestmark = pytest.mark.usefixtures("site")
OWN = SITE / "zh"
FINISHED = settings(ROOT)["finished"]


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


def test_pages_of_the_edition_pass():
    assert complaints(OWN) == []
