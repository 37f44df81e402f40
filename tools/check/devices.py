"""Run every notebook on another device, real or pretended: a plugin for pytest.

Run as `ATTENTION_DEVICE=cuda python -m pytest -p tools.check.compare -p
tools.check.devices --nbval
notebooks`, or with `pretend` (`tools/check/pretend.py`). The records are the CPU's.

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

FOLDER = Path("_build", "devices", "ipython")
FINDINGS = "__import__('tools.check.placement').gpu.placement.findings"
# IPython runs this in each kernel before the first cell. It leaves no name behind.
START = """\
if __import__("os").environ["ATTENTION_DEVICE"] == "pretend":
    __import__("tools.check.pretend").gpu.pretend.install()
__import__("tools.check.placement").gpu.placement.watch(get_ipython())
"""
LAST = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Have each kernel load what watches it, and the pretended device."""
    if os.environ.get("ATTENTION_DEVICE", "") in ("", "cpu"):
        raise pytest.UsageError("set ATTENTION_DEVICE to `cuda` or `pretend`")
    if hasattr(config, "workerinput"):
        return  # the environment is inherited
    home = config.rootpath / FOLDER
    file = home / "profile_default" / "startup" / "00-device.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(START, encoding="utf-8")
    os.environ["IPYTHONDIR"] = str(home)


def pytest_report_header() -> str:
    """Say on what the chapters run."""
    return f"device: {describe(os.environ['ATTENTION_DEVICE'])}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the last cell of each notebook that is run."""
    ran = [i for i in items if isinstance(i, IPyNbCell) and not skipped(i.cell)]
    for item in {item.parent: item for item in ran}.values():
        item.stash[LAST] = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail the last cell if a module of the chapter was on another device."""
    result = yield
    if item.stash.get(LAST, False):
        found = _ask(item.parent.kernel.kc)  # type: ignore[union-attr]
        if found is None:
            fault, lines = "its kernel did not look at its modules", "no IPYTHONDIR?"
        else:
            fault, lines = "its modules are not all on the device", "\n".join(found)
        if found != []:
            item.raise_cell_error(fault, lines)  # type: ignore[attr-defined]
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

    driver = Path("/proc/driver/nvidia/version").exists()
    if torch.cuda.is_available():
        try:
            torch.ones(2, 2, device="cuda").mm(torch.ones(2, 2, device="cuda")).cpu()
        except RuntimeError as error:
            return f"the GPU refuses to compute ({str(error).splitlines()[0]})"
        return ""
    if not driver:
        return "no NVIDIA driver is found"
    if torch.version.cuda is None:
        return f"torch {torch.__version__} has no CUDA: remove .venv and set up again"
    return (
        f"torch {torch.__version__} finds no GPU: its CUDA may be newer than the driver"
    )


def main() -> int:
    """Describe the GPU, or say in one line why there is none."""
    fault = missing()
    if fault:
        print(f"test-gpu: {fault}; `make test-devices` simulates one", file=sys.stderr)
        return 2
    print(describe("cuda"))
    return 0


def _ask(client: Any) -> list[str] | None:
    """Return what the kernel found, or None if it did not look."""
    reply = client.execute(
        "", silent=True, user_expressions={"found": FINDINGS}, reply=True, timeout=60
    )
    answer = reply["content"]["user_expressions"]["found"]
    if answer["status"] != "ok":
        return None
    return list(ast.literal_eval(answer["data"]["text/plain"]))


if __name__ == "__main__":
    sys.exit(main())
