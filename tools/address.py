"""Where the repository is, for links to it: each fork has its own, without settings."""

import os
import re
import subprocess
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

from tools.running import run
from tools.words import say

BRANCH = "colab"  # holds the copies of the notebooks, and nothing else
COLAB = "https://colab.research.google.com/github"
# What git takes besides a URL: git@host:owner/repo.git
SHORT = re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]{2,}):(?P<path>[^/\\].*)")


def repository_address(root: Path) -> str | None:
    """Return the address under which people find the repository, or None.

    CI says it in its environment; elsewhere it is the remote `origin`. Where the book
    is only a folder of another repository, that one's address would mislead.
    """
    name = os.environ.get("GITHUB_REPOSITORY")
    if name:
        server = os.environ.get("GITHUB_SERVER_URL") or "https://github.com"
        return plain_address(f"{server}/{name}")
    return _origin(root)


@cache  # a build asks ten times, and git answers in a process of its own
def _origin(root: Path) -> str | None:
    """Return the address of the remote `origin`, or None."""
    try:
        if Path(git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return None
        return plain_address(git(root, "remote", "get-url", "origin"))
    except (OSError, subprocess.SubprocessError):
        return None


def plain_address(remote: str) -> str | None:
    """Return a git address as a browser opens it, without tokens, or None."""
    short = SHORT.fullmatch(remote) if "://" not in remote else None
    parts = urlsplit(f"ssh://{short['host']}/{short['path']}" if short else remote)
    path = parts.path.strip("/").removesuffix(".git")
    if not parts.hostname or not path or parts.scheme == "file":
        return None
    web = parts.scheme in {"http", "https"}
    # A port of ssh says nothing about the pages' port.
    host = f"{parts.hostname}:{parts.port}" if web and parts.port else parts.hostname
    return f"{parts.scheme if web else 'https'}://{host}/{path}"


def github_name(address: str | None) -> str | None:
    """Return `owner/name` of a repository on GitHub, or None."""
    parts = urlsplit(address or "")
    name = parts.path.strip("/")
    return name if parts.hostname == "github.com" and name.count("/") == 1 else None


def colab_folder(address: str | None) -> str | None:
    """Return where Colab opens the copies, or None: it opens those of GitHub only."""
    name = github_name(address)
    if not name:
        return None
    return f"{COLAB}/{name}/blob/{BRANCH}/{say('edition.folder')}".rstrip("/")


def page_links(address: str | None, source: str, title: str) -> dict[str, str]:
    """Return where a reader edits a page and reports a mistake in it, if on GitHub."""
    if not github_name(address):
        return {}
    fields = {"title": f"{title}: ", "body": say("report.body", source=source)}
    return {
        "edit": f"{address}/edit/main/{quote(source)}",
        "report": f"{address}/issues/new?{urlencode(fields, quote_via=quote)}",
    }


def site_address(address: str | None) -> str | None:
    """Return where the published pages are, with a last slash, or None."""
    if own := os.environ.get("BOOK_SITE"):
        return own.rstrip("/") + "/"
    owner, _, name = (github_name(address) or "").partition("/")
    if not name:
        return None
    host = f"https://{owner.lower()}.github.io/"
    return host if name.lower() == f"{owner.lower()}.github.io" else f"{host}{name}/"


def git(root: Path, *arguments: str) -> str:
    """Return git's output, without the last newline."""
    done = run(["git", *arguments], limit=60, check=True, cwd=root)
    return done.stdout.rstrip("\n")
