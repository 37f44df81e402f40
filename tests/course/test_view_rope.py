"""The view of two vectors that turn: what it sends and refuses, and how it moves."""

import itertools

import numpy as np

from attention_lib.course.views import view_rope
from tests.samples.views import ROPE as VIEW
from tests.samples.views import ROPE_GIVEN
from tests.views import each_way, numbers, refusals, sent, showing, slide, tables_of

QUERY, KEY, WORDS, SPEEDS = ROPE_GIVEN.values()


def score(p, s, speed):
    """By complex numbers: the part of q times conjugate k that is real."""
    q, k = complex(*QUERY), complex(*KEY)
    return (q * np.exp(1j * speed * (p - s)) * k.conjugate()).real


def rows_of(view):
    """Positions, offset and score of each line, the newest first."""
    rows = view.locator("tbody tr").all()
    return [
        [float(cell.replace("−", "-")) for cell in row.locator("td").all_inner_texts()]
        for row in rows
    ]


def test_explore_rope_sends_its_vectors_and_says_its_scores_without_a_script():
    data = sent(VIEW)
    assert data["pairs"] == ["1. .2", ".5 .7"]
    assert data["speeds"] == [["fast", 1.0], ["slow", 0.1]]
    wanted = [
        [p - s, *(score(p, s, speed) for speed in SPEEDS.values())]
        for p, s in [(4, 1), (14, 11), (5, 1)]
    ]
    np.testing.assert_allclose(numbers(tables_of(VIEW)[0]), wanted, atol=5.1e-4)


test_explore_rope_refuses = refusals(
    view_rope,
    {"query": QUERY, "key": KEY, "words": WORDS, "frequencies": SPEEDS},
    ({"query": ["a", "b"]}, TypeError, "query must hold numbers; got <U1"),
    ({"key": [1.0]}, ValueError, "key must be two finite numbers, not both 0; got"),
    ({"key": [0.0, 0.0]}, ValueError, "key must be two finite numbers, not both"),
    ({"words": "it"}, TypeError, "words must be a list of words; got 'it'"),
    ({"words": ["it"]}, ValueError, "words must name the query and the key; got ["),
    (
        {"frequencies": [1.0]},
        TypeError,
        "frequencies must map names to numbers; got list",
    ),
    (
        {"frequencies": {}},
        ValueError,
        "frequencies must hold at least one; got an empty",
    ),
    ({"frequencies": {"a": 0}}, ValueError, "frequencies['a'] must be above 0 and"),
)


@each_way
def test_rope_shows_the_score_of_every_place(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        sliders, places = view.get_by_role("slider"), [4, 1]
        for speed, (slider, to) in itertools.product(
            SPEEDS, [(0, 9), (1, 30), (2, 3), (0, 0)]
        ):
            button = view.get_by_role("button", name=speed)
            button.tap() if by == "finger" else button.click()
            slide(sliders.nth(slider), to, by)
            if slider < 2:
                places[slider] = to
            else:  # both together keep their offset
                places = [place - min(places) + to for place in places]
            now = rows_of(view)[0]
            assert now[:3] == [*places, places[0] - places[1]]
            assert abs(now[3] - score(*places, SPEEDS[speed])) < 1e-3
            # The angle between the arrows: of q times conjugate k, as it is drawn.
            offset = places[0] - places[1]
            q, k = complex(*QUERY), complex(*KEY)
            apart = np.angle(q * np.exp(1j * SPEEDS[speed] * offset) * k.conjugate())
            drawn = view.locator(".rope-degrees").text_content()
            assert drawn == f"{abs(np.degrees(apart)):.0f}°"
            said = view.locator("[aria-live=polite]").inner_text().replace("−", "-")
            assert said == f"Offset {now[2]:.0f}: score {now[3]:.3f}."


def test_rope_keeps_the_last_scores_and_marks_the_same_offset(browser):
    with showing(browser, VIEW) as (_, view):
        for to in ["6", "8"]:
            view.get_by_role("slider").nth(2).fill(to)
        view.get_by_role("slider").nth(0).fill("9")
        rows = rows_of(view)
        assert [row[2] for row in rows] == [1, 3, 3, 3]
        assert rows[1][3] == rows[2][3] == rows[3][3] != rows[0][3]
        assert view.locator(".rope-same").count() == 1
        arrow = view.locator(".rope-arrow").first
        x, y = (float(arrow.get_attribute(name)) for name in ("x2", "y2"))
        assert abs(complex(x, -y) - complex(*QUERY) * np.exp(9j)) < 1e-6
