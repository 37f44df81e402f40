"""The search: what it finds first, how it reads, how it opens; from files too."""

import re

import pytest
from playwright.sync_api import expect

from tools.chapters import SITE

pytestmark = pytest.mark.usefixtures("site")
MASKS, FILES = "chapters/03-masks.html", SITE.as_uri()


@pytest.fixture(scope="module")
def page(browser):
    faults = []
    with browser.new_page() as page:
        page.on("pageerror", lambda error: faults.append(str(error)))
        yield page
    assert faults == []


def results(page, query, site=FILES):
    """The addresses that a search finds, the best first."""
    page.goto(f"{site}/search.html?q={query.replace(' ', '+')}")
    page.wait_for_function(
        "/found|Nothing/.test(document.querySelector('.search-summary')?.innerText)"
    )
    links = page.locator("ul.search > li > a")
    return [str(link.get_attribute("href")) for link in links.all()]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("mask", "book/glossary.html#term-mask"),
        ("masks", MASKS),
        ("causal mask", MASKS),
        ("causal_mask", "book/api/masks.html#attention_lib.masks.causal_mask"),
        ("attention_lib.masks.causal_mask", "book/api/masks.html#"),
        ("why divide by sqrt", "chapters/01-toy-attention.html#why-divide-by-d"),
        ("residual stream", "chapters/06-tiny-block.html"),
        ("positional encoding", "chapters/05-positions.html"),
        ("tie weights", "chapters/07-tiny-lm.html"),
        ("shift labels", "chapters/07-tiny-lm.html#shift-the-labels-once"),
        ("teacher forcing", "book/glossary.html#term-teacher-forcing"),
        ("permutation invariant", "book/glossary.html#term-permutation-invariant"),
        ("ignore_index", "book/questions.html#what-is-ignore-index"),
        ("rope", "chapters/05-positions.html#rotary-positions"),
        ("model generates nonsense", "book/questions.html#why-does-my-model-generate"),
        # A whole question, with a word that stands in its title only.
        ("Why is my loss nan in fp16?", "book/questions.html#why-is-my-loss-nan"),
        ("Why does my attention give nan?", "book/questions.html#why-does-my-attent"),
        ("perplexity zebra", ""),
    ],
)
def test_search_finds_the_page_among_the_first(page, query, wanted):
    first = results(page, query)[:3]
    if wanted:
        assert any(found.startswith(wanted) for found in first), first
    else:
        assert first == []


def test_summary_is_a_sentence_without_code(page, address):
    results(page, "why divide by sqrt", address)
    first = page.locator("ul.search > li").first
    assert "Why divide by sqrt" in first.locator("a").inner_text()
    expect(first.locator("p.context")).to_contain_text("√D")
    results(page, "causal_mask", address)
    page.locator("p.context").nth(2).wait_for()
    for said in page.locator("p.context").all_inner_texts():
        assert len(said) < 220
        assert not re.search(r"def |return |\\", said)


@pytest.mark.parametrize(("width", "opener"), [(1440, "keys"), (375, "button")])
def test_dialog_opens_with_focus_and_closes(browser, width, opener):
    with browser.new_page(viewport={"width": width, "height": 800}) as page:
        page.goto((SITE / MASKS).as_uri())
        field = page.locator("#pst-search-dialog input")
        expect(field).to_be_hidden()
        if opener == "keys":
            page.keyboard.press("Control+k")
        else:
            page.locator(".search-button__button:visible").first.click()
        expect(field).to_be_focused()
        assert field.get_attribute("aria-label")
        page.keyboard.press("Escape")
        expect(field).to_be_hidden()
        if opener == "keys":
            page.keyboard.press("Control+k")
            page.keyboard.type("causal_mask\n")
            page.wait_for_url("**/search.html?q=causal_mask")
