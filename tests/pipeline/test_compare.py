"""The comparison of a run with its record: what it accepts, and that it can fail."""

import base64
import copy
import io
import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import nbformat
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image, ImageDraw
from PIL.PngImagePlugin import PngInfo

from tests.running import ROOT, ran
from tools.check.numbers import compare_text
from tools.check.outputs import compare_outputs
from tools.check.pictures import THRESHOLD, decode, worst_block
from tools.record.rules import cell_faults

UNITS = st.integers(-(10**6), 10**6)


def agrees(reference, result, tolerance=None):
    """Say whether two texts compare as equal."""
    own = Decimal(tolerance) if tolerance else None
    return not compare_text(reference, result, own).fault


# Numbers and the words around them.


@given(units=UNITS, decimals=st.integers(2, 9), step=st.integers(-2, 2))
def test_decimals_may_differ_by_one_unit(units, decimals, step):
    one, two = (Decimal(n).scaleb(-decimals) for n in (units, units + step))
    assert agrees(f"loss {one:f}", f"loss {two:f}") == (abs(step) < 2)


@given(one=st.integers(), two=st.integers())
def test_integers_are_exact(one, two):
    assert agrees(f"{one} words", f"{two} words", "0.5") == (one == two)


AGREE = [
    ("x = 0.1234", "x = 0.1235"),
    ("0.1", "0.0999"),  # 0.10 and 0.0999…, zeros cut
    ("[0.00 1.00]", "[-0.00  1.00]"),
    ("[0.99 9.99]\n[0.10 0.20]", "[ 0.99 10.00]\n[ 0.10  0.20]"),
    ("9.99e-05", "1.00e-04"),
    ("[nan -inf 0.123]", "[nan -inf 0.124]"),
]
DIFFER = [
    ("0.1234", "0.1236"),
    ("0.5", "0.6"),
    ("5.96e-08", "5.98e-08"),
    ("1.00e-04", "1.00e-05"),
    ("3", "3.0"),
    ("2.99", "3"),
    ("−0.5", "0.5"),
    ("nan", "0.0"),
    ("1.0", "inf"),
    ("0.12 cm", "0.12 m"),
    ("0.12", "0.12 0.12"),
    ("a 0.12", "a  0.12"),
    ("two  words 0.99", "two words 1.000"),
    ("float32", "float33"),
    ("version 2.13.0", "version 2.14.0"),
    ("x_0.12", "x_0.13"),
]


@pytest.mark.parametrize(("reference", "result"), [*AGREE, *DIFFER])
def test_texts_agree_or_differ(reference, result):
    assert agrees(reference, result) == ((reference, result) in AGREE)


@pytest.mark.parametrize(
    ("result", "expected"), [("0.123", True), ("0.124", False), ("-0.122", False)]
)
def test_own_tolerance_replaces_the_unit(result, expected):
    assert agrees("0.1220", result, "1e-3") == expected


def test_fault_shows_the_largest_difference_or_where_words_part():
    fault = compare_text("0.100 0.200 0.300", "0.102 0.250 0.300").fault
    assert "0.200 became 0.250, allowed: 0.001; numbers that differ: 2" in fault
    fault = compare_text("x" * 99 + "cat 1.0", "x" * 99 + "hat 1.0").fault
    assert {"cat", "hat"} <= {*re.findall("[ch]at", fault)}


# Pictures.


def picture(move=0.0, digit=3):
    """Draw a line and a digit, both smoothed, at 160 dots an inch."""
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(2, 1), dpi=160)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 320), ylim=(0, 160))
    axes.axis("off")
    axes.plot([0, 320], [20 + move, 140 + move], color="#8a91a0", linewidth=0.8)
    axes.text(240, 40, f"0.1{digit}", size=7)
    file = io.BytesIO()
    figure.savefig(file, dpi=160)
    return decode(base64.b64encode(file.getvalue()).decode())


@pytest.mark.parametrize(
    ("changed", "expected"),
    [({"move": 0.05}, True), ({"move": 1.0}, False), ({"digit": 8}, False)],
    ids=["smoothing", "line", "digit"],
)
def test_threshold_stands_between_smoothing_and_change(changed, expected):
    rms, _, _ = worst_block(picture(), picture(**changed))
    assert (rms <= THRESHOLD) == expected


@given(x=st.integers(0, 39), y=st.integers(0, 19))
def test_worst_block_holds_the_changed_pixel(x, y):
    blank = np.full((20, 40, 3), 255, dtype=np.uint8)
    changed = blank.copy()
    changed[y, x] = 0
    rms, left, top = worst_block(*map(Image.fromarray, (blank, changed)))
    assert (left, top) == (x // 16 * 16, y // 16 * 16)
    pixels = min(16, 40 - left) * min(16, 20 - top)
    assert rms == pytest.approx(255 / pixels**0.5)


def png(picture, **options):
    """Return an output that holds a picture."""
    file = io.BytesIO()
    picture.save(file, format="png", **options)
    data = {"image/png": base64.b64encode(file.getvalue()).decode()}
    return new_output("display_data", data)


def drawn_by(version, height, width):
    """Return an output whose picture says what drew it, and what it draws."""
    info = PngInfo()
    if version:
        info.add_text("Drawn by", f"matplotlib {version}")
        text = f'{{"look": "#0072b2",\n"y": "{height:.3f}"}}'
        info.add_itxt("Contents", text, zip=True)
    return png(Image.new("RGB", (width, 8), "white"), pnginfo=info)


@pytest.mark.parametrize(
    ("version", "height", "width", "fault"),
    [
        ("3.9", 0.5, 9, ""),  # letters of another version are wider
        ("3.9", 0.51, 9, "0.500 became 0.510"),
        ("3.11", 0.9, 8, ""),
        ("3.11", 0.5, 9, "another size: (8, 8) became (9, 8)"),
        ("", 0.5, 9, "another size: (8, 8) became (9, 8)"),
    ],
)
def test_pictures_of_another_version_alone_are_compared_by_what_they_draw(
    tmp_path, version, height, width, fault
):
    old, new = drawn_by("3.11", 0.5, 8), drawn_by(version, height, width)
    found = compare_outputs([old], [new], None, tmp_path / "a", other_drawer=True)
    assert bool(found.faults) == bool(fault)
    assert fault in "".join(found.faults)
    assert (found.drawing_count, found.picture_count) == (version == "3.9", 1)


@pytest.mark.parametrize(
    ("version", "now"), [("3.9", "matplotlib 3.9"), ("", "nobody")]
)
def test_another_drawer_is_refused_unless_asked_for(tmp_path, version, now):
    old, new = drawn_by("3.11", 0.5, 8), drawn_by(version, 0.5, 8)
    (fault,) = compare_outputs([old], [new], None, tmp_path / "a").faults
    assert f"picture 1 was drawn by matplotlib 3.11, and now by {now};" in fault


def holding(drawing):
    """Return an output whose picture holds a drawing; its pixels stay the same."""
    info = PngInfo()
    info.add_itxt("Drawing", f"<svg>{drawing}</svg>", zip=True)
    return png(Image.new("RGB", (8, 8), "white"), pnginfo=info)


CELL = '<path style="fill:var(--map,#08519c);fill-opacity:{}" d="{}"/>'
CURVE = '<path id="a1" d="M1 2L{} 9L30 4.5"/>'
DRAWN = [
    ("<text>2</text>", "<text>2</text>", ""),
    ("<text>2</text>", "<text>7.77</text>", "7.77"),
    ("<text>0.36</text>", "<text>0.41</text>", "0.36 became 0.41"),
    ('<text x="197.47">a</text>', '<text x="197.9">a</text>', ""),
    ('<text x="197.47">a</text>', '<text x="207.47">a</text>', "207.47"),
    ('<use href="#fa-1" x="9"/>', '<use href="#fb-2" x="9"/>', ""),
    (CURVE.format(12), '<path id="b2" d="M1 2L12 9L13 8L30 4.5"/>', ""),
    (CURVE.format(12), CURVE.format(40), "30.00 became 40.00"),
    # One cell more has the look of its neighbour, after rounding.
    (
        CELL.format("0.35", "M0 0h2v1h-2z"),
        CELL.format("0.35", "M0 0h1v1h-1z") + CELL.format("0.36", "M1 0h1v1h-1z"),
        "",
    ),
    (CELL.format("0.01", "M0 0h1v1h-1z"), "", ""),
    (CELL.format("0.35", "M0 0h1v1h-1z"), "", "0.35 became 0.00"),
    (
        CELL.format("0.35", "M0 0h1v1h-1z"),
        CELL.format("0.35", "M0 0h1v1h-1z").replace("#08519c", "#b35806"),
        "the text differs",
    ),
]


@pytest.mark.parametrize(("old", "new", "fault"), DRAWN)
def test_drawing_that_a_page_shows_is_compared_too(tmp_path, old, new, fault):
    found = compare_outputs([holding(old)], [holding(new)], None, tmp_path / "a")
    assert bool(found.faults) == bool(fault)
    assert fault in "".join(found.faults)


# Outputs as a whole.


def stream(text, name="stdout"):
    """Return what a cell printed."""
    return new_output("stream", name=name, text=text)


def result(**data):
    """Return a cell's value, `text_html` standing for text/html."""
    named = {key.replace("_", "/", 1): value for key, value in data.items()}
    return new_output("execute_result", named, execution_count=1)


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ([stream("1")], []),
        ([stream("1")], [stream("1"), stream("2", "stderr")]),
        ([stream("1")], [result(text_plain="1")]),
        ([result(text_plain="1")], [result(text_plain="1", text_html="1")]),
        ([result(text_html="<b>")], [result(text_html="<i>")]),
        ([result(**{"image_svg+xml": "1.00"})], [result(**{"image_svg+xml": "2.00"})]),
        ([stream("1"), result(text_plain="2")], [result(text_plain="2"), stream("1")]),
    ],
)
def test_outputs_differ(reference, found, tmp_path):
    assert compare_outputs(reference, found, None, tmp_path).faults


def test_only_lines_that_disagree_are_shown_as_such(tmp_path):
    pair = (stream(text) for text in ("same\n0.123\n7", "same\n0.124\n8"))
    (fault,) = compare_outputs(*([it] for it in pair), None, tmp_path).faults
    lines = [line.strip() for line in fault.splitlines()[4:]]
    assert lines == ["same", "0.123", "-7", "+8"]


# What a record must meet.


def cell(source="1", outputs=(), **metadata):
    """Return a code cell that was run."""
    made = {"metadata": metadata, "execution_count": 1, "outputs": [*outputs]}
    return new_code_cell(source, **made)


def faults(code, output):
    """Return the faults of a record with one cell."""
    code.outputs = [output]
    return cell_faults(code)


SKIPPED = ["nbval-skip", "skip-execution"]
TIMES = {"tags": ["not-compared"], "reason": "the time of day"}
ROUGH = {"tags": ["tolerance-1e-2"], "reason": "a check of the check"}
RIGHT = [
    cell(),
    new_code_cell(""),
    cell(tags=["hide-input", "exercise"]),
    cell(**TIMES),
    cell(**ROUGH),
    new_code_cell("1", metadata={"tags": SKIPPED, "reason": "GPU"}),
]
WRONG = [
    (new_code_cell("1", metadata={"tags": ["not-compared"]}), "never run"),
    (cell(tags=["not-compared"], reason=" "), "'not-compared' needs a `reason:`"),
    (cell(tags=["tolerance-much"], reason="x"), "unknown tag 'tolerance-much'"),
    (cell(tags=["nbval-skip"], reason="x"), "need each other"),
    (cell(tags=SKIPPED), "needs a `reason:`"),
    (cell(tags=["not-compared", "tolerance-1e-3"], reason="x"), "exclude"),
]
DIFFERING = [
    stream("a warning", "stderr"),
    new_output("error", ename="ValueError", evalue="no", traceback=[]),
    result(text_plain="<Colorbar at 0x7f3c5a2b1d90>"),
    result(text_html="<a href='file:///home/me/x'>"),
    stream("100%|##| 5/5 [00:01<00:00,"),
    stream("4.20it/s"),
    holding("<text>/home/anna/x.py</text>"),
    result(text_html='<script type="application/json">[1,0.1234567890]</script>'),
]


def test_records_that_meet_the_rules_pass():
    harmless = stream(
        "at https://x.org/home/page, 0x3f800000, 50%|, [0.588235294117, 1]"
    )
    assert [fault for code in RIGHT for fault in faults(code, harmless)] == []


@pytest.mark.parametrize(("code", "words"), WRONG)
def test_record_breaks_the_rules(code, words):
    assert any(words in fault for fault in cell_faults(code))


@pytest.mark.parametrize("output", DIFFERING)
def test_record_holds_what_differs_on_each_machine(output):
    assert "its record holds" in faults(cell(), output)[0]


# The whole way: an untouched record, one with each mistake, and one that hangs, are run
# side by side under pytest.


def drawn(height):
    """Return what a cell shows that draws a line down to this height."""
    picture = Image.new("RGB", (64, 32), "white")
    ImageDraw.Draw(picture).line((0, 5, 63, height), "black")
    return png(picture)


def exercise():
    """Return an exercise that waits for an answer."""
    shown = new_output("display_data", {"text/plain": "○ Not yet."})
    return cell(EXERCISE, [shown], tags=["exercise"])


def with_solutions(cells):
    """Yield cells, and below each exercise its solution, as a notebook holds it."""
    for code in cells:
        solution = code.metadata.pop("solution", "mine = 42")
        yield code
        if "exercise" in code.metadata.get("tags", []) and solution:
            yield new_markdown_cell(SOLVED.format(solution))


DRAW = """from PIL import Image, ImageDraw
picture = Image.new("RGB", (64, 32), "white")
ImageDraw.Draw(picture).line((0, 5, 63, {}), "black")
display({{"image/png": picture._repr_png_()}}, raw=True)"""
EXERCISE = """mine = ...
display({"text/plain": "✓ Right." if mine == 42 else "○ Not yet."}, raw=True)"""
SOLVED = "<details>\n<summary>Solution</summary>\n\n```python\n{}\n```\n\n</details>"
ENVIRONMENT = "import os; print(os.environ['CUBLAS_WORKSPACE_CONFIG'])"
CELLS = {
    "environment": cell(ENVIRONMENT, [stream(":4096:8\n")]),
    "digit": cell("print('a')\n0.1234", [stream("a\n"), result(text_plain="0.1234")]),
    "line": cell(DRAW.format(11), [drawn(11)]),
    "never": cell("print(2 * 21)", [stream("42\n")]),
    "stderr": cell("print('words')", [stream("words\n")]),
    "missing": cell(DRAW.format(12), [drawn(12)]),
    "time": cell("import time; print(time.time())", [stream("1.5\n")], **TIMES),
    "raises": cell("print('fine')", [stream("fine\n")]),
    "skipped": cell("import nothing_of_that_name", tags=SKIPPED, reason="needs a GPU"),
    "own": cell("print('0.120')", [stream("0.125\n")], **ROUGH),
    "later": cell("print('still here')", [stream("still here\n")]),
    "solved": exercise(),
    "unsolved": exercise(),
    "model": cell("import nothing_of_that_name", tags=["real-model"]),
}
NO_REASON = "needs a `reason:` beside it"
# For each cell, what is wrong with it, and what is said.
DIGIT, STDERR = {"text/plain": "0.1634"}, stream("a warning\n", "stderr")
HELD = "its record holds standard error: 'a warning\\n'"
MISTAKES = {
    "digit": (lambda it: it.outputs[1].data.update(DIGIT), "0.1634 became 0.1234, all"),
    "line": (lambda it: it.update(outputs=[drawn(12)]), "picture 1 differs by "),
    "never": (lambda it: it.update(execution_count=None, outputs=[]), "never run"),
    "stderr": (lambda it: it.outputs.append(STDERR), HELD),
    "missing": (lambda it: it.outputs[0].data.popitem(), "+[display_data: image/png]"),
    "time": (lambda it: it.metadata.pop("reason"), f"'not-compared' {NO_REASON}"),
    "skipped": (lambda it: it.metadata.pop("reason"), f"'nbval-skip' {NO_REASON}"),
    "raises": (lambda it: it.update(source="1 / 0"), "ZeroDivisionError"),
    "solved": (lambda it: it.metadata.update(solution="mine = 41"), "○ Not yet."),
    "unsolved": (lambda it: it.metadata.update(solution=None), "without a folded"),
}


class Run(NamedTuple):
    """One run: where, what it printed, and its failures by notebook and cell."""

    folder: Path
    printed: str
    failures: dict[tuple[str, int], str]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run three notebooks with coverage, as CI runs `make test`."""
    bad = copy.deepcopy(CELLS)
    for name, (mistake, _) in MISTAKES.items():
        mistake(bad[name])
    slow = [cell("import time"), cell("time.sleep(600)"), cell("time.sleep(601)")]
    notebooks = {"01-good": CELLS.values(), "03-bad": bad.values(), "05-slow": slow}
    folder = tmp_path_factory.mktemp("run")
    (folder / "notebooks").mkdir()
    for stem, cells in notebooks.items():
        written = new_notebook(cells=[*with_solutions(cells)])
        nbformat.write(written, folder / "notebooks" / f"{stem}.ipynb")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-p", "tools.check.compare", "--nbval"]
    command += ["-n2", "--dist=loadscope", "--cov=attention_lib", "--cov-report="]
    command += ["-rs", "--junitxml=junit.xml", "--nbval-cell-timeout=10", "notebooks"]
    known = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "88"}
    done = ran(command, cwd=folder, env=known | {"BOOK_MODEL": "nowhere.gguf"})
    printed = done.stdout + done.stderr
    assert done.returncode == 1, printed
    failures = {}
    for case in ElementTree.parse(folder / "junit.xml").iter("testcase"):
        stem = case.attrib["classname"].split(".")[-2]
        number = int(case.attrib["name"].removeprefix("Cell "))
        for failure in (*case.iter("failure"), *case.iter("error")):
            failures[stem, number] = failure.text or ""
    return Run(folder, printed, failures)


@pytest.mark.slow
def test_summary_of_parallel_workers(run):
    for line in (
        "cells compared: 21 of 31; pictures: 3",
        "passed their checks: 2",
        "numbers 4e+02 (03-bad, code cell 2)",
        "not compared: 6 of 31 cells",
        "  01-good, code cell 14: the small language model is not here: `make setup`",
        "  01-good, code cell 7: the time of day",
        "  03-bad, code cell 9: no reason",
        "with a tolerance of its own: 2 of 31 cells",
        "  01-good, code cell 10, 0.01: a check of the check",
    ):
        assert line in run.printed
    assert "\x1b" not in run.printed


def test_every_mistake_fails_its_own_cell_only_and_is_named(run):
    places = {name: ("03-bad", list(CELLS).index(name)) for name in MISTAKES}
    assert run.failures.keys() == {*places.values(), ("05-slow", 1)}, run.printed
    for name, (_, words) in MISTAKES.items():
        assert words in run.failures[places[name]]
    shown = run.failures[places["digit"]]
    assert "03-bad, code cell 2 (here Cell 1): print('a')" in shown
    assert "+0.1234" in shown


def test_failure_keeps_the_pictures(run):
    failure = run.failures["03-bad", list(CELLS).index("line")]
    for kind in ("reference", "result", "difference"):
        name = f"reports/pictures/03-bad-cell-03-1-{kind}.png"
        assert name in failure
        with Image.open(run.folder / name) as picture:
            assert picture.format == "PNG"


def test_cells_after_one_that_timed_out_say_so(run):
    failure = run.failures["05-slow", 1]
    assert "05-slow, code cell 2 (here Cell 1): time.sleep(600)" in failure
    assert "Timeout of 10 seconds exceeded" in failure
    assert "not run: a cell before it timed out" in run.printed
