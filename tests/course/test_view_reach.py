"""The view of windows, sinks and layers: what it says, refuses, and counts."""

import torch

from attention_lib.course.views import view_reach
from attention_lib.sparse_attention import sink_window_mask
from tests.samples.views import REACH as VIEW
from tests.views import each_way, refusals, showing, slide, tables_of


def reached(window, sinks, layers):
    mask = sink_window_mask(16, window, sinks).double()
    return torch.linalg.matrix_power(mask, layers) > 0


def test_explore_reach_says_without_a_script_how_many_tokens_arrive():
    cells = [row[1] for row in tables_of(VIEW)[0][1:]]
    assert cells == [f"{min(2 * layers + 1, 16)} of 16" for layers in range(1, 9)]


test_explore_reach_refuses = refusals(
    view_reach,
    {"length": 16, "window": 3},
    ({"window": 0}, ValueError, "window must be at least 1; got 0"),
    ({"num_sinks": -1}, ValueError, "num_sinks must be between 0"),
    ({"length": 21}, ValueError, "length must be at most 20; got 21"),
    ({"layers": 9}, ValueError, "layers must be at most 8; got 9"),
    ({"window": 17}, ValueError, "window must be at most 16; got 17"),
)


@each_way
def test_reach_follows_the_sliders(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        sliders = view.get_by_role("slider").all()
        for values in [(3, 0, 1), (3, 0, 4), (1, 0, 8), (4, 1, 2), (4, 0, 5)]:
            for slider, value in zip(sliders, values, strict=True):
                slide(slider, value, by)
            seen = reached(*values)
            assert view.locator(".reach-seen").count() == int(seen.sum())
            said = " ".join(view.locator("[aria-live]").inner_text().split())
            assert said.startswith(f"{int(seen[-1].sum())} of 16 tokens can change")
            kept = int(sink_window_mask(16, *values[:2])[-1].sum())
            assert said.endswith(f"The cache of one layer keeps {kept}.")
        view.get_by_text("Reached.").wait_for()
