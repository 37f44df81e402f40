"""The view of a latent's width: what it sends, says and refuses, and how it moves."""

import numpy as np
import pytest

from attention_lib.course.views import view_latent
from tests.samples.views import LATENT as VIEW
from tests.samples.views import LATENT_GIVEN as GIVEN
from tests.views import (
    each_way,
    numbers,
    refusals,
    sent,
    showing,
    slide,
    tables_of,
    use,
)

WEIGHTS, LATENTS = GIVEN["weights"], GIVEN["latents"]
WORDS, LOSSES = GIVEN["words"], GIVEN["losses"]
# How opaque the colour of each cell is.
SHADES = """(cells) => cells.map((cell) => {
    const { backgroundColor } = getComputedStyle(cell);
    return Number((backgroundColor.match(/rgba.*, (.*)\\)/) ?? [0, 1])[1]);
})"""
MAPS = ["all keys", "keys from the latent", "the difference"]
SAID = "“{}” gives “{}” a weight of {:.3f} with all keys, of {:.3f} from the latent."
MOVED = [(LATENTS[width] - WEIGHTS).abs().max().item() for width in LATENTS]


def test_explore_latent_sends_the_lower_triangles_and_says_the_rest_without_a_script():
    shown = np.array(sent(VIEW)["maps"][2].split(" "), dtype=float)
    rows, columns = np.tril_indices(4)
    np.testing.assert_allclose(shown, LATENTS[2].numpy()[rows, columns], atol=5.1e-4)
    wanted = [[24, 0, 0.5], [2, MOVED[0], 2.25], [4, MOVED[1], 1], [6, 0, 0.5]]
    np.testing.assert_allclose(numbers(tables_of(VIEW)[0]), wanted, atol=5.1e-3)


test_explore_latent_refuses = refusals(
    view_latent,
    GIVEN,
    ({"latents": {}}, ValueError, "latents must hold at least one width; got an"),
    ({"latents": [1]}, TypeError, "latents must map widths to values; got list"),
    ({"latents": {0: WEIGHTS}}, ValueError, "latents[0] must be at least 1; got 0"),
    ({"losses": {0: 1.0, 1: 1.0}}, ValueError, "losses must hold width 2; got [0,"),
    ({"words": WORDS[:3]}, ValueError, "3 queries and 3 keys do not name the rows"),
    ({"weights": WEIGHTS.expand(2, -1, -1)}, ValueError, "a map must be (query, k"),
    ({"all_numbers": 0}, ValueError, "all_numbers must be at least 1; got 0"),
)


@each_way
def test_latent_shows_the_map_of_every_width(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        slider = view.get_by_role("slider", name="width of the latent")
        for width in (3, 2, 1):
            slide(slider, width, by)
            said = " ".join(view.locator(".latent-said").inner_text().split())
            assert f"takes {2 * width} bytes instead of 24 ({width} of 12" in said
            assert f"changes by {MOVED[width - 1]:.2f}." in said
            assert f"is {LOSSES[width]:.2f}; it was 0.50." in said
            both = (WEIGHTS, LATENTS[width], LATENTS[width] - WEIGHTS)
            for name, wanted in zip(MAPS, both, strict=True):
                use(view.get_by_role("button", name=name), by)
                rows = view.locator("tbody tr").all()
                for i, row in enumerate(rows):
                    cells = [
                        float(cell) for cell in row.locator("td").all_inner_texts()
                    ]
                    assert cells == pytest.approx(wanted[i, : i + 1].tolist(), abs=1e-3)
                    shades = row.locator("td").evaluate_all(SHADES)
                    assert shades == pytest.approx([*map(abs, cells)], abs=6e-3)


def test_latent_begins_where_something_differs_and_draws_the_loss(browser):
    with showing(browser, VIEW) as (_, view):
        slider = view.get_by_role("slider")
        pressed = view.locator("[aria-pressed=true]")
        assert pressed.inner_text() == "the difference"
        assert MOVED[int(slider.input_value()) - 1] > 0.1
        assert view.locator(".latent-less").count() > 0
        for width, height in ((1, 0), (3, 100)):  # the largest loss, and the smallest
            slider.fill(str(width))
            dot = view.locator(".latent-dot").get_attribute("d")
            assert dot == f"M{200 * width} {height}h0"


@each_way
@pytest.mark.parametrize("name", MAPS)
def test_latent_says_both_weights_of_a_cell(browser, by, name):
    with showing(browser, VIEW, by=by) as (page, view):

        def says(row, key, width, words):
            both = WEIGHTS[row, key].item(), LATENTS[width][row, key].item()
            said = view.locator(".latent-cell").inner_text()
            assert said == SAID.format(*words, *both)
            assert view.locator(".latent-here").count() == 1

        slide(view.get_by_role("slider"), 3, by)
        use(view.get_by_role("button", name=name), by)
        cells = view.get_by_role("table").locator("td")
        if by == "keys":
            for _ in MAPS[MAPS.index(name) :]:
                page.keyboard.press("Tab")
            for key in ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"]:
                page.keyboard.press(key)
            page.keyboard.press("ArrowRight")  # no key comes after its query
        else:
            {"mouse": cells.nth(5).hover, "finger": cells.nth(5).tap}[by]()
        says(2, 2, 3, ("slept", "slept"))
        view.get_by_role("slider").fill("1")
        says(2, 2, 1, ("slept", "slept"))
        {"mouse": cells.nth(6).hover, "finger": cells.nth(6).tap}.get(
            by, lambda: [cells.nth(3).focus(), page.keyboard.press("ArrowDown")]
        )()
        says(3, 0, 1, ("the (4)", "the (1)"))
        box = cells.nth(6).bounding_box()
        assert min(box["width"], box["height"]) >= 24
