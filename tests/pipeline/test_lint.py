"""Style, types, schemas and the safety of workflows: `make check` runs this alone."""

import sys

import pytest

from tests.running import ran

LIMIT = 900  # seconds; an idle machine needs one half minute


@pytest.mark.timeout(LIMIT + 60)
def test_linters_find_nothing(change):
    files = ["--files", *change.files] if change else ["--all-files"]
    command = [sys.executable, "-m", "pre_commit", "run", *files]
    done = ran(command, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
