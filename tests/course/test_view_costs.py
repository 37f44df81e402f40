"""The view of what a layer costs: what it says, refuses, and counts."""

from attention_lib.course.views import view_costs
from attention_lib.timing import count_flops
from tests.samples.views import COSTS as VIEW
from tests.views import each_way, refusals, showing, slide, tables_of


def test_explore_costs_says_without_a_script_what_the_counter_says():
    import torch

    from attention_lib.multi_head import MultiHeadAttention

    with torch.device("meta"):
        counted = count_flops(MultiHeadAttention(768, 12), torch.empty(1, 1536, 768))
    row = tables_of(VIEW)[0][2]
    assert row[1:] == [f"{counted:,}", "38%", "25%", "25%", "12%"]


test_explore_costs_refuses = refusals(
    view_costs,
    {},
    ({"d_model": 0}, ValueError, "d_model must be at least 1; got 0"),
    ({"lengths": []}, ValueError, "the number of lengths must be at least 1; got 0"),
    ({"lengths": [3, 0]}, ValueError, "lengths must be at least 1; got 0"),
    ({"lengths": [5, 5]}, ValueError, "lengths must grow; got [5, 5]"),
)


@each_way
def test_costs_follow_the_sliders(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        slider = view.get_by_role("slider").first
        for place, share in [(0, 4), (1, 50), (2, 91)]:
            slide(slider, place, by)
            said = " ".join(view.locator("[aria-live]").inner_text().split())
            assert f"{share} % of them" in said
        view.get_by_text("Reached.").wait_for()
