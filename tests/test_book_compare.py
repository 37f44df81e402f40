"""The comparison of a run with its record: what it accepts, and that it can fail."""

import base64
import copy
import io
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import nbformat
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tools.check.numbers import compare_text, unit_of
from tools.check.outputs import compare_outputs, side_by_side
from tools.check.pictures import THRESHOLD, decode, difference, worst_block
from tools.record.execute import kernel_environment
from tools.record.rules import record_faults

ROOT = Path(__file__).resolve().parents[1]
UNITS = st.integers(-(10**6), 10**6)


def agrees(reference: str, result: str, tolerance: str | None = None) -> bool:
    """Say whether two texts compare as equal."""
    own = Decimal(tolerance) if tolerance else None
    return not compare_text(reference, result, own).faults


# Numbers and the words around them.


@given(units=UNITS, decimals=st.integers(2, 9), step=st.sampled_from([-1, 0, 1]))
def test_decimals_may_differ_by_one_unit(units: int, decimals: int, step: int) -> None:
    one, two = (Decimal(n).scaleb(-decimals) for n in (units, units + step))
    assert agrees(f"loss {one:f}", f"loss {two:f}")


@given(units=UNITS, decimals=st.integers(1, 9), step=st.sampled_from([-2, 2]))
def test_decimals_may_not_differ_by_two_units(
    units: int, decimals: int, step: int
) -> None:
    one, two = (Decimal(n).scaleb(-decimals) for n in (units, units + step))
    assert not agrees(f"loss {one:f}", f"loss {two:f}")


@given(one=st.integers(), two=st.integers())
def test_integers_are_exact(one: int, two: int) -> None:
    assert agrees(f"{one} words", f"{two} words", "0.5") == (one == two)


@given(st.floats(width=32), st.floats(width=32))
def test_comparison_of_floats_never_raises(one: float, two: float) -> None:
    assert agrees(f"{one}", f"{one}")
    compare_text(f"{one}", f"{two}")


@pytest.mark.parametrize(
    ("reference", "result"),
    [
        ("[ 0.5  0.25]", "[ 0.5  0.25]"),
        ("x = 0.1234", "x = 0.1235"),
        ("[0.1234 0.5   ]", "[0.1233 0.5   ]"),
        ("0.1", "0.0999"),  # 0.10 and 0.0999…, zeros cut
        ("1.", "0.9999"),
        ("-0.0", "0.0"),
        ("[[ 0.   0.5]]", "[[-0.   0.5]]"),
        ("[0.00 1.00]", "[-0.00  1.00]"),
        ("[0.99 9.99]\n[0.10 0.20]", "[ 0.99 10.00]\n[ 0.10  0.20]"),
        ("5.96e-08", "5.97e-08"),
        ("9.99e-05", "1.00e-04"),
        ("[nan -inf 0.123]", "[nan -inf 0.124]"),
        ("<td>0.123</td>", "<td>0.124</td>"),
        (r"\alpha = 0.123", r"\alpha = 0.124"),
    ],
)
def test_texts_agree(reference: str, result: str) -> None:
    assert agrees(reference, result)


@pytest.mark.parametrize(
    ("reference", "result"),
    [
        ("0.1234", "0.1236"),
        ("0.5", "0.6"),
        ("1.", "2."),
        ("5.96e-08", "5.98e-08"),
        ("1.00e-04", "1.00e-05"),
        ("3", "4"),
        ("3", "3.0"),
        ("3.0", "3"),
        ("2.99", "3"),
        ("-0.5", "0.5"),
        ("−0.5", "0.5"),
        ("nan", "0.0"),
        ("0.0", "nan"),
        ("1.0", "inf"),
        ("nan", "inf"),
        ("-inf", "inf"),
        ("inf", "1.0"),
        ("0.12 cm", "0.12 m"),
        ("0.12 cm", "0.12"),
        ("0.12", "0.12 0.12"),
        ("a b", "a  b"),
        ("a 0.12", "a  0.12"),
        ("a 0.12\n", "a 0.12"),
        ("two  words 0.99", "two words 1.000"),
        ("float32", "float33"),
        ("version 2.13.0", "version 2.14.0"),
        ("x_0.12", "x_0.13"),
        ("<td>0.12</td>", "<th>0.12</th>"),
    ],
)
def test_texts_differ(reference: str, result: str) -> None:
    assert not agrees(reference, result)


@pytest.mark.parametrize(
    ("result", "expected"), [("0.123", True), ("0.124", False), ("-0.122", False)]
)
def test_own_tolerance_replaces_the_unit(result: str, expected: bool) -> None:
    assert agrees("0.1220", result, "1e-3") == expected


@pytest.mark.parametrize(
    ("number", "unit"),
    [
        ("3", "0"),
        ("3.", "0.01"),
        ("0.5", "0.01"),
        ("0.123", "0.001"),
        ("1.5e-7", "1e-9"),
    ],
)
def test_unit_follows_the_last_digit(number: str, unit: str) -> None:
    assert unit_of(number) == Decimal(unit)


def test_message_names_the_largest_difference_and_its_tolerance() -> None:
    (fault,) = compare_text("0.100 0.200 0.300", "0.102 0.250 0.300").faults
    assert "2 numbers differ; the largest: 0.200 became 0.250" in fault
    assert "off by 0.05; allowed: 0.001" in fault


def test_message_about_words_shows_where_they_part() -> None:
    (fault,) = compare_text("x" * 99 + "cat 1.0", "x" * 99 + "hat 1.0").faults
    assert "cat" in fault
    assert "hat" in fault
    assert len(fault) < 120


def test_largest_is_a_fraction_of_the_tolerance() -> None:
    assert compare_text("0.100", "0.102", Decimal("0.004")).largest == 0.5


def test_side_by_side_marks_only_what_disagrees() -> None:
    table = side_by_side("same\n0.123\n7", "same\n0.124\n8").splitlines()
    assert [line.split() for line in table] == [
        ["reference", "result"],
        ["same", "same"],
        ["0.123", "0.124"],
        ["7", "|", "8"],
    ]


# Pictures.


def picture(move: float = 0.0, digit: int = 3) -> Image.Image:
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
    [
        ({}, True),
        ({"move": 0.05}, True),  # smoothing only
        ({"move": 1.0}, False),
        ({"digit": 8}, False),
    ],
)
def test_threshold_stands_between_smoothing_and_change(
    changed: dict[str, float], expected: bool
) -> None:
    rms, _, _ = worst_block(picture(), picture(**changed))  # type: ignore[arg-type]
    assert (rms <= THRESHOLD) == expected


def blank(width: int, height: int) -> np.ndarray:
    """Return white paper."""
    return np.full((height, width, 3), 255, dtype=np.uint8)


@given(x=st.integers(0, 39), y=st.integers(0, 19))
def test_worst_block_holds_the_changed_pixel(x: int, y: int) -> None:
    changed = blank(40, 20)
    changed[y, x] = 0
    rms, left, top = worst_block(*map(Image.fromarray, (blank(40, 20), changed)))
    assert (left, top) == (x // 16 * 16, y // 16 * 16)
    pixels = min(16, 40 - left) * min(16, 20 - top)
    assert rms == pytest.approx(255 / pixels**0.5)


def test_difference_is_dark_where_pictures_differ() -> None:
    changed = blank(4, 3)
    changed[2, 1] = (255, 0, 255)
    apart = difference(*map(Image.fromarray, (blank(4, 3), changed)))
    assert np.argwhere(np.asarray(apart) == 0).tolist() == [[2, 1]]


def test_transparent_pictures_are_compared_on_white() -> None:
    file = io.BytesIO()
    Image.new("RGBA", (1, 1), (0, 0, 0, 0)).save(file, format="png")
    encoded = base64.b64encode(file.getvalue()).decode()
    assert decode(encoded).getpixel((0, 0)) == (255, 255, 255)


def encoded(width: int) -> NotebookNode:
    """Return an output that holds a white picture."""
    file = io.BytesIO()
    Image.new("RGB", (width, 8), "white").save(file, format="png")
    data = {"image/png": base64.b64encode(file.getvalue()).decode()}
    return new_output("display_data", data)


def test_pictures_of_other_sizes_differ(tmp_path: Path) -> None:
    found = compare_outputs([encoded(8)], [encoded(9)], None, tmp_path / "a")
    assert "another size: 8 x 8 became 9 x 8" in found.faults[0]
    assert {path.name for path in tmp_path.iterdir()} == {
        "a-reference.png",
        "a-result.png",
    }


def drawn_by(version: str, height: float) -> NotebookNode:
    """Return an output whose picture says what drew it, and what it draws."""
    info = PngInfo()
    info.add_text("Drawn by", version)
    info.add_itxt("Contents", f'{{"look": "#0072b2",\n"y": "{height:.3f}"}}', zip=True)
    file = io.BytesIO()
    size = (8, 8) if version == "matplotlib 3.11" else (9, 8)  # its letters are wider
    Image.new("RGB", size, "white").save(file, format="png", pnginfo=info)
    data = {"image/png": base64.b64encode(file.getvalue()).decode()}
    return new_output("display_data", data)


@pytest.mark.parametrize(("height", "expected"), [(0.5, True), (0.51, False)])
def test_pictures_of_two_versions_are_compared_by_what_they_draw(
    tmp_path: Path, height: float, expected: bool
) -> None:
    pair = drawn_by("matplotlib 3.11", 0.5), drawn_by("matplotlib 3.9", height)
    found = compare_outputs([pair[0]], [pair[1]], None, tmp_path / "a")
    assert (found.faults == []) == expected
    assert found.drawing_count == found.picture_count == 1
    if not expected:
        assert "0.500 became 0.510" in found.faults[0]


def test_pictures_of_one_version_are_compared_by_their_pixels(tmp_path: Path) -> None:
    pair = drawn_by("matplotlib 3.11", 0.5), drawn_by("matplotlib 3.11", 0.9)
    found = compare_outputs([pair[0]], [pair[1]], None, tmp_path / "a")
    assert (found.faults, found.drawing_count) == ([], 0)


def test_picture_of_unknown_contents_is_compared_by_its_pixels(tmp_path: Path) -> None:
    found = compare_outputs(
        [encoded(8)], [drawn_by("matplotlib 3.9", 0.5)], None, tmp_path / "a"
    )
    assert "another size: 8 x 8 became 9 x 8" in found.faults[0]


# Outputs as a whole.


def stream(text: str, name: str = "stdout") -> NotebookNode:
    """Return what a cell printed."""
    return new_output("stream", name=name, text=text)


def result(**data: str) -> NotebookNode:
    """Return a cell's value, `text_html` standing for text/html."""
    named = {key.replace("_", "/", 1): value for key, value in data.items()}
    return new_output("execute_result", named, execution_count=1)


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ([stream("1")], []),
        ([stream("1")], [stream("1"), stream("2", "stderr")]),
        ([stream("1")], [stream("1", "stderr")]),
        ([stream("1")], [result(text_plain="1")]),
        ([result(text_plain="1")], [result(text_html="1")]),
        ([result(text_plain="1")], [result(text_plain="1", text_html="1")]),
        ([result(text_html="<b>")], [result(text_html="<i>")]),
        ([result(text_latex="x^2")], [result(text_latex="x^3")]),
        ([result(**{"image_svg+xml": "1.00"})], [result(**{"image_svg+xml": "2.00"})]),
        ([stream("1"), result(text_plain="2")], [result(text_plain="2"), stream("1")]),
    ],
)
def test_outputs_differ(
    reference: list[NotebookNode], found: list[NotebookNode], tmp_path: Path
) -> None:
    assert compare_outputs(reference, found, None, tmp_path).faults


def test_unexpected_output_is_shown(tmp_path: Path) -> None:
    found = [stream("1"), stream("a warning", "stderr")]
    (fault,) = compare_outputs([stream("1")], found, None, tmp_path).faults
    assert "a warning" in fault


# What a record must meet.


def cell(source: str = "1", **metadata: object) -> NotebookNode:
    """Return a code cell that was run and shows nothing."""
    return new_code_cell(source, metadata=metadata, execution_count=1)


def faults(code: NotebookNode, *outputs: NotebookNode) -> list[str]:
    """Return the faults of a record with one cell."""
    code.outputs = list(outputs)
    return record_faults(new_notebook(cells=[code]))


@pytest.mark.parametrize(
    "code",
    [
        cell(),
        new_code_cell(""),
        cell(tags=["hide-input", "exercise"]),
        cell(tags=["not-compared"], reason="times"),
        cell(tags=["tolerance-1e-3"], reason="trained in float32"),
        new_code_cell(
            "1", metadata={"tags": ["nbval-skip", "skip-execution"], "reason": "GPU"}
        ),
    ],
)
def test_record_meets_the_rules(code: NotebookNode) -> None:
    assert faults(code, stream("at https://x.org/home/page, 0x3f800000, 50%|")) == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (new_code_cell("1"), "never run"),
        (new_code_cell("1", metadata={"tags": ["not-compared"]}), "never run"),
        (cell(tags=["not-compared"]), "'not-compared' needs a `reason:`"),
        (cell(tags=["not-compared"], reason=" "), "needs a `reason:`"),
        (cell(tags=["tolerance-1e-3"]), "'tolerance-1e-3' needs a `reason:`"),
        (cell(tags=["tolerance-much"], reason="x"), "unknown tag 'tolerance-much'"),
        (cell(tags=["nbval-ignore-output"]), "unknown tag"),
        (cell(tags=["raises-exception"]), "unknown tag"),
        (cell(tags=["nbval-skip"], reason="x"), "need each other"),
        (cell(tags=["nbval-skip", "skip-execution"]), "needs a `reason:`"),
        (cell(tags=["not-compared", "tolerance-1e-3"], reason="x"), "exclude"),
    ],
)
def test_record_breaks_the_rules(code: NotebookNode, words: str) -> None:
    assert any(words in fault for fault in faults(code))


@pytest.mark.parametrize(
    "output",
    [
        stream("a warning", "stderr"),
        new_output("error", ename="ValueError", evalue="no", traceback=[]),
        result(text_plain="<Colorbar at 0x7f3c5a2b1d90>"),
        result(text_html="<a href='file:///home/me/x'>"),
        stream("/root/x.py:3"),
        stream("saved to /tmp/ipykernel_1"),
        stream("in C:\\Users"),
        stream("in /Users/me"),
        stream("100%|##| 5/5 [00:01<00:00,"),
        stream("4.20it/s"),
    ],
)
def test_record_holds_what_differs_on_each_machine(output: NotebookNode) -> None:
    assert "its record holds" in faults(cell(), output)[0]


def test_fault_names_the_cell() -> None:
    notebook = new_notebook(cells=[cell(), new_code_cell("\nx = 1\ny")])
    assert record_faults(notebook)[0].startswith("code cell 2 (x = 1): ")


# The whole way: notebooks executed once, then run again under pytest.

FIGURE = """figure = plt.figure(figsize=(2, 1))
axes = figure.add_axes((0, 0, 1, 1))
axes.axis("off")
_ = axes.plot([0, {}], color="#8a91a0", linewidth=0.8)"""
SOURCES = {
    "imports": "import numpy as np\nimport matplotlib.pyplot as plt",
    "environment": "import os; print(os.environ['CUBLAS_WORKSPACE_CONFIG'])",
    "digit": "print('ok')\nnp.array([[0.1234, -0.5], [1, 2]])",
    "line": FIGURE.format(1),
    "never": "print(2 * 21)",
    "stderr": "print('words')",
    "missing": FIGURE.format(2),
    "vanished": FIGURE.format(3),
    "no_reason": "import time; print(time.time())",
    "raises": "print('fine')",
    "word": "print('a cat')",
    "skipped": "import nothing_of_that_name",
    "tolerance": "print('0.120')",
    "later": "print('still here')",
}
METADATA = {
    "no_reason": {"tags": ["not-compared"], "reason": "the time of day"},
    "skipped": {"tags": ["nbval-skip", "skip-execution"], "reason": "needs a GPU"},
    "tolerance": {"tags": ["tolerance-1e-2"], "reason": "a check of the check"},
}
Outcome = tuple[int, str, dict[str, str]]  # exit code, what is printed, failures


@pytest.fixture(scope="module")
def record() -> NotebookNode:
    """Return a notebook that was executed, one cell for each mistake."""
    cells = [
        new_code_cell(source, metadata=METADATA.get(name, {}))
        for name, source in SOURCES.items()
    ]
    notebook = new_notebook(cells=cells)
    NotebookClient(notebook, kernel_name="python3").execute(
        env=kernel_environment(ROOT)
    )
    named(notebook)["tolerance"].outputs[0].text = "0.125\n"
    return notebook


@pytest.fixture(scope="module")
def green(record: NotebookNode, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Run two untouched notebooks side by side, with coverage as in `make test`."""
    folder = tmp_path_factory.mktemp("green")
    options = ["-n2", "--cov=attention_lib", "--cov-report="]
    return check(folder, {"01-one": record, "02-two": record}, *options)


@pytest.fixture(scope="module")
def red(
    record: NotebookNode, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Outcome]:
    """Run one notebook in which every mistake was made."""
    notebook = copy.deepcopy(record)
    cells = named(notebook)
    for name, mistake in MISTAKES.items():
        mistake(cells[name])
    folder = tmp_path_factory.mktemp("red")
    return folder, check(folder, {"03-bad": notebook})


def named(notebook: NotebookNode) -> dict[str, NotebookNode]:
    """Return the cells by what they are for."""
    return dict(zip(SOURCES, notebook.cells, strict=True))


def run(folder: Path, *options: str) -> tuple[int, str]:
    """Run the comparison in a folder of its own, and return what it says."""
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-p", "tools.check.compare", "--nbval"]
    done = subprocess.run(
        [*command, *options, "notebooks"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "88"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def check(folder: Path, notebooks: dict[str, NotebookNode], *options: str) -> Outcome:
    """Run the comparison of these notebooks, and collect its failures by cell."""
    (folder / "notebooks").mkdir()
    for stem, notebook in notebooks.items():
        nbformat.write(notebook, folder / "notebooks" / f"{stem}.ipynb")
    outcome = run(folder, "--dist=loadscope", "--junitxml=junit.xml", *options)
    names = list(SOURCES)
    failures = {
        names[int(case.attrib["name"].removeprefix("Cell "))]: failure.text or ""
        for case in ElementTree.parse(folder / "junit.xml").iter("testcase")
        for failure in [*case.iter("failure"), *case.iter("error")]
    }
    return *outcome, failures


def change_digit(cell: NotebookNode) -> None:
    """Change one digit of the array."""
    data = cell.outputs[1].data
    data["text/plain"] = data["text/plain"].replace("0.1234", "0.1634")


def move_line(cell: NotebookNode) -> None:
    """Move what is drawn, a line, by one pixel."""
    data = cell.outputs[0].data
    moved = np.roll(np.asarray(decode(data["image/png"])), 1, axis=0)
    file = io.BytesIO()
    Image.fromarray(moved).save(file, format="png")
    data["image/png"] = base64.b64encode(file.getvalue()).decode()


def forget_run(cell: NotebookNode) -> None:
    """Leave the cell as it is before any run."""
    cell.update(execution_count=None, outputs=[])


def write_stderr(cell: NotebookNode) -> None:
    """Put a warning into the record."""
    cell.outputs.append(stream("a warning\n", "stderr"))


def remove_picture(cell: NotebookNode) -> None:
    """Take the picture out of the record."""
    del cell.outputs[0].data["image/png"]


def remove_reason(cell: NotebookNode) -> None:
    """Leave the tag without its reason."""
    del cell.metadata["reason"]


def replace_source(source: str) -> Callable[[NotebookNode], None]:
    """Return a mistake that changes the code and leaves its record."""
    return lambda cell: cell.update(source=source)


MISTAKES: dict[str, Callable[[NotebookNode], None]] = {
    "digit": change_digit,
    "line": move_line,
    "never": forget_run,
    "stderr": write_stderr,
    "missing": remove_picture,
    "vanished": replace_source("plt.Figure()"),
    "no_reason": remove_reason,
    "skipped": remove_reason,
    "raises": replace_source("print('fine')\n1 / 0"),
    "word": replace_source("print('a hat')"),
}


def test_untouched_records_pass(green: Outcome) -> None:
    code, printed, failures = green
    assert (code, failures) == (0, {}), printed


@pytest.mark.parametrize(
    "line",
    [
        "cells compared: 24 of 28; pictures: 6",
        "numbers 0.5 (0",
        "not compared: 4 of 28 cells",
        "  01-one, code cell 9: the time of day",
        "  02-two, code cell 12: needs a GPU",
        "with a tolerance of its own: 2 of 28 cells",
        "  02-two, code cell 13, 0.01: a check of the check",
    ],
)
def test_summary_of_parallel_workers_says(line: str, green: Outcome) -> None:
    assert line in green[1]


def test_every_mistake_fails_its_own_cell_only(red: tuple[Path, Outcome]) -> None:
    code, printed, failures = red[1]
    assert (code, failures.keys()) == (1, MISTAKES.keys()), printed


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("digit", "03-bad, code cell 3 (here Cell 2): print('ok')"),
        ("digit", "0.1634 became 0.1234, off by 0.04; allowed: 0.0001"),
        ("digit", "array([[ 0.1634, -0.5   ],  | array([[ 0.1234, -0.5   ],"),
        ("line", "picture 1 differs by "),
        ("line", "allowed: 10"),
        ("line", "reports/pictures/03-bad-cell-04-difference.png"),
        ("never", "code cell 5 (here Cell 4): print(2 * 21)"),
        ("never", "it was never run"),
        ("stderr", "its record holds standard error: 'a warning\\n'"),
        ("missing", "a picture is missing in the reference"),
        ("vanished", "a picture is missing in the result"),
        ("no_reason", "tag 'not-compared' needs a `reason:` beside it"),
        ("skipped", "tag 'nbval-skip' needs a `reason:` beside it"),
        ("raises", "ZeroDivisionError"),
        ("word", "the text differs: 'a cat\\n' became 'a hat\\n'"),
    ],
)
def test_failure_says(name: str, words: str, red: tuple[Path, Outcome]) -> None:
    assert words in red[1][2][name]


@pytest.mark.parametrize("kind", ["reference", "result", "difference"])
def test_failure_keeps_the_picture(kind: str, red: tuple[Path, Outcome]) -> None:
    path = red[0] / "reports" / "pictures" / f"03-bad-cell-04-{kind}.png"
    with Image.open(path) as picture:
        assert picture.format == "PNG"


def test_failures_have_no_colours(red: tuple[Path, Outcome]) -> None:
    assert "\x1b" not in red[1][1]


def test_cells_of_a_notebook_stay_on_one_worker(tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    code, printed = run(tmp_path, "-n2")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "run with `--dist loadscope`" in printed
