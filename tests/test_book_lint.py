"""Style, types, schemas and the safety of workflows: `make lint` runs this alone."""

import sys

from tests.running import ran


def test_linters_find_nothing(change):
    files = ["--files", *change.files] if change else ["--all-files"]
    command = [sys.executable, "-m", "pre_commit", "run", *files]
    done = ran(command, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
