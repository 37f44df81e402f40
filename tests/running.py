"""Running a command as a test does, and reading the samples that tests work on."""

import importlib.util
import os
import signal
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def ran(command, *, cwd=ROOT, input=None, timeout=250, check=False, **options):
    """What a command left: ``returncode``, ``stdout`` and ``stderr``.

    Past a limit, its own or the test's, it ends with all that it started.
    """
    pipes = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.PIPE)
    options |= pipes | {"cwd": cwd, "text": True, "start_new_session": True}
    with subprocess.Popen(command, **options) as process:
        try:
            said = process.communicate(input, timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    done = subprocess.CompletedProcess(command, process.returncode, *said)
    if check:
        done.check_returncode()
    return done


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
