"""The view of recorded graphs: what it says without a script, refuses, and shows."""

from attention_lib.course.views import view_graph
from attention_lib.course.views._strings import GRAPH
from attention_lib.course.views.graph import LONG, LONGEST, PROGRAMS, RECORDED_AT
from tests.samples.views import GRAPH as VIEW
from tests.views import each_way, showing, tables_of

# What must come, by hand: a mask of one place broadcasts to any other.
WANTED = {
    ("plain", 1): "=" * 30,
    ("causal", 1): "=" + "x" * 29,
    ("causal", 7): "!" * 6 + "=" + "!" * 23,
    ("window", 7): "=" * 16 + "x" * 14,
    ("window", 20): "=" * 4 + "x" * 12 + "=" * 14,
}


def test_explore_graph_counts_what_comes_without_a_script():
    said = dict(tables_of(VIEW)[0][1:])
    for (name, at), outcomes in WANTED.items():
        called = GRAPH["programs"][name].format(long=LONG)
        words = said[f"{called}, recorded at {at}"]
        said_of = {"=": "the same: ", "!": "an error: ", "x": "and no error: "}
        for sign, what in said_of.items():
            assert (what in words) == (sign in outcomes)
            if sign in outcomes:
                assert f"{what}{outcomes.count(sign)}" in words


def test_explore_graph_refuses(refused):
    with refused(ValueError, "program must be one of plain, causal, window"):
        view_graph("other")
    with refused(ValueError, "recorded_at must be one of 1, 3, 7, 20"):
        view_graph(recorded_at=2)


@each_way
def test_graph_shows_what_was_found(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        program, at = view.locator("select").all()
        slider = view.get_by_role("slider")
        for (name, length), outcomes in WANTED.items():
            if by == "keys":
                for box, place in ((program, [*PROGRAMS].index(name)),
                                   (at, RECORDED_AT.index(length))):  # fmt: skip
                    box.press("Home")
                    for _ in range(place):
                        box.press("ArrowDown")
            else:
                program.select_option(name)
                at.select_option(label=f"{length} token{'s' * (length > 1)}")
            signs = view.locator(".graph-strip span").all_inner_texts()
            assert "".join(signs) == outcomes
            frozen = view.locator(".graph-frozen").all_inner_texts()
            assert "".join(frozen).strip() == (
                f"({length}, {length})" if name == "causal" else ""
            )
        slider.fill("5")
        assert "A text of 5 tokens gives another result" in view.inner_text()
        slider.press("Home")
        assert "A text of 1 token gives what the function" in view.inner_text()
        assert len(signs) == LONGEST
        view.get_by_text("Reached.").wait_for()
