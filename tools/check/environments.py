"""Make the Python environments of other machines, to run the chapters in them.

Each holds a kernel and what `attention_lib` needs, but neither the library nor anything
else of this book. `variations.toml` says what stands in them. uv makes them in
`.environments`, once.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("variations.toml").read_text(encoding="utf-8")
)


class UnfitError(Exception):
    """This machine cannot do it; the text says why, in one line."""


def environment(name: str, root: Path = ROOT) -> Path:
    """Return the interpreter of an environment, which is made where it is missing.

    Raises UnfitError where an interpreter or a package cannot be had here.
    """
    home = root / ".environments" / name
    python, ready = home / "bin/python", home / ".ready"
    files = [root / "pyproject.toml", root / "requirements.txt"]
    wanted = "\n".join([str(TABLE[name]), *(file.read_text("utf-8") for file in files)])
    if ready.is_file() and ready.read_text(encoding="utf-8") == wanted:
        return python
    print(f"{name}: installing, a few minutes the first time", flush=True)
    _uv(root, "venv", "--clear", "--python", TABLE[name]["python"], str(home))
    install = ("pip", "install", "--python", str(python), *TABLE[name]["packages"])
    try:  # PyTorch's own builds without CUDA are smaller by gigabytes
        _uv(root, *install, "--torch-backend", "cpu")
    except UnfitError:
        _uv(root, *install)
    ready.write_text(wanted, encoding="utf-8")
    return python


def _uv(root: Path, *arguments: str) -> None:
    """Run uv without this project's settings, or raise UnfitError with its words."""
    # pyenv's stand-ins on the path answer only for the versions that it is set to.
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    path = [os.environ["PATH"], *map(str, pyenv.glob("versions/3.1[1-9].*/bin"))]
    done = subprocess.run(
        [sys.executable, "-m", "uv", "--quiet", "--no-config", *arguments],
        capture_output=True,
        text=True,
        cwd=root,
        env=os.environ | {"PATH": os.pathsep.join(path)},
        timeout=3600,
    )
    if done.returncode:
        raise UnfitError(" ".join(done.stderr.split()) or "uv failed")
