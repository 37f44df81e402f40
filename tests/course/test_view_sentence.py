"""The view of a sentence: attention_lib's numbers, by all hands, in time."""

import pytest
import torch
from bs4 import BeautifulSoup

from attention_lib.attention import attention_weights
from attention_lib.course.views._strings import SENTENCE
from attention_lib.course.views.sentence import view_sentence
from attention_lib.masks import causal_mask
from attention_lib.reproducibility import seeded
from tests.browsing import axe_faults, own_seconds
from tests.views import PHONE, TEMPERATURES, live, opened, showing

WORDS = ["ana", "had", "a", "kite", ".", "then", "ana", "lost", "that", "kite"]
SCORES = 3 * torch.randn(10, 10, generator=seeded(0), dtype=torch.float64)
MASK = causal_mask(10)
VIEW = view_sentence(SCORES, WORDS, mask=MASK, query=8)
# Numbers under the words, widths and darkness of the lines, in the order of the words.
SHOWN = """view => ({
  numbers: [...view.querySelectorAll(".sentence-number")].map(n => +n.textContent),
  lines: [...view.querySelectorAll("path")].map(
    p => [parseFloat(p.style.strokeWidth), +p.style.opacity]),
})"""


def weights_of(query, *, masked=True, temperature=1.0):
    key = torch.eye(10, dtype=torch.float64)
    mask = MASK if masked else None
    return attention_weights(SCORES, key, mask, scale=1 / temperature)[query]


def check_shown(view, query, **how):
    """What the view shows of a query is what attention_lib computes."""
    weights = weights_of(query, **how)
    view.locator(f"label:nth-of-type({query + 1}).sentence-query").wait_for()
    shown = view.evaluate(SHOWN)
    numbers = torch.tensor(shown["numbers"], dtype=torch.float64)
    torch.testing.assert_close(numbers, weights.round(decimals=2), rtol=0, atol=0.0101)
    drawn = [w for key, w in enumerate(weights) if w >= 0.005 and key != query]
    lines = torch.tensor(shown["lines"], dtype=torch.float64)
    wanted = torch.stack(drawn)
    torch.testing.assert_close(lines[:, 0], 1 + 7 * wanted, rtol=0, atol=1e-2)
    torch.testing.assert_close(lines[:, 1], 0.12 + 0.88 * wanted, rtol=0, atol=1e-3)


def test_explore_sentence_shows_the_library_s_weights(browser):
    with showing(browser, VIEW) as (page, view):
        check_shown(view, 8)
        for query in (9, 1):
            view.locator("label.sentence-word").nth(query).hover()
            check_shown(view, query)
        page.mouse.move(0, 0)  # a pointer that leaves lets the chosen word come back
        check_shown(view, 8)
        view.get_by_role("switch").uncheck()
        for temperature in (0.3, 3):
            place = TEMPERATURES.index(temperature)
            view.get_by_role("slider").fill(str(place))
            check_shown(view, 8, masked=False, temperature=temperature)
        ahead = weights_of(8, masked=False, temperature=3)[9]
        said = view.locator("[aria-live=polite]")
        assert f"{ahead:.2f} comes from words that are not written" in said.inner_text()
        assert ("from the later kite" in said.inner_text()) == (ahead >= 0.05)
        view.get_by_role("switch").check()
        view.get_by_role("slider").fill(str(TEMPERATURES.index(1)))
        check_shown(view, 8)
        best = int(weights_of(8).argmax())
        share = f"{weights_of(8)[best]:.2f} from {SENTENCE['signs'][WORDS[best]]}"
        assert f"To go on after that, this head takes {share}" in said.inner_text()


def test_explore_sentence_answers_finger_and_keys(browser):
    with showing(browser, VIEW, **PHONE, reduced_motion="reduce") as (page, view):
        assert axe_faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        view.locator("label.sentence-word").nth(3).tap()
        check_shown(view, 3)
        page.keyboard.press("ArrowRight")
        check_shown(view, 4)
        motion = "p => getComputedStyle(p).animationName"
        assert view.locator("path").first.evaluate(motion) == "none"


@pytest.mark.slow
def test_explore_sentence_answers_within_a_frame_on_a_slow_phone(browser):
    with showing(browser, VIEW, **PHONE) as (page, view):
        view.locator("path").first.wait_for()
        script_seconds = own_seconds(page, "ScriptDuration")
        # Playwright's own tap runs scripts in the page; one at a place does not.
        labels = view.locator("label.sentence-word").all()
        boxes = [label.bounding_box() for label in labels]
        took = []
        for word in (3, 7, 2, 9, 5, 8, 1, 6, 4):
            before = script_seconds()
            page.touchscreen.tap(boxes[word]["x"] + 9, boxes[word]["y"] + 20)
            page.wait_for_timeout(150)
            took.append(script_seconds() - before)
            assert labels[word].get_by_role("radio").is_checked()
    assert 4 * sorted(took)[4] < 0.016, took  # the phone is four times slower


def test_explore_sentence_says_the_same_without_a_script(browser):
    still = BeautifulSoup(VIEW.static, "html.parser")
    shown = [float(it.text or 0) for it in still.select(".sentence-number")]
    numbers = torch.tensor(shown, dtype=torch.float64)
    torch.testing.assert_close(numbers, weights_of(8), rtol=0, atol=0.0051)
    with opened(browser, VIEW) as page:
        said = live(page).locator(".sentence-said").inner_text()
    assert said.startswith(still.select_one(".sentence-said").text)
    rows = [[it.text for it in row.select("th, td")] for row in still.select("tr")]
    assert [row[0] for row in rows] == ["word", *WORDS]
    assert rows[1][1] == "ana 1.00"


def test_word_that_is_named_twice_is_told_apart(browser):
    scores = torch.zeros(10, 10, dtype=torch.float64)
    scores[9, [3, 9]] = torch.tensor([4.0, 3.0], dtype=torch.float64)
    view = view_sentence(scores, WORDS, mask=MASK, query=9)
    first, second = scores[9].softmax(dim=0)[[3, 9]]
    wanted = f"{first:.2f} from one kite and {second:.2f} from another kite"
    with opened(browser, view) as page:
        assert wanted in live(page).locator(".sentence-said").inner_text()
    assert wanted in BeautifulSoup(view.static, "html.parser").text


@pytest.mark.usefixtures("shapes_unchecked")
def test_explore_sentence_refuses(refused):
    with refused(ValueError, "scores must be (query, key); got (2, 10, 10)"):
        view_sentence(torch.stack([SCORES, SCORES]), WORDS)
    with refused(ValueError, "9 queries and 9 keys do not name"):
        view_sentence(SCORES, WORDS[:9])
    with refused(ValueError, "query must be 0 to 9; got 10"):
        view_sentence(SCORES, WORDS, query=10)
    with refused(TypeError, "mask must be boolean"):
        view_sentence(SCORES, WORDS, mask=MASK.double())
