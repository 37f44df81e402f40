"""What was made of each chapter or page before, so that it is not made again.

It is made again if one of its files changed since then, or anything that all of them
share: the library, the tools, the settings, the pinned versions.
"""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.site.build import digest

SHARED = "attention_lib", "tools", "requirements.txt", "_config.yml"
WORDS = "book/words.toml", "book/words.own.toml"


class Kept:
    """A file with a hash for each chapter, and what was made of it, if that is short.

    Args:
        path: of that file; it need not exist.
        root: of the book's source.
        extra: what else all chapters share.
    """

    def __init__(self, path: Path, root: Path, extra: str = "") -> None:
        self.path, self.now = path, dict[str, list[Any]]()
        self.shared = extra + digest(root, *SHARED, *WORDS)
        self.before: dict[str, list[Any]] = {}
        if path.is_file():
            self.before = json.loads(path.read_text(encoding="utf-8"))

    def is_new(self, name: str, *files: Path) -> bool:
        """Return whether this chapter's files, or what is shared, have changed."""
        found = hashlib.sha256(self.shared.encode())
        for file in files:
            found.update(file.read_bytes() if file.is_file() else b"")
        before, now = self.before.get(name, [""]), found.hexdigest()
        self.now[name] = before if before[0] == now else [now]
        return self.now[name] is not before

    def value(self, name: str, make: Callable[[], Any], *files: Path) -> Any:
        """Return what `make` returned when the files were as they are; JSON has it."""
        if self.is_new(name, *files):
            self.now[name].append(make())
        return self.now[name][1]

    def write(self) -> None:
        """Keep it, once everything is made."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(f".{os.getpid()}")  # tests run side by side
        partial.write_text(json.dumps(self.now, indent=1), encoding="utf-8")
        partial.replace(self.path)
