"""The search: what it finds, how fast and how heavy it is, and how it is used."""

import json
import random
import re
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.asked import ASKED, place
from tests.browsing import IN_BOTH, PHONE, axe_faults, own_seconds, wear
from tests.running import sample
from tests.site.searching import DIALOG, FIELD, OPTION, READY, found, found_for, missed
from tests.site.weight import travelling
from tools.chapters import ROOT, SITE, chapter_paths

pytestmark = pytest.mark.usefixtures("site")
ANY = (SITE / f"chapters/{chapter_paths()[0].stem}.html").as_uri()
MASKS = (SITE / "chapters/03-masks.html").as_uri()
# Every second one was left aside when the search was tuned.
QUERIES = [line.split(" | ") for line in sample("queries.txt").splitlines()]
# From other threads, written down afterwards; again every second one was left aside.
# The third are titles of threads, cut to search words after askers' words were written:
# the hardest. How many of each half are found, at least.
FRESH = {"queries-fresh.txt": 24, "queries-fresh-2.txt": 26, "queries-fresh-3.txt": 15}
FRESH |= {"queries-fresh-4.txt": 20}  # 43 of 60 before any of its words were written
FRESH |= {"queries-fresh-5.txt": 20}  # 43 of 60, the first time they were searched for
FRESH |= {"queries-fresh-6.txt": 17}  # 44 of 60, and 42 after more words were written
FRESH |= {"queries-fresh-7.txt": 20}  # 45 of 60, the first time they were searched for
# 57 of 60, the first time; but its writer had read the headings of all sections.
FRESH |= {"queries-fresh-8.txt": 27}


@pytest.fixture(scope="module")
def page(browser):
    """A page opened as a file, with its dialog open: it finds what stands in all."""
    faults = []
    with browser.new_page() as page:
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(ANY)
        page.keyboard.press("Control+k")
        page.wait_for_function(READY)
        yield page
    assert faults == []


def test_sixty_queries_find_their_place_among_the_first_three(page):
    assert len(QUERIES) == 60
    assert len(found := missed(page, QUERIES)) <= 3, found


@pytest.mark.parametrize("name", FRESH)
def test_queries_collected_later_find_the_section_that_answers(page, name):
    asked = [line.split(" | ") for line in sample(name).splitlines()]
    assert len(asked) > 50
    for half in (asked[::2], asked[1::2]):
        assert len(half) - len(missed(page, half)) >= FRESH[name]


def test_what_askers_typed_leads_to_the_section_that_answers(page):
    """Their words are in the index, so that nearly each is found again."""
    shown = found_for(page, [it["query"] for it in ASKED])
    pairs = zip(ASKED, shown, strict=True)
    hits = [place(it["section"]) in links[:3] for it, links in pairs]
    assert sum(hits) >= 0.9 * len(hits)


def entries(page):
    """The glossary's entries as the search has them: anchor and word."""
    return page.evaluate("bookPlaces[0].find(([it]) => /glossary/.test(it))[1]")[1:]


def test_titles_of_chapters_and_words_of_the_glossary_come_first(page):
    chapters = page.evaluate(
        "bookPlaces[0].filter(([it]) => it.startsWith('chapters/'))"
        ".map(([it, [[, , title]]]) => [it, title])"
    )
    assert len(chapters) == 26
    shown = found_for(page, [title for _, title in chapters])
    assert [links[0] for links in shown] == [it for it, _ in chapters]
    named = {title.lower() for _, title in chapters}
    words = entries(page)  # each names the section to read
    shown = found_for(page, [word for _, _, word, _ in words])
    for (anchor, _, word, section), links in zip(words, shown, strict=True):
        first, entry = [*links, ""][:2], f"book/glossary.html#{anchor}"
        assert entry == first[word.lower() in named], (word, first, section)


def test_what_asks_for_a_word_is_answered_with_its_definition_and_a_section(page):
    words, missed = entries(page), []
    for anchor, _, word, section in words[:: len(words) // 40][:40]:
        first, then = found(page, f"What is a {word}?")[:2]
        page_of = page.evaluate(
            "nth => bookPlaces[0].flatMap(([it, all]) => all.map(() => it))[nth]",
            section,
        )
        if not first.endswith(f"#{anchor}") or not then.startswith(page_of):
            missed.append((word, first, then))
    assert missed == []
    for query in ("attention mechanism", "how does attention work", "attention"):
        places = found(page, query)
        assert places[0].endswith("#term-attention")
        assert places[1].startswith("chapters/01-")
    assert page.locator(f"{DIALOG} .book-answer").count() == 2
    answer = page.locator(f"{DIALOG} .book-answer > p").first
    expect(answer).to_have_text(re.compile(r"^Answering a query .* all keys\.$"))


SET_UP = """
install; How do I install this?; setup; set up; requirements; getting started; run
run the notebooks; colab; gpu; download; pdf; python version
"""


@pytest.mark.parametrize("query", re.split(r"[;\n] ?", SET_UP.strip()))
def test_what_readers_of_any_book_look_for_is_in_how_to_use(page, query):
    assert found(page, query)[0].startswith("book/how-to-use.html")


def test_word_that_the_book_has_not_is_named(page):
    found(page, "zebra search")
    expect(page.locator(f"{DIALOG} [role=status]")).to_have_text(
        re.compile(r"found; not in this book: zebra$")
    )


@pytest.mark.parametrize(
    "query",
    ["mask", "cross attension", "RMSNorm", "padding", "temperature", "prefill"],
)
def test_entry_is_shown_from_its_first_sentence(page, query):
    found(page, query)
    expect(page.locator(f"{OPTION} > p:empty")).to_have_count(0)
    texts = page.evaluate("bookTexts")
    places = page.evaluate("bookPlaces[0]")
    shown = page.locator(OPTION).evaluate_all(
        "all => all.map((it) => [it.href, it.querySelector('p').textContent])"
    )
    seen = 0
    for href, text in shown:
        name, _, anchor = href.removeprefix(f"{SITE.as_uri()}/").partition("#")
        if not re.match(r"term-|attention_lib\.", anchor):
            continue
        held = next(all_ for it, all_ in places if it == name)
        nth = next(n for n, it in enumerate(held) if it[0] == anchor)
        whole = texts[name.replace("html", f"{nth // 40}.js")][nth % 40]
        assert text[:30] == whole.partition("\n")[0][:30]
        assert not re.search(r"\b(See|Bases|Parameters|Example)\b", text), text
        seen += 1
    assert seen


def test_entry_of_the_library_has_its_own_text(page):
    """Also one whose parameters are a list in its heading, line by line."""
    found(page, "toy.attention")
    entry = page.locator(f"{OPTION}[href$='#attention_lib.toy.attention'] > p")
    expect(entry).to_have_text(re.compile("^Mix the values, each weighted by"))
    texts = page.evaluate("Object.values(bookTexts).flat()")
    assert [text for text in texts if text.startswith((")", "("))] == []


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Why does my attention give nan?", "#why-does-my-attention-give-nan"),
        ("atention", "#term-attention"),  # one letter wrong
        ("weighttying", "#what-is-weight-tying-tied-embeddings"),
        ("property", ""),  # nothing about rope
        ("qwzx", ""),
    ],
)
def test_first_place_is_the_one_meant(page, query, first):
    places = found(page, query)
    assert places[0].endswith(first) if first else not any("rope" in p for p in places)
    said = page.locator(f"{DIALOG} [role=status]").inner_text()
    count = f"{len(places)} places? found" if places else "Nothing found. Try fewer.*"
    assert re.fullmatch(count, said)


def test_places_stand_in_five_groups_and_each_has_a_passage_with_the_word(page):
    found(page, "mask")
    groups = page.locator(f"{DIALOG} [role=listbox] > [role=group]")
    names = groups.evaluate_all("all => all.map((group) => group.ariaLabel)")
    assert names == ["Best", "Sections", "Questions", "Glossary", "Library"]
    marked = page.locator(OPTION).filter(has=page.locator("mark"))
    expect(marked).to_have_count(page.locator(OPTION).count())
    marks = page.locator(f"{OPTION} mark").all_inner_texts()
    assert {"mask"} <= {text.lower() for text in marks}
    for text in page.locator(f"{OPTION} > p").all_inner_texts():
        assert len(text) < 200
        assert not re.search(r"\\|\n", text)


def test_passage_is_as_long_as_its_text_allows(page):
    """It was empty where its sentence is far down in a long section."""
    pages = page.evaluate("bookPlaces[0]")
    page.evaluate(sample("load-texts.js"), pages)
    queries = [query for query, _ in QUERIES]
    for query, text, passage in page.evaluate(sample("passages.js"), queries):
        prose = text.partition("\n")[0]
        cut = passage.removeprefix("… ").removesuffix(" …")
        if cut in prose:  # else names of its code
            assert len(cut) >= min(60, len(prose) - 1), (query, passage)


def test_place_whose_title_has_the_word_is_shown_by_its_text_not_its_code(page):
    found(page, "softmax")
    shown = page.locator(f"{OPTION} > p").all_inner_texts()
    titles = page.locator(f"{OPTION} > b").all_inner_texts()
    for title, text in zip(titles, shown, strict=True):
        assert "softmax" not in title.lower() or "In its code" not in text, title
    ask = "title => bookFinding.passage('A loss.\\nF.softmax', {softmax: []}, title)"
    assert page.evaluate(ask, "mask after the softmax") == "A loss."
    assert page.evaluate(ask, "a late mask") == "In its code: F.softmax"
    page.evaluate(sample("load-texts.js"), page.evaluate("bookPlaces[0]"))
    texts = page.evaluate("Object.values(bookTexts).flat()")
    assert [text for text in texts if " in the API " in text] == []


def test_place_whose_title_asks_is_shown_from_its_beginning(page):
    found(page, "why divide by sqrt d")
    for at, start in enumerate(["In short: the scores", "A score is a sum of"]):
        expect(page.locator(f"{OPTION} > p").nth(at)).to_have_text(re.compile(start))


@pytest.mark.parametrize(
    ("tex", "read"),
    [
        (r"W_Q W_{UK}^\top / \sqrt{D}", "W_Q W_UKᵀ / √D"),
        (r"\frac{e^{s_{kj} - m}}{2}", "(e^(s_kj − m))/2"),
        (r"\tfrac{1}{M} \sum_j x_j^2", "(1/M) Σ_j x_j²"),
        (r"\sqrt{g^2}", "√(g²)"),
        (r"-\ln p", "−ln p"),
        (r"10^{-12}\,\mathrm{nan}", "10⁻¹² nan"),
        (r"c\tanh(s / c)", "c tanh(s / c)"),
        (r"[3\tfrac12, -1]", "…"),
        (r"\begin{split}a &= b \\ c &= d\end{split}", "…"),
        (" + ".join("abcdefghijklmnopqrstuvwxyz"), "…"),
    ],
)
def test_formula_of_a_passage_is_read_as_it_is_or_left_out(page, tex, read):
    places = [
        ["a.html", [["anchor", "Heading", "", f"So \ue000{tex}\ue000,\n as said"]]]
    ]
    script = page.evaluate("bookFinding.write", places)["_static/places/a.0.js"]
    text = json.loads(script.partition(" = ")[2].rstrip(";\n"))[0]
    assert text.replace("\u00a0", " ") == f"So {read}, as said\n"
    assert " " not in text[3:].partition(",")[0]  # so no passage ends inside


def test_words_are_unpacked_as_they_were(page):
    """Words in all texts, in some and in one; with the same beginnings, and digits."""
    drawn = random.Random(0)
    spread = {f"w{'xy'[n % 2] * (n % 7)}{n}": drawn.random() ** 3 for n in range(40)}
    held = [[w for w in spread if drawn.random() < spread[w]] for _ in range(300)]
    places = [[f"p{n}", "T", "", " ".join(it), ""] for n, it in enumerate(held)]
    unpacked = page.evaluate(sample("unpacked.js"), [["a.html", places]])
    expected = {w: [n for n, it in enumerate(held) if w in it] for w in spread}
    assert unpacked == {w: numbers for w, numbers in expected.items() if numbers}


def test_every_place_exists_and_every_text_is_read(page):
    """What `places.js` names is on the pages, and its scripts have all texts."""
    pages = page.evaluate("bookPlaces[0]")
    assert len(pages) == len({address for address, _ in pages}) > 50
    for address, held in pages:
        html = (SITE / address).read_text(encoding="utf-8")
        assert [it[0] for it in held if f'id="{it[0]}"' not in html] == [], address
    counts = page.evaluate(sample("load-texts.js"), pages)
    assert counts == [len(places) for _, places in pages]
    texts = page.evaluate("Object.values(bookTexts).flat()")
    assert [text for text in texts if re.search(r"\ue000|\\[a-z]|[_^]\{", text)] == []


def test_index_is_the_one_that_minisearch_makes_and_is_made_in_small_steps(page):
    steps, ours, theirs = page.evaluate(sample("index-again.js"), QUERIES[0])
    assert steps > 5000
    assert [place for place, _ in ours] == [place for place, _ in theirs]
    for (_, score), (_, expected) in zip(ours, theirs, strict=True):
        assert score == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_each_answer_takes_a_tenth_of_a_second_at_most(page):
    search, seconds, took = sample("time-search.js"), own_seconds(page), []
    for query, _ in QUERIES:
        clock = [seconds()]
        for _ in range(3):  # memory is tidied up in one of them, now and then
            page.evaluate(search, query)
            clock.append(seconds())
        took.append(min(end - start for start, end in pairwise(clock)))
    assert 0 < max(took) < 0.1, took


def test_nothing_is_fetched_before_and_little_at_first_use(browser, address):
    asked = []
    with browser.new_page() as page:
        page.on(
            "request",  # a browser fetches the icon of a page when it likes
            lambda request: "favicon" in request.url or asked.append(request.url),
        )
        page.goto(f"{address}/chapters/03-masks.html")
        page.mouse.move(99, 99)  # what waits for a reader comes now
        page.locator(".copybtn").first.wait_for(state="attached")
        page.wait_for_load_state("networkidle")
        names = r"/_static/(minisearch|places|finding)\b"
        assert [url for url in asked if re.search(names, url)] == []
        asked.clear()
        page.keyboard.press("Control+k")
        page.wait_for_function(READY)
        first = [SITE / url.removeprefix(f"{address}/") for url in asked]
        page.keyboard.type("causal mask")
        page.locator(f"{OPTION} mark").first.wait_for()
        page.wait_for_load_state("networkidle")
        whole = [SITE / url.removeprefix(f"{address}/") for url in asked]
    assert [path.name for path in first] == [
        "minisearch.js",
        "places.js",
        "finding_words.js",
        "finding.js",
    ]
    assert sum(map(travelling, first)) < 150_000
    assert sum(map(travelling, whole)) < 200_000  # the texts of what was found, too


@pytest.mark.parametrize(("width", "opener"), [(1440, "keys"), (PHONE, "button")])
def test_dialog_is_used_by_keyboard_and_by_touch(browser, width, opener):
    size = {"width": width, "height": 800}
    with browser.new_page(viewport=size, has_touch=True) as page:
        page.goto(MASKS)
        field = page.locator(FIELD)
        expect(field).to_be_hidden()
        if opener == "keys":
            page.keyboard.press("Control+k")
        else:
            page.locator(".search-button__button:visible").first.tap()
        expect(field).to_be_focused()
        expect(page.get_by_role("dialog", name="Search")).to_be_visible()
        page.keyboard.press("Escape")
        expect(field).to_be_hidden()
        page.keyboard.press("Control+k")
        page.keyboard.type("left padding")
        page.locator(f"{OPTION} mark").first.wait_for()
        last = page.locator(OPTION).count() - 1
        chosen = page.locator(f"{DIALOG} [aria-selected=true]")
        second = page.locator(OPTION).nth(1)
        if opener == "keys":
            for key, at in (("ArrowUp", last), ("ArrowDown", 0), ("ArrowDown", 1)):
                page.keyboard.press(key)
                name = page.locator(OPTION).nth(at).get_attribute("id")
                assert field.get_attribute("aria-activedescendant") == name
                assert chosen.get_attribute("id") == name
            expect(chosen).to_be_in_viewport()
        place = second.evaluate("option => option.href")
        page.keyboard.press("Enter") if opener == "keys" else second.tap()
        page.wait_for_url(place)
        expect(field).to_be_hidden()


def test_input_method_is_left_alone_until_it_is_done(page):
    found(page, "")
    session = page.context.new_cdp_session(page)
    page.focus(FIELD)
    text = {"text": "mask", "selectionStart": 4, "selectionEnd": 4}
    session.send("Input.imeSetComposition", text)
    assert page.input_value(FIELD) == "mask"
    assert page.locator(OPTION).count() == 0
    session.send("Input.insertText", {"text": "mask"})
    page.locator(OPTION).first.wait_for()


@pytest.mark.parametrize("theme", IN_BOTH)
@pytest.mark.parametrize("width", [PHONE, pytest.param(1440, marks=pytest.mark.slow)])
def test_dialog_has_no_fault_for_a_screen_reader(browser, theme, width):
    with browser.new_page(viewport={"width": width, "height": 800}) as page:
        page.goto(MASKS)
        wear(page, theme)
        page.keyboard.press("Control+k")
        page.keyboard.type("mask")
        page.locator(f"{OPTION} mark").first.wait_for()
        wide = "document.documentElement.scrollWidth"
        assert page.evaluate(wide) <= width
        assert axe_faults(page) == []


def test_form_leads_to_the_page_of_the_search(browser, address):
    """With nothing found, and without JavaScript."""
    with browser.new_page() as page:
        page.goto(MASKS)
        page.keyboard.press("Control+k")
        page.wait_for_function(READY)
        page.keyboard.type("qwzx\n")
        page.wait_for_url("**/search.html?q=qwzx")
        page.goto(f"{address}/search.html?q=tied+weights")
        first = page.locator(".bd-search-container [role=option] b").first
        expect(first).to_contain_text("tying")
    with browser.new_page(java_script_enabled=False) as page:
        page.goto(f"{address}/search.html?q=mask")
        lists = page.locator(".search-begin p a")
        links = lists.evaluate_all("all => all.map((a) => a.href)")
        assert len(links) == 3
        for link in links:
            assert Path(SITE, link.removeprefix(f"{address}/")).is_file()


def test_page_of_the_search_shows_its_query_before_the_search_is_there(
    browser, address
):
    with browser.new_page() as page:
        page.route("**/contents.js*", lambda route: route.abort())
        page.goto(f"{address}/search.html?q=tied+weights")
        field = page.locator(".bd-search-container input")
        expect(field).to_have_value("tied weights")


@pytest.mark.parametrize("edition", ["", "zh/"])
def test_empty_page_of_the_search_says_what_to_try(browser, edition):
    with browser.new_page() as page:
        page.goto(f"{SITE.as_uri()}/{edition}search.html")
        tries = page.locator(".search-begin li a")
        expect(tries).to_have_count(6)
        queries = tries.all_text_contents()
        tries.first.click()
        field = page.locator(".bd-search-container input")
        expect(field).to_have_value(queries[0])
        option = page.locator("[role=option]")
        expect(option.first).to_be_visible()
        expect(tries.first).to_be_hidden()
        for query in queries[1:]:
            field.fill(query)
            expect(option.first).to_be_visible()
        page.go_back()
        expect(tries.first).to_be_visible()


@pytest.mark.parametrize("width", [pytest.param(1440, marks=pytest.mark.slow), PHONE])
def test_page_of_the_search_has_one_search(browser, address, width):
    with browser.new_page(viewport={"width": width, "height": 800}) as page:
        page.goto(f"{address}/search.html")
        for _ in range(2):  # the theme's second time would leave the field
            expect(page.locator(".bd-search-container input")).to_be_focused()
            page.keyboard.press("Control+k")
        expect(page.locator(".search-button__button:visible")).to_have_count(0)


def test_library_is_the_one_that_is_named():
    """MiniSearch with its licence, once, and nothing of Sphinx's own search."""
    text = (ROOT / "book/_static/minisearch.js").read_text(encoding="utf-8")
    assert text.startswith("/*! MiniSearch 7.")
    assert "Copyright 2022 Luca Ongaro" in text
    assert "searchtools" not in (SITE / "search.html").read_text(encoding="utf-8")
