"""A browser for the tests of the pages: the machine's own, or Playwright's."""

import shutil
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The same with and without a network: nothing but this machine is found.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


def browser_path(playwright: Any) -> str:
    """Return where a browser is."""
    own = Path(playwright.chromium.executable_path)
    return next(filter(None, map(shutil.which, NAMES)), None) or str(own)
