"""The training run in a browser: each snapshot shows what it was given."""

import numpy as np
from playwright.sync_api import expect

from attention_lib.course.views.snapshots import view_snapshots
from tests.samples.views import SNAPSHOTS_GIVEN as GIVEN
from tests.samples.views import STEPS, weights_at
from tests.views import PHONE, showing

WORDS, HEADS = GIVEN["words"], GIVEN["heads"]
SAID = "all => all.map(cell => cell.ariaLabel)"


def run(**changed):
    return view_snapshots(**GIVEN | changed)


def test_slider_shows_each_snapshot(browser):
    with showing(browser, run(), **PHONE) as (page, view):
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        for at, step in enumerate(STEPS):
            view.get_by_role("slider").fill(str(at))
            expect(view).to_contain_text(f"a story of step {step}")
            expect(view).to_contain_text(f"held-out loss {10 / step:.2f}")
            for asked, row in (("colour", 3), ("thing", 4)):
                view.get_by_role("radio", name=asked).check()
                cells = view.locator("tbody td").evaluate_all(SAID)
                wanted = weights_at(step)[:, row, : row + 1].flatten()
                np.testing.assert_allclose(np.array(cells, float), wanted, atol=0.0051)
            view.get_by_role("radio", name="colour").check()
            words = "Reached." if at else "Try it."
            expect(view.locator(".view-goal")).to_contain_text(words)


def test_cells_are_walked_by_keys(browser):
    with showing(browser, run()) as (page, view):
        cell = view.locator('td[tabindex="0"]')
        assert cell.count() == 1
        cell.focus()
        row, column = cell.evaluate("c => [c.parentNode.sectionRowIndex, c.cellIndex]")
        page.keyboard.press("ArrowUp" if row else "ArrowDown")
        page.keyboard.press("ArrowRight")
        weight = weights_at(10)[1 - row, 3, column]
        said = f"Head {HEADS[1 - row]} gives {weight:.2f} to “{WORDS[column]}”."
        expect(view.locator(".snapshots-said")).to_have_text(said)


def test_table_says_it_without_scripts_and_misfits_are_refused(refused):
    assert "<td>0.80</td>" in run().static
    with refused(ValueError, "samples must have the steps [10, 20, 30]; got [10]"):
        run(samples={10: "short"})
    with refused(ValueError, "weights[10] must be (3, 5, 5); got (2, 5, 5)"):
        run(heads=["1", "2", "3"])
