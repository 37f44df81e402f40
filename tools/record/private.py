"""A text in; what it reveals of the machine and the person behind it out.

Code and formulas must pass: a matrix product looks like a mail address.
"""

import os
import re
import socket
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATTERNS = {
    "an absolute path": re.compile(
        r"(?<![\w.-])/(?:home|root|tmp|Users|usr|opt|var|private|mnt|workspaces?|"
        r"Volumes)/[\w./-]*|\b[A-Z]:\\{1,2}(?:Users\b|[\w ]+\\)|\bfile:///\w"
    ),
    # Two letters stand for a country. A name that goes on, or is called, is code.
    "a mail address": re.compile(
        r"[\w.+-]+@(?!example\.|users\.noreply\.)(?:[\w-]+\.)+"
        r"(?:[a-z]{2}|com|org|net|edu|gov|info|dev)(?![\w(-]|\.\w)"
    ),
    # Of GitHub, Hugging Face, OpenAI, Amazon; a key, Jupyter's address, a password.
    "a token": re.compile(
        r"\bgh[pousr]_\w{30,}|\bgithub_pat_\w{22,}|\bhf_\w{30,}|\bsk-[\w-]{20,}"
        r"|\bAKIA[A-Z0-9]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY|[?&]token=\w{16,}"
        r"|://[^\s/:@]+:[^\s/@]+@"
    ),
}
# Names that many machines share tell nothing; nor does one as short as a word.
SHARED = {"admin", "debian", "docker", "jovyan", "localhost", "runner", "ubuntu"}


def details(text: str) -> list[str]:
    """Return what a text reveals, each with its kind."""
    return [
        f"{kind}: {match[0]!r}"
        for kind, pattern in (PATTERNS | own_names()).items()
        for match in pattern.finditer(text)
    ]


@cache
def own_names() -> dict[str, re.Pattern[str]]:
    """Return a pattern of names that would reveal this machine or its user."""
    user = os.environ.get("USER", "")
    names = {user, Path.home().name, socket.gethostname()} - SHARED
    paths = {str(ROOT), str(Path.home()), tempfile.gettempdir()}
    found = {name for name in names if len(name) > 4}
    found |= {path for path in paths if path.count("/") > 1}
    either = "|".join(map(re.escape, sorted(found))) or "(?!)"
    return {"a name of this machine": re.compile(rf"(?<!\w)(?:{either})(?!\w)")}
