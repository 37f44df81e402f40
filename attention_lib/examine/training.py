"""Checks of a layer in training mode: what dropout does, and what only shows there.

Two runs with one seed drop the same, so what an output depends on can be seen there,
too. Shapes: B batch, T length, M d_model.
"""

import copy

import torch
from torch import Tensor, nn

from attention_lib.examine.behaviour import NOT_APPLICABLE, Said, apart, size
from attention_lib.examine.op_counter import drops
from attention_lib.examine.probe import BATCH, LENGTH, Probe
from attention_lib.examine.trace_smells import dropped_scores

_MUCH = 0.7  # who drops more has taken what is kept for what is dropped
_TEXTS = 400


class _Training(Probe):
    """The layer in training mode: each call begins with one seed."""

    at: int = 0

    def run(self, x: Tensor, mask: Tensor | None = None, **more: object) -> Tensor:
        torch.manual_seed(self.seed + self.at)
        return super().run(x, mask, **more)  # type: ignore[arg-type]


def _in_training(s: Probe) -> _Training:
    other = copy.copy(s)
    other.__class__ = _Training
    other.layer = s.copied(s.dtype).train()
    assert isinstance(other, _Training)
    return other


def probe_training(s: Probe) -> Said:
    """In training mode it hides the same, and dropout keeps the mean."""
    s.hides_future, s.is_causal  # known from evaluation mode  # noqa: B018
    t, x = _in_training(s), s.x()
    with torch.no_grad():
        first = t.run(x, **s.hides_future)
        if apart(t.run(x, **s.hides_future), first) > s.tolerance:
            return (
                NOT_APPLICABLE,
                "one seed gives two results: its dropout draws from elsewhere",
            )
        if wrong := _shows(s, t, x, first):
            return "fails", wrong
        for name, part in s.original.named_modules():
            if isinstance(part, nn.Dropout) and part.p > _MUCH:
                return (
                    "fails",
                    f"{name} drops {part.p:.0%}: is that what should be kept?",
                )
        if wrong := _rates(s, drops(lambda: t.run(x, **s.hides_future))):
            return "fails", wrong
        if name := _untrained(s, t, x):
            return "fails", f"in training mode alone, no gradient reaches {name}"
        t.at = 1
        same = apart(t.run(x, **s.hides_future), first) <= s.tolerance
        if same:
            change = apart(first, s.run(x, **s.hides_future))
            if change > s.tolerance:
                return "fails", f"nothing is dropped, yet it is {size(change)} apart"
            return "holds", "as in evaluation mode; nothing is dropped"
        if wrong := dropped_scores(t):
            return "fails", f"scores are dropped, not weights: {wrong}"
        if wrong := _alike(s, t):
            return "fails", wrong
        return _mean(s, t)


def _untrained(s: Probe, t: _Training, x: Tensor) -> str:
    """Names a weight, or the input, that gets a gradient in evaluation mode alone."""
    reached: list[set[str]] = []
    for each in (s, t):
        start = x.clone().requires_grad_()
        named = {"the input": start, **dict(each.layer.named_parameters())}
        named = {name: tensor for name, tensor in named.items() if tensor.requires_grad}
        with torch.enable_grad():
            found = each.run(start, **s.hides_future)
            loss = (found * s.x(seed=5)[..., :1]).sum()
            if not loss.requires_grad:
                return "" if each is s else "any weight"
            grads = torch.autograd.grad(loss, [*named.values()], allow_unused=True)
        reached.append(
            {
                name
                for name, grad in zip(named, grads, strict=True)
                if grad is not None and bool((grad != 0).any())
            }
        )
    return next(iter(sorted(reached[0] - reached[1])), "")


def _rates(s: Probe, found: list[float]) -> str:
    """Says where the layer drops what it says that it keeps."""
    said = {
        float(value)
        for part in s.layer.modules()
        for name, value in vars(part).items()
        if isinstance(value, float) and 0 < value < 1
        if name in ("p", "rate") or "drop" in name
    }
    for share in found:
        near = [abs(share - each) < 1e-6 for each in said]
        kept = [abs(1 - share - each) < 1e-6 for each in said]
        if share > _MUCH or (any(kept) and not any(near)):
            return f"dropout drops {share:.0%}: is that what should be kept?"
    return ""


def _alike(s: Probe, t: _Training) -> str:
    """Says where all texts of a batch lose the same: each must draw its own."""
    x = s.x()[:1].expand(BATCH, -1, -1).contiguous()
    found = t.run(x, **s.hides_future)
    if apart(found[1:], found[:1].expand_as(found[1:])) <= s.tolerance:
        return "dropout drops the same in all texts of a batch"
    return ""


def _shows(s: Probe, t: _Training, x: Tensor, first: Tensor) -> str:
    """Says what shows in training mode, and must not."""
    changed = x.clone()
    changed[3] = s.x(seed=2)[3]
    change = apart(t.run(changed, **s.hides_future)[:3], first[:3])
    if change > s.tolerance:
        return f"changing text 3 changes others by {size(change)}"
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    if s.hides_future or s.is_causal:
        leaks = t.leaks(**s.hides_future).masked_fill(~later, 0)
        if leaks.max() > s.tolerance:
            row, key = divmod(int(leaks.argmax()), LENGTH)
            words = f"output {row} changes by {size(leaks.max())}"
            return f"{words} with later token {key}"
    if "mask" in s.takes:
        leaks = t.leaks(s.hidden([4]))[:, :4, 4:]
        if leaks.max() > s.tolerance:
            return f"padding changes outputs by {size(leaks.max())}"
    return ""


def _mean(s: Probe, t: _Training) -> Said:
    """Compares the mean of many runs with what comes without dropout.

    In a text of equal tokens attention gives each output the same value, whatever its
    scores are. So what is dropped from scores does not show, and what is dropped from
    weights shows in their sum alone.
    """
    tokens = 3 * s.x(BATCH, 1)
    x = tokens.repeat(1, LENGTH, 1)
    zero = s.run(torch.zeros_like(x))
    without = s.run(x)
    change = without - zero
    if apart(without, zero) <= s.tolerance:
        return NOT_APPLICABLE, "equal tokens give nothing"
    if apart(t.run(x), without) <= s.tolerance:
        return "fails", "scores are dropped, not weights: equal tokens show no dropout"
    half = s.run(x / 2)
    if apart(2 * half - zero, without) > s.tolerance:
        return "holds", "hides as in evaluation mode; dropout is not the last step"
    runs = t.run(x.repeat(_TEXTS // BATCH, 1, 1))
    runs = runs.unflatten(0, (-1, BATCH)) - zero  # (N, B, T, M)
    shares = (runs * change).sum(dim=(1, 2, 3)) / change.square().sum()
    mean, error = float(shares.mean()), float(shares.std()) / len(shares) ** 0.5
    if abs(mean - 1) > max(5 * error, 0.02):
        words = f"dropout makes the mean {mean:.2f} times as large"
        return "fails", f"{words}: what is kept must be divided by 1 - p"
    return "holds", "hides as in evaluation mode; dropout keeps the mean"


def probe_trainable(s: Probe) -> Said:
    """No weight is frozen, unless most are."""
    weights = dict(s.original.named_parameters())
    frozen = {name: p for name, p in weights.items() if not p.requires_grad}
    if not weights:
        return NOT_APPLICABLE, "it has no weights"
    if not frozen:
        return "holds", f"all {len(weights)} weights can be trained"
    if len(frozen) == len(weights):
        return NOT_APPLICABLE, "all weights are frozen"
    words = ", ".join(list(frozen)[:3]) + (", ..." if len(frozen) > 3 else "")
    words = f"{len(frozen)} of {len(weights)} weights are frozen: {words}"
    count = sum(p.numel() for p in frozen.values())
    if 2 * count > sum(p.numel() for p in weights.values()):
        return (
            NOT_APPLICABLE,
            f"{words}; they are most of its numbers, as in an adapted layer",
        )
    return "fails", words
