"""The pages are light: what a reader's browser fetches for each, and nothing jumps."""

import re

import pytest

from tests.browsing import lay_out
from tests.running import sample
from tests.site.weight import total, weigh
from tools.chapters import ROOT, SITE, chapter_paths
from tools.translate.catalogue import settings

pytestmark = pytest.mark.usefixtures("site")
CHAPTERS = [SITE / f"chapters/{path.stem}.html" for path in chapter_paths()]
# Pages are made alike: `make test` asks four of them, `make test MARK=slow` the rest.
SOME_SLOW = [
    pytest.param(page, marks=[pytest.mark.slow] if number % 6 else [])
    for number, page in enumerate(CHAPTERS)
]
OF_EDITION = [SITE / f"zh/{name}.html" for name in settings(ROOT)["finished"]]
CHINESE = [
    pytest.param(page, marks=[pytest.mark.slow] if number % 6 else [])
    for number, page in enumerate(OF_EDITION)
]
CHAPTER_IN_CHINESE = 430_000
FIRST, NEXT = 360_000, 100_000
LANDING, LIBRARY, MUSEUM = 230_000, 220_000, 260_000
SHIFT, SEEN = sample("shift.js"), sample("seen.js")


@pytest.fixture(scope="module")
def context(browser):
    # With nothing cached: Playwright caches no answer of its own.
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        yield context


@pytest.fixture(scope="module")
def shared(context):
    """What a reader of any chapter has: the files that each of three asks for."""
    return set.intersection(*(weigh(context, page).first for page in CHAPTERS[::12]))


@pytest.mark.parametrize("page", SOME_SLOW, ids=lambda page: page.stem)
def test_chapter_weighs_little_and_asks_for_nothing_that_is_missing(
    context, shared, page
):
    weight = weigh(context, page)
    assert weight.absent == set()
    assert total(weight.whole) <= FIRST
    assert len(shared) > 5
    assert total(weight.first - shared) <= NEXT
    # A font that came by itself would be one that its style sheet misses.
    left_out = re.compile(r"woff2|fontawesome|mathjax|katex.*js")
    assert [it.name for it in weight.whole if left_out.search(it.name)] == []


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("book/index", LANDING),
        ("book/api/attention", LIBRARY),
        ("book/museum", MUSEUM),
        ("book/bibliography", LIBRARY),
        ("zh/book/bibliography", LIBRARY),
    ],
)
def test_other_page_weighs_little(context, name, most):
    weight = weigh(context, SITE / f"{name}.html")
    assert weight.absent == set()
    assert total(weight.whole) <= most


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: page.stem)
def test_page_in_chinese_weighs_little_and_brings_no_letters(context, page):
    weight = weigh(context, page)
    assert weight.absent == set()
    assert total(weight.whole) <= CHAPTER_IN_CHINESE
    assert [it.name for it in weight.whole if "woff" in it.suffix] == []


FIRST_SCREENS = ["book/index", "chapters/08-training", "chapters/15-cross-attention"]


@pytest.mark.parametrize("name", FIRST_SCREENS)
def test_text_is_seen_once_and_before_scripts_are_asked_for(browser, address, name):
    with browser.new_page(viewport={"width": 412, "height": 823}) as page:
        page.goto(f"{address}/{name}.html")
        assert page.evaluate(SHIFT) < 0.001  # else letters came after their places
        largest, asked = page.evaluate(SEEN)
        assert largest < asked


@pytest.mark.parametrize("width", [375, pytest.param(1440, marks=pytest.mark.slow)])
@pytest.mark.parametrize("chapter", CHAPTERS[1:6:4], ids=lambda page: page.stem)
def test_chapter_does_not_jump(browser, chapter, width):
    # Opened as files, which must work too.
    with browser.new_page(viewport={"width": width, "height": 900}) as page:
        page.goto(chapter.as_uri())
        assert page.evaluate(SHIFT) < 0.01


HEIGHTS = sample("heights.js")
WITH_VIEWS = [
    pytest.param(page, marks=[pytest.mark.slow] if number % 4 else [])
    for number, page in enumerate(CHAPTERS)
]
WITH_VIEWS.append(SITE / "book/museum.html")
# On a phone, each control beside what answers it: one screen, below the page's own bar.
SCREEN = 812 - 56
ANSWERS = {
    "ablation": (".ablation-choice", ".ablation-losses"),
    "align": (".align-map", ".align-choice:has(> button)"),
    "cache": (".cache-controls", ".cache-spent"),
    "costs": (".costs-choice", ".costs-said"),
    "flash": (".flash-choice", ".flash-tables"),
    "groups": (".groups-choice", ".groups-all"),
    "growth": (".growth-slide", ".growth-maps > div"),
    "kernels": (".kernels-all", ".kernels-said"),
    "latent": (".latent-choice", ".latent-map"),
    "mask": (".mask-presets", ".mask-parts"),
    "museum": (".museum-room", ".museum-said"),
    "pages": (".pages-choice", ".pages-requests"),
    "pipe": (".pipe-under", ".pipe-said"),
    "reach": (".reach-choice", ".reach-map"),
    "ring": (".ring-choice", ".ring-held"),
    "rope": (".rope-speeds", ".rope-said"),
    "sinks": (".sinks-choice", ".sinks-both"),
    "snapshots": (".snapshots-slide", ".snapshots-scroll"),
    "split": (".split-controls", ".split-pair"),
    "weights": (".weights-controls, .weights-heads", ".weights-scroll"),
}
# Both heights, where the control stays in sight; else from one's top to the other's
# end.
REACH = """([view, control, answer]) => {
    const [one, other] = [control, answer].map((it) => view.querySelector(it));
    const [from, to] = [one, other].map((it) => it.getBoundingClientRect());
    const sticks = getComputedStyle(one).position === "sticky";
    return sticks ? from.height + to.height : to.bottom - from.top;
}"""


def views_of(page, chapter):
    """The views of a chapter, all laid out, with their kinds."""
    page.emulate_media(reduced_motion="reduce")
    page.goto(chapter.as_uri())
    lay_out(page)
    folds = page.locator("details:not(.museum-tags)")  # a phone folds the filters
    folds.evaluate_all("(all) => all.map((it) => it.open = true)")
    waiting = page.locator(".learn-waits")  # for a prediction
    waiting.evaluate_all("(all) => all.map((it) => it.classList.remove('learn-waits'))")
    found = page.locator('.attention-view:not([data-kind="predict"]) > .attention-live')
    views = found.element_handles()
    return [(view.evaluate("(e) => e.parentNode.dataset.kind"), view) for view in views]


@pytest.mark.parametrize("width", [375, pytest.param(1440, marks=pytest.mark.slow)])
@pytest.mark.parametrize("chapter", WITH_VIEWS, ids=lambda page: page.stem)
def test_view_fits_and_keeps_its_height_while_it_is_used(browser, chapter, width):
    """On a phone, a control and what answers it are seen at once."""
    with browser.new_page(viewport={"width": width, "height": 812}) as page:
        views = views_of(page, chapter)
        for kind, view in views:
            if width == 375 and kind in ANSWERS:
                assert page.evaluate(REACH, [view, *ANSWERS[kind]]) <= SCREEN, kind
        for kind, view in views:
            heights = view.evaluate(HEIGHTS)
            assert len(heights) == 1, (kind, heights)
