"""Run every notebook again and compare it with its record: a plugin for pytest.

Run as `python -m pytest -p tools.check.compare --nbval notebooks`. nbval executes the
cells and reports them; what it compares, and how, is replaced on each of its items.
An exercise runs once more with its folded solution, which must pass its check.

`--kernel-python` executes them with another interpreter, which needs ipykernel and what
`attention_lib` needs; there, and with `--other-drawer`, another matplotlib may draw.
`--comparison-report` keeps the findings of each cell as JSON.
"""

import hashlib
import json
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from nbval import plugin as nbval
from nbval.plugin import IPyNbCell, NbCellError

from tools.check.outputs import compare_outputs
from tools.export.copies import SOLUTION
from tools.record import rules
from tools.record.execute import kernel_environment, without_program
from tools.running import run

ROOT = Path(__file__).resolve().parents[2]
PICTURES = Path("reports", "pictures")
PROPERTY = "book_comparison"  # how a worker's findings reach the summary
COLOUR = re.compile(r"\x1b\[[\d;]*m")
LISTING = re.compile(r"```python\n(.*?)\n```", re.DOTALL)
NO_MODEL = "the small language model is not here: `make setup` installs it"
KERNEL = "book-other-python"
# Seconds. No cell needs half a minute on two idle cores: these limits end a hang, and
# leave a slow or busy machine its time.
CELL, OUTPUT, STARTUP, ITEM = 600, 60, 300, 900


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options for running on another interpreter, and for a table of runs."""
    group = parser.getgroup("the book's comparison")
    group.addoption("--kernel-python", metavar="PATH", help="run the kernels with it")
    group.addoption(
        "--installed-library",
        action="store_true",
        help="leave PYTHONPATH alone: attention_lib is where the notebook finds it",
    )
    group.addoption("--other-drawer", action="store_true", help="compare what it draws")
    group.addoption("--comparison-report", metavar="FILE", help="write the findings")


def pytest_configure(config: pytest.Config) -> None:
    """Set up what the kernels inherit: this Python, this tree, one thread."""
    if not config.option.nbval:
        return
    config.option.nbval_cell_timeout = min(config.option.nbval_cell_timeout, CELL)
    config.option.nbval_kernel_startup_timeout = STARTUP
    config.option.nbval_current_env = config.option.kernel_python is None
    # A notebook is no test of the library: under --cov, nbval would trace its kernel.
    nbval.setup_coverage = nbval.teardown_coverage = lambda *_: None
    if hasattr(config, "workerinput"):
        return  # the environment is inherited

    wanted = kernel_environment(ROOT)
    path = wanted.pop("PYTHONPATH")
    if not config.option.installed_library:
        os.environ["PYTHONPATH"] = path
    os.environ |= {"ATTENTION_LANGUAGE": wanted.pop("ATTENTION_LANGUAGE")}
    for name, value in wanted.items():
        os.environ.setdefault(name, value)
    if config.option.kernel_python:
        # Its environment has no copy of the model.
        os.environ["BOOK_MODEL"] = _model()
        config.option.nbval_kernel_name = KERNEL
        os.environ["JUPYTER_PATH"] = str(_kernel_folder(config.option.kernel_python))
    # Pictures of an earlier run would mislead.
    shutil.rmtree(config.rootpath / PICTURES, ignore_errors=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Make nbval's items compare by our rules, and obey our tags only."""
    if not isinstance(item, IPyNbCell):
        return
    compared = "not-compared" not in rules.tags(item.cell)
    skipped, own = rules.skipped(item.cell), rules.tolerance(item.cell)
    reason = rules.reason(item.cell)
    if rules.needs_model(item.cell) and not _model():
        skipped, reason = True, NO_MODEL
    notes = {
        "place": place(item),
        "exempt": skipped or not compared,
        "tolerance": str(own or ""),
        "reason": reason or "no reason",
        "compared": False,
        "solved": False,
    }
    item.user_properties.append((PROPERTY, notes))
    item.options = defaultdict(bool, check=compared, skip=skipped)
    item.output_timeout = OUTPUT
    item.add_marker(pytest.mark.timeout(ITEM))
    item.runtest = partial(_run, item, notes, item.runtest)
    item.compare_outputs = partial(_compare, item, notes)
    item.repr_failure = partial(_describe, item, item.repr_failure)


@cache
def _model() -> str:
    """Return where the small language model is, or nothing where it is missing."""
    from attention_lib.pretrained import small_model  # takes seconds

    try:
        return str(small_model())
    except FileNotFoundError:
        return ""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Report how much was compared, how close it was, and what was left out and why."""
    cells = [
        notes | {"outcome": report.outcome}
        for group in terminalreporter.stats.values()
        for report in group
        if getattr(report, "when", "") == "call"
        for name, notes in report.user_properties
        if name == PROPERTY
    ]
    target = terminalreporter.config.option.comparison_report
    if target:
        Path(target).write_text(json.dumps(cells, indent=1), encoding="utf-8")
    if cells:
        terminalreporter.section("comparison with the records")
        terminalreporter.write_line("\n".join(_summary(cells)))


def _summary(cells: list[dict[str, Any]]) -> list[str]:
    compared = [notes for notes in cells if notes["compared"]]
    pictures = sum(notes["picture_count"] for notes in compared)
    drawings = sum(notes["drawing_count"] for notes in compared)
    exempt = [it for it in cells if it["exempt"]]
    own = [it for it in cells if it["tolerance"]]
    solved = sum(it["solved"] for it in cells)
    return [
        f"cells compared: {len(compared)} of {len(cells)}; pictures: {pictures}, "
        f"of which {drawings} by what they draw",
        "largest difference, 1 being what is allowed: "
        f"{_largest(compared, 'numbers')}; {_largest(compared, 'pictures')}",
        f"solutions of exercises that ran, and passed their checks: {solved}",
        f"not compared: {len(exempt)} of {len(cells)} cells",
        *(f"  {it['place']}: {it['reason']}" for it in exempt),
        f"with a tolerance of its own: {len(own)} of {len(cells)} cells",
        *(f"  {it['place']}, {it['tolerance']}: {it['reason']}" for it in own),
    ]


def _largest(cells: list[dict[str, Any]], kind: str) -> str:
    worst = max(cells, key=lambda notes: float(notes[kind]), default=None)
    return f"{kind} {worst[kind]:.2g} ({worst['place']})" if worst else f"{kind} 0"


def _kernel_folder(python: str) -> Path:
    """Describe a kernel that runs another interpreter, and return its folder."""
    # One folder per interpreter: several runs may go on at once.
    folder = ROOT / "_build/kernels" / hashlib.sha256(python.encode()).hexdigest()[:8]
    command = [python, "-m", "ipykernel", "install", "--name", KERNEL, "--prefix"]
    run([*command, folder], limit=STARTUP, check=True)
    return folder / "share/jupyter"


def place(item: Any) -> str:
    """Name a cell like the recorder does: chapter, and code cell counted from 1."""
    return f"{item.path.stem}, code cell {item.cell_num + 1}"


def _run(item: Any, notes: dict[str, Any], run: Callable[[], None]) -> None:
    """Run a cell; fail it if its record breaks the rules, after running it for others.

    After a cell that timed out, the others of its notebook are not run: what they need
    may be missing, and their failures would hide the one that counts.
    """
    if item.parent.timed_out:
        pytest.skip("not run: a cell before it timed out")
    faults = rules.cell_faults(item.cell)
    try:
        run()
    except (NbCellError, pytest.skip.Exception):
        if not faults:
            raise
    if faults:
        item.raise_cell_error("its record breaks the rules", "\n".join(faults))
    if "exercise" in rules.tags(item.cell):
        notes["solved"] = _solve(item, run)


def _solve(item: Any, run: Callable[[], None]) -> bool:
    """Run an exercise as its reader does in the end: with the folded solution."""
    cells = item.parent.nb.cells
    below = cells[cells.index(item.cell) + 1 :]
    texts = takewhile(lambda cell: cell.cell_type == "markdown", below)
    folded = SOLUTION.findall("\n".join(cell.source for cell in texts))
    if not (solution := LISTING.findall("".join(folded))):
        item.raise_cell_error("an exercise without a folded solution")
    check = item.cell.source.rstrip().rpartition("\n")[2]
    # Without a record, nbval compares nothing.
    item.cell = new_code_cell(f"{solution[0]}\n\n{check}")
    run()
    verdict = item.test_outputs[-1].data["text/plain"] if item.test_outputs else ""
    if not verdict.startswith("✓"):
        item.raise_cell_error("the folded solution does not pass", verdict)
    return True


def _compare(
    item: Any,
    notes: dict[str, Any],
    result: list[NotebookNode],
    reference: list[NotebookNode],
) -> bool:
    """Stand in for nbval's comparison of one cell."""
    name = f"{item.path.stem}-cell-{item.cell_num + 1:02d}"
    stem = item.config.rootpath / PICTURES / name
    result = without_program(result)
    option, own = item.config.option, rules.tolerance(item.cell)
    other_drawer = bool(option.other_drawer or option.kernel_python)
    found = compare_outputs(reference, result, own, stem, other_drawer)
    notes.update(vars(found), compared=True)
    item.comparison_traceback = found.faults
    return not found.faults


def _describe(item: Any, otherwise: Any, excinfo: Any) -> str:
    """Describe where a cell failed, and how; nbval counts cells from 0: name both."""
    error = excinfo.value
    if not isinstance(error, NbCellError):
        return f"{place(item)}: {otherwise(excinfo)}"
    head = f"{place(item)} (here Cell {item.cell_num}): {rules.first_line(item.cell)}"
    text = "\n".join([head, str(error), error.inner_traceback or ""])
    return text if item.config.option.color == "yes" else COLOUR.sub("", text)
