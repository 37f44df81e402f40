"""The check of a layer's cache: a text read in pieces against the text at once.

Shapes: B batch, T length, K keys, M d_model.
"""

from typing import Any

import torch
from torch import Tensor

from attention_lib.examine.behaviour import (
    HALF_DTYPES,
    NOT_APPLICABLE,
    Said,
    apart,
    first_line,
    size,
)
from attention_lib.examine.op_counter import watched
from attention_lib.examine.probe import BATCH, LENGTH, LONG, Probe
from attention_lib.examine.trace_smells import positions_again
from attention_lib.masks import causal_mask

_CUTS = [LENGTH], [1] * LENGTH, [2, 1, 3]


def probe_cache(s: Probe) -> Said:
    """Read in pieces with a cache, a text gives what it gives at once."""
    if "cache" not in s.takes or s.calling.new_cache is None:
        return NOT_APPLICABLE, "it takes no cache"
    x = s.x()
    if not _is_new(s, x):
        words = "it gives something else the 2nd time"
        return "fails", f"a new cache is not empty, or the layer counts itself: {words}"
    for turned in [False, True] if "start" in s.takes else [False]:
        start: dict[str, Any] = {"start": 0} if turned else {}
        whole = s.run(x, **s.hides_future, **start)
        for cut in _CUTS:
            change = apart(in_pieces(s, x, cut, turned=turned), whole)
            if change > s.tolerance:
                how = "with a cache, in one piece" if len(cut) == 1 else _list(cut)
                return "fails", f"{how}: {size(change)} apart{_why(s, cut, turned)}"
    if wrong := _long(s):
        return "fails", wrong
    if changes := _two_at_once(s, x):
        return (
            "fails",
            f"a text read beside changes {changes}: do two caches share memory?",
        )
    if far := beyond(s):
        return "fails", f"more tokens than it has room for: {far} apart, no error"
    words = "at once, one by one, in pieces of 2, 1, 3"
    if "mask" not in s.takes:
        return "holds", f"{words}: 0 apart"
    mask = s.hidden([4] if s.mask_shape == "(T, T)" else [4, 2, 6])
    whole = s.run(x, mask, **s.hides_future)
    for cut in _CUTS:
        try:
            found = in_pieces(s, x, cut, mask)
        except Exception as error:
            refused = f"a mask beside it is refused: {type(error).__name__}"
            return "holds", f"{words}: 0 apart; {refused}"
        if (change := apart(found, whole)) > s.tolerance:
            words = f"with padding beside a cache, {_list(cut)}: {size(change)} apart"
            bare = [in_pieces(s, x, cut)]
            if "causal" in s.hides_future:
                bare.append(s.run(x, mask))
            same = [apart(found, each) <= s.tolerance for each in bare]
            if same[0]:
                words += "; beside a cache the mask is ignored"
            elif any(same):
                words += "; the mask takes the place of the causal one"
            return "fails", words
    return "holds", f"{words}, and with padding: 0 apart"


def _list(cut: list[int]) -> str:
    return (
        "one by one"
        if cut == [1] * LENGTH
        else "in pieces of " + ", ".join(map(str, cut))
    )


def _is_new(s: Probe, x: Tensor) -> bool:
    """Whether a second new cache gives what the first gave."""
    first, second = (in_pieces(s, x, [LENGTH]) for _ in range(2))
    return apart(second, first) <= s.tolerance


def _long(s: Probe) -> str:
    """Says what is wrong in a longer text: a window may be shorter than that."""
    x = s.x(2, LONG)
    try:
        whole = s.run(x, **s.hides_future)
        for cut in ([LONG - 9, 7, 1, 1], [1] * LONG):
            found = in_pieces(s, x, cut)
            if (change := apart(found, whole)) > s.tolerance:
                row = int(
                    ((found - whole).abs().amax((0, 2)) > s.tolerance).float().argmax()
                )
                how = "one by one" if len(cut) == LONG else _list(cut)
                words = f"output {row} is the first that differs"
                return f"{LONG} tokens, {how}: {size(change)} apart; {words}"
    except Exception:
        return ""  # too long for it
    return ""


def _two_at_once(s: Probe, x: Tensor) -> str:
    """Says what changes when two texts are read in turns, with a cache each."""
    assert s.calling.new_cache is not None
    one, two = (s.calling.new_cache(s.layer, BATCH, LENGTH) for _ in range(2))
    begun = s.run(x[:, :3].contiguous(), cache=one, **s.hides_future)
    try:
        s.run(s.x(seed=2), cache=two, **s.hides_future)
        ended = s.run(x[:, 3:].contiguous(), cache=one, **s.hides_future)
    except Exception as error:
        return f"what comes ({first_line(error)})"
    change = apart(torch.cat([begun, ended], dim=1), in_pieces(s, x, [3, 3]))
    return size(change) if change > s.tolerance else ""


def beyond(s: Probe) -> str:
    """Says what is wrong after more tokens than a cache was made for; errors are not.

    A cache with a window may leave out the oldest: what counts is what comes out.
    """
    assert s.calling.new_cache is not None
    x = s.x(length=LENGTH + 2)
    cache, found = s.calling.new_cache(s.layer, BATCH, LENGTH), []
    try:
        for part in x.split(4, dim=1):
            found.append(s.run(part.contiguous(), cache=cache, **s.hides_future))
        whole = s.run(x, **s.hides_future)
    except Exception:
        return ""
    change = apart(torch.cat(found, dim=1), whole)
    return size(change) if change > s.tolerance else ""


def in_pieces(
    s: Probe,
    x: Tensor,
    cut: list[int],
    mask: Tensor | None = None,
    *,
    turned: bool = False,
) -> Tensor:
    """Reads a text piece by piece with one cache, (B, T, M)."""
    assert s.calling.new_cache is not None
    cache = s.calling.new_cache(s.layer, *x.shape[:2])
    found, start = [], 0
    for count in cut:
        end = start + count
        more: dict[str, Any] = s.hides_future | ({"start": start} if turned else {})
        part = None if mask is None else mask[:, start:end, :end]
        found.append(s.run(x[:, start:end].contiguous(), part, cache=cache, **more))
        start = end
    return torch.cat(found, dim=1)


def _why(s: Probe, cut: list[int], turned: bool) -> str:
    """Looks at what outputs depend on, where a text is read in pieces."""
    x, other = s.x(), s.x(seed=2)
    changed = x.clone()
    changed[0] = other[0]
    with torch.no_grad():
        before = in_pieces(s, x, cut, turned=turned)
        if (
            apart(in_pieces(s, changed, cut, turned=turned)[1:], before[1:])
            > s.tolerance
        ):
            return "; one text shows in another"
        columns = []
        for place in range(LENGTH):
            changed = x.clone()
            changed[:, place] = 2 * other[:, place]
            change = (in_pieces(s, changed, cut, turned=turned) - before).abs()
            columns.append(change.amax(dim=(0, 2)))  # (T,)
    found = torch.stack(columns, dim=-1).cpu() > s.tolerance
    past = s.leaks(**s.hides_future) > s.tolerance  # at once
    if (past & ~causal_mask(LENGTH)).any():
        return "; at once, outputs change with later tokens"
    first = "; output 1 does not depend on token 1"
    if cut == [1] * LENGTH and not s.has_window:
        if (past & ~found).sum() == 1 and not found[
            1, 1
        ]:  # of one key, 1 is the weight
            return f"{first}: is it read before it is kept?"
        if not found[1:, 1:].any():
            return f"{first}: a triangle from the top left?"
    for wrong, words in (
        (found & ~past, "changes with token {}, as it does not at once"),
        (past & ~found, "does not depend on token {}"),
    ):
        if wrong.any():
            row, key = divmod(int(wrong.float().argmax()), LENGTH)
            words = words.replace("token", "later token" if key > row else "token")
            return f"; output {row} {words.format(key)}"
    with watched() as types:
        in_pieces(s, x, cut, turned=turned)
    if any(given & HALF_DTYPES for given in types.values()):
        return ", though on the right tokens: it keeps 16 bits"
    if positions_again(s, lambda: in_pieces(s, x, cut, turned=turned)):
        return ", though on the right tokens: positions begin at 0 again in each call"
    return ", though on the right tokens: wrong positions or values?"
