"""Name each function of the library that no test runs, from a report of coverage.

Run as `python -m tests.untested reports/coverage.json`, after `make check`: in the
total, a function of ten lines does not show.
"""

import json
import sys
from pathlib import Path

# A browser takes these pictures, in a process of its own.
ELSEWHERE = ("attention_lib/course/views/snapshots.py",)


def untested(report):
    """Return the functions of which no line was run, each by its file and name."""
    return [
        f"{file}: {name}"
        for file, found in report["files"].items()
        for name, part in found["functions"].items()
        if name and part["missing_lines"] and not part["executed_lines"]
        if file not in ELSEWHERE
    ]


def main(path):
    """Print them, and return the exit status."""
    found = untested(json.loads(Path(path).read_text(encoding="utf-8")))
    print("\n".join(f"no test runs it: {it}" for it in found) or "all functions ran")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
