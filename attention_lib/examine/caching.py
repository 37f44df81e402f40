"""The probe of a layer's cache: a text read in pieces against the text at once."""

from typing import Any

import torch
from torch import Tensor

from attention_lib.examine.outcomes import (
    FaultError,
    NotApplicableError,
    apart,
    first_line,
    size,
)
from attention_lib.examine.probe import HALF_DTYPES, LENGTH, LONG, Probe
from attention_lib.examine.recorder import operations_of
from attention_lib.examine.trace import positions_restart
from attention_lib.masks import causal_mask

_CUTS = [LENGTH], [1] * LENGTH, [2, 1, 3]


def probe_cache(probe: Probe) -> str:
    """Test that a text read in pieces with a cache gives what it gives at once."""
    if "cache" not in probe.takes:
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
                why = _why(probe, cut, positions)
                raise FaultError(f"{words}{_how(cut)}: {size(change)} apart{why}")
    _expect_long_text(probe)
    _expect_caches_apart(probe)
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
    cache: Any = None,
) -> Tensor:
    """Read a text piece by piece with one cache, (B, T, M)."""
    cache = probe.new_cache(*x.shape[:2]) if cache is None else cache
    found, end = [], 0
    for count in cut:
        start, end = end, end + count
        options = {"start": start} if positions else {}
        part = None if mask is None else mask[:, start:end, :end]
        piece = x[:, start:end].contiguous()
        found.append(probe.run_causal(piece, part, cache=cache, **options))
    return torch.cat(found, dim=1)


def beyond(probe: Probe) -> str:
    """Return what is wrong after more tokens than a cache was made for.

    Errors are right. A cache with a window may drop the oldest: the output counts.
    """
    x = probe.x(length=LENGTH + 2)
    try:
        found = in_pieces(probe, x, [4, LENGTH - 2], cache=probe.new_cache())
        change = apart(found, probe.run_causal(x))
    except Exception:
        return ""
    return size(change) if change > probe.tolerance else ""


def in_turns(probe: Probe) -> Tensor:
    """Read two texts in turns, with a cache each, (2 B, T, M)."""
    texts = [(probe.x(seed=seed), probe.new_cache()) for seed in (1, 2)]
    found = []
    for part in (slice(4), slice(4, None)):
        pieces = ((x[:, part].contiguous(), cache) for x, cache in texts)
        found.append(torch.cat([probe.run_causal(x, cache=it) for x, it in pieces]))
    return torch.cat(found, dim=1)


def _how(cut: list[int]) -> str:
    if len(cut) == 1:
        return "in one piece"
    return "one by one" if {*cut} == {1} else f"in pieces of {', '.join(map(str, cut))}"


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
        first = f"output {int(wrong.float().argmax())} is the first that differs"
        words = f"{LONG} tokens, {_how(cut)}: {{}} apart; {first}"
        probe.expect_same(found, whole, words)


def _expect_caches_apart(probe: Probe) -> None:
    words = "a text read beside changes {}: do two caches share memory?"
    wanted = [in_pieces(probe, probe.x(seed=seed), [4, 2]) for seed in (1, 2)]
    try:
        found = in_turns(probe)
    except Exception as error:
        raise FaultError(words.format(f"what comes ({first_line(error)})")) from error
    probe.expect_same(found, torch.cat(wanted), words)


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

    def read(each: Probe, x: Tensor | None = None) -> Tensor:
        return in_pieces(each, each.x() if x is None else x, cut, positions=positions)

    x = probe.x()
    before, x[0] = read(probe), probe.x(seed=2)[0]
    if apart(read(probe, x)[1:], before[1:]) > probe.tolerance:
        return "; one text shows in another"
    found = probe.dependence(read).amax(dim=0) > probe.tolerance
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
    types = operations_of(lambda: read(probe)).types
    reason = "wrong positions or values?"
    if any(given & HALF_DTYPES for given in types.values()):
        reason = "it keeps 16 bits"
    elif positions_restart(probe, read):
        reason = "positions begin at 0 again in each call"
    return f", though on the right tokens: {reason}"
