"""The room of bugs: what it says, refuses, and shows once a line is found."""

from bs4 import BeautifulSoup
from playwright.sync_api import expect

from attention_lib.course.museum import BUGS, run_checks
from attention_lib.course.views import view_museum
from tests.samples.views import MUSEUM as VIEW
from tests.samples.views import SEEN, SOME
from tests.views import each_way, showing, use


def test_museum_says_without_a_script_what_each_bug_is():
    page = BeautifulSoup(VIEW.static, "html.parser")
    exhibits = page.select("section")
    assert [it["id"] for it in exhibits] == [bug.anchor for bug in SOME]
    for bug, exhibit in zip(SOME, exhibits, strict=True):
        assert exhibit.h3.text == bug.name
        lines = exhibit.pre.text.splitlines()
        before = [it[2:] for it in lines if it[0] != "+"]
        after = [it[2:] for it in lines if it[0] != "-"]
        assert before == bug.program.splitlines()
        assert after == bug.fixed.splitlines()
        tags = ", ".join(bug.tags)
        assert [it.text for it in exhibit.select("p")] == [
            f"{bug.symptom} ({tags})".replace("`", ""),
            bug.why.replace("`", ""),
            f"Seen by: {', '.join(bug.checks)}",
            f"Made in: {bug.source if bug.link else f'article {bug.source}'}",
        ]
        assert len(exhibit.select("p code")) == f"{bug.symptom}{bug.why}".count("`") / 2
        assert [it["href"] for it in exhibit.select("a")] == [bug.link] * bool(bug.link)


def test_explore_museum_refuses(refused):
    with refused(ValueError, "bugs must hold at least one bug; got none"):
        view_museum([], {})
    with refused(ValueError, f"seen must hold 'targets' of {SOME[0].name!r}"):
        view_museum(SOME, {})
    with refused(TypeError, "bugs must hold Bugs; got str"):
        view_museum(["a bug"], {})


def test_view_holds_no_number_that_dropout_draws():
    bug = next(bug for bug in BUGS if "dropout" in bug.program)
    (shown,) = view_museum([bug], {bug.name: run_checks(bug)}).data["bugs"]
    assert {seen for _, seen in shown["checks"]} == {""}


@each_way
def test_bugs_are_chosen_by_their_symptom_and_their_lines_found(browser, by):
    with showing(browser, VIEW, by=by) as (_, view):
        choice = view.get_by_role("combobox", name="Bugs")
        tag = "good loss, poor text"
        mine = [bug for bug in SOME if tag in bug.tags]
        if by == "finger":  # a phone folds the filters, and folds them again
            expect(view.get_by_role("button", name=tag)).to_be_hidden()
            use(view.get_by_text("Symptom"), by)
        use(view.get_by_role("button", name=tag), by)
        expect(view.locator("summary")).to_contain_text(tag)
        expect(view.get_by_role("button", name=tag)).to_be_visible(
            visible=by != "finger"
        )
        assert choice.get_by_role("option").all_inner_texts() == [b.name for b in mine]
        for bug in mine[:3]:
            choice.select_option(bug.name)
            lines = view.locator(".museum-line button")
            assert lines.count() == len(bug.program.splitlines())
            right = next(n for n in range(2, 9) if n not in bug.lines)
            use(lines.nth(right - 1), by)
            said = view.locator("[aria-live]")
            expect(said).to_contain_text(f"Line {right} is right.")
            use(lines.nth(bug.lines[0] - 1), by)
            expect(said).to_contain_text(f"Yes: line {bug.lines[0]}.")
            expect(said).to_contain_text(bug.why.replace("`", ""))
            facts = view.locator(".museum-facts")
            for check in bug.checks:
                expect(facts).to_contain_text(SEEN[bug.name][check].seen)
            expect(facts.get_by_role("link")).to_have_attribute("href", bug.link)
        view.get_by_text("Reached.").wait_for()
