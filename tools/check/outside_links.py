"""Visit every link that leaves the book, by Sphinx's own link checker."""

import json
import shutil
import sys
from pathlib import Path

from tools.running import run

FOLDER = Path("_build/links")
CHECK = ("build", ".", "-q", "--builder=linkcheck", f"--path-output={FOLDER}")
LIMIT = 3600  # seconds; each link has a limit of its own
# What a host says to a program but not to a reader: no entry, or not now.
SHUT = ("401", "403", "405", "406", "418", "429", "500", "502", "503", "504")


def main() -> int:
    """Return 1 if a link is certainly dead; hosts that refuse programs do not count."""
    shutil.rmtree(FOLDER, ignore_errors=True)  # links of a page already read stay out
    book = Path(sys.executable).with_name("jupyter-book")
    run([book, *CHECK], limit=LIMIT, stdout=None, stderr=None)
    said = FOLDER / "_build/html/output.json"  # not there if a page could not be read
    read = [json.loads(line) for line in said.read_text().splitlines()]
    links = [link for link in read if link["uri"].startswith("http")]
    broken = [link for link in links if link["status"] == "broken"]
    dead = [link for link in broken if not link["info"].startswith(SHUT)]
    for it in dead:
        print(f"dead: {it['filename']}:{it['lineno']}: {it['uri']}: {it['info']}")
    print(f"{len(links)} links: {len(dead)} dead, {len(broken) - len(dead)} kept shut")
    return 1 if dead or not links else 0


if __name__ == "__main__":
    sys.exit(main())
