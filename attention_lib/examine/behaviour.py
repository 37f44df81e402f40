"""Probes of behaviour: each changes something and looks at what changes.

A probe takes a ``Probe``, the subject of the examination. It returns what it saw where
all is right, raises ``FaultError`` where the layer is wrong, and
``NotApplicableError`` where it cannot judge. None knows how the layer is built.
"""

import copy
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attention_lib.examine.call_variants import Call
from attention_lib.examine.formula import probe_formula
from attention_lib.examine.outcomes import (
    FaultError,
    NotApplicableError,
    apart,
    first_line,
    or_else,
    size,
)
from attention_lib.examine.probe import BATCH, LENGTH, LONG, ORDER, Probe
from attention_lib.examine.recorder import operations_of
from attention_lib.examine.trace import changed_in_place, positions_in

_RANDOM = {"bernoulli_", "native_dropout", "rand", "randn", "rand_like", "randn_like"}
_RANDOM |= {"normal_", "uniform_", "randint", "randperm"}
# With this option the sum begins at the output of the norm.
_AFTER_NORM = "apply_residual_connection_post_layernorm"
_BY_TEXT = "it attends over the texts, not the tokens: is time the 1st axis?"
_SIGN = "far tokens count more than near ones: a bias of a wrong sign?"
_IDLE = "it computes sines and cosines, yet the order of the tokens changes nothing"
_MIXED = "weights that do not sum to 1, or rows mixed up?"
_KEPT = "a second memory counts for nothing: the first is kept between calls"


def probe_shape(probe: Probe) -> str:
    """Test that (B, T, M) stays (B, T, M), of one type and finite, for all B and T."""
    for batch, length in [(BATCH, LENGTH), (1, 1), (1, LENGTH), (3, 1), (2, LONG)]:
        x = probe.x(batch, length)
        try:
            found = probe.run(x)
        except Exception as error:
            if length < LONG or not isinstance(error, ValueError):
                raise
            return f"lengths 1 to {LENGTH}; {LONG} is refused"
        if found.shape[:2] != x.shape[:2] or found.ndim != 3:
            raise FaultError(f"from {tuple(x.shape)} comes {tuple(found.shape)}")
        if found.dtype != x.dtype:
            raise FaultError(f"from {x.dtype} comes {found.dtype}")
        if not found.isfinite().all():
            raise FaultError(f"nan or infinity at {tuple(x.shape)}")
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
    width = found.shape[-1]
    return f"(B, T, {probe.d_model}) gives (B, T, {width}), T from 1 to {LONG}"


def probe_deterministic(probe: Probe) -> str:
    """Test that the same input gives the same output, and that nothing is changed."""
    x = probe.x()
    state, kept = copy.deepcopy(probe.layer.state_dict()), x.clone()
    first = probe.run_causal(x, raw=True)
    if not torch.equal(x, kept):
        raise FaultError(f"the call changes its input{changed_in_place(probe)}")
    words = "a second call differs by {}"
    if probe.uses(*_RANDOM):
        words += " (it draws random numbers in evaluation mode)"
    probe.expect_same(probe.run_causal(x), first, words)
    with torch.enable_grad():
        found = probe.run_causal(x)
    probe.expect_same(found, first, "without gradients the output differs by {}")
    _expect_nothing_kept(probe, x, first)
    if "mask" in probe.takes:
        _expect_no_mask_kept(probe, x)
    for name, value in probe.layer.state_dict().items():
        if not torch.equal(value, state[name]):
            raise FaultError(f"the call changes {name}")
    return "two calls differ by 0; input and weights stay"


def _expect_nothing_kept(probe: Probe, x: Tensor, first: Tensor) -> None:
    """Look for what another call leaves in the layer."""
    calls = {
        "a longer text": Call(2, LONG, seed=2),
        "a shorter text": Call(length=3, seed=2),
        "one text alone": Call(1, seed=2),
    }
    if "cache" in probe.takes:
        calls["a call with a cache"] = Call(pieces=(4,))
    if "mask" in probe.takes:
        calls["a call with a mask"] = Call(mask=partial(Probe.padding, lengths=[4, 6]))
    for words, call in calls.items():
        try:
            call(probe)
        except ValueError:  # too long for it
            continue
        try:
            found = probe.run_causal(x)
        except Exception as error:
            words = f"after {words} it raises {type(error).__name__}"
            raise FaultError(f"{words}: {first_line(error)}") from error
        words = f"after {words} the same call is {{}} apart: what does it keep"
        probe.expect_same(found, first, f"{words} between calls?")


def _expect_no_mask_kept(probe: Probe, x: Tensor) -> None:
    mask = probe.padding([4, 6]).clone()
    probe.run_causal(x, mask, raw=True)
    if not torch.equal(mask, probe.padding([4, 6])):
        raise FaultError("the call changes its mask")
    one, two = probe.padding([4]), probe.padding([2])
    wanted = probe.run_causal(x, one, layer=probe.copied(probe.dtype))
    once, _, again = (probe.run_causal(x, each) for each in (one, two, one))
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
        found = probe.run(probe.x(other=3), **options)
        words = "changing text 3 changes others by {}"
        probe.expect_same(found[:3], whole[:3], words)
    return f"{BATCH} texts together and alone: 0 apart"


def _expect_tokens_attended(probe: Probe, x: Tensor) -> None:
    """Raise a fault where outputs depend on other texts, and on no other token."""
    before, after = probe.run(x), probe.run(probe.x(other=np.s_[3, :-1]))
    own = apart(after[3, -1], before[3, -1])
    if own <= probe.tolerance < apart(after[4:, :-1], before[4:, :-1]):
        raise FaultError(_BY_TEXT)


def probe_order(probe: Probe) -> str:
    """Test that without positions the order of the tokens makes no difference."""
    x = probe.x()
    whole, moved = probe.run(x), probe.run(x[:, ORDER])
    change = apart(moved[:, -1], whole[:, -1])
    if not probe.is_causal:
        change = max(change, apart(moved, whole[:, ORDER]))
    if change <= probe.tolerance:
        if _has_idle_angles(probe):
            raise FaultError(_IDLE)
        return "tokens in another order: the same outputs, in that order"
    if _far_tokens_count_more(probe):
        raise FaultError(_SIGN)
    equal = probe.equal_rows
    if probe.knows_positions or equal <= probe.tolerance or probe.has_window:
        words = f"it knows the order: {size(change)} from another order"
        raise NotApplicableError(words)
    words = f"another order changes {size(change)}, and equal tokens give rows that"
    raise FaultError(f"{words} are {size(equal)} apart: {_MIXED}")


def _far_tokens_count_more(probe: Probe) -> bool:
    """Return whether weights grow with the distance, for each token alike.

    Where all tokens are equal, all values are equal, so that a small change of one
    token changes an output as much as its weight. What positions add to the scores is
    then all that differs, and it is the same in each text if tokens play no part.
    """
    x = probe.x(length=LONG)[:, :1].repeat(1, LONG, 1)
    step = 1e-3 * probe.x(1, 1, seed=2)[0]
    sizes = []
    try:
        before = probe.run_causal(x)
        for position in range(LONG - 1):
            changed = x.clone()
            changed[:, position] += step
            after = probe.run_causal(changed)
            sizes.append((after - before)[:, -1].norm(dim=-1))  # (B,)
    except Exception:  # too long for it
        return False
    found = torch.stack(sizes)  # (T - 1, B), the farthest first
    seen = (found > 1e-12).all(dim=1)
    near = found[int(seen.float().argmax()) :]
    if len(near) < 4 or not seen[LONG - 1 - len(near) :].all():
        return False
    return bool((near[:-1] > 1.001 * near[1:]).all())


def _has_idle_angles(probe: Probe) -> bool:
    """Return whether a layer makes angles, and follows the formula without them."""
    if "start" in probe.takes or or_else(None, probe_formula, probe) is None:
        return False
    return probe.uses("cos", "sin")


def probe_memory(probe: Probe) -> str:
    """Test that all tokens of a memory count, and no other query does."""
    if "memory" not in probe.takes:
        raise NotApplicableError("it takes no memory")
    if probe.is_causal:
        raise NotApplicableError("it hides the future, and a memory has none")
    x, memory, others = probe.x(), probe.x(length=4, seed=3), [0, *range(2, LENGTH)]
    try:
        whole = probe.run(x, memory=memory)
    except ValueError as error:
        raise NotApplicableError(f"it refuses: {str(error)[:60]}") from error
    if whole.shape[:2] != x.shape[:2]:
        raise FaultError(f"from T = {LENGTH} and S = 4 comes {tuple(whole.shape)}")
    for position in range(4):
        changed = probe.x(length=4, seed=3, other=np.s_[:, position])
        change = (probe.run(x, memory=changed) - whole).abs().amax(dim=(0, 2))
        if change.min() <= probe.tolerance:
            new = probe.copied(probe.dtype)  # one that has met no other memory
            probe.expect_same(probe.run(x, memory=changed, layer=new), whole, _KEPT)
            words = f"an output does not depend on token {position} of the memory"
            raise FaultError(words)
    if not probe.knows_positions:
        moved = probe.run(x, memory=memory[:, [2, 0, 3, 1]])
        probe.expect_same(moved, whole, "the memory in another order changes {}")
    found = probe.run(probe.x(other=np.s_[:, 1]), memory=memory)[:, others]
    words = "an output changes by {} with another query"
    probe.expect_same(found, whole[:, others], words)
    return f"T = {LENGTH}, S = 4: each token of the memory counts, no other query"


def probe_offset(probe: Probe) -> str:
    """Test that of positions only the distances count."""
    if "start" not in probe.takes:
        return positions_in(probe)
    x = probe.x()
    first, later = (probe.run_causal(x, start=start) for start in (0, 11))
    if (change := apart(first, probe.run_causal(x))) <= probe.tolerance:
        raise FaultError("positions change nothing")
    if (moved := apart(later, first)) > max(probe.tolerance, 1e-5):
        raise FaultError(f"11 positions later: {size(moved)} apart")
    return f"positions count ({size(change)}); all 11 later: 0 apart"


def probe_parts(probe: Probe) -> str:
    """Test that norms look at one token each, and that the input reaches the output."""
    _expect_norms_of_one_token(probe)
    x = probe.x()
    bare, full = _bare(probe, matrices=False), _bare(probe, matrices=True)
    words = "without its matrices the input passes through"
    passed, twice = (probe.run_causal(each, layer=bare) for each in (x, 2 * x))
    if passed.shape != x.shape or apart(passed, passed * 0) <= probe.tolerance:
        raise NotApplicableError("no input is added to its output")
    if not passed.isfinite().all():
        raise NotApplicableError("without matrices it gives nan")
    if apart(twice, 2 * passed) > probe.tolerance:
        if any(value for _, value in probe.values_of([_AFTER_NORM])):
            raise NotApplicableError(f"it has {_AFTER_NORM}")
        if not _ends_in_norm(probe.run_causal(x, layer=full)):
            words = "the sum begins at what a norm gives"
            words = f"the input does not reach the output whole: {words}"
            raise FaultError(words)
        words = "its last step is a norm: tokens come out of one size"
    bare.train()
    dropped = operations_of(lambda: probe.run_causal(x, layer=bare)).drops
    change = apart(probe.run_causal(x, layer=bare), passed)
    table = probe.knows_positions and probe.has_table  # its sum with x may drop some
    if dropped and change > probe.tolerance and not table:
        where = "it comes after the sum, not before"
        raise FaultError(f"dropout drops the input itself ({size(change)}): {where}")
    return words + (", in training too" if change <= probe.tolerance else "")


def _bare(probe: Probe, *, matrices: bool) -> nn.Module:
    """Return a copy with gains of 1, without biases, and without matrices."""
    layer = copy.deepcopy(probe.layer)
    for name, weight in layer.named_parameters():
        if weight.is_floating_point() and (weight.ndim < 2 or not matrices):
            weight.fill_(float(weight.ndim < 2 and "bias" not in name))
    return layer


def _ends_in_norm(found: Tensor) -> bool:
    """Return whether all tokens have one size, or one spread."""
    sizes = found.square().mean(-1), found.var(-1, correction=0)
    return any(bool(each.std() < 1e-3 * each.mean()) for each in sizes)


def _expect_norms_of_one_token(probe: Probe) -> None:
    """Name a part with gains alone whose outputs depend on other tokens."""
    inputs: dict[str, Tensor] = {}

    def note(name: str, part: nn.Module, given: Any) -> None:
        x = given[0] if len(given) == 1 else None
        if isinstance(x, Tensor) and x.ndim > 2 and x.shape[-2] > 1:
            inputs.setdefault(name, x.detach().clone())

    new, layer = probe.fresh(), probe.layer
    for name, part in new.layer.named_modules():
        axes = {weight.ndim for weight in part.parameters()}
        if name and axes == {1} and not any(part.children()):
            part.register_forward_pre_hook(partial(note, name))
    new.run_causal(new.x())
    for name, x in inputs.items():
        changed = x.clone()
        changed[..., -1, :] = changed[..., -1, :].flip(-1) * 3 + 1
        before, after = (layer.get_submodule(name)(each) for each in (x, changed))
        if isinstance(before, Tensor) and before.shape == x.shape:
            before, after = before[..., :-1, :], after[..., :-1, :]
            words = "a norm over more than one token: changing the last token changes"
            probe.expect_same(after, before, f"{name} is {words} others by {{}}")
