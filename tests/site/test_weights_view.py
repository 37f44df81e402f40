"""The view of attention weights in a browser: it shows attention_lib's numbers."""

import hashlib
import itertools
import json
import re
from contextlib import contextmanager

import pytest
import torch
from playwright.sync_api import expect

from attention_lib.attention import attention_weights
from attention_lib.course.views import Interactive, view_weights
from attention_lib.masks import causal_mask
from attention_lib.reproducibility import seeded
from tests.browsing import IN_BOTH, axe_faults
from tests.running import ROOT
from tests.views import (
    ADD,
    FRONT_ENDS,
    PHONE,
    add_view,
    html_of,
    live,
    opened,
    set_temperature,
    showing,
)
from tools.site.scripts import KINDS, styles

SOURCE = ROOT / "explorer_source"
VIEWS = ROOT / "attention_lib/course/views"
# The bytes that each program may have; pages have a bound of their own.
PROGRAMS = dict.fromkeys(sorted(path.stem for path in VIEWS.glob("*.js")), 12_000)
PROGRAMS |= {"runtime": 25_000, "pipe": 36_000, "weights": 18_000}
WORDS = ["the", "cat", "slept", "because", "it", "was", "tired"]
COLOURS = {  # of the ground and of the words
    "light": ("rgb(255, 255, 255)", "rgb(31, 36, 48)"),
    "dark": ("rgb(23, 26, 32)", "rgb(232, 234, 240)"),
}


def some_scores(*shape):
    return 2 * torch.randn(*shape, 7, 7, generator=seeded(0))


def weights_of(scores, mask=None, temperature=1.0):
    """What attention_lib makes of scores: of queries that are the scores themselves."""
    key = torch.eye(scores.shape[-1]).expand_as(scores)
    return attention_weights(scores, key, mask, scale=1 / temperature)


def empty_row_mask():
    """Causal, and row 2 may attend to nothing."""
    mask = causal_mask(7).clone()
    mask[2] = False
    return mask


def row_shown(view):
    """The chosen row's numbers, in the list beside the map; hidden ones as 0."""
    numbers = view.locator(".weights-row .view-number").all_inner_texts()
    return torch.tensor([0.0 if n == "hidden" else float(n) for n in numbers])


def map_shown(view):
    """The numbers of the map's cells, as a screen reader says them."""
    rows = view.locator(".weights-grid tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.querySelectorAll('td')].map(c => c.ariaLabel))"
    )
    return torch.tensor(
        [[0.0 if n == "hidden by the mask" else float(n) for n in row] for row in rows]
    )


def cell(view, row, column):
    return view.locator(".weights-grid tbody tr").nth(row).locator("td").nth(column)


def close(shown, wanted):
    torch.testing.assert_close(shown, wanted.float(), rtol=0, atol=1e-3)


@contextmanager
def one_view(browser, *given, **options):
    """A page with one view, and the view."""
    with opened(browser, view_weights(*given), **options) as page:
        yield page, live(page)


def test_mouse_shows_each_row_of_each_head(browser):
    weights = weights_of(some_scores(2, 3))
    with one_view(browser, weights, WORDS) as (page, view):
        for layer in range(2):
            for head in range(3):
                view.get_by_text(f"{layer + 1}.{head + 1}", exact=True).click()
                close(map_shown(view), weights[layer, head])
                for row in (0, 4):
                    cell(view, row, 3).hover()
                    close(row_shown(view), weights[layer, head, row])
                said = view.locator("[aria-live=polite]").inner_text()
                assert said.startswith(f"Layer {layer + 1}, head {head + 1}. Query")
        # A click holds a row, and Escape lets it go.
        cell(view, 1, 1).click()
        cell(view, 5, 1).hover()
        close(row_shown(view), weights[1, 2, 1])
        page.keyboard.press("Escape")
        cell(view, 4, 1).hover()
        close(row_shown(view), weights[1, 2, 4])


def test_finger_shows_each_row(browser):
    weights = weights_of(some_scores())
    with one_view(browser, weights, WORDS, **PHONE) as (_, view):
        for row in range(7):
            cell(view, row, 1).tap()
            close(row_shown(view), weights[row])
        view.get_by_role("rowheader", name="because").tap()
        close(row_shown(view), weights[3])


def test_keyboard_shows_each_row(browser):
    weights = weights_of(some_scores(2))
    with one_view(browser, weights, WORDS) as (page, view):
        page.keyboard.press("Tab")  # the heads
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Tab")  # the map
        for row in range(7):
            close(row_shown(view), weights[1, row])
            page.keyboard.press("ArrowDown")
        for key, label in [
            ("ArrowRight", weights[1, 6, 1]),
            ("End", weights[1, 6, 6]),
            ("ArrowUp", weights[1, 5, 6]),
            ("ArrowLeft", weights[1, 5, 5]),
            ("Home", weights[1, 5, 0]),
            ("Control+End", weights[1, 6, 6]),
            ("Control+Home", weights[1, 0, 0]),
        ]:
            page.keyboard.press(key)
            shown = page.evaluate("document.activeElement.ariaLabel")
            close(torch.tensor(float(shown)), label)


OF_EACH_HEAD = torch.stack([causal_mask(7), causal_mask(7).T])


@pytest.mark.parametrize("mask", [empty_row_mask(), OF_EACH_HEAD], ids=["one", "two"])
def test_mask_and_temperature_give_the_library_s_numbers(browser, mask):
    scores, empty = some_scores(2), mask.ndim == 2
    view_of = view_weights(None, WORDS, scores=scores, mask=mask)
    with showing(browser, view_of) as (_, view):
        for temperature, on in itertools.product((0.1, 1, 2), (True, False)):
            set_temperature(view, temperature)
            view.get_by_role("checkbox", name="mask").set_checked(on)
            wanted = weights_of(scores, mask if on else None, temperature)
            for head in range(2):
                view.get_by_role("radio", name=f"head {head + 1}").check(force=True)
                close(map_shown(view), wanted[head])
                cell(view, 2, 0).hover()
                close(row_shown(view), wanted[head, 2])
                said = view.locator("[aria-live=polite]").inner_text()
                assert ("looks at nothing" in said) == (on and empty)


def test_weights_alone_have_neither_mask_nor_temperature(browser):
    weights = weights_of(some_scores(), mask := empty_row_mask())
    with showing(browser, view_weights(weights, WORDS, mask=mask)) as (_, view):
        assert view.locator("input").count() == 0
        close(map_shown(view), weights)
        assert view.locator("td.weights-hidden").count() == int((~mask).sum())


def test_sentences_layers_and_heads_are_chosen_from_lists(browser):
    maps = {"one": weights_of(some_scores(5, 10)), "two": some_scores(4).softmax(-1)}
    maps["two"] = maps["two"][:, :3, :5]
    queries, keys = {"one": WORDS, "two": WORDS[:3]}, {"one": WORDS, "two": WORDS[:5]}
    with one_view(browser, maps, queries, keys) as (_, view):
        view.get_by_role("combobox", name="layer").select_option("4")
        view.get_by_role("combobox", name="head").select_option("8")
        close(map_shown(view), maps["one"][3, 7])
        cell(view, 6, 6).click()
        view.get_by_role("combobox", name="sentence").select_option("two")
        close(map_shown(view), maps["two"][3])
        close(row_shown(view), maps["two"][3, 2])


def test_words_are_tinted_by_their_weights(browser):
    weights = torch.tensor([[0.5, 0.0, 0.25, 0.25], [0.1, 0.2, 0.3, 0.4]])
    tint = "all => all.map(word => getComputedStyle(word).backgroundColor)"
    with one_view(browser, weights, WORDS[:2], WORDS[:4]) as (_, view):
        tints = view.locator(".weights-words span").evaluate_all(tint)
    alphas = [float(re.findall(r"[\d.]+", tint)[3]) for tint in tints]
    assert alphas == pytest.approx([0.65, 0, 0.325, 0.325], abs=0.01)


def test_legend_ends_with_the_colour_of_the_strongest_cell(browser):
    words = [f"word{i}" for i in range(10)]
    strongest = "e => getComputedStyle(e).backgroundColor"
    ramp = "e => getComputedStyle(e).backgroundImage"
    for size in (4, 10):
        with one_view(browser, torch.eye(size), words[:size]) as (_, view):
            colour = cell(view, 1, 1).evaluate(strongest)
            assert colour in view.locator(".weights-ramp").evaluate(ramp)


def test_views_of_a_page_do_not_share_their_state(browser):
    weights, later = weights_of(some_scores(2)), weights_of(some_scores(5))
    view_of = view_weights(weights, WORDS)
    with opened(browser, view_of, view_of) as page:
        one, two = live(page, 0), live(page, 1)
        one.get_by_role("radio", name="head 2").check(force=True)
        sheet = page.locator("#attention-weights")
        text = sheet.text_content()
        sheet.evaluate("sheet => sheet.textContent = 'as an older program left it'")
        add_view(page, view_weights(later, WORDS))
        close(map_shown(live(page, 2)), later[0])
        close(map_shown(one), weights[1])
        close(map_shown(two), weights[0])
        assert page.locator(".attention-live").count() == 3
        ids = page.locator("head style").evaluate_all("all => all.map(it => it.id)")
        assert ids == ["attention-views", "attention-weights"]
        assert sheet.text_content() == text


def test_without_scripts_the_table_says_the_same(browser):
    weights = weights_of(some_scores(2, 2))
    options = {"java_script_enabled": False}
    with opened(browser, view_weights(weights, WORDS), **options) as page:
        table = page.get_by_role("table")
        assert "layer 1, head 1 of 2 × 2" in table.locator("caption").inner_text()
        cells = table.locator("td").all_inner_texts()
        assert page.locator(".attention-live").count() == 0
    shown = torch.tensor([float(number) for number in cells]).view(7, 7)
    torch.testing.assert_close(shown, weights[0, 0], rtol=0, atol=0.0051)


def test_view_that_fails_keeps_its_table(browser):
    broken = Interactive("weights", {"sentences": []}, "<p>the table</p>", "")
    unknown = html_of(Interactive("weights", {}, "<p>another</p>", ""))
    unknown = unknown.replace("weights", "constructor", 1)
    right = view_weights(weights_of(some_scores()), WORDS)

    def look():
        with opened(browser, broken, right) as page:
            live(page)
            page.evaluate(ADD, unknown)
            assert page.get_by_text("the table").is_visible()
            assert page.get_by_text("another").is_visible()
            assert page.locator(".attention-live").count() == 1

    with pytest.raises(AssertionError, match="error: TypeError"):
        look()


@pytest.mark.parametrize("theme", IN_BOTH)
def test_axe_finds_nothing(browser, theme):
    scores = some_scores(2, 2)
    small = view_weights(None, WORDS, scores=scores, mask=causal_mask(7))
    words = [f"word{i}" for i in range(14)]
    large = view_weights(scores.softmax(-1).tile(2, 2), words)
    with opened(browser, small, large, theme=theme) as page:
        cell(live(page), 4, 4).click()
        assert axe_faults(page) == []


def test_every_front_end_gets_the_colours_that_axe_saw(browser):
    view_of = view_weights(weights_of(some_scores()), WORDS)
    colours = "v => [getComputedStyle(v)].flatMap(s => [s.backgroundColor, s.color])"
    for front_end, theme in itertools.product(FRONT_ENDS, COLOURS):
        with opened(browser, view_of, front_end=front_end, theme=theme) as page:
            found = tuple(live(page).evaluate(colours))
            assert found == COLOURS[theme], (front_end, theme)


def test_forty_words_scroll_inside_the_view_on_a_phone(browser):
    words = [f"word{i}" for i in range(40)]
    weights = torch.randn(2, 12, 40, 40, generator=seeded(0)).softmax(-1)
    with one_view(browser, weights, words, **PHONE) as (page, view):
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        box = cell(view, 20, 0).bounding_box()
        assert min(box["width"], box["height"]) >= 24
        close(row_shown(view), weights[0, 0, 0].topk(6).values)
        assert view.locator(".weights-row .weights-here").count() == 0
        cell(view, 39, 39).tap()
        assert cell(view, 39, 39).get_attribute("tabindex") == "0"
        # The six largest; of them the last gives way to the cell that is pointed at.
        row, least = weights[0, 0, 39], int(weights[0, 0, 39].argmin())
        close(row_shown(view), row.topk(6).values)
        cell(view, 39, least).tap()
        keys = [*row.topk(5).indices.tolist(), least]
        close(row_shown(view), row[keys])
        shown = view.locator(".weights-row .weights-word").all_inner_texts()
        assert shown == [words[key] for key in keys]


def peaked(rows, columns, row, column):
    """Weights of 2 layers of 2 heads; in head 2.1 one cell of a row has nearly all."""
    weights = torch.full((2, 2, rows, columns), 1 / columns)
    weights[1, 0, row] = 0.1 / (columns - 1)
    weights[1, 0, row, column] = 0.9
    return weights


def in_sight(view, row, column):
    """Whether a cell is seen in its map, beside the word of its row."""
    return bool(
        cell(view, row, column).evaluate("""cell => {
            const box = cell.closest(".weights-scroll").getBoundingClientRect();
            const words = cell.parentNode.cells[0].getBoundingClientRect();
            const { left, right } = cell.getBoundingClientRect();
            return left >= words.right - 1 && right <= box.right + 1;
        }""")
    )


def test_view_begins_where_it_is_told_and_fades_where_it_goes_on(browser):
    weights = peaked(10, 30, row=3, column=20)
    words = [f"word{i}" for i in range(30)]
    given = (weights, words[:10], words)
    told = view_weights(*given, layer=1, head=0, query=3)
    left = view_weights(*given, layer=1)
    small = view_weights(torch.eye(3), WORDS[:3])
    fade = "e => getComputedStyle(e, '::after').content"
    with opened(browser, told, left, small, **PHONE) as page:
        said = live(page).locator("[aria-live=polite]").inner_text()
        assert said.startswith("Layer 2, head 1. Query “word3” looks at word20 0.90")
        page.wait_for_function("document.querySelector('.weights-scroll').scrollLeft")
        assert in_sight(live(page), 3, 20)
        assert page.evaluate("scrollX + scrollY") == 0
        view = live(page, 1)
        edges = view.locator(".weights-edges")
        expect(edges).to_have_attribute("data-more", "right")
        assert edges.evaluate(fade) == '""'
        # A row that is tapped by its word shows its strongest cell.
        assert not in_sight(view, 3, 20)
        view.get_by_role("rowheader", name="word3").tap()
        assert in_sight(view, 3, 20)
        expect(edges).to_have_attribute("data-more", "left right")
        view.locator(".weights-scroll").evaluate("e => e.scrollLeft = 9999")
        expect(edges).to_have_attribute("data-more", "left")
        assert edges.evaluate(fade) == "none"
        edges = live(page, 2).locator(".weights-edges")
        expect(edges).to_have_attribute("data-more", "")


def test_map_keeps_its_size_and_takes_the_font_of_the_book(browser):
    words = ["a", "b", "longest-word", "c"]
    size = "e => [e.offsetWidth, e.offsetHeight, e.scrollWidth].join()"
    many = [*words, *(f"word{i}" for i in range(26))]
    weights = torch.full((4, 30), 1 / 30)
    with one_view(browser, weights, words, many) as (page, view):
        sizes = set()
        for row in range(4):
            cell(view, row, row).hover()
            expect(view.locator(".weights-chosen th")).to_have_text(words[row])
            sizes.add(view.locator(".weights-grid").evaluate(size))
        assert len(sizes) == 1
        font = "view => getComputedStyle(view).fontFamily"
        assert view.evaluate(font).startswith("system-ui")
        page.add_style_tag(content=":root { --book-sans: 'Source Sans 3', serif }")
        assert view.evaluate(font) == '"Source Sans 3", serif'


def test_words_are_shown_as_text(browser):
    words = ["<script>alert(1)</script>", "</script>", "<img src=x onerror=alert(1)>"]
    view_of = view_weights({"<b>&": torch.eye(3), "x": torch.eye(3)}, words)
    with opened(browser, view_of) as page:
        heads = live(page).locator("thead th span").all_inner_texts()
    assert heads == words
    assert html_of(view_of).count("<script") == 2


def text_of(program):
    return (VIEWS / f"{program}.js").read_text(encoding="utf-8")


def test_programs_were_built_from_the_sources():
    sources = [SOURCE / "build.mjs", SOURCE / "package-lock.json"]
    sources += (SOURCE / "src").iterdir()
    names = {f"{path.relative_to(SOURCE).as_posix()}": path for path in sources}
    names |= {f"../{it.relative_to(ROOT).as_posix()}": it for it in VIEWS.glob("*.js")}
    sums = {name: hashlib.sha256(it.read_bytes()) for name, it in names.items()}
    lines = [f"{sums[name].hexdigest()}  {name}" for name in sorted(sums)]
    built = (SOURCE / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    assert lines == built, "run `npm ci && npm run build` in explorer_source"


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_is_small(program):
    assert len(text_of(program).encode()) < PROGRAMS[program]


def test_programs_are_small_together():
    assert sum(len(text_of(program).encode()) for program in PROGRAMS) < 220_000


def test_runtime_names_its_licences():
    packages = json.loads((SOURCE / "package.json").read_text(encoding="utf-8"))
    for name, version in packages["dependencies"].items():
        assert f"\n{name} {version} (MIT)\n\nThe MIT License" in text_of("runtime")


def test_site_knows_the_sheets_of_each_program():
    for kind in KINDS:
        sheets = styles(VIEWS, kind)
        assert list(sheets) == ["attention-views", f"attention-{kind}"]
        assert all(sheets.values())


def test_only_the_runtime_holds_preact():
    assert [name for name in PROGRAMS if "__H" in text_of(name)] == ["runtime"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_holds_no_path_and_loads_nothing(program):
    text = text_of(program)
    assert not re.search(r"/(home|root|tmp|Users|work)/", text)
    # Names of the languages of HTML's relatives are no addresses that anything loads.
    names = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
    names |= {"http://www.w3.org/1998/Math/MathML"}
    assert set(re.findall(r"\w+://[^\s\"'`)]+", text)) <= names
    assert not re.search(r"\b(fetch|XMLHttpRequest|import|importScripts)\(", text)
    assert "@import" not in text
    assert "url(" not in text
    assert "</script" not in text.lower()
