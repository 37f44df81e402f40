"""The view of heads that are switched off: what it says, refuses, and measures."""

from attention_lib.course.views import view_ablation
from tests.samples.views import ABLATION as VIEW
from tests.samples.views import ABLATION_GIVEN as GIVEN
from tests.views import each_way, refusals, showing, tables_of, use


def test_explore_ablation_has_all_losses_without_a_script():
    rows = tables_of(VIEW)[0][1:]
    assert rows[0] == ["induction: 3.1", "1.50", "3.00", "1.50", "3.00"]
    assert rows[1] == ["induction: 3.2", "1.25", "3.00", "9.00", "3.25"]
    assert [row[0] for row in rows[2:]] == ["other: 1.0"]
    assert "With all heads: repeated 1.25, Alice 3.10." in VIEW.static


test_explore_ablation_refuses = refusals(
    view_ablation,
    GIVEN,
    ({"orders": {}}, ValueError, "orders must hold heads; got {}"),
    ({"orders": {"a": {}}}, ValueError, "orders must hold heads"),
    ({"whole": (1.0,)}, ValueError, "whole must have 2 losses; got 1"),
    (
        {"orders": {"a": {"3.1": ((1.0, 2.0), (1.0,))}}},
        ValueError,
        "orders['a']['3.1'][1] must have 2 losses; got 1",
    ),
)


@each_way
def test_ablation_follows_the_heads_that_are_off(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        said = view.locator("[aria-live=polite]")

        def press(name):
            use(view.get_by_role("button", name=name, exact=True), by, "Enter")

        def says(words):
            assert said.inner_text() == words

        says("Without 3.1, 3.2: repeated +7.75, Alice +0.15.")
        press("3.2")
        says("Without 3.1: repeated +0.25, Alice −0.10.")
        press("3.1")
        says("All heads are on.")
        use(view.get_by_label("one head at a time"), by, "Space")
        assert view.get_by_text("Press a head: it alone is off.").is_visible()
        press("3.2")
        says("Without 3.2: repeated 0.00, Alice −0.10.")
        assert not view.get_by_text("Reached.").is_visible()
        press("other")
        says("Without 1.0: repeated +6.00, Alice 0.00.")
        view.get_by_text("Reached.").wait_for()
