"""The view of a server's pages: what it sends, says and refuses, and how it moves."""

from playwright.sync_api import expect

from attention_lib.course.views import view_pages
from tests.samples.views import PAGES as VIEW
from tests.samples.views import PAGES_GIVEN as GIVEN
from tests.samples.views import server_step as step
from tests.views import each_way, live, opened, refusals, sent, showing, tables_of

STEPS = GIVEN["steps"]
SAID = [
    ("reads 6 tokens for 1 request.", "2 pages of 5, 0 shared", "empty", "A begins."),
    ("reads 4 tokens for 2 requests.", "3 pages of 5, 1 shared", "C", "B begins."),
    ("reads 1 token for 1 request.", "3 pages of 5, 0", "B, C", "B is preempted."),
    ("reads 9 tokens for 2 requests.", "3 pages", "empty", "C begins. A is done."),
    ("reads 1 token for 1 request.", "1 page of 5", "empty", "B is cancelled."),
]


def test_explore_pages_sends_the_steps_and_says_each_request_without_a_script():
    plain = [{"kept": []} | step for step in STEPS]
    names = ["A", "B", "C"]
    wanted = {"steps": plain, "pages": 5, "pageLen": 4, "names": names}
    assert sent(VIEW) == wanted
    head, *rows = tables_of(VIEW)[0]
    assert head[1:] == ["first step", "last step", "tokens read", "pages", "preempted"]
    assert rows == [
        ["A", "1", "3", "8", "3", "0"],
        ["B", "2", "4", "8", "2", "1"],
        ["C", "4", "5", "5", "1", "0"],
    ]
    assert "at most 3 pages in use at once, a shared page in 1 of" in VIEW.static


def test_explore_pages_numbers_many_requests():
    never = step([[]] * 27, "waiting " * 27, [0] * 27)
    rows = tables_of(view_pages(**GIVEN | {"steps": [never]}))[0]
    assert rows[-1] == ["27", "–", "–", "0", "0", "0"]


test_explore_pages_refuses = refusals(
    view_pages,
    GIVEN,
    ({"steps": {}}, TypeError, "steps must be a list of dicts; got dict"),
    ({"steps": []}, ValueError, "steps must hold at least one step; got none"),
    ({"steps": [3]}, TypeError, "steps[0] must be a dict; got int"),
    ({"steps": [{"fed": []}]}, ValueError, "steps[0] must hold 'states'; got ['f"),
    ({"steps": STEPS[::-1]}, ValueError, "steps[4] must hold the 3 requests of t"),
    ({"steps": [step([[5]], "done", [0])]}, ValueError, "a page of steps[0] must"),
    ({"steps": [step([[0]], "asleep", [0])]}, ValueError, "a state of steps[0] mu"),
    ({"steps": [step([[0]], "done", [])]}, ValueError, "steps[0] must hold one ta"),
    ({"steps": [step([[1, 1]], "done", [0])]}, ValueError, "steps[0] has a page"),
    (
        {"steps": [step([[1]], "done", [0], kept=[1])]},
        ValueError,
        "steps[0] keeps page 1, which is in a table",
    ),
    ({"num_pages": 0}, ValueError, "num_pages must be at least 1; got 0"),
)


def test_five_requests_stand_in_one_row(browser):
    waiting = step([[]] * 5, "waiting " * 5, [0] * 5)
    with showing(browser, view_pages(**GIVEN | {"steps": [waiting]})) as (page, view):
        page.set_viewport_size({"width": 840, "height": 800})  # the site's column
        names = view.locator(".pages-request").all()
        assert len({name.bounding_box()["y"] for name in names}) == 1


def owners(view):
    """What each page says."""
    cells = view.locator(".pages-grid > li").all_inner_texts()
    return [" ".join(cell.split()[2:]) for cell in cells]


@each_way
def test_pages_shows_every_step(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        further = view.get_by_role("button", name="Next")
        slider = view.get_by_role("slider", name="step")
        act = {"mouse": further.click, "finger": further.tap}
        for number, (now, words) in enumerate(zip(STEPS, SAID, strict=True)):
            said = " ".join(view.locator("[aria-live]").inner_text().split())
            assert all(word in said for word in words), said
            tables, kept = now["tables"], now.get("kept", [])
            wanted = [
                " ".join("ABC"[n] for n, own in enumerate(tables) if page in own)
                or ("kept" if page in kept else "free")
                for page in range(5)
            ]
            assert owners(view) == wanted
            expect(view.get_by_text("Reached.")).to_be_visible(visible=number >= 2)
            if number < len(STEPS) - 1:
                act.get(by, lambda: slider.press("ArrowRight"))()


@each_way
def test_pages_shows_the_block_table_of_the_request_that_is_pointed_at(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        view.get_by_role("slider", name="step").fill("2")
        shown = view.locator(".pages-entry")
        first = "tokens 0 to 3 page 0, with {}".format
        assert shown.all_inner_texts()[0].split() == first("B").split()
        second = view.locator(".pages-request").nth(1)
        if by == "keys":
            view.get_by_role("radio").nth(0).press("ArrowDown")
        else:
            {"mouse": second.hover, "finger": second.tap}[by]()
        entries = [" ".join(text.split()) for text in shown.all_inner_texts()]
        assert entries == [first("A"), "tokens 4 to 7 page 2"]
        if by == "mouse":  # and by a page, for as long as it is pointed at
            view.locator(".pages-page").nth(1).hover()
            assert "page 1" in " ".join(shown.nth(1).inner_text().split())


def test_pages_play_to_the_end_unless_motion_is_reduced(browser):
    with showing(browser, VIEW) as (_, view):
        view.get_by_role("button", name="Play").click()
        view.get_by_text("step 5 of 5").wait_for()
        view.get_by_role("button", name="Play").wait_for()
    with opened(browser, VIEW, reduced_motion="reduce") as page:
        assert not live(page).get_by_role("button", name="Play").is_visible()
