"""Style, types, schemas and the safety of workflows: `make check` runs this alone."""

import subprocess
import sys
import time

import pytest

from tests.running import ran

LIMIT = 900  # seconds; an idle machine needs one half minute


@pytest.mark.timeout(LIMIT + 60)
def test_linters_find_nothing(change):
    files = ["--files", *change.files] if change else ["--all-files"]
    command = [sys.executable, "-m", "pre_commit", "run", *files]
    done = ran(command, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_passes_its_limit_leaves_nothing_behind(tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        ran(["sh", "-c", "(sleep 1; touch late) & wait"], cwd=tmp_path, timeout=0.3)
    time.sleep(1.5)
    assert [*tmp_path.iterdir()] == []
