"""Running a command as a test does, and reading the samples that tests work on."""

import importlib.util
import os
import signal
import time
from pathlib import Path

# In this form: `make test CHANGED=1` would else take each test to use all of them.
from tools import running

ROOT = Path(__file__).resolve().parents[1]


def ran(command, *, cwd=ROOT, timeout=250, **options):
    """What a command left: ``returncode``, ``stdout`` and ``stderr``.

    Past a limit, its own or the test's, it ends with all that it started.
    """
    return running.run(command, limit=timeout, cwd=cwd, **options)


def git(folder, *command):
    """What git says in a folder."""
    return ran(["git", *command], cwd=folder, check=True).stdout.strip()


def written(root, files):
    """A folder that holds these files: their texts, by name."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def fresh_tqdm():
    """tqdm as its variables are set now: it reads them when it is imported."""
    spec = importlib.util.find_spec("tqdm.std")
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    return fresh.tqdm


def sample(name):
    """The text of a file in ``tests/samples``."""
    return (ROOT / "tests/samples" / name).read_text(encoding="utf-8")


def left_alive(folder, patience=10.0):
    """How many processes `samples/leaves.py` noted there; which stay, and end here."""
    pids = [int(path.name) for path in folder.glob("*/*")]
    alive, until = pids, time.monotonic() + patience
    while alive and time.monotonic() < until:
        alive = [pid for pid in alive if _is_alive(pid)]
        time.sleep(0.05)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    return len(pids), alive


def _is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
