"""The small views in a browser: by mouse, finger and keys, attention_lib's numbers."""

from itertools import product

import numpy as np
import pytest
import torch

from attention_lib.attention import attention_weights
from attention_lib.course.views import (
    _strings,
    view_mask,
    view_vectors,
)
from attention_lib.course.views.mask import empty_row
from attention_lib.multi_head import split_heads
from attention_lib.toy import attention
from tests.browsing import IN_BOTH, axe_faults
from tests.running import ROOT
from tests.samples.views import (
    CACHE,
    MASK,
    MASKS,
    NUMBERED,
    SCORES,
    SPLIT,
    VECTORS,
    WORDS,
    X,
)
from tests.views import PHONE, opened, set_temperature, showing, use

REACH = 3 * 1.13  # how far the plane of the vectors is seen
# The texts of a table's cells, row by row.
CELLS = """(table) => [...table.tBodies[0].rows].map(
    (row) => [...row.querySelectorAll("td")].map((cell) => cell.innerText))"""


def cells_of(table):
    return list(table.evaluate(CELLS))


# Vectors


def number(text):
    return float(text.replace("−", "-"))


def points_shown(view):
    cells = cells_of(view.locator("table"))
    return np.array([[number(n) for n in row[0].split(", ")] for row in cells])


def agrees(view, query, temperature=1.0, scaled=True):
    """All numbers shown are attention_lib's for the tokens shown; gives the tokens."""
    x = points_shown(view)
    step = 1 / np.sqrt(2) if scaled else 1.0
    context, weights = attention(x, x, x, scale=step / temperature)
    rows = [[number(n) for n in row[1:]] for row in cells_of(view.locator("table"))]
    scores = x @ x[query]
    wanted = np.stack([scores, scores * step / temperature, weights[query]], axis=-1)
    steps = ["÷ √2"] * scaled + ["÷ τ"] * (temperature != 1)
    head = view.locator("thead th").nth(3).inner_text()
    assert head == (" ".join(steps) or "as it is")
    np.testing.assert_allclose(rows, wanted, rtol=0, atol=1e-3)
    mix = view.locator("strong").inner_text().strip("()").split(", ")
    # The picture, too: the end of the dashed arrow, and each handle.
    limit = float(view.locator("svg").get_attribute("viewBox").split()[2]) / 2
    line = view.locator(".vectors-mix line")
    end = [float(line.get_attribute("x2")), -float(line.get_attribute("y2"))]
    for found in (end, [number(n) for n in mix]):
        np.testing.assert_allclose(found, context[query], rtol=0, atol=1e-3)
    for i in range(len(x)):
        np.testing.assert_allclose(handle_at(view, i, limit), x[i], atol=0.03)
    return x


def handle_at(view, i, limit):
    """Where a handle's middle is, in the plane's own numbers."""
    plane, box = view.locator("svg").bounding_box(), handle(view, i).bounding_box()
    across = (box["x"] + box["width"] / 2 - plane["x"]) / plane["width"]
    down = (box["y"] + box["height"] / 2 - plane["y"]) / plane["height"]
    return [(2 * across - 1) * limit, (1 - 2 * down) * limit]


def handle(view, i):
    return view.locator(".vectors-handle").nth(i)


def middle(place):
    box = place.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_vectors_follow_the_mouse(browser):
    with showing(browser, VECTORS) as (page, view):
        np.testing.assert_allclose(agrees(view, 1), X)
        said = view.locator(".vectors-said").inner_text()
        assert said.startswith("“it” looks most at “cat”, 0.55.")
        unit = view.locator("svg").bounding_box()["width"] / (2 * REACH)
        for i, across, up in [(2, -1.9, -0.6), (1, 0.2, 2.0), (0, -0.3, 0.4)]:
            x, y = middle(handle(view, i))
            page.mouse.move(x + 5, y + 4)  # wherever it is taken, it does not jump
            page.mouse.down()
            page.mouse.move(x + 60, y - 80)
            page.mouse.move(x + 5 + across * unit, y + 4 - up * unit, steps=3)
            page.mouse.up()
            page.mouse.move(5, 5)  # let go: nothing follows
            wanted = X[i] + [across, up]
            np.testing.assert_allclose(agrees(view, 1)[i], wanted, atol=0.051)


def test_vectors_give_the_nearest_handle_and_show_it_whole(browser):
    x = np.array([[2.0, 0.5], [2.1, 0.5], [3.0, 3.0]])
    with showing(browser, view_vectors(x, WORDS, query=1)) as (page, view):
        left, down = middle(handle(view, 0))
        page.mouse.move(left - 3, down)  # the second handle lies over the first
        page.mouse.down()
        page.mouse.move(left - 63, down, steps=2)
        page.mouse.up()
        moved = points_shown(view)
        assert moved[0, 0] < 1.9
        np.testing.assert_allclose(moved[1:], x[1:])
        plane = view.locator(".vectors-plane").bounding_box()
        edge = view.locator(".vectors-handle").last.bounding_box()
        assert edge["x"] + edge["width"] <= plane["x"] + plane["width"]
        assert edge["y"] >= plane["y"]


def test_vectors_follow_a_finger(browser):
    with showing(browser, VECTORS, **PHONE) as (page, view):
        view.locator("svg").scroll_into_view_if_needed()
        before = page.evaluate("scrollY")
        unit = view.locator("svg").bounding_box()["width"] / (2 * REACH)
        x, y = middle(handle(view, 2))
        touch = page.context.new_cdp_session(page)

        def finger(kind, *at):
            points = [{"x": across, "y": down} for across, down in at]
            event = {"type": f"touch{kind}", "touchPoints": points}
            touch.send("Input.dispatchTouchEvent", event)

        finger("Start", (x, y))
        for part in (0.3, 0.7, 1.0):
            finger("Move", (x - part * unit, y + 2 * part * unit))
        finger("End")
        np.testing.assert_allclose(agrees(view, 1)[2], [-0.6, 0.0], atol=0.051)
        assert page.evaluate("scrollY") == before
        # A handle that is tapped stays, and goes where the plane is tapped then.
        handle(view, 0).tap()
        np.testing.assert_allclose(agrees(view, 1)[:2], X[:2])
        place = REACH * unit * (1 - 1 / REACH)
        view.locator(".vectors-plane").tap(position={"x": place, "y": place})
        np.testing.assert_allclose(agrees(view, 1)[0], [-1.0, 1.0], atol=0.051)


def test_vectors_follow_the_keyboard(browser):
    with showing(browser, VECTORS) as (page, view):
        slider = page.get_by_role("slider", name="tired")
        slider.focus()
        keys = ["ArrowLeft", "ArrowUp", "ArrowUp", "Shift+ArrowRight", "ArrowDown"]
        for key in [*keys, "Control+ArrowDown", "a"]:
            page.keyboard.press(key)
        np.testing.assert_allclose(agrees(view, 1)[2], [0.8, 2.1])
        assert slider.get_attribute("aria-valuetext") == "thing 0.8, state 2.1"
        assert slider.get_attribute("aria-valuenow") == "0.8"
        for _ in range(8):
            page.keyboard.press("Shift+ArrowUp")
        np.testing.assert_allclose(agrees(view, 1)[2], [0.8, 3.0])
        page.keyboard.press("Shift+Tab")
        name = "document.activeElement.getAttribute('aria-label')"
        assert page.evaluate(name) == "it, the query"
        view.get_by_role("button", name="Reset").press("Enter")
        np.testing.assert_allclose(agrees(view, 1), X)


def test_vectors_know_query_temperature_and_scale(browser):
    with showing(browser, VECTORS) as (_, view):
        for scaled, (query, word) in product((True, False), enumerate(WORDS)):
            view.get_by_role("checkbox", name="divide by √2").set_checked(scaled)
            view.get_by_role("radio", name=word).check()
            for temperature in (0.1, 1, 3):
                set_temperature(view, temperature)
                agrees(view, query, temperature, scaled)


# Mask


def weights_shown(view):
    cells = cells_of(view.locator("table").nth(1))
    return torch.tensor([[float(n) for n in row] for row in cells])


def mask_shown(view):
    states = view.locator(".mask-cell").evaluate_all(
        "buttons => buttons.map(b => b.getAttribute('aria-pressed') === 'true')"
    )
    return torch.tensor(states).view(3, 4)


def agrees_with_mask(view, mask):
    """The mask is the one wanted, its weights and answers are attention_lib's."""
    assert torch.equal(mask_shown(view), mask)
    signs = cells_of(view.locator("table").first)
    assert [[sign == "✓" for sign in row] for row in signs] == mask.tolist()
    wanted = attention_weights(SCORES, torch.eye(4).double(), mask, scale=1.0)
    torch.testing.assert_close(weights_shown(view), wanted.float(), rtol=0, atol=1e-3)
    if mask.any(dim=-1).all():
        assert view.locator(".mask-empty table:visible").count() == 0
        assert view.locator(".mask-waits").is_visible()


def answers_agree(view, row):
    table = view.locator(".mask-empty table")
    named = list(_strings.MASK["answers"].values())
    assert table.locator("tbody th").all_inner_texts() == named
    shown = np.array([[float(n) for n in line] for line in cells_of(table)])
    wanted = np.stack(list(empty_row(SCORES[row].numpy()).values()))
    np.testing.assert_allclose(shown, wanted, rtol=0, atol=1e-3)
    said = table.locator("..").inner_text()
    assert f"“{WORDS[row]}” may look at nothing" in said
    assert _strings.MASK["note"] in said


def cell(view, row, column):
    return view.locator(".mask-cell").nth(4 * row + column)


@pytest.mark.parametrize("by", ["mouse", "finger"])
def test_mask_is_clicked_together(browser, by):
    with showing(browser, MASK, by=by) as (_, view):
        mask = MASKS["none"].clone()
        agrees_with_mask(view, mask)
        for row, column in [(0, 1), (2, 3), (0, 3), (0, 1), (0, 0), (0, 1), (0, 2)]:
            use(cell(view, row, column), by)
            mask[row, column] ^= True
            agrees_with_mask(view, mask)
        answers_agree(view, 0)
        said = view.locator(".mask-said").inner_text()
        assert said == "“cat” may look at nothing."
        for name, preset in MASKS.items():
            use(view.get_by_role("button", name=name, exact=True), by)
            agrees_with_mask(view, preset)
            pressed = view.locator('.mask-presets [aria-pressed="true"]')
            assert pressed.all_inner_texts() == [name]
        answers_agree(view, 1)
        use(cell(view, 0, 0), by)
        use(cell(view, 0, 1), by)
        assert pressed.count() == 0
        answers_agree(view, 0)  # the row that was touched last


def test_mask_is_walked_with_the_keyboard(browser):
    with showing(browser, MASK) as (page, view):
        mask = MASKS["none"].clone()
        cell(view, 0, 0).focus()
        page.keyboard.press("ArrowUp")  # there is nothing
        page.keyboard.press("ArrowLeft")
        for keys, row, column in [
            (["Space"], 0, 0),
            (["ArrowRight", "ArrowDown", "ArrowDown", "Enter"], 2, 1),
            (["ArrowUp", "ArrowRight", "Space"], 1, 2),
            (["Alt+ArrowUp", "Space"], 1, 2),
        ]:
            for key in keys:
                page.keyboard.press(key)
            mask[row, column] ^= True
            agrees_with_mask(view, mask)
        assert view.locator('.mask-cell[tabindex="0"]').count() == 1
        label = "document.activeElement.getAttribute('aria-label')"
        assert page.evaluate(label) == "it may look at slept"


# Split

TABLES = ROOT / "explorer_source/src/tables.css"
STEPS = [
    [NUMBERED],
    list(NUMBERED.view(3, 2, 4)),
    list(split_heads(NUMBERED[None].double(), 2)[0].long()),
]
MISTAKE = list(NUMBERED.view(2, 3, 4))
WRAPPER = list(NUMBERED.chunk(2, dim=-1))


def shows(view, *steps):
    """The tables of the view are these blocks."""
    tables = [cells_of(table) for table in view.locator("table:visible").all()]
    shown = [[[int(number) for number in row] for row in table] for table in tables]
    assert shown == [block.tolist() for step in steps for block in step]


@pytest.mark.parametrize("by", ["mouse", "finger", "keyboard"])
def test_split_goes_step_by_step(browser, by):
    with showing(browser, SPLIT, by=by) as (page, view):
        # The sheet of another view on the page comes later, and takes no colour away.
        page.add_style_tag(path=TABLES)
        colour = "cell => getComputedStyle(cell).backgroundColor"
        assert view.locator("td").first.evaluate(colour) == "rgba(0, 114, 178, 0.2)"
        onward = view.get_by_role("button", name="Next")
        shows(view, STEPS[0])
        use(onward, by)
        shows(view, *STEPS[:2])
        use(view.get_by_role("button", name="Back"), by)
        shows(view, STEPS[0])
        for _ in range(2):
            use(onward, by)
        onward.click(force=True)  # there is no fourth
        shows(view, *STEPS, WRAPPER)
        assert "✓" in view.locator(".split-verdict").inner_text()
        assert view.locator(".split-foreign").count() == 0
        assert "x.view(1, 3, 2, 4).transpose(1, 2)" in view.inner_text()
        assert "transpose: (1, 2, 3, 4)" in view.inner_text()
        # One number is framed in every step.
        first = view.locator("table").first.locator("td")
        if by == "keyboard":
            first.first.focus()
            for key in ["ArrowDown", *["ArrowRight"] * 5]:
                page.keyboard.press(key)
        else:
            {"mouse": first.nth(13).hover, "finger": first.nth(13).tap}[by]()
        assert view.locator(".split-here").all_inner_texts() == ["25"] * 4
        said = view.locator(".split-said").inner_text()
        assert said == "25 (token 2, head 1) is now in head 1, token 2."


def test_split_shows_the_mistake(browser):
    strangers = [
        set(ours.flatten().tolist()) - set(theirs.flatten().tolist())
        for ours, theirs in zip(MISTAKE, WRAPPER, strict=True)
    ]
    with showing(browser, SPLIT) as (_, view):
        view.get_by_role("radio", name="view alone").check()
        shows(view, STEPS[0], MISTAKE, WRAPPER)
        assert "✗" in view.locator(".split-verdict").inner_text()
        wrong = sorted(map(int, view.locator(".split-foreign").all_inner_texts()))
        assert wrong == sorted(set().union(*strangers))
        for head, strange in enumerate(strangers):
            words = f"{len(strange)} of the 12 numbers in head {head}"
            assert words in view.inner_text()
        view.locator("table").nth(1).locator("td").nth(4).hover()
        said = view.locator(".split-said").inner_text()
        assert said == "14 (token 1, head 1) is now in head 0, row 1."


# All three


def touch_all(page):
    """Bring each view into the state in which it shows most."""
    page.locator(".mask-presets button").last.click()
    page.locator(".mask-cell").first.click()
    page.get_by_role("radio", name="view alone").check()
    page.get_by_role("slider", name="tired").press("ArrowLeft")


# The colours of other front ends are those of all views: test_book_views.py.
@pytest.mark.parametrize("theme", IN_BOTH)
def test_axe_finds_nothing(browser, theme):
    with opened(browser, VECTORS, MASK, SPLIT, theme=theme) as page:
        touch_all(page)
        assert axe_faults(page) == []


def test_phone_has_room_for_all_and_what_is_touched_is_large(browser):
    x = np.array([[1.0, -2.0], [-1.5, 0.3], [0.4, -2.0], [2, 1], [0, 1], [1, 1]])
    many = view_vectors(x, ["the", "cat", "slept", "because", "it", "tired"])
    five = [torch.zeros(5, 5), ["pad", "pad", "the", "cat", "slept"]]
    mask = view_mask(*five, masks={"none": ~torch.ones(5, 5, dtype=torch.bool)})
    with opened(browser, many, mask, SPLIT, **PHONE) as page:  # measures that, too
        touch_all(page)
        for view in page.locator(".attention-live").all():
            wide, room = view.evaluate("e => [e.scrollWidth, e.clientWidth]")
            assert wide <= room
        assert page.evaluate("document.documentElement.scrollWidth") <= 375


# explore_cache


@pytest.mark.parametrize("by", ["mouse", "finger", "keyboard"])
def test_cache_fills_step_by_step(browser, by):
    with showing(browser, CACHE, by=by) as (_, view):

        def shows(keys, words):
            rows = view.locator(".cache-table tbody tr").all()
            found = ["".join(row.locator("td").all_inner_texts()) for row in rows]
            assert found == [keys, keys]
            assert words in view.locator(".cache-said").inner_text()

        onward = view.get_by_role("button", name="Next")
        shows("++", "reads 2 tokens and writes “sat”: 3,424 FLOPs")
        use(onward, by, "Space")
        shows("✓✓+", "reads 1 token and writes “down”: 1,744 FLOPs")
        shows("✓✓+", "holds 96 bytes and saves 3,488 FLOPs")
        # Both sums so far: the first step's, which reads all, and this one's.
        sums = view.locator(".cache-spent .view-number").all_inner_texts()
        assert sums == [f"{3424 + 1744:,}", f"{3424 + 5232:,}"]
        onward.click(force=True)  # there is no third
        use(view.get_by_label("reading everything again"), by, "Space")
        shows("+++", "reads 3 tokens and writes “down”: 5,232 FLOPs")
        use(view.get_by_role("button", name="Back"), by, "Space")
        shows("++", "reads 2 tokens")
