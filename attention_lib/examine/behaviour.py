"""Checks of what a layer gives: each changes something, and looks at what changes.

A check takes a ``Probe`` and gives its verdict and what it saw. None knows how the
layer is built. Shapes: B batch, T length, K keys, M d_model.
"""

import traceback

import torch
from torch import Tensor

from attention_lib.examine import formula
from attention_lib.examine.op_counter import watched
from attention_lib.examine.probe import BATCH, LENGTH, LONG, Probe
from attention_lib.examine.report import Outcome
from attention_lib.examine.trace_smells import changed_in_place, positions_in

Said = tuple[Outcome, str]
HALF_DTYPES = {torch.bfloat16, torch.float16}
RANDOM = {"bernoulli_", "native_dropout", "rand", "randn", "rand_like", "randn_like"}
RANDOM |= {"normal_", "uniform_", "randint", "randperm"}
LONG_LEN = 600  # tokens: beyond 256, bfloat16 gives neighbours one number
NOT_APPLICABLE: Outcome = "does not apply"


def size(number: float | Tensor) -> str:
    """Writes how large a change is; what rounding does is written in one way."""
    number = float(number)
    if number != number or number == float("inf"):
        return "nan"
    return "0" if number < 1e-5 else f"{number:.2f}" if number >= 0.01 else "below 0.01"


def first_line(error: Exception) -> str:
    """Gives the first line of an error's words, or of the program that raised it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines and (steps := traceback.extract_tb(error.__traceback__)):
        lines = [f"in {steps[-1].name} {steps[-1].line}".strip()]
    return lines[0][:120] if lines else "without words"


def apart(found: Tensor, wanted: Tensor) -> float:
    """Gives the largest difference, as a share of the largest number wanted."""
    if found.shape != wanted.shape:
        return float("inf")
    scale = wanted.detach().abs().max().clamp(min=1.0)
    change = (found.detach().to(wanted.dtype) - wanted.detach()).abs().max() / scale
    return float("inf") if bool(change.isnan()) else float(change)


def probe_shape(s: Probe) -> Said:
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
    x = s.x()
    x[:, 2] = 0
    if not s.run(x).isfinite().all():
        return "fails", "nan or infinity where a token is all zeros"
    try:
        torch.manual_seed(s.seed)  # who draws numbers draws the same
        found = s.run(s.x().mT.contiguous().mT)
        torch.manual_seed(s.seed)
        change = apart(found, s.run(s.x()))
    except RuntimeError:  # an error says that it wants its input in one piece
        change = 0.0
    if change > s.tolerance:
        return "fails", f"of an x that is not contiguous it is {size(change)} apart"
    return (
        "holds",
        f"(B, T, {s.d_model}) gives (B, T, {found.shape[-1]}), T from 1 to {LONG}",
    )


def probe_deterministic(s: Probe) -> Said:
    """The same input gives the same output, whatever came between, and stays."""
    x, other = s.x(), s.x(seed=2)
    kept, state = x.clone(), {k: v.clone() for k, v in s.layer.state_dict().items()}
    first = s.run(x, raw=True, **s.hides_future)
    if not torch.equal(x, kept):
        return "fails", f"the call changes its input{changed_in_place(s)}"
    with torch.no_grad(), watched() as types:
        s.run(other)
    again = s.run(x, **s.hides_future)
    if (change := apart(again, first)) > s.tolerance:
        drawn = " (it draws random numbers in evaluation mode)" * bool(
            RANDOM & {*types}
        )
        return "fails", f"a second call differs by {size(change)}{drawn}"
    with torch.no_grad():
        if (change := apart(s.run(x, **s.hides_future), first)) > s.tolerance:
            return "fails", f"without gradients the output differs by {size(change)}"
    if wrong := _after(s, x, first):
        return "fails", wrong
    if "mask" in s.takes:
        mask = s.hidden([4, 6]).clone()
        before = mask.clone()
        s.run(x, mask, raw=True, **s.hides_future)
        if not torch.equal(mask, before):
            return "fails", "the call changes its mask"
        if (change := apart(s.run(x, **s.hides_future), first)) > s.tolerance:
            return "fails", f"after a call with a mask it is {size(change)} apart"
        masks = s.hidden([4]), s.hidden([2])
        once, _, again = (s.run(x, masks[i], **s.hides_future) for i in (0, 1, 0))
        fresh = s.run(x, masks[0], layer=s.copied(s.dtype), **s.hides_future)
        change = max(apart(once, fresh), apart(again, fresh))
        if change > s.tolerance:
            return "fails", f"after another mask the same call is {size(change)} apart"
    for name, value in s.layer.state_dict().items():
        if not torch.equal(value, state[name]):
            return "fails", f"the call changes {name}"
    return "holds", "two calls differ by 0; input and weights stay"


def _after(s: Probe, x: Tensor, first: Tensor) -> str:
    """Says what a text of another length, or a cache, leaves in the layer."""
    for words, batch, length in (
        ("after a longer text", 2, LONG),
        ("after a shorter text", BATCH, 3),
        ("after one text alone", 1, LENGTH),
    ):
        try:
            s.run(s.x(batch, length, seed=2), **s.hides_future)
        except ValueError:  # too long for it
            continue
        try:
            change = apart(s.run(x, **s.hides_future), first)
        except Exception as error:
            return f"{words} it raises {type(error).__name__}: {first_line(error)}"
        if change > s.tolerance:
            kept = "what does it keep between calls?"
            return f"{words} the same call is {size(change)} apart: {kept}"
    if "cache" in s.takes and s.calling.new_cache is not None:
        cache = s.calling.new_cache(s.layer, BATCH, LENGTH)
        s.run(x[:, :4].contiguous(), cache=cache, **s.hides_future)
        if (change := apart(s.run(x, **s.hides_future), first)) > s.tolerance:
            return f"after a call with a cache it is {size(change)} apart"
    return ""


def probe_batch(s: Probe) -> Said:
    """Each text of a batch gets what it gets alone."""
    x = s.x()
    if _reads_across(s, x):
        return (
            "fails",
            "it attends over the texts, not the tokens: is time the 1st axis?",
        )
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


def _reads_across(s: Probe, x: Tensor) -> bool:
    """Whether an output depends on other texts, and on no other token of its own."""
    before = s.run(x.clone())
    changed = x.clone()
    changed[3, :-1] = s.x(seed=2)[3, :-1]
    after = s.run(changed)
    own = apart(after[3, -1], before[3, -1])
    others = apart(after[4:, :-1], before[4:, :-1])
    return own <= s.tolerance < others


def probe_order(s: Probe) -> Said:
    """Without positions, the order of the tokens makes no difference."""
    x = s.x()
    order = torch.tensor([3, 0, 4, 2, 1, 5])  # the last token keeps its place
    whole, moved = s.run(x), s.run(x[:, order])
    change = apart(moved[:, -1], whole[:, -1])
    if not s.is_causal:
        change = max(change, apart(moved, whole[:, order]))
    if change <= s.tolerance:
        if angles := _idle_angles(s, x):
            return "fails", f"it {angles}, yet the order of the tokens changes nothing"
        return "holds", "tokens in another order: the same outputs, in that order"
    if _far_count_more(s):
        return "fails", "far tokens count more than near ones: a bias of a wrong sign?"
    if s.takes_order or s.equal_rows <= s.tolerance or s.has_window:
        return NOT_APPLICABLE, f"it knows the order: {size(change)} from another order"
    words = f"another order changes {size(change)}, and equal tokens give rows "
    sums = ": weights that do not sum to 1, or rows mixed up?"
    return "fails", words + f"that are {size(s.equal_rows)} apart{sums}"


def _far_count_more(s: Probe) -> bool:
    """Whether weights grow with the distance, alike for each token.

    Where all tokens are equal, all values are equal, so that a small change of one
    token changes an output as much as its weight. What positions add to the scores is
    then all that differs, and it is the same in each text if tokens play no part.
    """
    x = s.x(length=LONG)[:, :1].repeat(1, LONG, 1)
    step = 1e-3 * s.x(1, 1, seed=2)
    sizes = []
    try:
        with torch.no_grad():
            before = s.run(x, **s.hides_future)[:, -1]
            for place in range(LONG - 1):
                changed = x.clone()
                changed[:, place] += step[0]
                after = s.run(changed, **s.hides_future)[:, -1]
                sizes.append((after - before).norm(dim=-1))  # (B,)
    except Exception:
        return False  # too long for it
    found = torch.stack(sizes)  # (T - 1, B), the farthest first
    seen = (found > 1e-12).all(dim=1)
    near = found[int(seen.float().argmax()) :]
    if len(near) < 4 or not seen[LONG - 1 - len(near) :].all():
        return False
    return bool((near[:-1] > 1.001 * near[1:]).all())


def _idle_angles(s: Probe, x: Tensor) -> str:
    """Says what a layer has of positions, where it follows the formula without."""
    if "start" in s.takes or formula.find_formula(s)[0] != "holds":
        return ""
    with watched() as types:
        s.run(x)
    return "computes sines and cosines" if {"cos", "sin"} & {*types} else ""


def probe_memory(s: Probe) -> Said:
    """Keys and values of another text, of another length: all its tokens count."""
    if "memory" not in s.takes:
        return NOT_APPLICABLE, "it takes no memory"
    if s.is_causal:
        return NOT_APPLICABLE, "it hides the future, and a memory has none"
    x, memory = s.x(), s.x(length=4, seed=3)
    try:
        whole = s.run(x, memory=memory)
    except ValueError as error:
        return NOT_APPLICABLE, f"it refuses: {str(error)[:60]}"
    if whole.shape[:2] != x.shape[:2]:
        return "fails", f"from T = {LENGTH} and S = 4 comes {tuple(whole.shape)}"
    for place in range(4):
        changed = memory.clone()
        changed[:, place] = s.x(seed=4)[:, place]
        changes = (s.run(x, memory=changed) - whole).abs().amax(dim=(0, 2))
        if changes.min() <= s.tolerance:
            layer = s.copied(s.dtype)  # that has met no other memory
            if apart(s.run(x, memory=changed, layer=layer), whole) > s.tolerance:
                words = "a second memory counts for nothing: the first is kept"
                return "fails", f"{words} between calls"
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


def probe_offset(s: Probe) -> Said:
    """With positions, only the distances count."""
    if "start" not in s.takes:
        wrong, right = positions_in(s)
        if wrong:
            return "fails", wrong
        return (
            ("holds", right)
            if right
            else (NOT_APPLICABLE, "no positions come from outside")
        )
    x = s.x()
    first, later = (s.run(x, start=start, **s.hides_future) for start in (0, 11))
    turned = apart(first, s.run(x, **s.hides_future))
    if turned <= s.tolerance:
        return "fails", "positions change nothing"
    if (change := apart(later, first)) > max(s.tolerance, 1e-5):
        return "fails", f"11 positions later: {size(change)} apart"
    return "holds", f"positions count ({size(turned)}); all 11 later: 0 apart"
