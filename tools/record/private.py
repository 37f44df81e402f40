"""What no text of the book may hold: traces of the machine and the person behind it.

Code, formulas, versions and examples must pass, so each pattern asks for a little more
than its bare form: a matrix product looks like a mail address, a slice like an IPv6.
"""

import getpass
import ipaddress
import re
import socket
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
ABSOLUTE_PATH = re.compile(
    r"(?<![\w.-])/(?:home|root|tmp|Users|usr|opt|var|private|mnt|workspaces?|Volumes)/"
    r"[\w./-]*"
    r"|\b[A-Z]:\\{1,2}(?:Users\b|[\w ]+\\)|\bfile:///\w"
)
# Two letters stand for a country. A name that goes on, or is called, is code.
MAIL = r"[\w.+-]+@(?:[\w-]+\.)+(?:[a-z]{2}|com|org|net|edu|gov|info|dev)(?![\w(-]|\.\w)"
TOKENS = (
    r"\bgh[pousr]_\w{30,}|\bgithub_pat_\w{22,}|\bglpat-[\w-]{20,}",  # GitHub, GitLab
    r"\bhf_[A-Za-z0-9]{30,}",  # Hugging Face
    r"\bsk-[\w-]{20,}|\bAIza[\w-]{35}",  # OpenAI and others, Google
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",  # Amazon
    r"\bxox[a-z]-[\w-]{10,}",  # Slack
    r"\bnpm_\w{36}|\bpypi-[\w-]{50,}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY",
    r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}",  # a JSON Web Token
    r"[?&]token=\w{16,}",  # the address that Jupyter prints
    r"://[^\s/:@]+:[^\s/@]+@",  # a password in an address
)
PATTERNS = {
    "an absolute path": ABSOLUTE_PATH,
    "a mail address": re.compile(MAIL),
    "an account on a machine": re.compile(r"\b[a-z_][\w.-]*@[a-z][\w.-]*:[~/]"),
    "a token": re.compile("|".join(TOKENS)),
    "a machine's name": re.compile(
        r"\b[\w-]+(?:\.[\w-]+)*\.(?:local|internal|lan|localdomain)(?![\w(-]|\.\w)"
    ),
    "a network card": re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.IGNORECASE),
}
EXAMPLE = re.compile(r"(?:^|[@.])(?:example\.(?:com|org|net)|users\.noreply\.[\w.]+)$")
LINK = re.compile(r"""\bhttps?://[^\s"'<>()\\]+""")
IPV4 = re.compile(r"(?<![\w.])(?<!==)(?<!>=)\d+(?:\.\d+){3}(?![\w.]*\d)")
IPV6 = re.compile(r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])")
# Names that many machines share: they tell nothing.
SHARED = {"admin", "debian", "docker", "jovyan", "localhost", "runner", "ubuntu"}
SHORTEST = 5  # a shorter name of an account, such as "max", may be a word of the book


def details(text: str) -> list[str]:
    """Return what a text gives away, each with its kind."""
    found = [
        (kind, match[0])
        for kind, pattern in PATTERNS.items()
        for match in pattern.finditer(text)
        if not EXAMPLE.search(match[0])
    ]
    found += [("a machine's address", address) for address in _addresses(text)]
    found += [
        (kind, name)
        for name, kind in own_names().items()
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
    ]
    return [f"{kind}: {what!r}" for kind, what in found]


@cache
def own_names() -> dict[str, str]:
    """Return the names that would give this machine and its user away."""
    named = {str(ROOT): "an absolute path", str(Path.home()): "an absolute path"}
    named[tempfile.gettempdir()] = "an absolute path"
    people = {Path.home().name, _user()}
    names = dict.fromkeys(people, "an account's name")
    names[socket.gethostname()] = "a machine's name"
    long = {name: kind for name, kind in names.items() if len(name) >= SHORTEST}
    paths = {path: kind for path, kind in named.items() if path.count("/") > 1}
    return paths | {name: it for name, it in long.items() if name not in SHARED}


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # an account without a name, as containers have
        return ""


def _addresses(text: str) -> Iterator[str]:
    """Yield numbers and links that lead to one machine, but not an example's."""
    for link in LINK.findall(text):
        parts = urlsplit(link)
        host = parts.hostname or ""
        harmless = host in {"localhost", "127.0.0.1", "0.0.0.0"} or EXAMPLE.search(host)
        if not harmless and (parts.port or "." not in host or _tells(host)):
            yield link
    for match in IPV4.finditer(LINK.sub("", text)):
        # Versions may have four numbers, but begin low: 1.0.4.1.
        if int(match[0].split(".")[0]) > 9 and _tells(match[0]):
            yield match[0]
    for match in IPV6.finditer(LINK.sub("", text)):
        # Not a slice, nor a time: three groups, one of them long.
        groups = sorted(map(len, filter(None, match[0].split(":"))))
        if len(groups) > 2 and groups[-1] > 2 and _tells(match[0]):
            yield match[0]


def _tells(address: str) -> bool:
    """Say whether an address is one, and neither this machine's nor an example."""
    try:
        it = ipaddress.ip_address(address)
    except ValueError:
        return False
    examples = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
    if any(it in ipaddress.ip_network(example) for example in examples):
        return False
    return not (it.is_loopback or it.is_unspecified or it.is_multicast)
