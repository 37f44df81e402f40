"""What holds for every view: a title, a goal, words in common, room on a phone."""

import pytest
import torch
from playwright.sync_api import expect

from attention_lib.course.views import (
    view_groups,
    view_mask,
    view_ring,
    view_weights,
)
from attention_lib.course.views.sentence import view_sentence
from attention_lib.course.views.snapshots import view_snapshots
from attention_lib.masks import causal_mask
from tests.browsing import IN_BOTH, axe_faults
from tests.samples import views as samples
from tests.views import PHONE, live, opened, showing

GROUPS = view_groups(16, head_dim=8, num_layers=2, tokens=100)
AHEAD = torch.tensor([[0.0, 5.0, 5.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
SENTENCE = view_sentence(AHEAD, ["cat", "it", "tired"], mask=causal_mask(3), query=2)
SHARP = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.02, 0.03, 0.95]])
WEIGHTS = view_weights(SHARP, ["cat", "it", "tired"], goal=("Find “tired”.", 2, 2, 0.9))


def turn(view):
    for key in ["Shift+ArrowUp"] * 3 + ["Shift+ArrowLeft"] * 2:
        view.get_by_role("slider", name="it, the query").press(key)


def hide(view):
    for name in ("the", "cat"):
        view.get_by_role("button", name=f"cat may look at {name}").click()


def stray(view):
    view.get_by_role("radio", name="view alone").check()
    view.locator("table").first.locator("td").nth(4).click()


def take_away(view):
    view.get_by_role("button", name="Next").click()
    view.get_by_role("radio", name="reading everything again").check()


def narrow(view):
    for place in "23":  # the widest, which is shown first, is the only one
        view.get_by_role("slider").fill(place)


def look_ahead(view):
    view.get_by_role("switch").uncheck()
    view.locator("label.sentence-word").first.click()


REACHED = {
    "sentence": (SENTENCE, look_ahead),
    "latent": (samples.LATENT, narrow),
    "vectors": (samples.VECTORS, turn),
    "split": (samples.SPLIT, stray),
    "cache": (samples.CACHE, take_away),
    "rope": (samples.ROPE, lambda view: view.get_by_role("slider").last.fill("3")),
    "costs": (samples.COSTS, lambda view: view.get_by_role("slider").first.fill("2")),
    "groups": (GROUPS, lambda view: view.get_by_role("slider").fill("3")),
    "weights": (WEIGHTS, lambda view: view.locator("td").nth(6).click()),
}


@pytest.mark.parametrize("kind", REACHED)
def test_goal_is_ticked_when_it_is_reached(browser, kind):
    view_of, act = REACHED[kind]
    with showing(browser, view_of) as (_, view):
        assert view.locator(".view-title b").inner_text()
        expect(view.locator(".view-goal")).to_contain_text("○ Try it.")
        act(view)
        expect(view.locator(".view-goal")).to_contain_text("✓ Reached.")


def test_a_mask_that_hides_all_is_the_goal_and_weights_may_have_none(browser):
    plain = view_weights(torch.full((3, 3), 1 / 3), ["a", "b", "c"])
    with showing(browser, samples.MASK, plain) as (page, view):
        view.get_by_role("button", name="an empty row").click()
        expect(view.locator(".view-goal")).to_contain_text("Try it.")  # given, not made
        view.get_by_role("button", name="causal", exact=True).click()
        hide(view)
        expect(view.locator(".view-goal")).to_contain_text("Reached.")
        assert live(page, 1).locator(".view-goal").count() == 0


def test_views_of_a_page_point_at_the_same_word(browser):
    words = ["the", "cat", "slept"]
    masks = {"causal": causal_mask(3)}
    mask = view_mask(torch.zeros(3, 3), words, masks=masks)
    weights = view_weights(SHARP, words)
    with opened(browser, weights, mask) as page:
        live(page).locator("tbody tr").nth(2).locator("td").first.hover()
        expect(live(page, 1).locator(".mask-row th")).to_have_text("slept")
        live(page, 1).locator("table").nth(1).locator("tbody tr").nth(1).hover()
        expect(live(page).locator(".weights-chosen th")).to_have_text("cat")


def test_sentence_map_and_run_point_at_the_same_word(browser):
    words = ["cat", "it", "tired"]
    run = {"queries": {"it": (2, 1)}, "heads": ["1.1"], "losses": [3.0]}
    told = {"samples": {0: "one"}, "measured": {0: 3.0}}
    steps = view_snapshots(words, {0: SHARP[None]}, **run, **told)
    with opened(browser, SENTENCE, view_weights(SHARP, words), steps) as page:
        live(page).locator("label.sentence-word").first.hover()
        expect(live(page, 1).locator(".weights-chosen th")).to_have_text("cat")
        heard = live(page, 2).locator(".snapshots-heard")
        expect(heard).to_have_text("cat")
        live(page, 2).locator("td").nth(2).hover()  # of the first row: 1.1
        lit = live(page).locator(".sentence-query .sentence-text")
        expect(lit).to_have_text("it")
        page.mouse.move(0, 0)
        expect(lit).to_have_text("tired")


# Each alone on its page; other views have a test of their own, with what they show.
ALONE = [samples.ABLATION, samples.COSTS, samples.FLASH, samples.GROUPS, samples.GROWTH]
ALONE += [samples.KERNELS, samples.LATENT, samples.PAGES, samples.REACH, samples.RING]
ALONE += [view_ring(num_processes=8, length=1024, width=1024), samples.ROPE]
ALONE += [samples.MUSEUM, samples.SINKS, samples.SNAPSHOTS]


@pytest.mark.parametrize("theme", IN_BOTH)
@pytest.mark.parametrize("view_of", ALONE, ids=lambda view_of: view_of.kind)
def test_view_is_accessible_and_fits_a_phone(browser, view_of, theme):
    with showing(browser, view_of, theme=theme, **PHONE) as (page, view):
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        assert axe_faults(page) == []
        if view_of is samples.MUSEUM:
            view.get_by_role("button", name="Show me").click()
            assert page.evaluate("document.documentElement.scrollWidth") <= 375
            assert axe_faults(page) == []
