"""Run every notebook on another device, real or pretended: a plugin for pytest.

Run as `ATTENTION_DEVICE=cuda python -m pytest -p tools.check.compare
-p tools.check.devices --nbval notebooks`, or with `pretend` (`tools/check/pretend.py`).
The records are the CPU's.

`python -m tools.check.devices` says which GPU is there; without one it ends with
status 2.
"""

import ast
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from nbval.plugin import IPyNbCell

from tools.record.rules import skipped

# What the kernel is asked before and after a cell. It leaves no name behind.
INSTALL = "__import__('tools.check.pretend', fromlist=['*']).install()"
LOOK = (
    "__import__('tools.check.placement', fromlist=['*'])"
    ".new_faults(get_ipython().user_ns, {!r})"
)


def pytest_configure() -> None:
    """Refuse to run as the comparison does without this plugin."""
    if os.environ.get("ATTENTION_DEVICE", "") in ("", "cpu"):
        raise pytest.UsageError("set ATTENTION_DEVICE to `cuda` or `pretend`")


def pytest_report_header() -> str:
    """Say on what the chapters run."""
    return f"device: {describe(os.environ['ATTENTION_DEVICE'])}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a cell after which a module of the chapter is on another device."""
    if not isinstance(item, IPyNbCell) or skipped(item.cell):
        return (yield)
    client = item.parent.kernel.kc
    wanted = os.environ["ATTENTION_DEVICE"].partition(":")[0]
    if wanted == "pretend":
        _ask(client, INSTALL)  # once; then it is there
    result = yield
    if found := _ask(client, LOOK.format(wanted)):
        item.raise_cell_error("its modules are not all on the device", "\n".join(found))
    return result


def describe(device: str) -> str:
    """Name a device, with the versions that its numbers depend on."""
    import torch  # here: it takes seconds, and not every run of pytest needs it

    if device.startswith("cuda"):
        name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
        return f"{device}, {name}, torch {torch.__version__}, CUDA {torch.version.cuda}"
    return f"{device}, torch {torch.__version__}"


def missing() -> str:
    """Say what keeps torch from using a GPU; nothing if it can."""
    import torch

    try:
        torch.ones(2, 2, device="cuda").mm(torch.ones(2, 2, device="cuda")).cpu()
    except (AssertionError, RuntimeError) as error:
        driver = "an" if Path("/proc/driver/nvidia/version").exists() else "no"
        built = f"torch {torch.__version__}, built for CUDA {torch.version.cuda}"
        return f"{str(error).splitlines()[0]} ({built}; {driver} NVIDIA driver here)"
    return ""


def main() -> int:
    """Describe the GPU, or say in one line why there is none."""
    if fault := missing():
        print(f"test-gpu: {fault}; `make test-devices` simulates one", file=sys.stderr)
        return 2
    print(describe("cuda"))
    return 0


def _ask(client: Any, question: str) -> Any:
    """Return what an expression gives in the kernel.

    Raises:
        RuntimeError: it failed there.
    """
    reply = client.execute(
        "", silent=True, user_expressions={"it": question}, reply=True, timeout=200
    )
    answer = reply["content"]["user_expressions"]["it"]
    if answer["status"] != "ok":
        raise RuntimeError(f"{question}: {answer['ename']}: {answer['evalue']}")
    return ast.literal_eval(answer["data"]["text/plain"])


if __name__ == "__main__":
    sys.exit(main())
