"""The bugs of the museum, by their symptoms: `view_museum`."""

import html
import re
from collections.abc import Mapping, Sequence
from difflib import ndiff
from typing import Any

from attention_lib.course.museum import Bug, CheckResult
from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import MUSEUM


def view_museum(
    bugs: Sequence[Bug], seen: Mapping[str, Mapping[str, CheckResult]]
) -> Interactive:
    """Let the reader choose a symptom, look at a program, and find its faulty line.

    Args:
        bugs: the exhibits, in order; ``attention_lib.course.museum.BUGS`` holds all.
        seen: by a bug's name, what ``attention_lib.course.museum.run_checks`` found.

    Raises:
        TypeError: something that is not a ``Bug``.
        ValueError: no bugs; a bug whose checks were not run.
    """
    for bug in bugs:
        if not isinstance(bug, Bug):
            raise TypeError(f"bugs must hold Bugs; got {type(bug).__name__}")
        if missing := set(bug.checks) - set(seen.get(bug.name, ())):
            raise ValueError(f"seen must hold {min(missing)!r} of {bug.name!r}")
    if not bugs:
        raise ValueError("bugs must hold at least one bug; got none")
    exhibits = [_exhibit(bug, seen[bug.name]) for bug in bugs]
    tags = list(dict.fromkeys(tag for bug in bugs for tag in bug.tags))
    caption = html.escape(MUSEUM["caption"].format(count=len(bugs)))
    static = "\n".join([f"<p>{caption}</p>", *map(_static, exhibits)])
    line = MUSEUM["line"].format(count=len(bugs), tags=len(tags))
    return Interactive("museum", {"bugs": exhibits, "tags": tags}, static, line)


def _exhibit(bug: Bug, results: Mapping[str, CheckResult]) -> dict[str, Any]:
    """Return the view's data of a bug, without numbers that depend on dropout."""
    changes = ndiff(bug.program.splitlines(), bug.fixed.splitlines())
    draws = "dropout" in bug.program
    return {
        "id": bug.anchor,
        "name": bug.name,
        "lines": [[line[0], line[2:]] for line in changes if line[0] != "?"],
        "faulty": list(bug.lines),
        "symptom": bug.symptom,
        "why": bug.why,
        "tags": list(bug.tags),
        "checks": [[name, "" if draws else results[name].seen] for name in bug.checks],
        "source": _source(bug),
        "link": bug.link,
    }


def _static(exhibit: Mapping[str, Any]) -> str:
    """Return an exhibit without its script: the program, with its fix as a diff."""
    program = "\n".join(f"{kind} {text}" for kind, text in exhibit["lines"])
    checks = ", ".join(name for name, _ in exhibit["checks"])
    source = html.escape(exhibit["source"])
    if exhibit["link"]:
        source = f'<a href="{exhibit["link"]}">{source}</a>'
    facts = [(MUSEUM["checks"], html.escape(checks)), (MUSEUM["source"], source)]
    tags = [html.escape(tag) for tag in exhibit["tags"]]
    return "\n".join(
        [
            f'<section id="{exhibit["id"]}">',
            f"<h3>{html.escape(exhibit['name'])}</h3>",
            f"<p>{_coded(exhibit['symptom'])} ({', '.join(tags)})</p>",
            f"<pre>{html.escape(program)}</pre>",
            f"<p>{_coded(exhibit['why'])}</p>",
            *(f"<p>{word}: {text}</p>" for word, text in facts),
            "</section>",
        ]
    )


def _coded(text: str) -> str:
    """Return a text as HTML, with its `code` marked."""
    return re.sub("`(.+?)`", r"<code>\1</code>", html.escape(text))


def _source(bug: Bug) -> str:
    return bug.source if bug.link else MUSEUM["article"].format(source=bug.source)
