"""Run every notebook again and compare it with its record: a plugin for pytest.

Run as `python -m pytest -p tools.check.compare --nbval notebooks`. nbval executes the
cells and reports them; what it compares, and how, is replaced on each of its items.

`--kernel-python` executes them with another interpreter, which needs ipykernel and what
`attention_lib` needs; `--comparison-report` keeps the findings of each cell as JSON.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode
from nbval import plugin as nbval
from nbval.plugin import IPyNbCell, NbCellError

from tools.check.outputs import compare_outputs
from tools.record.execute import kernel_environment, without_program
from tools.record.rules import (
    cell_faults,
    first_line,
    reason,
    skipped,
    tags,
    tolerance,
)

ROOT = Path(__file__).resolve().parents[2]
PICTURES = Path("reports", "pictures")
PROPERTY = "book_comparison"  # how a worker's findings reach the summary
COLOUR = re.compile(r"\x1b\[[\d;]*m")
KERNEL = "book-other-python"
# Seconds. No cell needs half a minute on two idle cores: these limits end a hang, and
# leave a slow or busy machine its time.
CELL, OUTPUT, STARTUP, ITEM = 600, 60, 300, 900


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what a run on another interpreter, and a table of runs, ask for."""
    group = parser.getgroup("the book's comparison")
    group.addoption("--kernel-python", metavar="PATH", help="run the kernels with it")
    group.addoption(
        "--installed-library",
        action="store_true",
        help="leave PYTHONPATH alone: attention_lib is where the notebook finds it",
    )
    group.addoption("--comparison-report", metavar="FILE", help="write the findings")


def pytest_configure(config: pytest.Config) -> None:
    """Set up what the kernels inherit: this Python, this tree, one thread."""
    if not config.option.nbval:
        return
    config.option.nbval_cell_timeout = min(config.option.nbval_cell_timeout, CELL)
    config.option.nbval_kernel_startup_timeout = STARTUP
    other = config.option.kernel_python
    config.option.nbval_current_env = other is None
    # A notebook is no test of the library: under --cov, nbval would trace its kernel.
    nbval.setup_coverage = nbval.teardown_coverage = lambda *_: None
    if hasattr(config, "workerinput"):
        return  # the environment is inherited
    wanted = kernel_environment(ROOT)
    path = wanted.pop("PYTHONPATH")
    if not config.option.installed_library:
        os.environ["PYTHONPATH"] = path
    for name, value in wanted.items():
        os.environ.setdefault(name, value)
    if other is not None:
        config.option.nbval_kernel_name = KERNEL
        os.environ["JUPYTER_PATH"] = str(_kernel_folder(other))
    if config.getoption("dist", "no") not in {"no", "loadscope", "loadfile"}:
        raise pytest.UsageError("cells share a kernel: run with `--dist loadscope`")
    # Pictures of an earlier run would mislead.
    shutil.rmtree(config.rootpath / PICTURES, ignore_errors=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Have nbval's items compare by our rules, and obey our tags only."""
    if not isinstance(item, IPyNbCell):
        return
    cell = item.cell
    compared, own = "not-compared" not in tags(cell), tolerance(cell)
    notes = {
        "place": place(item),
        "exempt": "" if compared and not skipped(cell) else reason(cell) or "no reason",
        "tolerance": str(own) if own else "",
        "reason": reason(cell),
        "compared": False,
    }
    item.user_properties.append((PROPERTY, notes))
    item.options = defaultdict(bool, check=compared, skip=skipped(cell))
    item.output_timeout = OUTPUT
    item.add_marker(pytest.mark.timeout(ITEM))
    item.runtest = partial(_run, item, item.runtest)
    item.compare_outputs = partial(_compare, item, notes)
    item.repr_failure = partial(_describe, item, item.repr_failure)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how much was compared, how near it came, and what was left out, and why."""
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
    exempt = [f"  {it['place']}: {it['exempt']}" for it in cells if it["exempt"]]
    own = [
        f"  {it['place']}, {it['tolerance']}: {it['reason']}"
        for it in cells
        if it["tolerance"]
    ]
    return [
        f"cells compared: {len(compared)} of {len(cells)}; pictures: {pictures}"
        + (f", of which {drawings} by what they draw" if drawings else ""),
        "largest difference, 1 being what is allowed: "
        f"{_largest(compared, 'numbers')}; {_largest(compared, 'pictures')}",
        f"not compared: {len(exempt)} of {len(cells)} cells",
        *exempt,
        f"with a tolerance of its own: {len(own)} of {len(cells)} cells",
        *own,
    ]


def _largest(cells: list[dict[str, Any]], kind: str) -> str:
    worst = max(cells, key=lambda notes: float(notes[kind]), default=None)
    if worst is None or not worst[kind]:
        return f"{kind} 0"
    return f"{kind} {worst[kind]:.2g} ({worst['place']})"


def _kernel_folder(python: str) -> Path:
    """Describe a kernel that runs another interpreter, and say where it is described.

    Raises:
        UsageError: the interpreter is missing or has no ipykernel.
    """
    # One folder per interpreter: several runs may go on at once.
    folder = ROOT / "_build/kernels" / hashlib.sha256(python.encode()).hexdigest()[:8]
    command = [python, "-m", "ipykernel", "install", "--name", KERNEL, "--prefix"]
    try:
        subprocess.run([*command, folder], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise pytest.UsageError(
            f"--kernel-python {python}: it must run and have ipykernel\n"
            + (getattr(error, "stderr", "") or str(error))
        ) from error
    return folder / "share/jupyter"


def place(item: Any) -> str:
    """Name a cell as the recorder does: chapter, and code cell counted from 1."""
    return f"{item.path.stem}, code cell {item.cell_num + 1}"


def _run(item: Any, run: Callable[[], None]) -> None:
    """Run a cell; fail it if its record breaks the rules, after running it for others.

    After a cell that timed out, the others of its notebook are not run: what they need
    may be missing, and their failures would hide the one that counts.
    """
    if item.parent.timed_out:
        pytest.skip(f"not run: code cell {item.parent.timed_out} timed out")
    faults = cell_faults(item.cell)
    lines = [f"- {fault}" for fault in faults]
    try:
        run()
    except NbCellError as error:
        if not faults:
            raise
        lines += ["", str(error), error.inner_traceback or ""]
    except pytest.skip.Exception:
        if not faults:
            raise
    finally:
        if item.parent.timed_out:
            item.parent.timed_out = item.cell_num + 1
    if faults:
        item.raise_cell_error("its record breaks the rules", "\n".join(lines))


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
    found = compare_outputs(reference, result, tolerance(item.cell), stem)
    notes.update(vars(found), compared=True)
    item.comparison_traceback = found.faults
    return not found.faults


def _describe(item: Any, otherwise: Any, excinfo: Any) -> str:
    """Say where a cell failed, and how; nbval counts cells from 0, so name both."""
    error = excinfo.value
    if not isinstance(error, NbCellError):
        return f"{place(item)}: {otherwise(excinfo)}"
    lines = [
        f"{place(item)} (here Cell {item.cell_num}): {first_line(item.cell)}",
        str(error),
        error.inner_traceback or "",
    ]
    text = "\n".join(lines)
    return text if item.config.option.color == "yes" else COLOUR.sub("", text)
