"""Checks of what a layer gives: each changes something, and looks at what changes.

A check takes a ``Subject`` and gives its verdict and what it saw. None knows how the
layer is built. Shapes: B batch, T length, K keys, M d_model.
"""

from typing import Any

import torch
from torch import Tensor

from attention_lib.checks.report import Outcome
from attention_lib.checks.subject import BATCH, LENGTH, LONG, Subject
from attention_lib.masks import causal_mask

Said = tuple[Outcome, str]
NO: Outcome = "does not apply"


def size(number: float | Tensor) -> str:
    """Writes how large a change is; what rounding does is written in one way."""
    number = float(number)
    if number != number or number == float("inf"):
        return "nan"
    return "0" if number < 1e-5 else f"{number:.2f}" if number >= 0.01 else "below 0.01"


def apart(found: Tensor, wanted: Tensor) -> float:
    """Gives the largest difference, as a share of the largest number wanted."""
    if found.shape != wanted.shape:
        return float("inf")
    scale = wanted.detach().abs().max().clamp(min=1.0)
    change = (found.detach().to(wanted.dtype) - wanted.detach()).abs().max() / scale
    return float("inf") if bool(change.isnan()) else float(change)


def check_shape(s: Subject) -> Said:
    """(B, T, M) in, (B, T, M) out, of the same type, finite: also where B or T is 1."""
    longest = LENGTH
    for batch, length in [(BATCH, LENGTH), (1, 1), (1, LENGTH), (3, 1), (2, LONG)]:
        x = s.x(batch, length)
        try:
            found = s.run(x)
        except Exception as error:
            if length == LONG and isinstance(error, ValueError):
                return "holds", f"lengths 1 to {longest}; {LONG} is refused"
            raise
        if found.shape[:2] != x.shape[:2] or found.ndim != 3:
            return "fails", f"from {tuple(x.shape)} comes {tuple(found.shape)}"
        if found.dtype != x.dtype:
            return "fails", f"from {x.dtype} comes {found.dtype}"
        if not found.isfinite().all():
            return "fails", f"nan or infinity at {tuple(x.shape)}"
        longest = max(longest, length)
    return (
        "holds",
        f"(B, T, {s.d_model}) gives (B, T, {found.shape[-1]}), T from 1 to {LONG}",
    )


def check_deterministic(s: Subject) -> Said:
    """The same input gives the same output, whatever came between, and stays."""
    x, other = s.x(), s.x(seed=2)
    kept, state = x.clone(), {k: v.clone() for k, v in s.layer.state_dict().items()}
    first = s.run(x, **s.hides_future)
    s.run(other)
    again = s.run(x, **s.hides_future)
    if (change := apart(again, first)) > s.tolerance:
        return "fails", f"a second call differs by {size(change)}"
    with torch.no_grad():
        if (change := apart(s.run(x, **s.hides_future), first)) > s.tolerance:
            return "fails", f"without gradients the output differs by {size(change)}"
    if not torch.equal(x, kept):
        return "fails", "the call changes its input"
    if "mask" in s.takes:
        mask = s.hidden([4, 6])
        before = mask.clone()
        s.run(x, mask, **s.hides_future)
        if not torch.equal(mask, before):
            return "fails", "the call changes its mask"
    for name, value in s.layer.state_dict().items():
        if not torch.equal(value, state[name]):
            return "fails", f"the call changes {name}"
    return "holds", "two calls differ by 0; input and weights stay"


def check_future(s: Subject) -> Said:
    """Changing a token changes no output before it."""
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    alone = s.leaks()
    if s.hides_future:
        told = s.leaks(**s.hides_future)
        worst = told.masked_fill(~later, 0)
        if worst.max() > s.tolerance:
            row, key = divmod(int(worst.argmax()), LENGTH)
            words = f"told causal, output {row} changes by {size(worst.max())}"
            return "fails", f"{words} with token {key}"
        seen = told.masked_fill(later, 1).min()
        if seen <= s.tolerance:
            if s.has_window:
                return (
                    "holds",
                    "no output changes with a later token; old tokens are hidden too",
                )
            row, key = divmod(int(told.masked_fill(later, 1).argmin()), LENGTH)
            return "fails", f"told causal, output {row} does not depend on token {key}"
        if change := _long_leak(s):
            return "fails", change
        return "holds", "told causal: 0 from later tokens, all earlier ones count"
    hidden = int((alone[later] <= s.tolerance).sum())
    pairs = int(later.sum())
    if hidden == pairs:
        past = alone.masked_fill(later, 1)
        if past.min() <= s.tolerance and not s.has_window:
            row, key = divmod(int(past.argmin()), LENGTH)
            return "fails", f"output {row} does not depend on token {key}"
        if change := _long_leak(s):
            return "fails", change
        return "holds", "0 from later tokens, all earlier ones count"
    if s.says_causal or (hidden and s.told_causal is None):
        row, key = divmod(int(alone.masked_fill(~later, 0).argmax()), LENGTH)
        words = f"output {row} changes by {size(alone[row, key])} with token {key}"
        return "fails", f"{words}; {hidden} of {pairs} later pairs are hidden"
    return NO, "it is not causal: each output depends on all tokens"


def _long_leak(s: Subject) -> str:
    """Looks for the future once more in a text that is longer."""
    x = s.x(2, LONG)
    changed = x.clone()
    half = LONG // 2 + 1
    changed[:, half:] = s.x(2, LONG, seed=2)[:, half:]
    try:
        before, after = (s.run(each, **s.hides_future) for each in (x, changed))
    except ValueError:  # too long for it
        return ""
    change = apart(after[:, :half], before[:, :half])
    return (
        f"in {LONG} tokens the past changes by {size(change)}"
        if change > s.tolerance
        else ""
    )


def check_padding(s: Subject) -> Said:
    """A hidden token changes nothing; a text beside padding is as it is alone."""
    if "mask" not in s.takes:
        return NO, "it takes no mask"
    same = s.mask_shape == "(T, T)"
    modes: list[dict[str, Any]] = [{}] + ([s.hides_future] if s.hides_future else [])
    x = s.x()
    for more in modes:
        for side in ("right", "left"):
            for lengths in ([4], [2]) if same else ([4, 2, 6], [3, 5]):
                mask = s.hidden(lengths, side)
                if wrong := _compare_seen(s, mask, more, side):
                    return "fails", wrong
                for row in (0, 1):
                    count = int(mask[row, 0].sum())
                    part = (
                        slice(0, count)
                        if side == "right"
                        else slice(LENGTH - count, None)
                    )
                    found = s.run(x, mask, **more)[row, part]
                    alone = s.run(x[row : row + 1, part], **more)[0]
                    if (
                        not s.takes_order
                        and (change := apart(found, alone)) > s.tolerance
                    ):
                        return (
                            "fails",
                            f"{side} padding: {size(change)} from the text alone",
                        )
    if not same and s.mask_shape != "(B, T)":
        anything = torch.rand(BATCH, LENGTH, LENGTH, generator=s.generator()) < 0.5
        anything |= torch.eye(LENGTH, dtype=torch.bool)
        if wrong := _compare_seen(s, anything.to(s.device), {}, "mixed"):
            return "fails", wrong
    return "holds", f"0 from hidden tokens, left, right and mixed; mask {s.mask_shape}"


def _compare_seen(s: Subject, mask: Tensor, more: dict[str, Any], side: str) -> str:
    """Says where what an output depends on is not what its mask lets it see."""
    leaks = s.leaks(mask, **more).to("cpu")
    seen = mask.to("cpu")
    if more or s.is_causal:
        seen = seen & causal_mask(LENGTH)
    own = torch.eye(LENGTH, dtype=torch.bool)  # the query comes from there
    rows = seen.any(dim=-1, keepdim=True)  # rows that see nothing have their own check
    found = leaks > s.tolerance
    words = f"{side} padding" if side != "mixed" else "a mask of any pairs"
    if "causal" in more:
        words += ", told causal"
    shown = found & ~seen & ~own & rows
    if shown.any():
        place = shown.float().argmax()
        text, row, key = (int(i) for i in torch.unravel_index(place, shown.shape))
        change = size(leaks[text, row, key])
        return f"{words}: output {row} changes by {change} with hidden token {key}"
    missed = seen & ~found & rows
    if missed.any() and not s.has_window:
        place = missed.float().argmax()
        _, row, key = (int(i) for i in torch.unravel_index(place, missed.shape))
        return f"{words}: output {row} does not depend on token {key}, which it may see"
    return ""


def check_batch(s: Subject) -> Said:
    """Each text of a batch gets what it gets alone."""
    x = s.x()
    for more in [{}, s.hides_future]:
        whole = s.run(x, **more)
        for row in (0, 2, BATCH - 1):
            change = apart(s.run(x[row : row + 1], **more)[0], whole[row])
            if change > s.tolerance:
                return "fails", f"text {row} alone is {size(change)} apart"
        changed = x.clone()
        changed[3] = s.x(seed=2)[3]
        change = apart(s.run(changed, **more)[:3], whole[:3])
        if change > s.tolerance:
            return "fails", f"changing text 3 changes others by {size(change)}"
    return "holds", f"{BATCH} texts together and alone: 0 apart"


def check_order(s: Subject) -> Said:
    """Without positions, the order of the tokens makes no difference."""
    x = s.x()
    order = torch.tensor([3, 0, 4, 2, 1, 5])  # the last token keeps its place
    whole, moved = s.run(x), s.run(x[:, order])
    change = apart(moved[:, -1], whole[:, -1])
    if not s.is_causal:
        change = max(change, apart(moved, whole[:, order]))
    if change <= s.tolerance:
        return "holds", "tokens in another order: the same outputs, in that order"
    if s.equal_rows <= s.tolerance or s.has_window:
        return NO, f"it knows the order: {size(change)} from another order"
    words = f"another order changes {size(change)}, and equal tokens give rows "
    return "fails", words + f"that are {size(s.equal_rows)} apart"


def check_empty_rows(s: Subject) -> Said:
    """A query that may see nothing gives finite numbers, none of hidden keys."""
    if "mask" not in s.takes:
        return NO, "it takes no mask"
    mask = s.hidden([LENGTH]).clone()
    rows = slice(None) if s.mask_shape in ("(B, T)",) else slice(2, 4)
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
        return NO, "finite; its model hides with a large number, and never a whole row"
    if leaks.max() > s.tolerance:
        return (
            "fails",
            f"a row that sees nothing changes by {size(leaks.max())} with hidden keys",
        )
    return "holds", "finite, also the gradient; 0 from hidden tokens"


def check_half_precision(s: Subject) -> Said:
    """In bfloat16 and float16 it runs, keeps the type, and stays near."""
    wide = s.copied(torch.float32)
    x, worst = s.x().float(), {}
    wanted = s.run(x, layer=wide, **s.hides_future)
    for dtype, limit in ((torch.bfloat16, 0.1), (torch.float16, 0.02)):
        narrow = s.copied(torch.float32).to(dtype)
        found = s.run(x.to(dtype), layer=narrow, **s.hides_future)
        name = str(dtype).removeprefix("torch.")
        if found.dtype != dtype:
            return (
                "fails",
                f"from {name} comes {str(found.dtype).removeprefix('torch.')}",
            )
        worst[name] = apart(found.float(), wanted)
        if not worst[name] < limit:
            return "fails", f"{name} is {size(worst[name])} apart, of at most {limit}"
        if "mask" in s.takes:
            found = s.run(x.to(dtype), s.hidden([4, 6]), layer=narrow, **s.hides_future)
            if not found.isfinite().all():
                return "fails", f"{name} with a mask: nan"
    return "holds", "bfloat16 within 0.1 and float16 within 0.02 of float32"


def check_large(s: Subject) -> Said:
    """Scores of many hundreds overflow nothing, and hidden tokens stay hidden."""
    for scale in (30.0, 300.0):
        x = s.x() * scale
        if not s.run(x, **s.hides_future).isfinite().all():
            return "fails", f"inputs {scale:.0f} times as large: nan"
        changed = x.clone()
        changed[:, 4:] = s.x(seed=2)[:, 4:] * scale
        for more in [s.hides_future] if s.hides_future else [{}] if s.is_causal else []:
            before = s.run(x, **more)[:, :4]
            change = apart(s.run(changed, **more)[:, :4], before)
            if change > s.tolerance:
                return (
                    "fails",
                    f"inputs {scale:.0f} times larger: {size(change)} from the future",
                )
        if "mask" in s.takes:
            mask = s.hidden([4])
            before, after = (s.run(each, mask)[:, :4] for each in (x, changed))
            if (change := apart(after, before)) > s.tolerance:
                return (
                    "fails",
                    f"inputs {scale:.0f} times as large: padding shows, {size(change)}",
                )
    return "holds", "inputs 30 and 300 times as large: finite, 0 from hidden tokens"


def check_cache(s: Subject) -> Said:
    """Read in pieces with a cache, a text gives what it gives at once."""
    if "cache" not in s.takes or s.calling.new_cache is None:
        return NO, "it takes no cache"
    x = s.x()
    turned = [False, True] if "start" in s.takes else [False]
    for turn in turned:
        more: dict[str, Any] = s.hides_future | ({"start": 0} if turn else {})
        whole = s.run(x, **more)
        for pieces in ([1] * LENGTH, [2, 1, 3], [LENGTH]):
            cache = s.calling.new_cache(s.layer, BATCH, LENGTH)
            found, start = [], 0
            for count in pieces:
                more |= {"start": start} if turn else {}
                part = x[:, start : start + count].contiguous()
                found.append(s.run(part, cache=cache, **more))
                start += count
            change = apart(torch.cat(found, dim=1), whole)
            if change > s.tolerance:
                how = ", ".join(map(str, pieces))
                return "fails", f"in pieces of {how}: {size(change)} apart"
    return "holds", "one by one, in pieces of 2, 1, 3, and at once: 0 apart"


def check_memory(s: Subject) -> Said:
    """Keys and values of another text, of another length: all its tokens count."""
    if "memory" not in s.takes:
        return NO, "it takes no memory"
    if s.is_causal:
        return NO, "it hides the future, and a memory has none"
    x, memory = s.x(), s.x(length=4, seed=3)
    try:
        whole = s.run(x, memory=memory)
    except ValueError as error:
        return NO, f"it refuses: {str(error)[:60]}"
    if whole.shape[:2] != x.shape[:2]:
        return "fails", f"from T = {LENGTH} and S = 4 comes {tuple(whole.shape)}"
    for place in range(4):
        changed = memory.clone()
        changed[:, place] = s.x(seed=4)[:, place]
        changes = (s.run(x, memory=changed) - whole).abs().amax(dim=(0, 2))
        if changes.min() <= s.tolerance:
            return "fails", f"an output does not depend on token {place} of the memory"
    order = torch.tensor([2, 0, 3, 1])
    change = apart(s.run(x, memory=memory[:, order]), whole)
    if change > s.tolerance and not s.takes_order:
        return "fails", f"the memory in another order changes {size(change)}"
    changed = x.clone()
    changed[:, 1] = s.x(seed=2)[:, 1]
    others = [0, *range(2, LENGTH)]
    change = apart(s.run(changed, memory=memory)[:, others], whole[:, others])
    if change > s.tolerance:
        return "fails", f"an output changes by {size(change)} with another query"
    return (
        "holds",
        f"T = {LENGTH}, S = 4: each token of the memory counts, no other query",
    )


def check_offset(s: Subject) -> Said:
    """With positions, only the distances count."""
    if "start" not in s.takes:
        return NO, "no positions come from outside"
    x = s.x()
    first, later = (s.run(x, start=start, **s.hides_future) for start in (0, 11))
    turned = apart(first, s.run(x, **s.hides_future))
    if turned <= s.tolerance:
        return "fails", "positions change nothing"
    if (change := apart(later, first)) > max(s.tolerance, 1e-5):
        return "fails", f"11 positions later: {size(change)} apart"
    return "holds", f"positions count ({size(turned)}); all 11 later: 0 apart"
