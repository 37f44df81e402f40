"""What a build made of each chapter before, so that it is not made again.

A chapter is new if one of its files changed since then, or anything that all chapters
share: the library, the tools, the pinned versions.
"""

import hashlib
import json
from pathlib import Path

from tools.site.build import digest

SHARED = "attention_lib", "tools", "requirements.txt", "_config.yml"


class Kept:
    """A file with one hash for each chapter.

    Args:
        path: of that file; it need not exist.
        root: of the book's source.
        extra: what else all chapters share.
    """

    def __init__(self, path: Path, root: Path, extra: str = "") -> None:
        self.path, self.now = path, dict[str, str]()
        self.shared = extra + "".join(digest(root, name) for name in SHARED)
        self.before: dict[str, str] = {}
        if path.is_file():
            self.before = json.loads(path.read_text(encoding="utf-8"))

    def is_new(self, name: str, *files: Path) -> bool:
        """Return whether this chapter's files, or what is shared, have changed."""
        found = hashlib.sha256(self.shared.encode())
        for file in files:
            found.update(file.read_bytes() if file.is_file() else b"")
        self.now[name] = found.hexdigest()
        return self.now[name] != self.before.get(name)

    def write(self) -> None:
        """Keep the hashes, once everything is made."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.now, indent=1), encoding="utf-8")
