"""How far a build is, in a few lines, while Sphinx's output goes into a file."""

import sys
from collections.abc import Iterator
from typing import Any

from tools.site.hooks import when_built

LINES = 4  # about reading the pages, and as many about writing them


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    if sys.stdout is sys.__stdout__:  # Sphinx's own lines are seen
        return
    steps: dict[str, Iterator[None]] = {}

    def begin(app: Any, env: Any, names: list[str]) -> None:
        chapters = sum(name.startswith("chapters/") for name in names)
        if names:
            others = len(names) - chapters
            show(
                f"Building {chapters} chapters and {others} other pages: a few minutes "
                "for all (Sphinx's own log: _build/site.log)"
            )
        steps.update((it, counted(it, len(names))) for it in ("read", "written"))

    app.connect("env-before-read-docs", begin)
    app.connect("doctree-read", lambda *_: next(steps["read"], None))
    app.connect("html-page-context", lambda *_: next(steps["written"], None))
    when_built(app, lambda _: show("Finishing: search, links, fonts"), priority=1)


def counted(done: str, total: int) -> Iterator[None]:
    """Print how many pages are done, for every further part of them."""
    for number in range(1, total + 1):
        if number * LINES // total > (number - 1) * LINES // total:
            show(f"  {number} of {total} pages {done}")
        yield


def show(line: str) -> None:
    """Print a line at once, past the file that takes Sphinx's output."""
    print(line, file=sys.__stdout__, flush=True)
