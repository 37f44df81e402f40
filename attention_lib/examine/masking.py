"""Checks of what a layer hides: the future, padding, and rows that see nothing.

Each changes one token at a time, and compares what outputs depend on with what the
mask lets them see. Shapes: B batch, T length, K keys.
"""

from typing import Any

import torch
from torch import Tensor

from attention_lib.examine.behaviour import LONG_LEN, NOT_APPLICABLE, Said, apart, size
from attention_lib.examine.precision import error_words
from attention_lib.examine.probe import BATCH, LENGTH, LONG, Probe
from attention_lib.masks import causal_mask


def probe_future(s: Probe) -> Said:
    """Changing a token changes no output before it."""
    later = ~causal_mask(LENGTH)
    alone = s.leaks()
    hidden = int((alone[later] <= s.tolerance).sum())
    if s.told_causal is False and hidden == later.sum():
        words = "without a mask no output depends on a later token"
        return "fails", f"it hides the future, yet you say causal=False: {words}"
    before = int((alone.T[later] <= s.tolerance).sum())
    half = before < hidden < int(later.sum()) and s.told_causal is not False
    half |= s.told_causal is None and not s.hides_future and s.makes_triangle
    if not s.hides_future and not (hidden == later.sum() or s.says_causal or half):
        missed = _missed(s, torch.ones(LONG, LONG, dtype=torch.bool), {})
        return (
            ("fails", missed)
            if missed
            else (NOT_APPLICABLE, "it is not causal: " + _reach(s))
        )
    if wrong := (half or (s.says_causal and not s.hides_future)) and _leaked(
        alone, s, ""
    ):
        return "fails", wrong
    words = "told causal, " if s.hides_future else ""
    calls: list[tuple[str, Tensor]] = [(words, s.leaks(**s.hides_future))]
    if "mask" in s.takes:
        masked = s.leaks(s.hidden([LENGTH]), **s.hides_future).amax(dim=0)
        calls.append((f"{words}beside a mask that is True everywhere, ", masked))
    for words, found in calls:
        if wrong := _leaked(found, s, words) or _unseen(found, s, words):
            return "fails", wrong
    if wrong := _missed(s, causal_mask(LONG), s.hides_future) or _far(s):
        return "fails", wrong
    words = calls[0][0].replace(", ", ": ")
    if s.has_window:
        reach = _window(s)
        return "holds", f"{words}0 from later tokens; old tokens are hidden too{reach}"
    return "holds", f"{words}0 from later tokens, all earlier ones count"


def _leaked(found: Tensor, s: Probe, words: str) -> str:
    """Says which output changes with a later token."""
    later = ~causal_mask(len(found))
    leaks = found.masked_fill(~later, 0)
    if leaks.max() <= s.tolerance:
        return ""
    row, key = divmod(int(leaks.argmax()), len(found))
    hidden = int((found[later] <= s.tolerance).sum())
    words += f"output {row} changes by {size(leaks.max())} with later token {key}"
    if leaks.max() < 0.01:
        return f"{words}: a fill too near 0?"
    words += f"; {hidden} of {int(later.sum())} hidden"
    rows, keys = torch.where(leaks > s.tolerance)
    if len(found) > 3 and (keys == len(found) - 1).all():
        return f"{words}: of later tokens the last one alone shows, in all outputs"
    if set((keys - rows).tolist()) == {1}:
        return f"{words}: each output sees the next token, too"
    return words


def _unseen(found: Tensor, s: Probe, words: str) -> str:
    """Says which output does not depend on itself or on an earlier token."""
    past = found.masked_fill(~causal_mask(len(found)), torch.inf)
    if past.min() > s.tolerance or s.has_window:
        return ""
    row, key = divmod(int(past.argmin()), len(found))
    return f"{words}output {row} does not depend on token {key}"


def _missed(s: Probe, seen: Tensor, more: dict[str, Any]) -> str:
    """Looks once more in a text that is longer: what shows, and what is missing."""
    try:
        found = s.leaks(batch=2, length=LONG, **more)
    except ValueError:  # too long for it
        return ""
    words = f"in {LONG} tokens, "
    if wrong := (~seen).any() and _leaked(found, s, words):
        return wrong
    least = 1e-11 if s.dtype == torch.float64 else 1e-7  # far tokens may count little
    lost = seen & (found <= least)
    if not lost.any() or s.has_window:
        return ""
    place = torch.arange(LONG)
    wide = int((seen & ~lost)[-1].sum())
    if torch.equal(seen & ~lost, seen & ((place - place[:, None]).abs() < wide)):
        return f"{words}only the last {wide} count, and it names no window"
    row, key = divmod(int(lost.float().argmax()), LONG)
    return f"{words}output {row} does not depend on token {key}"


def _far(s: Probe) -> str:
    """Looks at a few tokens of a long text: who works in blocks may slip there."""
    x = s.x(1, LONG_LEN)
    least = 1e-11 if s.dtype == torch.float64 else 1e-7
    unseen: tuple[int, str] = (0, "")
    try:
        with torch.no_grad():
            before = s.run(x, **s.hides_future)
            for place in (0, 1, 100, 200, 255, 256, 511, LONG_LEN - 2):
                changed = x.clone()
                changed[:, place] = 2 * s.x(1, 1, seed=2)[:, 0]
                change = (s.run(changed, **s.hides_future) - before).abs()[0].amax(-1)
                if (shown := change[:place] > s.tolerance).any():
                    row = int(shown.float().argmax())
                    words = f"output {row} changes with later token {place}"
                    return f"in {LONG_LEN} tokens, {words}"
                lost = (change[place:] <= least).nonzero().flatten() + place
                if len(lost) > unseen[0] and not s.has_window:
                    where = (
                        f"{len(lost)} outputs, from {int(lost[0])} to {int(lost[-1])}"
                    )
                    words = f"{where}, do not depend on earlier token {place}"
                    unseen = len(lost), f"in {LONG_LEN} tokens, {words}"
    except Exception:
        return ""  # too long for it
    return unseen[1]


def _reach(s: Probe) -> str:
    if s.has_window:
        return f"near tokens count{_window(s)}"
    return "each output depends on all tokens"


def _window(s: Probe) -> str:
    """Says how far back the last output of a longer text looks."""
    try:
        found = s.leaks(batch=2, length=LONG, **s.hides_future)[-1]
    except ValueError:  # too long for it
        return ""
    least = 1e-11 if s.dtype == torch.float64 else 1e-7
    return f": the last output sees itself and {int((found[:-1] > least).sum())} before"


def probe_padding(s: Probe) -> Said:
    """A hidden token changes nothing; a text beside padding is as it is alone."""
    if "mask" not in s.takes:
        words = ", ".join(s.calling.unknown)
        hint = f" by a known name; for {words}, say how it is called: calls=..."
        return NOT_APPLICABLE, "it takes no mask" + (hint if words else "")
    same = s.mask_shape == "(T, T)"
    modes: list[dict[str, Any]] = [{}] + ([s.hides_future] if s.hides_future else [])
    x = s.x()
    for more in modes:
        for side in ("right", "left"):
            for lengths in ([4], [2]) if same else ([4, 2, 6], [3, 5]):
                mask = s.hidden(lengths, side)
                if wrong := _compare_seen(s, mask, more, f"{side} padding"):
                    return "fails", wrong
                if (
                    change := 0.0
                    if s.takes_order
                    else _from_alone(s, x, mask, more, side)
                ):
                    return (
                        "fails",
                        f"{side} padding: {size(change)} from the text alone",
                    )
    if not same and not s.by_keys:
        anything = torch.rand(BATCH, LENGTH, LENGTH, generator=s.generator()) < 0.5
        anything |= torch.eye(LENGTH, dtype=torch.bool)
        mask = anything.to(s.device)
        if wrong := _compare_seen(s, mask, {}, "a mask of any pairs"):
            return "fails", wrong
    words = f"0 from hidden tokens, left, right and mixed; mask {s.mask_shape}"
    return "holds", f"{words}; {alone}" if (alone := no_mask_per_text(s)) else words


def no_mask_per_text(s: Probe) -> str:
    """Says what a layer that takes one mask for all texts does with one for each."""
    if s.mask_shape != "(T, T)":
        return ""
    error, words = s.mask_error, "it takes no mask per text (B, T, K)"
    return words if error is None else f"{words}: {error_words(error)}"


def _from_alone(
    s: Probe, x: Tensor, mask: Tensor, more: dict[str, Any], side: str
) -> float:
    """How far a text beside padding is from the text alone; 0 where it is near."""
    for row in (0, 1):
        count = int(mask[row, 0].sum())
        part = slice(0, count) if side == "right" else slice(LENGTH - count, None)
        found = s.run(x, mask, **more)[row, part]
        change = apart(found, s.run(x[row : row + 1, part], **more)[0])
        if change > s.tolerance:
            return change
    return 0.0


def _compare_seen(s: Probe, mask: Tensor, more: dict[str, Any], words: str) -> str:
    """Says where what an output depends on is not what its mask lets it see."""
    leaks = s.leaks(mask, **more).to("cpu")
    past = causal_mask(LENGTH) if more or s.is_causal else torch.tensor(True)
    told = mask.to("cpu")
    seen = told & past
    own = torch.eye(LENGTH, dtype=torch.bool)  # the query comes from there
    rows = seen.any(dim=-1, keepdim=True)  # rows that see nothing have their own check
    found = leaks > s.tolerance
    words += ", told causal" if "causal" in more else ""
    shown = found & ~seen & ~own & rows
    missed = seen & ~found & rows
    if s.has_window:  # what it hides without this mask is no matter
        missed &= s.leaks(**more).to("cpu") > s.tolerance
    if not shown.any() and not missed.any():
        return ""
    if apart(s.run(s.x(), mask, **more), s.run(s.x(), **more)) <= s.tolerance:
        return f"{words}: the mask is ignored"
    for slip, other in _slips(told, past).items():
        if torch.equal((found | own) & rows, (other | own) & rows):
            return f"{words}: {slip}"
    if shown.any() and (slip := _mixed_heads(s, more)):
        return f"{words}: {slip}"
    if torch.equal((found | own) & rows, causal_mask(LENGTH).expand_as(told) & rows):
        return f"{words}: the causal mask takes the place of the mask"
    if shown.any():
        text, row, key = _first(shown)
        later = (
            "later" if key > row and not (past.expand(LENGTH, LENGTH))[row, key] else ""
        )
        kind = later or "hidden"
        change = size(leaks[text, row, key])
        return f"{words}: output {row} changes by {change} with {kind} token {key}"
    _, row, key = _first(missed)
    return f"{words}: output {row} does not depend on token {key}, which it may see"


def _first(places: Tensor) -> list[int]:
    at = torch.unravel_index(places.float().argmax(), places.shape)
    return [int(i) for i in at]


def _slips(mask: Tensor, past: Tensor) -> dict[str, Tensor]:
    """What outputs depend on, (B, T, K), where a mask is read in a wrong way."""
    return {
        "the mask takes the place of the causal one": mask,
        "the mask is read the other way round (True must mean: may be seen)": ~mask
        & past,
        "the mask of the first text serves for all": mask[:1].expand_as(mask) & past,
        "the mask is read by (key, query): it hides queries, not keys": mask.mT & past,
    }


def _mixed_heads(s: Probe, more: dict[str, Any]) -> str:
    """Looks whether heads get the masks of other texts.

    One text sees all, and the others no token after the fourth. Which texts depend on
    those tells how the masks were repeated, and for how many heads.
    """
    if s.mask_shape == "(T, T)":
        return ""
    mask = s.hidden([4]).clone()
    mask[3] = True
    found = s.leaks(mask, **more)[:, :4, 4:].amax(dim=(1, 2))
    if s.is_causal or more:
        found = s.leaks(mask, **more)[:, 5, 4]
    for heads in range(2, 17):
        repeated = torch.arange(BATCH).repeat(heads).unflatten(0, (BATCH, heads))
        wanted = (repeated == 3).any(dim=1)
        if not wanted.all() and torch.equal(found > s.tolerance, wanted):
            words = f"{heads} heads get masks of other texts: are they repeated by"
            return f"{words} repeat, not by repeat_interleave?"
    return ""


def probe_empty_rows(s: Probe) -> Said:
    """A query that may see nothing gives finite numbers, none of hidden keys."""
    if "mask" not in s.takes:
        return NOT_APPLICABLE, "it takes no mask"
    mask = s.hidden([LENGTH]).clone()
    rows = slice(None) if s.by_keys else slice(2, 4)
    mask[1 if s.mask_shape != "(T, T)" else slice(None), rows] = False
    s = s.single  # large numbers differ by type: those of float32 are what people use
    x = s.x().requires_grad_()
    found = s.run(x, mask)
    if not found.isfinite().all():
        return "fails", "a row that sees nothing is nan"
    weights = [p for p in s.layer.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(found.sum(), [x, *weights], allow_unused=True)
    if not all(g is None or g.isfinite().all() for g in gradients):
        return "fails", "the output is finite, its gradient is nan"
    text = 1
    leaks = s.leaks(mask)[text, rows].clone()
    for row, at in enumerate(range(LENGTH)[rows]):
        leaks[row, at] = 0
    if s.calling.additive:
        return (
            NOT_APPLICABLE,
            "finite; its model hides with a large number, and never a whole row",
        )
    if leaks.max() > s.tolerance:
        return (
            "fails",
            f"a row that sees nothing changes by {size(leaks.max())} with hidden keys",
        )
    return "holds", "finite, also the gradient; 0 from hidden tokens"
