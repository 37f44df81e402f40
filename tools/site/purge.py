"""Style sheets without the rules that no page can need.

The theme's sheets bring all of Bootstrap. A selector is left out when it asks for a
class or an id whose name stands nowhere: in no page, and in no script that a page runs.
Names that a script puts together at run time are not seen: `KEPT` lists those.
"""

import re
from pathlib import Path
from typing import Any

# They hold only what is needed. So do the book's own, which stay as they are written:
# `tools.site.build` compares the copies with them.
SPARED = {"fonts.css", "icons.css", "katex.css"}
# Sphinx's index of all words holds any name; it runs no code on classes.
UNREAD = {"searchindex.js", "bootstrap.js.map"}
WORD = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
# Bootstrap's script makes these of two words.
KEPT = re.compile(r"(?:bs-tooltip-|tooltip|show|fade|collaps|modal|dropdown)")
PART = re.compile(r"[.#](-?[A-Za-z_](?:[\w-]|\\.)*)", re.ASCII)
NESTED = ("@media", "@supports", "@layer", "@container")


def setup(app: Any) -> None:
    """Hook into Sphinx."""
    # After every part has written its sheets and pages.
    app.connect("build-finished", _purge, priority=900)


def _purge(app: Any, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir)
    names = set[str]()
    for path in (*folder.rglob("*.html"), *folder.rglob("*.js")):
        if path.name not in UNREAD:
            names.update(WORD.findall(path.read_text(encoding="utf-8")))
    own = {path.name for path in (Path(app.srcdir) / "book/_static").glob("*.css")}
    for path in (folder / "_static").rglob("*.css"):
        if path.name not in SPARED | own:
            text = path.read_text(encoding="utf-8")
            path.write_text(purged(text, names), encoding="utf-8")


def purged(css: str, names: set[str]) -> str:
    """Return a style sheet without what needs a class or id outside of `names`."""
    import tinycss2  # type: ignore[import-untyped]

    rules = tinycss2.parse_stylesheet(css, skip_comments=False, skip_whitespace=True)
    return "".join(_rule(rule, names) for rule in rules)


def _rule(rule: Any, names: set[str]) -> str:
    """Return a rule's text, "" where nothing of it is left."""
    import tinycss2

    if rule.type == "at-rule" and rule.content is not None:
        head = f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}"
        if not head.startswith(NESTED):
            return f"{head}{{{tinycss2.serialize(rule.content)}}}"
        inner = tinycss2.parse_rule_list(rule.content, skip_whitespace=True)
        text = "".join(_rule(part, names) for part in inner)
        return f"{head}{{{text}}}" if text else ""
    if rule.type != "qualified-rule":
        # A comment that begins with "!" names a licence.
        kept = rule.type != "comment" or rule.value.startswith("!")
        return str(rule.serialize()) if kept else ""
    kept = [text for text in _selectors(rule.prelude) if _can_match(text, names)]
    return f"{','.join(kept)}{{{tinycss2.serialize(rule.content)}}}" if kept else ""


def _selectors(prelude: list[Any]) -> list[str]:
    """Return the selectors of a list, split at the commas that stand in no brackets."""
    import tinycss2

    parts: list[list[Any]] = [[]]
    for token in prelude:
        if token.type == "literal" and token.value == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return [tinycss2.serialize(part).strip() for part in parts]


def _can_match(selector: str, names: set[str]) -> bool:
    """Say whether each class and id stands somewhere; those in brackets do not count.

    What `:not()` or `:is()` holds need not be there.
    """
    bare = re.sub(r"\[[^\]]*\]", "", selector)
    while (shorter := re.sub(r"\([^()]*\)", "", bare)) != bare:
        bare = shorter
    found = (name.replace("\\", "") for name in PART.findall(bare))
    return all(name in names or KEPT.match(name) for name in found)
