"""Style, types, schemas and the safety of workflows: `make lint` runs this alone."""

import subprocess
import sys

from tools.chapters import ROOT


def test_linters_find_nothing() -> None:
    command = [sys.executable, "-m", "pre_commit", "run", "--all-files"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
