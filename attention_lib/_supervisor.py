"""Run commands that end within a limit and leave no process behind.

`run` puts this file, as a separate process, between a command and its starter. A
signal to a group misses a child that opened a new session; the supervisor finds all of
them, even after its starter was killed. It needs the standard library only: read by its
path it starts in a moment, while importing the package takes seconds.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

_OVER, _NOT_STARTED = 124, 125  # exit statuses, as of the program `timeout`
_SET_CHILD_SUBREAPER = 36  # an option of Linux's prctl
_GRACE = 30.0  # seconds: a supervisor needs less than one, on an idle machine


def supervised(command: Sequence[str | Path], limit: float) -> list[str]:
    """Return the command line that runs a command under a supervisor.

    The supervisor ends everything that came from the command when the command ends,
    when the limit in seconds has passed, when this process is gone, and on SIGTERM.
    """
    start = [sys.executable, "-I", "-S", str(Path(__file__).resolve())]
    return [*start, f"{limit}", f"{os.getpid()}", *map(str, command)]


def run(
    command: Sequence[str | Path],
    *,
    limit: float,
    check: bool = False,
    input: str = "",
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command like `subprocess.run`, and leave no process of it behind.

    Args:
        command: the program and its arguments.
        limit: seconds, after which everything that the command started is killed.
        check: whether an exit status other than 0 is an error.
        input: what the command reads.
        options: as of `subprocess.Popen`; None for an output shows it.

    Raises:
        OSError: the command cannot be started.
        TimeoutExpired: the limit has passed.
        CalledProcessError: the exit status is not 0, and `check` is set.
    """
    with ExitStack() as stack:
        # Files, because a pipe is read until the last process that holds it ends.
        how: Any = {"mode": "w+", "encoding": "utf-8", "errors": "replace"}
        files = [stack.enter_context(TemporaryFile(**how)) for _ in range(3)]
        files[0].write(input)
        files[0].seek(0)
        options = dict(zip(("stdin", "stdout", "stderr"), files, strict=True)) | options
        status = _status(supervised(command, limit), limit, options)
        for file in files:
            file.seek(0)
        _, output, errors = (file.read() for file in files)
    if status == _OVER:
        raise subprocess.TimeoutExpired(command, limit, output, errors)
    if status == _NOT_STARTED:
        raise OSError(errors.strip() or f"{command[0]} cannot be started")
    done = subprocess.CompletedProcess(command, status, output, errors)
    if check:
        done.check_returncode()
    return done


def _status(command: list[str], limit: float, options: dict[str, Any]) -> int:
    """Wait for a supervisor, and end it if the wait is interrupted."""
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        return process.wait(limit + _GRACE)
    finally:
        process.terminate()
        process.wait(_GRACE)


def supervise(command: Sequence[str], limit: float, starter: int) -> int:
    """Run a command in this process's care, and return its exit status."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if sys.platform == "linux":  # a child whose parent has ended becomes ours
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    deadline = time.monotonic() + limit
    try:
        child = subprocess.Popen(command, env=os.environ | {_mark(): "1"})
        while (status := child.poll()) is None and os.getppid() == starter:
            if time.monotonic() > deadline:
                return _OVER
            time.sleep(0.01)
        return 128 - status if status and status < 0 else status or 0
    except OSError as error:
        print(error, file=sys.stderr)
        return _NOT_STARTED
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_family(time.monotonic() + _GRACE / 2)


def _end_family(deadline: float) -> None:
    """Kill all descendants of this process, until none is left to start another."""
    while time.monotonic() < deadline:
        for pid in (descendants := family()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # no child, so on Linux no child of a child either
            if not descendants:
                return
        time.sleep(0.01)


def family() -> set[int]:
    """Return the ids of all descendants of this process."""
    parents, known = _parents(), {os.getpid()}
    while more := {it for it, parent in parents.items() if parent in known} - known:
        known |= more
    return known - {os.getpid()}


def _parents() -> dict[int, int]:
    """Return the parent of each process on this machine."""
    parents = {}
    if sys.platform == "linux":
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended
                words = path.read_text(errors="replace").rpartition(")")[2].split()
                parents[int(path.parent.name)] = int(words[1])
        return parents
    # Elsewhere, an orphan is recognised by our mark in its environment.
    command = ["ps", "-AEww", "-o", "pid=", "-o", "ppid=", "-o", "command="]
    ps = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in ps.communicate()[0].splitlines():
        pid, parent, *words = line.split()
        parents[int(pid)] = os.getpid() if f"{_mark()}=1" in words else int(parent)
    parents.pop(ps.pid, None)
    return parents


def _mark() -> str:
    """Return the environment variable that marks this process's descendants."""
    return f"ATTENTION_SUPERVISOR_{os.getpid()}"


if __name__ == "__main__":
    limit, starter, *command = sys.argv[1:]
    sys.exit(supervise(command, float(limit), int(starter)))
