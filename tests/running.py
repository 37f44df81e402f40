"""Running a command as a test does, and reading the samples that tests work on."""

import importlib.util
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def ran(command, *, cwd=ROOT, timeout=250, **options):
    """What a command left: ``returncode``, ``stdout`` and ``stderr``."""
    given = {"cwd": cwd, "timeout": timeout, **options}
    return subprocess.run(command, capture_output=True, text=True, **given)


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
