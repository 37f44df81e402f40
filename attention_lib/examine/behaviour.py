"""Probes of behaviour: each changes something and looks at what changes.

A probe takes a ``Probe``, the subject of the examination. It returns what it saw where
all is right, raises ``FaultError`` where the layer is wrong, and
``NotApplicableError`` where it cannot judge. None knows how the layer is built.

Shapes: B batch, T length, K keys, M d_model.
"""

import torch
from torch import Tensor

from attention_lib.examine.formula import probe_formula
from attention_lib.examine.operations import operations_of
from attention_lib.examine.outcomes import (
    FaultError,
    NotApplicableError,
    apart,
    first_line,
    size,
)
from attention_lib.examine.probe import BATCH, LENGTH, LONG, Probe
from attention_lib.examine.trace_smells import changed_in_place, positions_in

_RANDOM = {"bernoulli_", "native_dropout", "rand", "randn", "rand_like", "randn_like"}
_RANDOM |= {"normal_", "uniform_", "randint", "randperm"}
_ORDER = [3, 0, 4, 2, 1, 5]  # the last token keeps its position


def probe_shape(probe: Probe) -> str:
    """Test that (B, T, M) stays (B, T, M), of one type and finite, for all B and T."""
    longest = LENGTH
    for batch, length in [(BATCH, LENGTH), (1, 1), (1, LENGTH), (3, 1), (2, LONG)]:
        x = probe.x(batch, length)
        try:
            found = probe.run(x)
        except Exception as error:
            if length == LONG and isinstance(error, ValueError):
                return f"lengths 1 to {longest}; {LONG} is refused"
            raise
        if found.shape[:2] != x.shape[:2] or found.ndim != 3:
            raise FaultError(f"from {tuple(x.shape)} comes {tuple(found.shape)}")
        if found.dtype != x.dtype:
            raise FaultError(f"from {x.dtype} comes {found.dtype}")
        if not found.isfinite().all():
            raise FaultError(f"nan or infinity at {tuple(x.shape)}")
        longest = max(longest, length)
    x = probe.x()
    x[:, 2] = 0
    if not probe.run(x).isfinite().all():
        raise FaultError("nan or infinity where a token is all zeros")
    try:
        torch.manual_seed(probe.seed)  # a layer that samples, samples the same numbers
        found = probe.run(probe.x().mT.contiguous().mT)
        torch.manual_seed(probe.seed)
        wanted = probe.run(probe.x())
    except RuntimeError:  # an error says that it wants its input in one piece
        found = wanted = probe.run(probe.x())
    probe.expect_same(found, wanted, "of an x that is not contiguous it is {} apart")
    sizes = f"(B, T, {probe.d_model}) gives (B, T, {found.shape[-1]})"
    return f"{sizes}, T from 1 to {LONG}"


def probe_deterministic(probe: Probe) -> str:
    """Test that the same input gives the same output, and that nothing is changed."""
    x = probe.x()
    state = {name: value.clone() for name, value in probe.layer.state_dict().items()}
    kept = x.clone()
    first = probe.run_causal(x, raw=True)
    if not torch.equal(x, kept):
        raise FaultError(f"the call changes its input{changed_in_place(probe)}")
    other = probe.x(seed=2)
    words = "a second call differs by {}"
    if _RANDOM & {*operations_of(lambda: probe.run(other)).types}:
        words += " (it draws random numbers in evaluation mode)"
    probe.expect_same(probe.run_causal(x), first, words)
    with torch.enable_grad():
        found = probe.run_causal(x)
    probe.expect_same(found, first, "without gradients the output differs by {}")
    _expect_nothing_kept(probe, x, first)
    if "mask" in probe.takes:
        _expect_no_mask_kept(probe, x, first)
    for name, value in probe.layer.state_dict().items():
        if not torch.equal(value, state[name]):
            raise FaultError(f"the call changes {name}")
    return "two calls differ by 0; input and weights stay"


def _expect_nothing_kept(probe: Probe, x: Tensor, first: Tensor) -> None:
    """Look for what a text of another length, or a cache, leaves in the layer."""
    for words, batch, length in (
        ("after a longer text", 2, LONG),
        ("after a shorter text", BATCH, 3),
        ("after one text alone", 1, LENGTH),
    ):
        try:
            probe.run_causal(probe.x(batch, length, seed=2))
        except ValueError:  # too long for it
            continue
        try:
            found = probe.run_causal(x)
        except Exception as error:
            words += f" it raises {type(error).__name__}: {first_line(error)}"
            raise FaultError(words) from error
        words += " the same call is {} apart: what does it keep between calls?"
        probe.expect_same(found, first, words)
    if probe.new_cache is not None:
        cache = probe.new_cache(probe.layer, BATCH, LENGTH)
        probe.run_causal(x[:, :4].contiguous(), cache=cache)
        found = probe.run_causal(x)
        probe.expect_same(found, first, "after a call with a cache it is {} apart")


def _expect_no_mask_kept(probe: Probe, x: Tensor, first: Tensor) -> None:
    mask = probe.padding([4, 6]).clone()
    before = mask.clone()
    probe.run_causal(x, mask, raw=True)
    if not torch.equal(mask, before):
        raise FaultError("the call changes its mask")
    found = probe.run_causal(x)
    probe.expect_same(found, first, "after a call with a mask it is {} apart")
    masks = probe.padding([4]), probe.padding([2])
    once, _, again = (probe.run_causal(x, masks[i]) for i in (0, 1, 0))
    wanted = probe.run_causal(x, masks[0], layer=probe.copied(probe.dtype))
    for found in (once, again):
        words = "after another mask the same call is {} apart"
        probe.expect_same(found, wanted, words)


def probe_batch(probe: Probe) -> str:
    """Test that each text of a batch gets what it gets alone."""
    x = probe.x()
    _expect_tokens_attended(probe, x)
    for options in [{}, probe.causal_options]:
        whole = probe.run(x, **options)
        for row in (0, 2, BATCH - 1):
            alone = probe.run(x[row : row + 1], **options)[0]
            probe.expect_same(alone, whole[row], f"text {row} alone is {{}} apart")
        changed = x.clone()
        changed[3] = probe.x(seed=2)[3]
        words = "changing text 3 changes others by {}"
        probe.expect_same(probe.run(changed, **options)[:3], whole[:3], words)
    return f"{BATCH} texts together and alone: 0 apart"


def _expect_tokens_attended(probe: Probe, x: Tensor) -> None:
    """Raise a fault where outputs depend on other texts, and on no other token."""
    before = probe.run(x.clone())
    changed = x.clone()
    changed[3, :-1] = probe.x(seed=2)[3, :-1]
    after = probe.run(changed)
    own = apart(after[3, -1], before[3, -1])
    if own <= probe.tolerance < apart(after[4:, :-1], before[4:, :-1]):
        words = "it attends over the texts, not the tokens: is time the 1st axis?"
        raise FaultError(words)


def probe_order(probe: Probe) -> str:
    """Test that without positions the order of the tokens makes no difference."""
    x, order = probe.x(), torch.tensor(_ORDER)
    whole, moved = probe.run(x), probe.run(x[:, order])
    change = apart(moved[:, -1], whole[:, -1])
    if not probe.is_causal:
        change = max(change, apart(moved, whole[:, order]))
    if change <= probe.tolerance:
        if _has_idle_angles(probe, x):
            words = "computes sines and cosines, yet the order of the tokens changes"
            raise FaultError(f"it {words} nothing")
        return "tokens in another order: the same outputs, in that order"
    if _far_tokens_count_more(probe):
        words = "far tokens count more than near ones: a bias of a wrong sign?"
        raise FaultError(words)
    equal = probe.equal_rows
    if probe.knows_positions or equal <= probe.tolerance or probe.has_window:
        words = f"it knows the order: {size(change)} from another order"
        raise NotApplicableError(words)
    words = f"another order changes {size(change)}, and equal tokens give rows that"
    reasons = "weights that do not sum to 1, or rows mixed up?"
    raise FaultError(f"{words} are {size(equal)} apart: {reasons}")


def _far_tokens_count_more(probe: Probe) -> bool:
    """Return whether weights grow with the distance, for each token alike.

    Where all tokens are equal, all values are equal, so that a small change of one
    token changes an output as much as its weight. What positions add to the scores is
    then all that differs, and it is the same in each text if tokens play no part.
    """
    x = probe.x(length=LONG)[:, :1].repeat(1, LONG, 1)
    step = 1e-3 * probe.x(1, 1, seed=2)
    before = probe.attempt(x)
    if before is None:  # too long for it
        return False
    sizes = []
    for position in range(LONG - 1):
        changed = x.clone()
        changed[:, position] += step[0]
        after = probe.attempt(changed)
        if after is None:
            return False
        sizes.append((after - before)[:, -1].norm(dim=-1))  # (B,)
    found = torch.stack(sizes)  # (T - 1, B), the farthest first
    seen = (found > 1e-12).all(dim=1)
    near = found[int(seen.float().argmax()) :]
    if len(near) < 4 or not seen[LONG - 1 - len(near) :].all():
        return False
    return bool((near[:-1] > 1.001 * near[1:]).all())


def _has_idle_angles(probe: Probe, x: Tensor) -> bool:
    """Return whether a layer makes angles, and follows the formula without them."""
    if "start" in probe.takes:
        return False
    try:
        probe_formula(probe)
    except (FaultError, NotApplicableError):
        return False
    return bool({"cos", "sin"} & {*operations_of(lambda: probe.run(x)).types})


def probe_memory(probe: Probe) -> str:
    """Test that all tokens of a memory count, and no other query does."""
    if "memory" not in probe.takes:
        raise NotApplicableError("it takes no memory")
    if probe.is_causal:
        raise NotApplicableError("it hides the future, and a memory has none")
    x, memory = probe.x(), probe.x(length=4, seed=3)
    try:
        whole = probe.run(x, memory=memory)
    except ValueError as error:
        raise NotApplicableError(f"it refuses: {str(error)[:60]}") from error
    if whole.shape[:2] != x.shape[:2]:
        raise FaultError(f"from T = {LENGTH} and S = 4 comes {tuple(whole.shape)}")
    for position in range(4):
        changed = memory.clone()
        changed[:, position] = probe.x(seed=4)[:, position]
        change = (probe.run(x, memory=changed) - whole).abs().amax(dim=(0, 2))
        if change.min() <= probe.tolerance:
            layer = probe.copied(probe.dtype)  # one that has met no other memory
            found = probe.run(x, memory=changed, layer=layer)
            words = "a second memory counts for nothing: the first is kept between"
            probe.expect_same(found, whole, f"{words} calls")
            words = f"an output does not depend on token {position} of the memory"
            raise FaultError(words)
    if not probe.knows_positions:
        moved = probe.run(x, memory=memory[:, torch.tensor([2, 0, 3, 1])])
        probe.expect_same(moved, whole, "the memory in another order changes {}")
    changed = x.clone()
    changed[:, 1] = probe.x(seed=2)[:, 1]
    others = [0, *range(2, LENGTH)]
    found = probe.run(changed, memory=memory)[:, others]
    words = "an output changes by {} with another query"
    probe.expect_same(found, whole[:, others], words)
    return f"T = {LENGTH}, S = 4: each token of the memory counts, no other query"


def probe_offset(probe: Probe) -> str:
    """Test that of positions only the distances count."""
    if "start" not in probe.takes:
        return positions_in(probe)
    x = probe.x()
    first, later = (probe.run_causal(x, start=start) for start in (0, 11))
    change = apart(first, probe.run_causal(x))
    if change <= probe.tolerance:
        raise FaultError("positions change nothing")
    if (moved := apart(later, first)) > max(probe.tolerance, 1e-5):
        raise FaultError(f"11 positions later: {size(moved)} apart")
    return f"positions count ({size(change)}); all 11 later: 0 apart"
