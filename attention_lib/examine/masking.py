"""Probes of masks: the future, padding, and rows that see nothing.

Each changes one token at a time and compares what outputs depend on with what the mask
lets them see.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attention_lib.examine.call_variants import Call
from attention_lib.examine.outcomes import (
    FaultError,
    NotApplicableError,
    apart,
    error_words,
    or_else,
    size,
)
from attention_lib.examine.probe import BATCH, LENGTH, LONG, VERY_LONG, Probe
from attention_lib.masks import causal_mask

_FAR = 0, 1, 100, 200, 255, 256, 511, VERY_LONG - 2
_INVERTED = "the mask is read the other way round (True must mean: may be seen)"
_ADDITIVE = "finite; its model hides with a large number, and never a whole row"


def probe_future(probe: Probe) -> str:
    """Test that changing a token changes no output before it."""
    later, options = ~causal_mask(LENGTH), probe.causal_options
    plain = probe.leaks()
    hidden = int((plain[later] <= probe.tolerance).sum())
    if probe.stated_causal is False and hidden == later.sum():
        words = "without a mask no output depends on a later token"
        raise FaultError(f"it hides the future, yet you say causal=False: {words}")
    before = int((plain.T[later] <= probe.tolerance).sum())
    partly = before < hidden < int(later.sum()) and probe.stated_causal is not False
    if probe.stated_causal is None and not options:
        partly |= probe.uses("tril", "triu", "tril_", "triu_")
    if not options and not (hidden == later.sum() or probe.claims_causal or partly):
        _expect_far_tokens(probe, causal=False)
        reach = f"near tokens count{_window(probe)}" if probe.has_window else ""
        reach = reach or "each output depends on all tokens"
        raise NotApplicableError(f"it is not causal: {reach}")
    if partly or (probe.claims_causal and not options):
        expect_no_leak(probe, plain, "")
    words = "told causal" if options else ""
    calls = [(f"{words}, " if words else "", probe.leaks(**options))]
    if "mask" in probe.takes:
        everything = probe.padding([LENGTH])
        beside = "beside a mask that is True everywhere, "
        found = probe.leaks(everything, **options).amax(dim=0)
        calls.append((calls[0][0] + beside, found))
    for how, found in calls:
        expect_no_leak(probe, found, how)
        past = found.masked_fill(later, torch.inf)
        if past.min() <= probe.tolerance and not probe.has_window:
            row, key = divmod(int(past.argmin()), LENGTH)
            raise FaultError(f"{how}output {row} does not depend on token {key}")
    _expect_far_tokens(probe, causal=True)
    words = f"{words}: 0 from later tokens" if words else "0 from later tokens"
    if probe.has_window:
        return f"{words}; old tokens are hidden too{_window(probe)}"
    return f"{words}, all earlier ones count"


def expect_no_leak(probe: Probe, found: Tensor, words: str) -> None:
    """Name the output that changes most with a later token."""
    later = ~causal_mask(len(found))
    leaks = found.masked_fill(~later, 0)
    if leaks.max() <= probe.tolerance:
        return
    row, key = divmod(int(leaks.argmax()), len(found))
    words += f"output {row} changes by {size(leaks.max())} with later token {key}"
    if leaks.max() < 0.01:
        raise FaultError(f"{words}: a fill too near 0?")
    hidden = int((found[later] <= probe.tolerance).sum())
    words += f"; {hidden} of {int(later.sum())} hidden"
    rows, keys = torch.where(leaks > probe.tolerance)
    if len(found) > 3 and (keys == len(found) - 1).all():
        words += ": of later tokens the last one alone shows, in all outputs"
    elif set((keys - rows).tolist()) == {1}:
        words += ": each output sees the next token, too"
    raise FaultError(words)


def _expect_far_tokens(probe: Probe, *, causal: bool) -> None:
    """Look again in longer texts: at what shows, and at what is missing.

    Of a very long one a few tokens tell: kernels that work in blocks slip there.
    """
    very_long = Call(1, VERY_LONG, causal=causal), _FAR
    for call, keys in (_long(causal), very_long) if causal else (_long(causal),):
        try:
            change = probe.dependence(call, keys).amax(dim=0)  # (T, K)
        except Exception as error:  # too long for it
            if call.length == LONG and not isinstance(error, ValueError):
                raise
            return
        words = f"in {call.length} tokens, "
        if causal and len(keys) == call.length:
            expect_no_leak(probe, change, words)
        distance = torch.arange(call.length)[:, None] - torch.tensor(keys)
        seen = (distance >= 0) | (not causal)
        if (leaks := (change > probe.tolerance) & ~seen).any():
            row, key = leaks.nonzero()[0].tolist()
            more = f"{size(change[row, key])} with later token {keys[key]}"
            raise FaultError(f"{words}output {row} changes by {more}")
        lost = (change <= probe.least) & seen
        if not lost.any() or probe.has_window:
            continue
        wide = int(distance[lost].abs().min())
        if wide and torch.equal(lost, seen & (distance.abs() >= wide)):
            words += f"only the last {wide} count, and it names no window"
            raise FaultError(words)
        key = int(lost.sum(dim=0).argmax())
        rows = lost[:, key].nonzero().flatten().tolist()
        who = f"{len(rows)} outputs, from {rows[0]} to {rows[-1]}, do"
        who = who if len(rows) > 1 else f"output {rows[0]} does"
        which = "earlier token" if causal else "token"
        raise FaultError(f"{words}{who} not depend on {which} {keys[key]}")


def _long(causal: bool) -> tuple[Call, Sequence[int]]:
    """Return the call with a longer text, and all its tokens."""
    return Call(2, LONG, causal=causal), range(LONG)


def _window(probe: Probe) -> str:
    """Return how far back the last output of a longer text attends."""
    found = or_else(None, probe.dependence, *_long(causal=True))
    if found is None:
        return ""
    count = int((found.amax(dim=0)[-1, :-1] > probe.least).sum())
    return f": the last output sees itself and {count} before"


def probe_padding(probe: Probe) -> str:
    """Test that hidden tokens change nothing: beside padding a text is as alone."""
    if "mask" not in probe.takes:
        names = ", ".join(probe.calling.unknown)
        hint = f" by a known name; for {names}, say how it is called: calls=..."
        raise NotApplicableError("it takes no mask" + (hint if names else ""))
    one_mask = probe.mask_shape == "(T, T)"
    for options in [{}, probe.causal_options] if probe.causal_options else [{}]:
        for side in ("right", "left"):
            for lengths in ([4], [2]) if one_mask else ([4, 2, 6], [3, 5]):
                mask = probe.padding(lengths, side)
                _expect_as_masked(probe, mask, options, f"{side} padding")
                if not probe.knows_positions:
                    _expect_as_alone(probe, mask, options, side)
    if not one_mask and not probe.masks_keys:
        _expect_as_masked(probe, probe.any_pairs(), {}, "a mask of any pairs")
    words = f"0 from hidden tokens, left, right and mixed; mask {probe.mask_shape}"
    return "; ".join(filter(None, [words, refuses_masks_per_text(probe)]))


def refuses_masks_per_text(probe: Probe) -> str:
    """Return what a layer that takes one mask for all texts does with one for each."""
    if probe.mask_shape != "(T, T)":
        return ""
    error, words = probe.mask_error, "it takes no mask per text (B, T, K)"
    return words if error is None else f"{words}: {error_words(error)}"


def _expect_as_alone(probe: Probe, mask: Tensor, options: Any, side: str) -> None:
    """Compare texts beside padding with the texts alone."""
    x = probe.x()
    for row in (0, 1):
        count = int(mask[row, 0].sum())
        part = slice(0, count) if side == "right" else slice(LENGTH - count, None)
        found = probe.run(x, mask, **options)[row, part]
        alone = probe.run(x[row : row + 1, part], **options)[0]
        probe.expect_same(found, alone, f"{side} padding: {{}} from the text alone")


def _expect_as_masked(probe: Probe, mask: Tensor, options: Any, words: str) -> None:
    """Compare what outputs depend on with what the mask lets them see."""
    leaks, given, mask = probe.leaks(mask, **options), mask, mask.to("cpu")
    past = causal_mask(LENGTH) if options or probe.is_causal else torch.tensor(True)
    seen = mask & past
    own = torch.eye(LENGTH, dtype=torch.bool)  # the query comes from there
    rows = seen.any(dim=-1, keepdim=True)  # rows that see nothing have their own probe
    found = leaks > probe.tolerance
    shown, missed = found & ~seen & ~own & rows, seen & ~found & rows
    if probe.has_window:  # what it hides without this mask is no matter
        missed &= probe.leaks(**options) > probe.tolerance
    if not shown.any() and not missed.any():
        return
    words += ", told causal" if "causal" in options else ""
    masked, plain = (probe.run(probe.x(), each, **options) for each in (given, None))
    if apart(masked, plain) <= probe.tolerance:
        raise FaultError(f"{words}: the mask is ignored")
    slips = {
        "the mask takes the place of the causal one": mask,
        _INVERTED: ~mask & past,
        "the mask of the first text serves for all": mask[:1] & past,
        "the mask is read by (key, query): it hides queries, not keys": mask.mT & past,
        "the causal mask takes the place of the mask": causal_mask(LENGTH),
    }
    for slip, other in slips.items():
        if torch.equal((found | own) & rows, (other | own) & rows):
            raise FaultError(f"{words}: {slip}")
    if shown.any():
        _expect_masks_of_own_text(probe, options, words)
    text, row, key = (shown if shown.any() else missed).nonzero()[0].tolist()
    if not shown.any():
        words += f": output {row} does not depend on token {key}, which it may see"
        raise FaultError(words)
    kind = "hidden" if past.expand(LENGTH, LENGTH)[row, key] else "later"
    words += f": output {row} changes by {size(leaks[text, row, key])} with"
    raise FaultError(f"{words} {kind} token {key}")


def _expect_masks_of_own_text(probe: Probe, options: Any, words: str) -> None:
    """Look whether heads get the masks of other texts.

    One text sees all, and the others no token after the fourth. Which texts depend on
    those tells how the masks were repeated, and for how many heads.
    """
    if probe.mask_shape == "(T, T)":
        return
    mask = probe.padding([4]).clone()
    mask[3] = True
    leaks = probe.leaks(mask, **options)
    found = leaks[:, :4, 4:].amax(dim=(1, 2))
    if probe.is_causal or options:
        found = leaks[:, 5, 4]
    for heads in range(2, 17):
        repeated = torch.arange(BATCH).repeat(heads).unflatten(0, (BATCH, heads))
        wanted = (repeated == 3).any(dim=1)
        if not wanted.all() and torch.equal(found > probe.tolerance, wanted):
            words += f": {heads} heads get masks of other texts: are they repeated by"
            raise FaultError(f"{words} repeat, not by repeat_interleave?")


def probe_empty_rows(probe: Probe) -> str:
    """Test that a query that sees nothing is finite, and shows no hidden key."""
    if "mask" not in probe.takes:
        raise NotApplicableError("it takes no mask")
    text = 1
    mask = probe.padding([LENGTH]).clone()
    rows = slice(None) if probe.masks_keys else slice(2, 4)
    mask[text if probe.mask_shape != "(T, T)" else slice(None), rows] = False
    probe = probe.fresh(torch.float32)  # its huge numbers are those that people use
    probe.tolerance = 1e-4
    x = probe.x().requires_grad_()
    with torch.enable_grad():
        total = (found := probe.run(x, mask)).sum()
    if not found.isfinite().all():
        raise FaultError("a row that sees nothing is nan")
    weights = [p for p in probe.layer.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(total, [x, *weights], allow_unused=True)
    if not all(g is None or g.isfinite().all() for g in gradients):
        raise FaultError("the output is finite, its gradient is nan")
    leaks = probe.leaks(mask)[text]
    change = leaks.masked_fill(torch.eye(LENGTH) > 0, 0)[rows].max()
    if probe.calling.additive:
        raise NotApplicableError(_ADDITIVE)
    words = "a row that sees nothing changes by {} with hidden keys"
    probe.expect_same(change, change * 0, words)
    return "finite, also the gradient; 0 from hidden tokens"
