"""The view of a window and kept first tokens: what it says, refuses, and measures."""

import json
import re
from pathlib import Path

from attention_lib.course.views import Interactive, view_sinks
from tests.samples.views import SINKS as VIEW
from tests.samples.views import SINKS_GIVEN as GIVEN
from tests.views import each_way, refusals, showing, slide, tables_of


def test_explore_sinks_has_all_losses_without_a_script():
    assert tables_of(VIEW)[0][1:] == [["8", "4.50", "3.50"], ["16", "4.25", "3.00"]]


test_explore_sinks_refuses = refusals(
    view_sinks,
    GIVEN,
    ({"losses": {}}, ValueError, "losses must hold at least one row"),
    ({"losses": {0: [1.0]}}, ValueError, "losses[0] must have 2 numbers; got 1"),
    ({"windows": [0, 1]}, ValueError, "windows must be at least 1; got 0"),
    ({"length": 1.5}, TypeError, "length must be"),
)


@each_way
def test_sinks_follow_the_sliders(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        said = view.locator("[aria-live=polite]")
        assert "costs 1.35 nats" in said.inner_text()
        window, first = view.get_by_role("slider").all()
        slide(window, 0, by)
        slide(first, 1, by)
        assert "costs 0.60 nats" in said.inner_text()
        assert view.locator("svg path").count() == 3
        slide(window, 1, by)
        view.get_by_text("Reached.").wait_for()


def test_sliders_end_where_the_text_does_on_a_phone(browser):
    with showing(browser, VIEW, by="finger") as (page, view):
        page.set_viewport_size({"width": 320, "height": 800})
        of = "it => it.getBoundingClientRect().right"
        edge = view.locator(".view-goal").evaluate(of)
        sliders = view.get_by_role("slider").all()
        assert [it.evaluate(of) for it in sliders] == [edge, edge]


def test_goal_can_be_reached_with_the_numbers_of_the_chapter(browser):
    """They move when the chapter does; the goal is a number in the program."""
    root = Path(__file__).parents[2]
    record = json.loads((root / "notebooks/17-windows-and-sinks.ipynb").read_bytes())
    outputs = [it for cell in record["cells"] for it in cell.get("outputs", [])]
    pages = ["".join(it.get("data", {}).get("text/html", "")) for it in outputs]
    (told,) = re.findall(r'\{"windows".*?\}', "".join(pages))
    view_of = Interactive("sinks", json.loads(told), "", "")
    with showing(browser, view_of, by="finger") as (_, view):
        window, first = view.get_by_role("slider").all()
        slide(window, view_of.data["windows"].index(64), "finger")
        slide(first, view_of.data["firsts"].index(1), "finger")
        view.get_by_text("Reached.").wait_for()
