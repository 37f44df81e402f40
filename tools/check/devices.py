"""Run every notebook on another device, real or simulated: a plugin for pytest.

`make test` says how, with DEVICE=pretend or DEVICE=cuda. The records are the
CPU's.
"""

import ast
import os
from collections.abc import Generator
from typing import Any

import pytest
from nbval.plugin import IPyNbCell

from tools.record.rules import skipped

# What the kernel is asked before and after a cell. It leaves no name behind.
INSTALL = "__import__('tools.check.pretend', fromlist=['*']).install()"
LOOK = "__import__('tools.check.placement', fromlist=['*'])"
LOOK += ".misplaced(get_ipython().user_ns, {!r})"


def pytest_configure() -> None:
    """Refuse to run without a device, or with a GPU that does not exist."""
    device = os.environ.get("ATTENTION_DEVICE")
    if device not in ("cuda", "pretend"):
        raise pytest.UsageError("set ATTENTION_DEVICE to `cuda` or `pretend`")
    if device == "cuda" and (fault := missing()):
        raise pytest.UsageError(f"{fault}; DEVICE=pretend simulates a GPU")


def pytest_report_header() -> str:
    """Report on which device the chapters run."""
    return f"device: {describe(os.environ['ATTENTION_DEVICE'])}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a cell after which a module of the chapter is on another device."""
    if not isinstance(item, IPyNbCell) or skipped(item.cell):
        return (yield)
    client = item.parent.kernel.kc
    wanted = os.environ["ATTENTION_DEVICE"]
    if wanted == "pretend":
        _ask(client, INSTALL)  # once; then it is there
    result = yield
    known = vars(item.parent).setdefault("misplaced", set())  # each is said once
    if new := [it for it in _ask(client, LOOK.format(wanted)) if it not in known]:
        known.update(new)
        item.raise_cell_error("its modules are not all on the device", "\n".join(new))
    return result


def describe(device: str) -> str:
    """Name a device, with the versions that its numbers depend on."""
    import torch  # here: it takes seconds, and not every run of pytest needs it

    name = f"{torch.cuda.get_device_name()}, " if device == "cuda" else ""
    return f"{device}, {name}torch {torch.__version__}, CUDA {torch.version.cuda}"


def missing() -> str:
    """Return why torch cannot use a GPU; an empty text if it can."""
    import torch

    try:
        torch.ones(2, 2, device="cuda").mean().item()
    except (AssertionError, RuntimeError) as error:
        built = f"torch {torch.__version__}, built for CUDA {torch.version.cuda}"
        return f"{str(error).splitlines()[0]} ({built})"
    return ""


def _ask(client: Any, question: str) -> Any:
    """Return the value of an expression in the kernel."""
    reply = client.execute(
        "", silent=True, user_expressions={"it": question}, reply=True, timeout=200
    )
    answer = reply["content"]["user_expressions"]["it"]
    if answer["status"] != "ok":
        raise RuntimeError(f"{question}: {answer['ename']}: {answer['evalue']}")
    return ast.literal_eval(answer["data"]["text/plain"])
