"""The view of heads that grow: what it sends, says and refuses, and how it moves."""

import torch

from attention_lib.course.views import view_growth
from tests.samples.views import GROWTH as VIEW
from tests.samples.views import GROWTH_GIVEN as GIVEN
from tests.views import each_way, numbers, refusals, sent, showing, tables_of

WORDS, MAPS = GIVEN["words"], GIVEN["weights"]


def test_explore_growth_sends_what_lies_below_the_diagonal():
    data = sent(VIEW)
    kept = torch.tensor([float(x) for x in data["weights"][1][1].split()]).double()
    rows, columns = torch.tril_indices(6, 6)
    torch.testing.assert_close(kept, MAPS[20][1][rows, columns], rtol=0, atol=5.1e-3)
    assert data["wanted"][1] == "101001000100001000001"
    assert numbers(tables_of(VIEW)[0]).tolist() == [
        [3.5, 0.5, 0.25], [1.25, 0.25, 0.75], [0.5, 0.5, 1.0]]  # fmt: skip


test_explore_growth_refuses = refusals(
    view_growth,
    GIVEN,
    ({"words": "abcabc"}, TypeError, "words must be"),
    ({"weights": {}}, ValueError, "weights must hold at least one snapshot"),
    ({"scores": {10: (0, 0)}}, ValueError, "scores must have the steps"),
    ({"words": WORDS[1:]}, ValueError, "weights[10] must be (2, 5, 5)"),
    ({"wanted": dict.fromkeys("ab", MAPS[10])}, ValueError, "wanted['a'] must be"),
)


@each_way
def test_growth_moves_through_the_run(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        legend = view.locator(".growth-legend")
        assert "loss on repeats 3.50" in legend.inner_text()
        slider, curves = view.get_by_role("slider"), view.locator("svg.growth-curves")
        box = curves.bounding_box()
        middle = {"x": box["width"] / 2, "y": box["height"] / 2}
        if by == "keys":
            slider.press("ArrowRight")
        else:
            {"mouse": curves.click, "finger": curves.tap}[by](position=middle)
        assert "score of second 0.75" in legend.inner_text()
        view.get_by_text("Reached.").wait_for()
        view.locator("select").select_option(label="b (2)")
        best = int(MAPS[20][0, 1].argmax())
        said = view.locator("[aria-live=polite]").inner_text()
        assert f"In first, “b (2)” gives most to “{'ab'[best]} ({best + 1})”" in said
