"""The view of kernels: what it asks, says and blames."""

from attention_lib.course.views import view_kernels
from tests.samples.views import KERNELS as VIEW
from tests.samples.views import SWITCHES as NAMES
from tests.samples.views import kernel_of as kernel
from tests.views import each_way, refusals, showing, tables_of, use


def test_explore_kernels_asks_once_for_each_combination_and_says_the_single_ones():
    asked = []
    view_kernels(NAMES, lambda on: asked.append(on) or kernel(on))
    assert len(asked) == len(set(asked)) == 16
    rows = tables_of(VIEW)[0][1:]
    assert rows == [
        ["none of these", "flash"],
        ["half", "flash"],
        ["three axes", "math"],
        ["dropout", "math"],
        ["shared", "flash"],
    ]


test_explore_kernels_refuses = refusals(
    view_kernels,
    {"switches": NAMES, "kernel_of": kernel},
    ({"switches": [1, 2]}, TypeError, "switches must be texts"),
    ({"switches": ["a"]}, ValueError, "switches must be 2 to 8 different names"),
    ({"switches": ["a", "a"]}, ValueError, "switches must be 2 to 8 different names"),
    ({"switches": [*"abcdefghi"]}, ValueError, "switches must be 2 to 8 different n"),
    ({"kernel_of": "flash"}, TypeError, "kernel_of must be a function"),
)


@each_way
def test_kernels_follow_the_switches(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        said = view.locator("[aria-live]").first

        for name, kernel_now, why in [
            ("half", "flash", "It is the kernel of the plain call."),
            ("three axes", "math", "Without three axes, it would be"),
            ("dropout", "math", "No single switch"),
            ("three axes", "math", "Without dropout, it would be"),
            ("dropout", "flash", "It is the kernel of the plain call."),
        ]:
            use(view.get_by_label(name), by, "Space")
            words = " ".join(said.inner_text().split())
            assert words.startswith(f"Kernel: {kernel_now}. {why}")
        assert not view.get_by_text("Reached.").is_visible()


def test_goal_is_reached_with_three_harmless_switches(browser):
    harmless = view_kernels(["a", "b", "c"], lambda on: "flash")
    with showing(browser, harmless) as (_, view):
        for name in "abc":
            view.get_by_label(name, exact=True).check()
        view.get_by_text("Reached.").wait_for()
