"""The view of attention in tiles: what it sends, says and refuses, and how it steps."""

import torch

from attention_lib.course.views import view_flash
from tests.samples.views import FLASH as VIEW
from tests.samples.views import FLASH_GIVEN as GIVEN
from tests.views import each_way, numbers, refusals, sent, showing, tables_of, use

SCORES, VALUE = GIVEN["scores"], GIVEN["value"]
RESULT = SCORES.softmax(1) @ VALUE


def test_explore_flash_ends_with_attention_and_counts_the_bytes():
    steps = sent(VIEW)["steps"]
    assert [step["rows"] + step["columns"] for step in steps] == [
        [0, 3, 0, 4], [0, 3, 4, 6], [3, 4, 0, 4], [3, 4, 4, 6]]  # fmt: skip
    ends = [row for step in (steps[1], steps[3]) for row in step["kept"]]
    mixed = torch.tensor([[float(x) for x in row[3:]] for row in ends]).double()
    torch.testing.assert_close(mixed, RESULT, rtol=0, atol=5.1e-3)
    # Queries once, keys and values for both pieces, results once; 2 bytes per number.
    assert steps[-1]["moved"] == 2 * (4 * 5 + 2 * 6 * (5 + 2) + 4 * 2)
    # Queries, keys and values, a tile, and largest, sum and mix.
    first = 3 * 5 + 4 * (5 + 2) + 3 * 4 + 3 * (2 + 2)
    assert numbers(tables_of(VIEW)[0])[0].tolist() == [2 * first, 2 * (3 * 5 + 4 * 7)]


test_explore_flash_refuses = refusals(
    view_flash,
    GIVEN,
    ({"scores": [1]}, TypeError, "scores must be a tensor; got list"),
    ({"value": VALUE[:5]}, ValueError, "scores must be (Q, K) and value (K, V)"),
    ({"tile": 0}, ValueError, "tile must be at least 1; got 0"),
    ({"head_dim": 0}, ValueError, "head_dim must be at least 1; got 0"),
)


@each_way
def test_flash_steps_through_the_tiles(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        further = view.get_by_role("button", name="Next tile")
        for step in sent(VIEW)["steps"]:
            said = " ".join(view.locator("[aria-live=polite]").inner_text().split())
            assert f"In fast memory: {step['fast']} bytes." in said
            assert f"Moved so far: {step['moved']} bytes" in said
            (top, bottom), (left, right) = step["rows"], step["columns"]
            assert view.locator(".flash-now").count() == (bottom - top) * (right - left)
            # The tile in the picture: its place among the scores of slow memory.
            tile = view.locator(".flash-moving").nth(3).get_attribute("style")
            assert tile == f"--x: {24 + 14 * left}; --y: {48 + 14 * top};"
            if further.is_enabled():
                use(further, by)
        view.get_by_text("Reached.").wait_for()
        # 128 queries, keys, values and results of width 64, two sums, and a tile.
        fast = round(2 * 128 * (4 * 64 + 2 + 128) / 1000)
        assert f"128 by 128: {fast} kB in fast memory" in view.inner_text()
        assert (
            f"a table of scores of {round(2 * 4096**2 / 1e6)} MB" in view.inner_text()
        )
