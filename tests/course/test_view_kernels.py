"""The view of kernels: what it asks, says and blames."""

from attention_lib.course.views import view_kernels
from tests.samples.views import KERNELS as VIEW
from tests.samples.views import PROGRAM
from tests.samples.views import kernel_of as kernel
from tests.views import each_way, refusals, showing, tables_of, use


def test_explore_kernels_asks_once_for_each_combination_and_says_the_single_ones():
    asked = []
    view_kernels(PROGRAM, lambda code: asked.append(code) or kernel(code))
    assert len(asked) == len(set(asked)) == 16
    first, *_, last = (code.split("\n") for code in asked)
    assert first == ["dtype = float32", "heads = (2, 4)", "drop = 0.0", "", PROGRAM[4]]
    assert last == [*(line[2] for line in PROGRAM[:4]), PROGRAM[4]]
    rows = tables_of(VIEW)[0][1:]
    assert rows == [
        ["none of these", "flash"],
        ["half", "flash"],
        ["three axes", "math"],
        ["dropout", "math"],
        ["shared", "flash"],
    ]


def named(*names):
    return {"program": [(name, "", name) for name in names]}


test_explore_kernels_refuses = refusals(
    view_kernels,
    {"program": PROGRAM, "kernel_of": kernel},
    ({"program": [1, 2]}, TypeError, "a line must be a text, or three; got 1"),
    ({"program": [("a", "b")]}, TypeError, "a line must be a text, or three"),
    (named("a"), ValueError, "program must have 2 to 8 named lines"),
    (named("a", "a"), ValueError, "program must have 2 to 8 named lines"),
    (named(*"abcdefghi"), ValueError, "program must have 2 to 8 named lines"),
    ({"kernel_of": "flash"}, TypeError, "kernel_of must be a function"),
)


@each_way
def test_kernels_follow_the_switches(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        said = view.locator("[aria-live]").first

        code = view.locator(".kernels-code code")
        assert code.nth(3).inner_text().strip() == "# key = key[:2]"
        for name, kernel_now, why, blamed in [
            ("half", "flash", "It is the kernel of the plain call.", []),
            ("three axes", "math", "Without three axes, it would be", [1]),
            ("dropout", "math", "No single line", [1, 2]),
            ("three axes", "math", "Without dropout, it would be", [2]),
            ("dropout", "flash", "It is the kernel of the plain call.", []),
            ("shared", "flash", "It is the kernel of the plain call.", []),
        ]:
            use(view.get_by_label(name), by, "Space")
            kinds = code.evaluate_all("(all) => all.map((it) => it.dataset.kind)")
            assert [i for i, kind in enumerate(kinds) if kind == "blamed"] == blamed
            words = " ".join(said.inner_text().split())
            assert words.startswith(f"Kernel: {kernel_now}. {why}")
        lines = [line.split(" (")[0] for line in code.all_inner_texts()]
        assert [line.strip() for line in lines[2:4]] == ["drop = 0.0", "key = key[:2]"]
        assert not view.get_by_text("Reached.").is_visible()


def test_goal_is_reached_with_three_harmless_switches(browser):
    harmless = view_kernels(**named(*"abc"), kernel_of=lambda code: "flash")
    with showing(browser, harmless) as (_, view):
        for name in "abc":
            view.get_by_label(name, exact=True).check()
        view.get_by_text("Reached.").wait_for()
