"""Probes of training: what dropout does, what only shows there, and gradients.

Two runs with one seed drop the same, so that what an output depends on shows in
training mode, too.
"""

import copy
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from attention_lib.examine.call_variants import gradient
from attention_lib.examine.masking import expect_no_leak
from attention_lib.examine.outcomes import (
    FaultError,
    NotApplicableError,
    apart,
    or_else,
    size,
)
from attention_lib.examine.probe import BATCH, LENGTH, Probe
from attention_lib.examine.recorder import operations_of
from attention_lib.examine.trace import dropped_scores
from attention_lib.reproducibility import seeded

_MUCH = 0.7  # a higher rate suggests that keep and drop probability were swapped
_TEXTS = 400
_STEPS = {
    torch.float64: (1e-5, 1e-3, 2e-3, 1e-2, 2e-2),
    torch.float32: (1e-3, 1e-2, 2e-2),
}
_ELSEWHERE = "one seed gives two results: its dropout draws from elsewhere"
_OF_SCORES = "scores are dropped, not weights: "


def probe_training(probe: Probe) -> str:
    """Test that in training mode it hides the same, and that dropout keeps the mean."""
    x = probe.x()
    probe.causal_options, probe.is_causal  # noqa: B018 known from evaluation mode
    trained = copy.copy(probe)
    trained.layer, trained.draw_seed = probe.copied(probe.dtype).train(), probe.seed
    first = trained.run_causal(x)
    if apart(trained.run_causal(x), first) > probe.tolerance:
        raise NotApplicableError(_ELSEWHERE)
    _expect_hidden(trained, first)
    _expect_small_rates(probe, trained, x)
    if name := _untrained(probe, trained):
        raise FaultError(f"in training mode alone, no gradient reaches {name}")
    trained.draw_seed = probe.seed + 1
    if apart(trained.run_causal(x), first) <= probe.tolerance:
        words = "nothing is dropped, yet it is {} apart"
        probe.expect_same(first, probe.run_causal(x), words)
        return "as in evaluation mode; nothing is dropped"
    if where := dropped_scores(trained):
        raise FaultError(_OF_SCORES + where)
    found = trained.run_causal(probe.x()[:1].expand(BATCH, -1, -1).contiguous())
    if apart(found[1:], found[:1].expand_as(found[1:])) <= probe.tolerance:
        raise FaultError("dropout drops the same in all texts of a batch")
    return _expect_mean(probe, trained)


def _expect_hidden(trained: Probe, first: Tensor) -> None:
    """Test in training mode that other texts, the future and padding stay hidden."""
    found = trained.run_causal(trained.x(other=3))
    words = "changing text 3 changes others by {}"
    trained.expect_same(found[:3], first[:3], words)
    if trained.causal_options or trained.is_causal:
        expect_no_leak(trained, trained.leaks(**trained.causal_options), "")
    if "mask" in trained.takes:
        change = trained.leaks(trained.padding([4]))[:, :4, 4:].max()
        if change > trained.tolerance:
            raise FaultError(f"padding changes outputs by {size(change)}")


def _expect_small_rates(probe: Probe, trained: Probe, x: Tensor) -> None:
    """Test that the layer does not drop what it says that it keeps."""
    words = "drops {:.0%}: is that what should be kept?"
    for name, part in probe.original.named_modules():
        if isinstance(part, nn.Dropout) and part.p > _MUCH:
            raise FaultError(f"{name} {words.format(part.p)}")
    named = {
        value
        for part in probe.layer.modules()
        for name, value in vars(part).items()
        if isinstance(value, float) and 0 < value < 1
        if name in ("p", "rate") or "drop" in name
    }
    for rate in operations_of(lambda: trained.run_causal(x)).drops:
        drops, keeps = (
            any(abs(share - each) < 1e-6 for each in named)
            for share in (rate, 1 - rate)
        )
        if rate > _MUCH or (keeps and not drops):
            raise FaultError(f"dropout {words.format(rate)}")


def _untrained(probe: Probe, trained: Probe) -> str:
    """Name a weight, or the input, that gets a gradient in evaluation mode alone."""
    weights = probe.layer.named_parameters()
    for name in ["", *sorted(n for n, weight in weights if weight.requires_grad)]:
        known, found = (
            or_else(torch.zeros(1), gradient, name, False, each).any()
            for each in (probe, trained)
        )
        if known and not found:
            return name or "the input"
    return ""


def _expect_mean(probe: Probe, trained: Probe) -> str:
    """Compare the mean of many runs with the output without dropout.

    In a text of equal tokens attention gives each output the same value, whatever its
    scores are. So what is dropped from scores does not show, and what is dropped from
    weights shows in their sum alone.
    """
    x = (3 * probe.x(BATCH, 1)).repeat(1, LENGTH, 1)
    zero, without = probe.run(torch.zeros_like(x)), probe.run(x)
    change = without - zero
    if apart(without, zero) <= probe.tolerance:
        raise NotApplicableError("equal tokens give nothing")
    if apart(trained.run(x), without) <= probe.tolerance:
        raise FaultError(f"{_OF_SCORES}equal tokens show no dropout")
    words = "hides as in evaluation mode; dropout"
    if apart(2 * probe.run(x / 2) - zero, without) > probe.tolerance:
        return f"{words} is not the last step"
    runs = trained.run(x.repeat(_TEXTS // BATCH, 1, 1))
    runs = runs.unflatten(0, (-1, BATCH)) - zero  # (N, B, T, M)
    shares = (runs * change).sum(dim=(1, 2, 3)) / change.square().sum()
    mean, error = float(shares.mean()), float(shares.std()) / len(shares) ** 0.5
    if abs(mean - 1) > max(5 * error, 0.02):
        wrong = f"dropout makes the mean {mean:.2f} times as large"
        raise FaultError(f"{wrong}: what is kept must be divided by 1 - p")
    return f"{words} keeps the mean"


def probe_trainable(probe: Probe) -> str:
    """Test that no weight is frozen, unless most are."""
    weights = dict(probe.original.named_parameters())
    frozen = {name: p for name, p in weights.items() if not p.requires_grad}
    if not weights:
        raise NotApplicableError("it has no weights")
    if not frozen:
        return f"all {len(weights)} weights can be trained"
    if len(frozen) == len(weights):
        raise NotApplicableError("all weights are frozen")
    names = ", ".join(list(frozen)[:3]) + (", ..." if len(frozen) > 3 else "")
    words = f"{len(frozen)} of {len(weights)} weights are frozen: {names}"
    count, total = (sum(p.numel() for p in it.values()) for it in (frozen, weights))
    if 2 * count > total:
        words += "; they are most of its numbers, as in an adapted layer"
        raise NotApplicableError(words)
    raise FaultError(words)


def probe_gradients(probe: Probe) -> str:
    """Test that gradients reach every weight, and are what small steps show."""
    x = probe.x().requires_grad_()
    weights = {n: p for n, p in probe.layer.named_parameters() if p.requires_grad}
    tensors = {"the input": x, **weights}
    with torch.enable_grad():
        found = probe.run_causal(x)
        # The loss is a sum of outputs with random factors.
        factors = probe.x(seed=5)[..., :1].expand_as(found)
        factors = factors + probe.x(seed=6)[..., :1] * found.detach()
        loss = (found * factors).sum()
    if not found.requires_grad:
        raise FaultError("no gradient comes back from the output")
    if strange := _unregistered(found, [*tensors.values()]):
        raise FaultError(f"it trains {strange}, which is no parameter of the layer")
    grads = torch.autograd.grad(loss, [*tensors.values()], allow_unused=True)

    def slope(tensor: Tensor, step: float) -> float:
        """Return how steep the loss is along a random way, by two small steps."""
        ends, way = [], _way(tensor)
        for factor in (1, -2):
            tensor.add_(way, alpha=factor * step)
            ends.append(float((probe.run_causal(x) * factors).sum()))
        tensor.add_(way, alpha=step)
        return (ends[0] - ends[1]) / (2 * step)

    pairs = dict(zip(tensors, grads, strict=True))
    idle = {n for n, g in pairs.items() if g is None or (g.ndim > 1 and not g.any())}
    for name in weights:
        if name in idle and abs(slope(weights[name], 1e-3)) > 1e-6:
            raise FaultError(f"{name} changes the output, and gets no gradient")
    slack = _slack(probe)
    for name, grad in pairs.items():
        if grad is not None and not grad.isfinite().all():
            raise FaultError(f"the gradient of {name} is nan")
        said = 0.0 if grad is None else float((grad * _way(grad)).sum())
        seen = []
        for shown in _slopes(partial(slope, tensors[name]), probe.dtype):
            seen.append(shown)
            if abs(shown - said) <= slack * max(abs(shown), abs(said), 1.0):
                break
        else:
            words = f"the gradient says {said:.2f}, a small step shows {seen[0]:.2f}"
            raise FaultError(f"{name}: {words}")
        if grad is None or name in idle:
            raise FaultError(f"{name} has no effect on the output")
        if wrong := _idle_rows(probe.layer, name, grad):
            raise FaultError(wrong)
    return f"reach all {len(weights)} weights and the input, as small steps show"


def _way(tensor: Tensor) -> Tensor:
    return torch.randn(tensor.shape, generator=seeded(7)).to(tensor)


def _slopes(slope: Callable[[float], float], dtype: torch.dtype) -> Iterator[float]:
    """Try steps of several sizes: small ones meet rounding, large ones bend.

    From two of them follows a slope without most of the bend.
    """
    found = []
    for step in _STEPS[dtype]:
        found.append(slope(step))
        yield found[-1]
        if step in (2e-3, 2e-2):
            yield (4 * found[-2] - found[-1]) / 3


def _slack(probe: Probe) -> float:
    """Return how far a gradient may be from what steps show, by its number type.

    Many layers that are called in float64 compute the softmax or norms in float32.
    """
    run = operations_of(partial(probe.run_causal, probe.x()))
    narrow = any(torch.float32 in types for types in run.types.values())
    return 0.1 if probe.dtype == torch.float32 else 0.02 if narrow else 5e-3


def _unregistered(found: Tensor, known: list[Tensor]) -> str:
    """Look through the graph for a tensor that is trained and unknown."""
    ids, seen, todo = {id(tensor) for tensor in known}, set(), [found.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in ids:
            return f"a tensor of {tuple(leaf.shape)}"
        todo += [following for following, _ in node.next_functions]
    return ""


def _idle_rows(layer: nn.Module, name: str, grad: Tensor) -> str:
    """Name rows or columns of a linear layer that get no gradient."""
    owner = layer.get_submodule(name.rpartition(".")[0]) if "." in name else layer
    if grad.ndim != 2 or not isinstance(owner, nn.Linear):
        return ""
    for axis, word in ((1, "row"), (0, "column")):
        idle = (grad == 0).all(dim=axis)
        if idle.any():
            return f"{int(idle.sum())} of {len(idle)} {word}s of {name} have no effect"
    return ""
