"""Pages over time, as a server allocates them: `view_pages`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import PAGES
from attention_lib.course.views._tables import plain_table
from attention_lib.validation import (
    require_choice,
    require_not_negative,
    require_positive,
)

STATES = "waiting", "prefill", "decoding", "preempted", "done", "cancelled"


def view_pages(
    steps: Sequence[Mapping[str, Any]],
    *,
    num_pages: int,
    page_len: int,
) -> Interactive:
    """Let the reader go through the steps of a server, and see who owns which page.

    A step is the state after one ``Server.step``, in plain Python values. It has one
    entry for each request that was submitted by then, in that order::

        {
            "tables": [[0, 1], [0, 4], []],  # the block table of each request
            "states": ["decoding", "prefill", "waiting"],
            "fed": [1, 12, 0],  # tokens that the model read for it in this step
            "kept": [2],  # may be left out: free pages that can still be shared
        }

    A page belongs to every request whose table contains it: page 0 is shared here.

    Args:
        steps: in order. The states are ``waiting``, ``prefill``, ``decoding``,
            ``preempted`` (dropped, and waiting again), ``done`` and ``cancelled``.
        num_pages: how many pages there are; the first is page 0.
        page_len: how many tokens a page holds.

    Raises:
        TypeError: steps that are not a list of dicts; a size that is not an int.
        ValueError: no steps; tables, states and fed of different lengths; fewer
            requests than in a step before; an unknown state; a page that does not
            exist, or that is in a table twice, or that is kept and in a table.
    """
    require_positive(num_pages=num_pages, page_len=page_len)
    if isinstance(steps, str | Mapping) or not isinstance(steps, Sequence):
        raise TypeError(f"steps must be a list of dicts; got {type(steps).__name__}")
    if not steps:
        raise ValueError("steps must hold at least one step; got none")
    plain, before = [], 0
    for number, step in enumerate(steps):
        checked = _step(f"steps[{number}]", step, num_pages)
        if len(checked["states"]) < before:
            raise ValueError(
                f"steps[{number}] must hold the {before} requests of the step before; "
                f"got {len(checked['states'])}"
            )
        before = len(checked["states"])
        plain.append(checked)
    names = _letters(before)
    data = {"steps": plain, "pages": num_pages, "pageLen": page_len, "names": names}
    rows = [(name, _history(plain, request)) for request, name in enumerate(names)]
    most = max(len({p for t in step["tables"] for p in t}) for step in plain)
    shared = sum(bool(_shared(step)) for step in plain)
    caption = PAGES["caption"].format(
        pages=num_pages, tokens=page_len, steps=len(plain), most=most, shared=shared
    )
    static = plain_table(caption, PAGES["head"], rows)
    line = PAGES["line"].format(steps=len(plain), pages=num_pages)
    return Interactive("pages", data, static, line)


def _step(where: str, step: Any, num_pages: int) -> dict[str, Any]:
    """Check one step, and return it in lists."""
    if not isinstance(step, Mapping):
        raise TypeError(f"{where} must be a dict; got {type(step).__name__}")
    if missing := {"tables", "states", "fed"} - set(step):
        raise ValueError(f"{where} must hold {sorted(missing)[0]!r}; got {[*step]}")
    tables = [list(table) for table in step["tables"]]
    states, fed, kept = list(step["states"]), list(step["fed"]), step.get("kept", ())
    if not len(tables) == len(states) == len(fed):
        raise ValueError(
            f"{where} must hold one table, one state and one number fed per request; "
            f"got {len(tables)}, {len(states)} and {len(fed)}"
        )
    for state in states:
        require_choice(f"a state of {where}", state, STATES)
    require_not_negative(**{f"{where}['fed'][{i}]": n for i, n in enumerate(fed)})
    owned = {page for table in tables for page in table}
    for pages in (*tables, list(kept)):
        for page in pages:
            require_not_negative(**{f"a page of {where}": page})
        if pages and max(pages) >= num_pages:
            raise ValueError(
                f"a page of {where} must be below {num_pages}; got {max(pages)}"
            )
        if len(set(pages)) < len(pages):
            raise ValueError(f"{where} has a page twice in one table: {pages}")
    if both := owned & set(kept):
        raise ValueError(f"{where} keeps page {min(both)}, which is in a table")
    return {"tables": tables, "states": states, "fed": fed, "kept": sorted(kept)}


def _letters(count: int) -> list[str]:
    if count > 26:
        return [f"{number}" for number in range(1, count + 1)]
    return [chr(ord("A") + number) for number in range(count)]


def _shared(step: Mapping[str, Any]) -> list[int]:
    """Return the pages that are in more than one table."""
    counts = Counter(page for table in step["tables"] for page in table)
    return [page for page, count in counts.items() if count > 1]


def _history(steps: Sequence[Mapping[str, Any]], request: int) -> list[str]:
    """Describe when a request was read, how many tokens, and its pages."""
    there = [step for step in steps if len(step["states"]) > request]
    before = len(steps) - len(there)  # the steps before it was submitted
    states = [step["states"][request] for step in there]
    fed = [step["fed"][request] for step in there]
    read = [number for number, count in enumerate(fed, before + 1) if count]
    pages = max(len(step["tables"][request]) for step in there)
    dropped = [state == "preempted" for state in states]
    times = sum(now > was for was, now in pairwise([False, *dropped]))
    ends = [f"{read[0]}", f"{read[-1]}"] if read else 2 * [PAGES["never"]]
    return [*ends, f"{sum(fed)}", f"{pages}", f"{times}"]
