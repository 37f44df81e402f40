"""The Chinese edition: pages taken apart and put together, catalogues, their check."""

import json
import re
import tomllib
from datetime import date, timedelta

import pytest
from nbformat.v4 import new_code_cell, new_output

from attention_lib.course.language import lines_of
from attention_lib.course.predict import predict
from tests.running import written
from tools.chapters import ROOT, md_parser
from tools.translate import catalogue, check, edition
from tools.translate.cells import translated_code
from tools.translate.outputs import translate_outputs
from tools.translate.pieces import translated

TODAY = date(2026, 12, 1)
PAGES = catalogue.page_paths(ROOT)
PARSER = md_parser(ROOT)
TERMS = {
    "terms": {"mask": ["掩码", "屏蔽"], "causal mask": ["因果掩码"]},
    "never": {"遮罩": "掩码"},
}
CELL = """\
# attend to the past:
# nothing else
x = 1  # (B, T)
predict("How many?", answer=x, because=f"It is {x:.1f}.", mistakes={2: "Too many."})
view_mask(x, goal=("Hide “it”.", "it"), kind="causal")"""
PAGE = f"""\
---
title: no words
---

(label)=
# A title

A **bold** line,
in two.

- [x] An option.

  Why it is right.

| head | `code` |
|---|---|
| one | two |

$x$, `code`

% results: proof

Filled by a tool.

% end

:::{{admonition}} Note
:name: note
Inside.
:::

```{{code-cell}} ipython3
---
tags: [hide-input]
mystnb:
  figure:
    alt: A picture.
---
{CELL}
```

```python
y = 2  # a solution
```
"""
FOUND = [
    *[("heading", "A title"), ("text", "A **bold** line,\nin two.")],
    *[("option", "An option."), ("text", "Why it is right.")],
    *[("row", "| head | `code` |"), ("row", "| one | two |")],
    *[("text", "Inside."), ("title", "Note"), ("alt", "A picture.")],
    *[("comment", "attend to the past:\nnothing else"), ("said", "How many?")],
    *[("said", "It is {x:.1f}."), ("said", "Too many."), ("said", "Hide “it”.")],
    ("comment", "a solution"),
]


def catalogue_of(page, said=(), flags=()):
    """A catalogue of a page with some of it translated."""
    made = catalogue.extract(page, PARSER)
    for english, own in dict(said).items():
        made[english].string = own
        made[english].flags = set(flags)
    return made


def after(old, page, today=None, folder=None):
    """The catalogue of a page that changed, as it is read from its file."""
    new = catalogue.updated(old, catalogue.extract(page, PARSER), today)
    path = folder / "zh/chapters/x.po"
    catalogue.write(path, catalogue.serialised(new).encode())
    return catalogue.read(folder, "chapters/x")


@pytest.mark.parametrize("name", PAGES)
def test_page_comes_back_byte_for_byte(name):
    page, found = PAGES[name].read_text(encoding="utf-8"), []
    assert translated(page, lambda _, it: found.append(it) or it, PARSER) == page
    # With all of it changed, the code is still the same: else this would raise.
    other = translated(page, lambda _, it: f"{it} 中", PARSER)
    assert other.count("中") == len(found) > 1


def test_all_that_is_read_is_a_piece():
    found = []
    translated(PAGE, lambda *piece: found.append(piece) or piece[1], PARSER)
    assert sorted(found) == sorted(FOUND)


def test_pieces_are_put_back_in_their_places():
    numbers = {text: f"文{n}" for n, (_, text) in enumerate(FOUND)}
    numbers["It is {x:.1f}."] = "是 {x:.1f}。"
    numbers["attend to the past:\nnothing else"] = "一\n二"
    own = translated(PAGE, lambda _, it: numbers[it], PARSER)
    assert "# 文0\n\n文1\n\n- [x] 文2\n\n  文3\n\n文4\n|---|---|\n文5\n" in own
    assert ":::{admonition} 文7\n:name: note\n文6\n:::" in own
    assert '    alt: "文8"\n---\n# 一\n# 二\nx = 1  # (B, T)\n' in own
    assert 'because=f"是 {x:.1f}。"' in own
    assert 'goal=("文13", "it"), kind="causal")' in own
    assert "% results: proof\n\nFilled by a tool.\n\n% end" in own


def test_code_must_stay_the_same():
    lost = {"It is {x:.1f}.": "是 {y:.1f}。"}
    with pytest.raises(ValueError, match="changes the code"):
        translated_code(CELL, lambda _, it: lost.get(it, it))


def test_term_keeps_its_english_name_for_links():
    page = "```{glossary}\nmask\n  A table.\n```\n"
    own = translated(
        page, lambda _, it: {"mask": "掩码", "A table.": "一张表。"}[it], PARSER
    )
    assert own == "```{glossary}\n掩码\nmask\n  一张表。\n```\n"


def test_changed_english_is_fuzzy_beside_the_old(tmp_path):
    old = catalogue_of(
        "# One title\n\nThe same.\n", {"One title": "标题", "The same.": "一样。"}
    )
    new = after(
        old, "# One new title\n\nThe same.\n\nQuite another line.\n", folder=tmp_path
    )
    one, same, another = catalogue.messages(new)
    assert (one.string, one.flags, one.previous_id) == (
        "标题",
        {"fuzzy"},
        ["One title"],
    )
    assert (same.string, same.flags) == ("一样。", set())
    assert (another.string, another.flags) == ("", set())
    text = (tmp_path / "zh/chapters/x.po").read_text(encoding="utf-8")
    assert (
        '#, fuzzy\n#| msgid "One title"\nmsgid "One new title"\nmsgstr "标题"' in text
    )
    # Changed once more, it is still the first that the Chinese belongs to.
    again = after(new, "# One new long title\n\nThe same.\n", folder=tmp_path)
    assert catalogue.messages(again)[0].previous_id == ["One title"]
    # A translator takes the mark away.
    catalogue.messages(again)[0].flags = set()
    done = after(again, "# One new long title\n\nThe same.\n", folder=tmp_path)
    assert not catalogue.messages(done)[0].previous_id
    assert "#|" not in (tmp_path / "zh/chapters/x.po").read_text(encoding="utf-8")


def test_old_english_of_several_lines_is_kept(tmp_path):
    long = "Babel by itself would cut a line that is as long as this one in two. "
    lines = f'A "first" line. {long}\nAnd a second \\ of it.'
    old = catalogue_of(lines, {lines: "旧"})
    new = after(old, lines.replace("second", "last"), folder=tmp_path)
    assert catalogue.messages(new)[0].previous_id == [lines]
    assert after(new, lines.replace("second", "last"), folder=tmp_path)[
        lines.replace("second", "last")
    ].previous_id == [lines]


def test_what_waits_in_a_finished_page_has_a_date(tmp_path):
    old = catalogue_of("# One title\n", {"One title": "标题"})
    page = "# One new title\n\nAnother line.\n"
    new = after(old, page, TODAY, tmp_path)
    assert [*map(catalogue.waiting_since, catalogue.messages(new))] == [TODAY, TODAY]
    later = after(new, page, TODAY + timedelta(days=3), tmp_path)
    assert catalogue.serialised(later) == catalogue.serialised(new)
    catalogue.messages(later)[1].string = "另一行。"
    last = after(later, page, TODAY + timedelta(days=5), tmp_path)
    assert [*map(catalogue.waiting_since, catalogue.messages(last))] == [TODAY, None]


def test_update_begins_what_is_named_and_keeps_the_rest(tmp_path):
    root = book(tmp_path)
    assert catalogue.update(root, ["chapters/02-b"], TODAY) == [
        "chapters/01-a: 0 changed, 1 not translated",
        "chapters/02-b: 0 changed, 2 not translated",
    ]
    assert catalogue.update(root, [], TODAY) == []
    assert not (root / "zh/book/index.po").exists()


SENTENCE = "The mask hides `x` and $y$: see {ref}`label`, **not** 3 keys."
RIGHT = "掩码隐藏 `x` 和 $y$：见 {ref}`label`，**而非** 3 个键。"


@pytest.mark.parametrize(
    ("english", "own", "kind", "what"),
    [
        (SENTENCE, RIGHT.replace("`x`", "`z`"), "text", "code: English x, here z"),
        (SENTENCE, RIGHT.replace("$y$", "$z$"), "text", "formula: English y, here z"),
        (SENTENCE, RIGHT.replace("`label`", "`other`"), "text", "role: English ref"),
        (SENTENCE, RIGHT.replace("**", ""), "text", "bold: English [], here none"),
        (SENTENCE, RIGHT.replace("3", "4"), "text", "number left out: 3"),
        (SENTENCE, RIGHT.replace("3", "4"), "text", "the English has not: 4"),
        (SENTENCE, RIGHT.replace("3 个", "三个"), "text", "number left out: 3"),
        (SENTENCE, RIGHT.replace("掩码", "遮罩"), "text", "'遮罩': write 掩码"),
        (SENTENCE, RIGHT.replace("掩码", "它"), "text", "write 掩码 or 屏蔽"),
        (SENTENCE, RIGHT.replace("，", ","), "text", "a half-width sign"),
        (SENTENCE, RIGHT.replace("：", ": "), "text", "a half-width sign"),
        (SENTENCE, RIGHT.replace("隐藏 `", "隐藏`"), "text", "no space beside Latin"),
        (SENTENCE, RIGHT.replace("隐藏", "「隐藏」"), "text", "a corner quote: '「'"),
        (SENTENCE, RIGHT.replace("。", "。。"), "text", "two signs: '。。'"),
        (SENTENCE, RIGHT.replace("。", ""), "text", "no full stop"),
        ("| a | b |", "| 一,二 | 三 |", "row", "a half-width sign: '一,'"),
        (SENTENCE, RIGHT.replace("隐藏", '"隐藏"'), "text", "a straight quote"),
        (SENTENCE, SENTENCE, "text", "not translated"),
        ("One mask.", "一个掩码 with all of the words。", "text", "English left"),
        ("See [it](a.md).", "见[它](b.md)。", "text", "link: English a.md, here b.md"),
        ("![a](a.svg)", "![a](b.svg)", "text", "picture: English a.svg, here b.svg"),
        ("**`nan`** is", "**`nan`！**会", "text", "a mark or a role is not read"),
        ("A *stress*.", "一个重点。", "text", "stress: English [], here none"),
        ("**`a`** b `c`", "`a` b **`c`**", "text", "bold: English [a], here [c]"),
        ("| a | b |", "| 一 |", "row", "another number of cells"),
        ("Use `x`.", "用它。", "said", "code: English x, here none"),
        ("A causal mask.", "一个屏蔽。", "text", "term 'causal mask': write 因果掩码"),
    ],
)  # fmt: skip
def test_check_finds(english, own, kind, what):
    found = [*check.faults(english, own, kind, PARSER, TERMS)]
    assert any(what in it for it in found), found


@pytest.mark.parametrize(
    ("english", "own", "kind"),
    [
        (SENTENCE, RIGHT, "text"),
        ("In three steps", "分 3 步", "text"),
        ("A causal mask", "因果掩码（causal mask），“look at what it hides”", "text"),
        ("{term}`Masks <mask>`", "{term}`掩码 <mask>`", "text"),
        ("{doc}`a` shows it.", "{doc}`a` 展示它。", "text"),
        ("`x` | 2.5", "`x` | 2.5", "row"),
        ("A **bold** word", "一个 **粗体** 词", "text"),
    ],
)
def test_check_lets_pass(english, own, kind):
    assert [*check.faults(english, own, kind, PARSER, TERMS)] == []


def found_in(page, have, today=TODAY):
    """What the check says of a page, and whether it may wait."""
    found = check.check_page(page, have, PARSER, TERMS, today)
    return [(what, may_wait) for _, what, may_wait in found]


def test_check_warns_for_two_weeks_of_what_waits(tmp_path):
    page = "# One new title\n\nAnother line.\n"
    old = catalogue_of("# One title\n", {"One title": "标题"})
    new = after(old, page, TODAY, tmp_path)
    both = ["the English has changed", "not translated"]
    for days, may_wait in [(0, True), (14, True), (15, False)]:
        said = [(what, may_wait) for what in both]
        assert found_in(page, new, TODAY + timedelta(days=days)) == said
    undated = after(old, page, folder=tmp_path)
    assert found_in(page, undated) == [(what, False) for what in both]


def test_check_finds_a_catalogue_that_is_not_in_step():
    said = {"One.": "一。", "Two.": "二。"}
    have = catalogue_of("One.\n\nTwo.\n", said)
    assert found_in("One.\n\nTwo.\n", have) == []
    for page in ("One.\n", "One.\n\nTwo!\n", "One.\n\nTwo.\n\nThree.\n"):
        what = "the English has changed: run `make translate`"
        assert found_in(page, have) == [(what, False)]


def test_check_finds_code_that_differs():
    page = f"```{{code-cell}} ipython3\n{CELL}\n```\n"
    have = catalogue_of(page, {"It is {x:.1f}.": "它是 {y:.1f}。"})
    assert "changes the code" in found_in(page, have)[-1][0]


def test_check_finds_a_catalogue_that_cannot_be_read(tmp_path):
    root = book(tmp_path)
    (path := root / "zh/chapters/01-a.po").parent.mkdir(exist_ok=True)
    path.write_text('msgid "One title\n', encoding="utf-8")
    [(where, what, may_wait)] = check.check(root, ["chapters/01-a"], TODAY)
    assert where == "chapters/01-a"
    assert "broken" in what
    assert not may_wait


def test_finished_pages_have_no_fault():
    found = check.check(ROOT, [], date.today())
    assert [it for it in found if not it[2]] == []


def test_every_catalogue_has_a_page():
    folder = ROOT / catalogue.FOLDER
    names = {
        it.relative_to(folder).with_suffix("").as_posix() for it in folder.rglob("*.po")
    }
    assert names <= {*PAGES}
    assert {*catalogue.settings(ROOT)["finished"]} <= names


def test_words_of_the_site_have_the_same_names_in_braces():
    names = re.compile(r"\{(\w+)[^}]*\}")
    english, own = (
        tomllib.loads((ROOT / it / "book/words.toml").read_text(encoding="utf-8"))
        for it in ("", "zh")
    )
    for group, words in own.items():
        for key, said in words.items():
            assert {*names.findall(said)} == {*names.findall(english[group][key])}, key


def test_words_of_scripts_are_all_there():
    key = re.compile(r"^  (\w+):", re.MULTILINE)
    english, own = (
        (ROOT / it / "book/_static/words.js").read_text(encoding="utf-8")
        for it in ("", "zh")
    )
    assert key.findall(english) == key.findall(own)


def test_lines_of_the_settings_are_found():
    for name, lines in catalogue.settings(ROOT)["lines"].items():
        text = (ROOT / name).read_text(encoding="utf-8")
        own = edition.with_lines(text, lines)
        assert all(it in own for it in lines.values())
    with pytest.raises(ValueError, match="no such line: x: y"):
        edition.with_lines("a: b\n", {"x: y": "z"})


def book(folder):
    """A book of two chapters and one page."""
    files = {
        "_config.yml": "parse: {myst_enable_extensions: [colon_fence, dollarmath]}\n",
        "_toc.yml": "chapters: [{file: chapters/01-a}, {file: chapters/02-b}]\n",
        "chapters/01-a.md": "# One title\n\nA line.\n",
        "chapters/02-b.md": "# A second\n\n## Why $x$ *is* `so`, {ref}`no`\n",
        "book/index.md": "# First\n",
        "zh/edition.toml": "finished = []\n",
        "zh/terms.toml": "[terms]\n[never]\n",
        "zh/chapters/01-a.po": 'msgid "One title"\nmsgstr "标题"\n',
    }
    return written(folder, files)


def test_pages_that_are_not_finished_stay_english(tmp_path):
    root, tree = book(tmp_path / "root"), tmp_path / "tree"
    written(tree, {"chapters/00-gone.md": "# Gone\n"})
    edition.write_pages(root, tree, {"chapters/01-a"})
    read = {it.stem: it.read_text(encoding="utf-8") for it in tree.rglob("*.md")}
    assert read == {
        "01-a": "# 标题\n\nA line.\n",
        "02-b": (root / "chapters/02-b.md").read_text(encoding="utf-8"),
        "index": "# First\n",
    }
    known = json.loads((tree / "edition.json").read_text(encoding="utf-8"))
    assert known["english"] == ["book/index", "chapters/02-b"]
    assert known["ids"]["chapters/02-b"] == ["a-second", "why-x-is-so"]


def shown_by(cell):
    """What a view shows without its script, what the script reads, and its line."""
    data = cell.outputs[0].data
    static, _, rest = data["text/html"].partition('<script type="application/json">')
    return static, json.loads(rest.partition("</script>")[0]), data["text/plain"]


def test_outputs_say_what_the_code_says():
    read = (ROOT / "attention_lib/course/zh.toml").read_text(encoding="utf-8")
    table = lines_of(tomllib.loads(read))
    english = "How “many” *x* in `a<b` and `key`?", "Since − it is.", "One & two."
    chinese = "`a<b` 和 `key` 里有几个“*x*”？", "因为 − 如此。", "一 & 二。"
    cells = []
    for asked, because, wrong in (english, chinese):
        view = predict(asked, answer=3, because=because, mistakes={4: wrong})
        output = new_output("display_data", view._repr_mimebundle_())
        said = f"{asked!r}, because={because!r}, mistakes={{4: {wrong!r}}}"
        code = f"predict({said}, answer=3)"
        cells.append(new_code_cell(code, outputs=[output]))
    static, data, line = shown_by(cells[1])
    cells[1].outputs = cells[0].outputs
    translate_outputs(cells[1], cells[0], table)
    for old in ("Predict.", "Answer"):
        static = static.replace(f">{old}<", f">{table[old]}<")
    data["hint"] = table[data["hint"]]
    line = line.replace("Predict: ", "先猜一猜：").replace("Answer: 3.", "答案：3。")
    assert shown_by(cells[1]) == (static, data, line)


def test_check_of_an_exercise_is_said_in_chinese():
    output = new_output("execute_result", {"text/plain": "○ No answer yet: {it}."})
    cell = new_code_cell("check()", outputs=[output])
    translate_outputs(cell, cell, {"No answer yet: {what}.": "还没有答案：{what}。"})
    assert cell.outputs[0].data["text/plain"] == "○ 还没有答案：{it}。"


def test_programs_of_views_have_all_their_words_in_chinese():
    source = (ROOT / "explorer_source/src/strings.js").read_text(encoding="utf-8")
    spoken = re.findall(r'"((?:[^"\\\n]|\\.)*[a-z]{2}(?:[^"\\\n]|\\.)*)"', source)
    table = (ROOT / "attention_lib/course/zh.toml").read_text(encoding="utf-8")
    words = tomllib.loads(table)["programs"]
    lacking = {json.loads(f'"{it}"') for it in spoken} - {*words}
    assert {it for it in lacking if not it.startswith("./")} == set()
    assert [it for it in words if it not in source.replace('\\"', '"')] == []
    parts = [
        [sorted(re.findall(r"{\w+}", it)) for it in pair] for pair in words.items()
    ]
    assert [pair for pair in parts if pair[0] != pair[1]] == []
