"""The set-up cell of each copy: all that follows this text, in a file that is checked.

`tools.export.copies` fills in three values. The cell stands alone; learners read it.
"""

# @title Set-up: run this cell first
# Does nothing where `attention_lib` can be imported. Otherwise it fetches the book's
# code into a folder beside this notebook, for you to read and edit, and installs what
# is missing. What is installed already stays as it is.
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ADDRESS = ""
COMMIT = ""
NEEDS = [""]


class SetUpError(Exception):
    def _render_traceback_(self) -> list[str]:  # the words, and no traceback
        return [
            f"Set-up stopped: {self}",
            f"- Is this machine online, and does {ADDRESS} open in a browser?",
            "  Then run this cell again.",
            "- Is the commit gone? Open the chapter anew from the book's page.",
            "Meanwhile you can read on: the outputs below were recorded.",
        ]


def run(*command: str | Path) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetUpError(str(error)) from None
    if done.returncode:
        lines = done.stderr.splitlines() or [f"{command[0]} failed"]
        causes = [line for line in lines if line.startswith(("fatal", "ERROR"))]
        raise SetUpError((causes or lines)[0])
    return done.stdout


def set_up() -> None:
    missing = [need for need in NEEDS if not find_spec(need.split(">")[0])]
    folder = Path(f"attention-book-{COMMIT[:8]}").resolve()
    source = "fetched before" if folder.exists() else f"fetching it from {ADDRESS}"
    pip = f"; pip installs {', '.join(missing)}" if missing else ""
    print(f"Set-up: attention_lib from the folder {folder.name}, {source}{pip}")
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


if not find_spec("attention_lib"):
    set_up()
