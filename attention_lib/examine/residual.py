"""The probe of a block's parts: its norms, and its residual stream.

Shapes: B batch, T length, M d_model, W width of a norm's input.
"""

import copy
from functools import partial
from typing import Any

from torch import Tensor, nn

from attention_lib.examine.operations import operations_of
from attention_lib.examine.outcomes import FaultError, NotApplicableError, apart, size
from attention_lib.examine.probe import Probe

# With this option the sum begins at the output of the norm.
_AFTER_NORM = "apply_residual_connection_post_layernorm"


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
    inputs: dict[str, tuple[Any, Tensor]] = {}

    def note(name: str, part: nn.Module, given: Any) -> None:
        x = given[0] if len(given) == 1 else None
        if isinstance(x, Tensor) and x.ndim > 2 and x.shape[-2] > 1:
            inputs.setdefault(name, (part, x.detach().clone()))

    hooks = []
    for name, part in probe.layer.named_modules():
        axes = {weight.ndim for weight in part.parameters()}
        if name and axes == {1} and not any(part.children()):
            hooks.append(part.register_forward_pre_hook(partial(note, name)))
    try:
        probe.run_causal(probe.x())
    finally:
        for hook in hooks:
            hook.remove()
    for name, (part, x) in inputs.items():
        changed = x.clone()
        changed[..., -1, :] = changed[..., -1, :].flip(-1) * 3 + 1
        before, after = part(x), part(changed)
        if not isinstance(before, Tensor) or before.shape != x.shape:
            continue
        words = f"{name} is a norm over more than one token: changing the last token"
        before, after = before[..., :-1, :], after[..., :-1, :]
        probe.expect_same(after, before, f"{words} changes others by {{}}")
