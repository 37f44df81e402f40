"""The view of an alignment that grows: what it sends, says and refuses, and how."""

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from attention_lib.course.views import view_alignment
from attention_lib.reproducibility import seeded
from tests.browsing import IN_BOTH, axe_faults
from tests.views import (
    PHONE,
    each_way,
    numbers,
    refusals,
    sent,
    showing,
    tables_of,
    use,
)

READ = {"one": ["the", "cat", "sees", "the", "dog"], "two": ["a", "dog", "runs"]}
WRITTEN = {"one": ["la", "mika", "lo", "rovo", "vid"], "two": ["uno", "rovo", "kor"]}
SCORES = torch.randn(2, 5, 5, generator=seeded(0), dtype=torch.float64)
MAPS = {"one": (3 * SCORES[0]).softmax(-1), "two": (3 * SCORES[1, :3, :3]).softmax(-1)}
VIEW = view_alignment(MAPS, WRITTEN, READ)
# Buttons that stand in the row of the next word, and a finger's or a mouse's way there.
NEXT = "tr.align-next button"


def test_explore_alignment_sends_all_maps_and_shows_the_first_without_a_script():
    for own, (name, wanted) in zip(sent(VIEW)["sentences"], MAPS.items(), strict=True):
        assert (own["written"], own["read"]) == (WRITTEN[name], READ[name])
        shown = np.array(own["weights"].split(" "), dtype=float)
        np.testing.assert_allclose(shown, wanted.flatten(), atol=5.1e-4)
    np.testing.assert_allclose(numbers(tables_of(VIEW)[0]), MAPS["one"], atol=5.1e-3)


test_explore_alignment_refuses = refusals(
    view_alignment,
    {"weights": MAPS, "written": WRITTEN, "read": READ},
    ({"weights": torch.eye(2)}, TypeError, "weights must map"),
    ({"weights": {}}, ValueError, "weights must hold at least one sentence; got an"),
    ({"written": {"one": WRITTEN["one"]}}, ValueError, "written must have the se"),
    ({"read": {}}, ValueError, "read must have the sentence 'one'; got []"),
    ({"read": WRITTEN | {"one": ["a"]}}, ValueError, "5 queries and 1 keys"),
    ({"weights": {"one": SCORES.softmax(-1)}}, ValueError, "a map must be (wr"),
)


@each_way
def test_alignment_grows_by_guesses_and_judges_them(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        said = view.locator("[aria-live]")
        goal = view.locator(".view-goal")
        best = MAPS["one"].argmax(-1).tolist()
        for row, column in enumerate(best):
            assert goal.get_attribute("data-reached") == "false"
            button = view.locator(NEXT).nth(column)
            use(button, by)
            assert f"“{WRITTEN['one'][row]}” is written. Right. " in said.inner_text()
            shown = view.locator("tbody tr").nth(row).locator("td").all_inner_texts()
            cells = [float(text.split()[0]) for text in shown]
            assert cells == pytest.approx(MAPS["one"][row].tolist(), abs=6e-4)
            if row < 4:  # the next row's button is under the finger
                expect(button).to_be_focused()
        assert "You found 5 of 5." in said.inner_text()
        expect(goal).to_have_attribute("data-reached", "true")


def test_alignment_says_what_was_wrong_and_begins_again(browser):
    with showing(browser, VIEW) as (_, view):
        view.get_by_role("combobox").select_option("two")
        said, best = view.locator("[aria-live]"), int(MAPS["two"][0].argmax())
        wrong = (best + 1) % 3
        view.locator(NEXT).nth(wrong).click()
        weight = f"{MAPS['two'][0, best]:.2f}, is on “{READ['two'][best]}”."
        assert f"Not “{READ['two'][wrong]}”. Its largest weight, {weight}" in (
            said.inner_text()
        )
        for _ in range(2):
            view.get_by_role("button", name="Show the next word").click()
        assert "You found 0 of 3." in said.inner_text()
        assert view.locator(NEXT).count() == 0
        view.get_by_role("button", name="Start again").click()
        assert view.locator(NEXT).count() == 3


def test_long_alignment_begins_with_two_rows_and_leaves_five_to_find(browser):
    words = [f"w{i}" for i in range(7)]
    view = view_alignment({"long": torch.eye(7)}, {"long": words}, {"long": words})
    with showing(browser, view) as (_, view):
        for _ in range(2):
            heads = view.locator("tbody th").all_inner_texts()
            assert heads == ["w0", "w1", "next word", "·", "·", "·", "·"]
            for column in range(2, 7):
                view.locator(NEXT).nth(column).click()
            assert "You found 5 of 5." in view.locator("[aria-live]").inner_text()
            view.get_by_role("button", name="Start again").click()


@pytest.mark.parametrize("theme", IN_BOTH)
def test_alignment_is_accessible_and_fits_a_phone(browser, theme):
    with showing(browser, VIEW, theme=theme, **PHONE) as (page, view):
        view.locator(NEXT).nth(1).click()
        assert axe_faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        boxes = [own.bounding_box() for own in view.locator(NEXT).all()]
        assert min(box[side] for box in boxes for side in ("width", "height")) >= 24
