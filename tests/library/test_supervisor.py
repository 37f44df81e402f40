"""What a supervisor runs ends: with its command, at its limit, or with its starter."""

import os
import signal
import subprocess
import sys
import time

import pytest

from attention_lib._supervisor import _mark, family
from tests.running import ROOT, left_alive, ran
from tools.running import run

LEAVES = [sys.executable, str(ROOT / "tests/samples/leaves.py")]
# Someone who waits for it, and can be killed.
STARTER = """
import signal, sys
# A shell's background jobs, and all that they start, ignore Ctrl+C.
signal.signal(signal.SIGINT, signal.default_int_handler)
from tests.running import ran
ran(sys.argv[1:])
"""


DAEMON = """
import os, sys, time
if not os.fork():
    os.setsid()
    if not os.fork():
        print(os.getpid(), flush=True)
        time.sleep(300)
    os._exit(0)
os.wait()
time.sleep(300)
"""


@pytest.fixture
def pids(tmp_path, monkeypatch):
    monkeypatch.setenv("PIDS", str(tmp_path))
    monkeypatch.setenv("STAYS", "300")
    return tmp_path


def test_what_a_command_left_behind_ends_with_it(pids, monkeypatch):
    monkeypatch.setenv("STAYS", "0")
    start = time.monotonic()
    assert ran(LEAVES).returncode == 0
    assert time.monotonic() - start < 60
    assert left_alive(pids) == (4, [])


def test_what_passes_its_limit_leaves_nothing_behind(pids):
    start = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        ran(LEAVES, timeout=5)
    assert time.monotonic() - start < 60
    assert left_alive(pids) == (4, [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_was_started_ends_with_its_starter(pids, number):
    command = [sys.executable, "-c", STARTER, *LEAVES]
    starter = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    while len([*pids.glob("*/*")]) < 4 and starter.poll() is None:
        time.sleep(0.05)
    starter.send_signal(number)
    assert starter.wait(60) == -number
    assert left_alive(pids) == (4, [])


@pytest.mark.skipif(sys.platform != "linux", reason="shows what Linux does not need")
def test_family_is_known_by_its_mark_where_lost_children_go_elsewhere(
    tmp_path, monkeypatch
):
    (tmp_path / "ps").write_text('#!/bin/sh\nshift\nexec /usr/bin/ps axeww "$@"\n')
    (tmp_path / "ps").chmod(0o755)  # it shows environments, as that of macOS does by -E
    command = [sys.executable, "-S", "-c", DAEMON]
    how = {"stdout": subprocess.PIPE, "env": {_mark(): "1"}, "text": True}
    with subprocess.Popen(command, **how) as child:
        daemon = int(child.stdout.readline())
        try:
            assert family() >= {child.pid}
            assert daemon not in family()
            monkeypatch.setenv("PATH", str(tmp_path))
            monkeypatch.setattr(sys, "platform", "darwin")
            assert {child.pid, daemon} <= family()
        finally:
            monkeypatch.undo()
            os.kill(daemon, signal.SIGKILL)
            child.kill()
    assert child.pid not in family()


def test_run_is_like_that_of_subprocess():
    done = run(["sh", "-c", "cat; echo no >&2; exit 3"], limit=60, input="yes")
    assert (done.returncode, done.stdout, done.stderr) == (3, "yes", "no\n")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(["sh", "-c", "echo why >&2; kill -9 $$"], limit=60, check=True)
    assert (caught.value.returncode, caught.value.stderr) == (137, "why\n")
    with pytest.raises(OSError, match="No such file or directory: 'nothing-of-that'"):
        run(["nothing-of-that"], limit=60)
