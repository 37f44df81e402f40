"""The view of a ring of processes: what it says, refuses, and counts."""

from attention_lib.course.views import view_ring
from attention_lib.parallel import rank_ranges, ring_pair_counts
from tests.samples.views import RING as VIEW
from tests.samples.views import RING_GIVEN as SIZES
from tests.views import each_way, refusals, showing, tables_of, use


def test_explore_ring_says_the_work_without_a_script():
    assert tables_of(VIEW)[0][1:] == [
        ["0", "10 0 0", "10 8 8"],
        ["1", "10 16 0", "10 8 8"],
        ["2", "10 16 16", "10 8 8"],
    ]
    assert "each process sends 80 bytes" in VIEW.static  # 2 · 4 tokens · 5 · 2


test_explore_ring_refuses = refusals(
    view_ring,
    SIZES,
    ({"num_processes": 1}, ValueError, "num_processes must be between 2 and 8; got 1"),
    ({"num_processes": 9}, ValueError, "num_processes must be between 2 and 8; got 9"),
    (
        {"length": 15},
        ValueError,
        "length must be a multiple of 6, for 3 processes in zigzag",
    ),
    ({"width": 0}, ValueError, "width must be at least 1; got 0"),
)


@each_way
def test_ring_shows_what_the_library_counts(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):

        def press(name):
            use(view.get_by_role("button", name=name), by)

        for order in ("plain", "zigzag"):
            press(order)
            work = ring_pair_counts(12, 3, order)
            for step in range(3):
                now = [steps[step] for steps in work]
                shown = view.locator(".ring-pairs").all_inner_texts()
                assert [int(text) for text in shown] == now
                sums = view.locator(".ring-sum").all_inner_texts()
                assert [int(text) for text in sums] == [
                    sum(w[: step + 1]) for w in work
                ]
                said = view.locator("[aria-live]").inner_text()
                assert f"sent {80 * step} bytes" in said
                assert f"computes {max(now)} pairs, the least busy {min(now)}" in said
                held = view.locator(
                    ".ring-held tbody td:nth-child(2)"
                ).first.inner_text()
                going = view.locator(".ring-going").first.get_attribute("style")
                assert f"rotate({120 * step}deg) translateY(" in going
                idle = view.locator("[data-idle=true]").count()
                assert idle == now.count(0)
                piece = rank_ranges(12, -step % 3, 3, order)[0]
                assert held.startswith(f"process {-step % 3}")
                assert f"{piece[0]} to" in held
                if step < 2:
                    press("Next")
            press("Back")
            press("Back")
        view.get_by_text("Reached.").wait_for()  # first idle, then even


def test_ring_without_a_mask_is_even(browser):
    with showing(browser, VIEW) as (_, view):
        view.get_by_role("checkbox", name="causal").uncheck()
        view.get_by_role("button", name="Next").click()
        shown = view.locator(".ring-pairs").all_inner_texts()
        assert shown == [
            str(steps[1]) for steps in ring_pair_counts(12, 3, causal=False)
        ]
