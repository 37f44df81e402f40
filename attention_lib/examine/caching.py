"""The probe of a layer's cache: a text read in pieces against the text at once.

Shapes: B batch, T length, K keys, M d_model.
"""

from typing import Any

import torch
from torch import Tensor

from attention_lib.examine.operations import operations_of
from attention_lib.examine.outcomes import (
    FaultError,
    NotApplicableError,
    apart,
    first_line,
    size,
)
from attention_lib.examine.probe import BATCH, HALF_DTYPES, LENGTH, LONG, Probe
from attention_lib.examine.trace_smells import positions_restart
from attention_lib.masks import causal_mask

_CUTS = [LENGTH], [1] * LENGTH, [2, 1, 3]


def probe_cache(probe: Probe) -> str:
    """Test that a text read in pieces with a cache gives what it gives at once."""
    if probe.new_cache is None:
        raise NotApplicableError("it takes no cache")
    x = probe.x()
    first, second = (in_pieces(probe, x, [LENGTH]) for _ in range(2))
    words = "a new cache is not empty, or the layer counts itself: it gives something"
    probe.expect_same(second, first, f"{words} else the 2nd time")
    for positions in [False, True] if "start" in probe.takes else [False]:
        start: dict[str, Any] = {"start": 0} if positions else {}
        whole = probe.run_causal(x, **start)
        for cut in _CUTS:
            change = apart(in_pieces(probe, x, cut, positions=positions), whole)
            if change > probe.tolerance:
                words = "with a cache, " if len(cut) == 1 else ""
                words += f"{_how(cut)}: {size(change)} apart"
                raise FaultError(words + _why(probe, cut, positions))
    _expect_long_text(probe)
    _expect_caches_apart(probe, x)
    if far := beyond(probe):
        raise FaultError(f"more tokens than it has room for: {far} apart, no error")
    words = "at once, one by one, in pieces of 2, 1, 3"
    if "mask" not in probe.takes:
        return f"{words}: 0 apart"
    return words + _expect_padding(probe, x)


def in_pieces(
    probe: Probe,
    x: Tensor,
    cut: list[int],
    mask: Tensor | None = None,
    *,
    positions: bool = False,
) -> Tensor:
    """Read a text piece by piece with one cache, (B, T, M)."""
    assert probe.new_cache is not None
    cache = probe.new_cache(probe.layer, *x.shape[:2])
    found, start = [], 0
    for count in cut:
        end = start + count
        options: dict[str, Any] = {"start": start} if positions else {}
        part = None if mask is None else mask[:, start:end, :end]
        piece = x[:, start:end].contiguous()
        found.append(probe.run_causal(piece, part, cache=cache, **options))
        start = end
    return torch.cat(found, dim=1)


def beyond(probe: Probe) -> str:
    """Return what is wrong after more tokens than a cache was made for.

    Errors are right. A cache with a window may drop the oldest: the output counts.
    """
    assert probe.new_cache is not None
    x = probe.x(length=LENGTH + 2)
    cache, found = probe.new_cache(probe.layer, BATCH, LENGTH), []
    try:
        for part in x.split(4, dim=1):
            piece = part.contiguous()
            found.append(probe.run_causal(piece, cache=cache))
        whole = probe.run_causal(x)
    except Exception:
        return ""
    change = apart(torch.cat(found, dim=1), whole)
    return size(change) if change > probe.tolerance else ""


def _how(cut: list[int]) -> str:
    if len(cut) == 1:
        return "in one piece"
    one_by_one = set(cut) == {1}
    return "one by one" if one_by_one else "in pieces of " + ", ".join(map(str, cut))


def _expect_long_text(probe: Probe) -> None:
    """Read a longer text: a window may be shorter than that."""
    x = probe.x(2, LONG)
    for cut in ([LONG - 9, 7, 1, 1], [1] * LONG):
        try:
            whole = probe.run_causal(x)
            found = in_pieces(probe, x, cut)
        except Exception:  # too long for it
            return
        wrong = (found - whole).abs().amax((0, 2)) > probe.tolerance
        row = int(wrong.float().argmax())
        words = f"{LONG} tokens, {_how(cut)}: {{}} apart; output {row} is the first"
        probe.expect_same(found, whole, f"{words} that differs")


def _expect_caches_apart(probe: Probe, x: Tensor) -> None:
    """Read two texts in turns, with a cache each."""
    assert probe.new_cache is not None
    one, two = (probe.new_cache(probe.layer, BATCH, LENGTH) for _ in range(2))
    begun = probe.run_causal(x[:, :3].contiguous(), cache=one)
    words = "a text read beside changes {}: do two caches share memory?"
    try:
        probe.run_causal(probe.x(seed=2), cache=two)
        ended = probe.run_causal(x[:, 3:].contiguous(), cache=one)
    except Exception as error:
        what = f"what comes ({first_line(error)})"
        raise FaultError(words.replace("{}", what)) from error
    found = torch.cat([begun, ended], dim=1)
    probe.expect_same(found, in_pieces(probe, x, [3, 3]), words)


def _expect_padding(probe: Probe, x: Tensor) -> str:
    """Read a text in pieces with a mask of padding beside the cache."""
    mask = probe.padding([4] if probe.mask_shape == "(T, T)" else [4, 2, 6])
    whole = probe.run_causal(x, mask)
    for cut in _CUTS:
        try:
            found = in_pieces(probe, x, cut, mask)
        except Exception as error:
            return f": 0 apart; a mask beside it is refused: {type(error).__name__}"
        if (change := apart(found, whole)) > probe.tolerance:
            words = f"with padding beside a cache, {_how(cut)}: {size(change)} apart"
            if apart(found, in_pieces(probe, x, cut)) <= probe.tolerance:
                words += "; beside a cache the mask is ignored"
            elif apart(found, probe.run(x, mask)) <= probe.tolerance:
                words += "; the mask takes the place of the causal one"
            raise FaultError(words)
    return ", and with padding: 0 apart"


def _why(probe: Probe, cut: list[int], positions: bool) -> str:
    """Look at what outputs depend on where a text is read in pieces."""
    x, other = probe.x(), probe.x(seed=2)

    def read(x: Tensor) -> Tensor:
        return in_pieces(probe, x, cut, positions=positions)

    before = read(x)
    changed = torch.cat([other[:1], x[1:]])
    if apart(read(changed)[1:], before[1:]) > probe.tolerance:
        return "; one text shows in another"
    found = probe.dependence(read, BATCH, LENGTH).amax(dim=0) > probe.tolerance
    past = probe.leaks(**probe.causal_options) > probe.tolerance  # at once
    if (past & ~causal_mask(LENGTH)).any():
        return "; at once, outputs change with later tokens"
    if cut == [1] * LENGTH and not probe.has_window:
        first = "; output 1 does not depend on token 1"
        # With a single key its weight is 1, so that row 0 shows nothing.
        if (past & ~found).sum() == 1 and not found[1, 1]:
            return f"{first}: is it read before it is kept?"
        if not found[1:, 1:].any():
            return f"{first}: a triangle from the top left?"
    for wrong, words in (
        (found & ~past, "changes with token {}, as it does not at once"),
        (past & ~found, "does not depend on token {}"),
    ):
        if wrong.any():
            row, key = wrong.nonzero()[0].tolist()
            words = words.replace("token", "later token" if key > row else "token")
            return f"; output {row} {words.format(key)}"
    types = operations_of(lambda: read(x)).types
    if any(given & HALF_DTYPES for given in types.values()):
        reason = ": it keeps 16 bits"
    elif positions_restart(probe, lambda: read(x)):
        reason = ": positions begin at 0 again in each call"
    else:
        reason = ": wrong positions or values?"
    return f", though on the right tokens{reason}"
