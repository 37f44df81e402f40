"""What scrolls within itself is reached by keyboard."""

import nbformat
import pytest
from pygments import highlight
from pygments.lexers import PythonLexer, TextLexer

from tests.browsing import lay_out
from tests.pages import tree
from tests.running import sample
from tools.chapters import NOTEBOOKS, SITE, code_of, site_pages
from tools.site.listings import Listing, hung

pytestmark = pytest.mark.usefixtures("site")
# Each block of the article that has a bar to scroll: what it is, and its tabindex.
SCROLLED = r"""() => [...document.querySelectorAll(".bd-article *")]
    .filter((e) => /auto|scroll/.test(getComputedStyle(e).overflowX)
        && e.scrollWidth > e.clientWidth && !e.querySelector("button, input"))
    .map((e) => [e.tagName, e.tabIndex])"""
REACHED = ".bd-article :is(pre, .katex-display)[tabindex='0']"
# What a reader selects of each listing, and the comments after code that take two rows.
SELECTED = """(all) => all.map((pre) => {
    getSelection().selectAllChildren(pre);
    return getSelection().toString().trim();
})"""
CUT = """(all) => all.filter((it) => it.textContent.length < 28)
    .filter((it) => it.offsetHeight > 1.5 * parseFloat(getComputedStyle(it).lineHeight))
    .map((it) => it.textContent)"""
# Of each table in an output: its columns, whether it scrolls, the size of its letters.
TABLES = """(all) => all.map((it) => [
    +it.style.getPropertyValue("--columns"),
    it.closest("pre").scrollWidth > it.closest("pre").clientWidth,
    parseFloat(getComputedStyle(it).fontSize)])"""
WIDE = '<span style="display:block;width:900px">x</span>'


@pytest.mark.slow
def test_what_scrolls_is_reached_by_keyboard(browser):
    with browser.new_page(viewport={"width": 375, "height": 800}) as page:
        page.goto((SITE / "chapters/04-multi-head.html").as_uri())
        # No formula of the book is too wide any more, and few outputs are.
        for place in (".katex-display", ".cell_output pre"):
            page.locator(place).first.evaluate("(e, html) => e.innerHTML = html", WIDE)
        # Places are measured when they are shown: here, all of them.
        page.add_style_tag(content="section { content-visibility: visible !important }")
        page.locator("details").evaluate_all("(all) => all.map((d) => d.open = true)")
        page.set_viewport_size({"width": 374, "height": 800})
        page.wait_for_function(f"document.querySelectorAll({REACHED!r}).length > 2")
        found = page.evaluate(SCROLLED)
        assert {tag for tag, _ in found} >= {"PRE", "SPAN"}
        assert {index for _, index in found} == {0}
        # What fits again is not reached.
        page.set_viewport_size({"width": 1440, "height": 800})
        page.wait_for_function(f"document.querySelectorAll({REACHED!r}).length <= 2")


@pytest.mark.parametrize("name", ["pydata-sphinx-theme", "sphinx-book-theme"])
def test_theme_measures_no_place_itself(name):
    """Its list would have all of a page laid out, or searched, when it is loaded."""
    script = SITE / f"_static/scripts/{name}.js"
    assert script.read_text(encoding="utf-8").count('["unmeasured"]') == 1


def test_no_page_has_a_note_in_its_margin():
    """The theme, which hides the contents where one is, no longer looks for them."""
    notes = {"marginnote", "sidenote", "margin", "tag_margin", "full-width", "popout"}
    for page in site_pages(SITE):
        assert not notes & {*" ".join(tree(page).xpath("//@class")).split()}, page


FAR = "(e) => getComputedStyle(e).contentVisibility"


def test_what_nobody_needs_before_waits_for_a_reader(browser):
    """Else a phone that shows the first screen is busy with all the others."""
    with browser.new_page(viewport={"width": 375, "height": 800}) as page:
        go = type(page).goto.__wrapped__
        go(page, (SITE / "chapters/08-training.html").as_uri())
        page.locator("html[data-scripts=run]").wait_for(state="attached")
        page.wait_for_timeout(1000)
        quiz = page.locator("#quiz")
        assert quiz.evaluate(FAR) == "auto"
        assert page.locator(".copybtn, .attention-live").count() == 0
        page.mouse.move(99, 99)
        for part in (".copybtn", ".attention-live"):
            page.locator(part).first.wait_for(state="attached")
        page.wait_for_function("!document.documentElement.dataset.from")
        assert quiz.evaluate(FAR) == "visible"


def test_links_reach_far_sections(browser):
    with browser.new_page(viewport={"width": 375, "height": 800}) as page:
        # Before the browser has time for them, which on a slow machine is soon.
        page.add_init_script("window.requestIdleCallback = () => 0")
        page.goto((SITE / "chapters/08-training.html").as_uri())
        quiz = page.locator("#quiz")
        assert quiz.evaluate(FAR) == "auto"
        page.evaluate("() => { location.hash = 'quiz' }")
        page.wait_for_timeout(300)
        assert 0 < quiz.evaluate("(e) => e.getBoundingClientRect().top") < 100
        page.reload()  # now a place further down is asked for: the page is whole
        assert quiz.evaluate(FAR) == "visible"


def test_code_on_a_phone_shows_all_of_its_lines(browser):
    book = nbformat.read(NOTEBOOKS / "04-multi-head.ipynb", as_version=4)
    with browser.new_page(viewport={"width": 375, "height": 800}) as page:
        page.goto((SITE / "chapters/04-multi-head.html").as_uri())
        lay_out(page)
        page.locator("details").evaluate_all("(all) => all.map((d) => d.open = true)")
        codes = page.locator(".cell_input pre:visible")
        sideways = "(all) => all.filter((e) => e.scrollWidth > e.clientWidth).length"
        assert codes.evaluate_all(sideways) == 0
        copied = codes.evaluate_all(SELECTED)
        assert len(copied) > 10
        assert {*copied} <= {cell.source.strip() for cell in code_of(book)}
        comments = codes.locator(".line > .c1:not(:first-child)")
        assert comments.count() > 10
        assert comments.evaluate_all(CUT) == []
        assert page.evaluate(sample("broken-names.js")) == []


def test_output_on_a_phone_scrolls_only_where_a_table_is_wide(browser):
    with browser.new_page(viewport={"width": 375, "height": 800}) as page:
        page.goto((SITE / "chapters/06-tiny-block.html").as_uri())
        lay_out(page)
        page.locator("details").evaluate_all("(all) => all.map((d) => d.open = true)")
        outputs = page.locator(".cell_output .highlight pre:visible")
        assert outputs.count() > 20
        assert outputs.locator(".line").count() > 5
        sizes = page.locator(".cell_output .columns:visible").evaluate_all(TABLES)
        assert len({letters for _, _, letters in sizes}) > 5
        assert min(letters for _, _, letters in sizes) > 9.5
        assert {columns > 58 for columns, wide, _ in sizes if wide} <= {True}
        # What scrolls is a table, and one of those; no sentence does.
        sideways = outputs.evaluate_all(
            "(all) => all.filter((e) => e.scrollWidth > e.clientWidth).length"
        )
        assert sideways == sum(wide for _, wide, _ in sizes)


def test_rows_of_an_output_stay_together_and_its_sentences_do_not():
    row, sentence = "softmax   8 wide   0.97  1.00  1.00", "a sentence " * 5
    text = f"short\n{row}\n{row}\n{sentence}\n"
    table = f'<span class="columns" style="--columns:{len(row)}">short\n{row}\n{row}\n'
    wanted = f'{table}</span><span class="line">{sentence}</span>\n'
    assert wanted in highlight(text, TextLexer(), Listing())
    alone = f'<span class="line">{row}</span>'  # one row is not a table
    assert alone in highlight(row, TextLexer(), Listing())
    array = "tensor([[0.25, 0.25, 0.25, 0.25],\n        [0.25, 0.25, 0.25, 0.25]])\n"
    assert 'style="--columns:34"' in highlight(array, TextLexer(), Listing())
    code = f"x = {'y' * 30}  # two blanks\n"
    assert "columns" not in highlight(code, PythonLexer(), Listing())


def test_long_line_knows_its_indent():
    line = f'    <span class="n">x</span> = <span>&quot;{"y" * 30}&quot;</span>'
    start = '<span class="line" style="--indent:4">'
    assert hung(f"{line}\n") == f"{start}{line}</span>\n"
    assert hung(line[4:]) == f'<span class="line">{line[4:]}</span>'
    short = f"<span>{'&lt;' * 30}</span>\n"
    assert hung(short) == short
    wide = "# 梯度很小时，这个能防止舍入误差被放大\n"
    assert hung(wide) != wide


def test_long_call_goes_on_after_a_bracket_or_before_a_dot():
    dot = '<span class="o">.</span>'
    line = f"layer{dot}attention_weights([x])[<span>'a ('</span>], norm{dot}weight()"
    first = f"layer<wbr>{dot}attention_weights(<wbr>[<wbr>x])[<wbr>"
    rest = f"<span>'a ('</span>], norm{dot}weight()"
    assert hung(line) == f'<span class="line">{first}{rest}</span>'
