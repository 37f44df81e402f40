"""Let a keyboard reach what scrolls within itself, without laying the page out anew.

The theme's script does so, too. But it measures and changes block after block, and the
browser lays the whole page out again for each: a third of a second on a phone, at the
start and whenever anything in the page changes. `scrolling.js` measures all of them
first, formulas included, and only then changes some.
"""

import re
from pathlib import Path
from typing import Any

SCRIPT, THEME = "scrolling.js", "_static/scripts/pydata-sphinx-theme.js"
# The whole function: from the blocks that it looks for to its observer of the page.
MEASURES = re.compile(
    r'function (\w+)\(\)\{const (\w)=\(\)=>\{document\.querySelectorAll\(\["pre",'
    r'[^}]*tabIndex=(?:(?!function \w+\().)*?getElementById\("main-content"\),'
    r"\{subtree:!0,childList:!0\}\),\2\(\)\}",
    re.DOTALL,
)
DONE = f"/* {SCRIPT} does it */"


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    app.add_js_file(SCRIPT, loading_method="defer")
    app.connect("build-finished", _mend_theme)


def without_measuring(script: str) -> str:
    """Return the theme's script, which no longer measures blocks that scroll.

    Raises:
        ValueError: the script is not the one that this was written for.
    """
    if DONE in script:
        return script
    script, count = MEASURES.subn(rf"function \1(){{{DONE}}}", script)
    if count != 1:
        raise ValueError(
            f"{THEME} measures blocks that scroll in {count} places, not in one: "
            "look for tabIndex there, and mend tools/site/scrolling.py"
        )
    return script


def _mend_theme(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        path = Path(app.outdir) / THEME
        script = path.read_text(encoding="utf-8")
        path.write_text(without_measuring(script), encoding="utf-8")
