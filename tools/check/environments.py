"""Make the Python environments of other machines, to run the chapters in them.

Run as `python -m tools.check.environments [NAME ...]`. Each holds a kernel and what
`attention_lib` needs, but neither the library nor anything else of this book.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ".environments"
# What the library needs comes from pyproject.toml; the kernel that runs a chapter,
# and what draws in it, from here.
KERNEL = "ipykernel>=6.29"
PINS = ("-r", "pyproject.toml", "-c", "requirements.txt", KERNEL)


@dataclass(frozen=True)
class Recipe:
    """How an environment is made.

    Attributes:
        python: the version of the interpreter.
        packages: what `uv pip install` is asked for.
        what: a few words for people.
    """

    python: str
    packages: tuple[str, ...]
    what: str


RECIPES = {
    "python-3.11": Recipe("3.11", PINS, "Python 3.11, the pinned versions"),
    "python-3.12": Recipe("3.12", PINS, "Python 3.12, the pinned versions"),
    "python-3.13": Recipe("3.13", PINS, "Python 3.13, the pinned versions"),
    "oldest": Recipe(
        "3.11",
        ("--resolution", "lowest-direct", "-r", "pyproject.toml", KERNEL),
        "the oldest versions that pyproject.toml allows",
    ),
    # Google announces what Colab holds; these are its versions of autumn 2026. Its
    # kernel is older than any other that the book meets.
    "colab": Recipe(
        "3.13",
        (
            *("torch==2.11.*", "numpy==2.1.*", "matplotlib==3.10.*"),
            *("ipython==7.34.*", "ipykernel==6.17.*", "setuptools<80", "pip"),
            *("safetensors", "tokenizers", "tqdm"),
        ),
        "versions near Colab's",
    ),
}


class UnavailableError(Exception):
    """This machine cannot make an environment; the text says why, in one line."""


def environment(name: str, root: Path = ROOT) -> Path:
    """Return the interpreter of an environment, which is made where it is missing.

    Raises:
        ValueError: no environment has that name.
        UnavailableError: an interpreter or a package cannot be had here.
    """
    if name not in RECIPES:
        raise ValueError(f"{name} is no environment: choose from {', '.join(RECIPES)}")
    recipe, home = RECIPES[name], root / FOLDER / name
    python, ready = home / "bin/python", home / ".ready"
    wanted = _digest(recipe, root)
    if ready.is_file() and ready.read_text(encoding="utf-8") == wanted:
        return python
    print(f"{name}: installing {recipe.what}, a few minutes the first time", flush=True)
    shutil.rmtree(home, ignore_errors=True)
    base = find_python(recipe.python) or recipe.python
    _uv(root, "venv", "--quiet", "--python", str(base), str(home))
    install = ("pip", "install", "--quiet", "--python", str(python))
    try:  # PyTorch's own builds without CUDA are smaller by gigabytes
        _uv(root, *install, "--torch-backend", "cpu", *recipe.packages)
    except UnavailableError:
        _uv(root, *install, *recipe.packages)
    ready.write_text(wanted, encoding="utf-8")
    return python


def find_python(version: str) -> Path | None:
    """Return an interpreter of a version on this machine, or None.

    pyenv's stand-ins on the path answer only for the versions it is set to, so its own
    folders are looked into as well.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [shutil.which(f"python{version}"), sys.executable]
    found += map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python")))
    return next((Path(path) for path in found if path and _is(path, version)), None)


def versions(python: Path, packages: tuple[str, ...]) -> dict[str, str]:
    """Return the version of an interpreter and of some of its packages."""
    code = (
        "import platform, importlib.metadata as m\n"
        "print('python', platform.python_version())\n"
        f"for name in {packages!r}: print(name, m.version(name))"
    )
    done = subprocess.run(
        [str(python), "-c", code], check=True, capture_output=True, text=True
    )
    return dict(line.split() for line in done.stdout.splitlines())


def _is(python: str, version: str) -> bool:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run(
        [python, "-c", code], check=False, capture_output=True, text=True
    )
    return done.stdout.strip() == version


def _digest(recipe: Recipe, root: Path) -> str:
    """Return one hash of what an environment is made from."""
    parts = [repr(recipe), (root / "pyproject.toml").read_text(encoding="utf-8")]
    if recipe.packages == PINS:
        parts.append((root / "requirements.txt").read_text(encoding="utf-8"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _uv(root: Path, *arguments: str) -> None:
    """Run uv, without this project's own settings for it.

    Raises:
        UnavailableError: uv failed; its last line says why.
    """
    command = [sys.executable, "-m", "uv", *arguments, "--no-config"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=root
    )
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise UnavailableError(lines[-1] if lines else f"uv ended {done.returncode}")


def main() -> int:
    """Make environments, all by default, and return the command's exit status."""
    status = 0
    for name in sys.argv[1:] or RECIPES:
        try:
            print(f"{name}: {environment(name)}")
        except (ValueError, UnavailableError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
