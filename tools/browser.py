"""A browser for tools that need one: the machine's, or else Playwright's download."""

import shutil
from pathlib import Path
from typing import Any

# The shell has no windows, only pages: one opens in a third of the time.
SHELL = "chromium-headless-shell"
NAMES = (SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# On macOS and Windows, browsers are on no path.
FOLDERS = ("/Applications", "C:/Program Files", "C:/Program Files (x86)")
IN_FOLDERS = (
    "Google Chrome.app/Contents/MacOS/Google Chrome",
    "Chromium.app/Contents/MacOS/Chromium",
    "Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "Google/Chrome/Application/chrome.exe",
    "Microsoft/Edge/Application/msedge.exe",
)
NO_BROWSER = (
    "no browser: install Debian's `chromium`, or run "
    "`.venv/bin/playwright install chromium`"
)
# The same result with and without a network: nothing but this machine is found.
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]
FLAGS += ["--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
# The shell would fit letters to whole pixels, and lines be 3 % wider than for a reader.
FLAGS += ["--font-render-hinting=none"]


def find_browser(playwright: Any) -> str:
    """Return where a browser is.

    Raises:
        RuntimeError: there is none; the text says what to do.
    """
    places = [f"{folder}/{name}" for folder in FOLDERS for name in IN_FOLDERS]
    found = next(filter(None, map(shutil.which, [*NAMES, *places])), None)
    own = playwright.chromium.executable_path
    if not found and not Path(own).is_file():
        raise RuntimeError(NO_BROWSER)
    return found or str(own)
