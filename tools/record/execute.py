"""A notebook in, its outputs filled by a fresh kernel; its faults out."""

import ast
import asyncio
import os
import re
import textwrap
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from tools.chapters import code_of
from tools.record.book import cells_with_places
from tools.record.rules import cell_faults

SECONDS_PER_CELL = 600
# Every view brings its program along. A record leaves it out: so it stays the same when
# the program changes, and no front end would run it from there.
PROGRAM = re.compile(r'(?s)\s*<script data-attention-program="views">.*?</script>')


def execute(notebook: NotebookNode, chapter: Path) -> list[str]:
    """Fill in the outputs of a notebook, and return its faults."""
    root = chapter.parent.parent
    (root / "notebooks").mkdir(exist_ok=True)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=SECONDS_PER_CELL,
        resources={"metadata": {"path": str(root / "notebooks")}},
        record_timing=False,
        store_widget_state=False,
        # Below an error, kernels talk about the encryption of their own sockets.
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
    )
    language = notebook.metadata.get("language_info")
    if fault := _run(client, root):
        number = client.code_cells_executed
        return [_describe(chapter, number, fault)] if number else [fault]
    # The kernel puts its own version of Python there, which differs between machines.
    notebook.metadata["language_info"] = language
    faults = []
    for number, cell in enumerate(code_of(notebook), 1):
        cell.outputs = without_program(_joined(cell.outputs))
        faults += [_describe(chapter, number, fault) for fault in cell_faults(cell)]
    return faults


def without_program(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Return outputs whose HTML no longer holds the views' script."""
    for output in outputs:
        text = output.get("data", {}).get("text/html")
        if isinstance(text, str):
            output.data["text/html"] = PROGRAM.sub("", text)
    return outputs


def kernel_environment(root: Path) -> dict[str, str]:
    """Return the environment of a recording: this tree's library, deterministic."""
    paths = [str(root), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        **run_environment(root),
        "ATTENTION_DEVICE": "cpu",  # the reference is the CPU's, wherever it is made
        "ATTENTION_LANGUAGE": "en",  # and in English, whoever makes it
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }


def run_environment(root: Path) -> dict[str, str]:
    """Read `RUN_ENVIRONMENT` without importing the library, which takes seconds."""
    path = root / "attention_lib" / "reproducibility.py"
    text = path.read_text(encoding="utf-8")
    literal = re.search(r"^RUN_ENVIRONMENT\b.*= (\{[^{}]*\})$", text, re.MULTILINE)
    if literal is None:
        raise ValueError(f"{path} must assign a literal dict to RUN_ENVIRONMENT")
    return dict(ast.literal_eval(literal[1]))


def _describe(chapter: Path, number: int, fault: str) -> str:
    """Describe where a fault is, counting code cells from 1, and show the code."""
    found = cells_with_places(chapter)
    cell, place = [it for it in found if it[0].cell_type == "code"][number - 1]
    said = place.error(f"code cell {number}: {fault}")
    return f"{said}\n{textwrap.indent(cell.source, '    ')}"


def _run(client: NotebookClient, root: Path) -> str | None:
    """Run all cells, and return the error that stopped them."""
    try:
        # Not client.execute(), which leaves its event loop open.
        asyncio.run(client.async_execute(env=kernel_environment(root)))
    except CellExecutionError as error:
        return f"{error.ename}: {error.evalue}"
    except (CellTimeoutError, DeadKernelError) as error:
        return str(error)
    return None


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join streams that follow each other: where they were cut depends on timing."""
    joined: list[NotebookNode] = []
    for output in outputs:
        if joined and output.get("name", 0) == joined[-1].get("name", 1):
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined
