"""Checks of what a layer is put together from: its norms, and its residual stream.

Shapes: B batch, T length, M d_model, W width of what a norm gets.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.examine.behaviour import NOT_APPLICABLE, Said, apart, size
from attention_lib.examine.op_counter import drops
from attention_lib.examine.probe import Probe

# Where this is asked for, the sum begins at what the norm gives.
_AFTER_NORM = "apply_residual_connection_post_layernorm"


def probe_parts(s: Probe) -> Said:
    """Norms look at one token each, and the input reaches the output whole."""
    if wrong := _mixing_norm(s):
        return "fails", wrong
    bare, full = _bare(s, matrices=False), _bare(s, matrices=True)
    x, said = s.x(), "without its matrices the input passes through"
    with torch.no_grad():
        passed, twice = (
            s.run(each, layer=bare, **s.hides_future) for each in (x, 2 * x)
        )
        if passed.shape != x.shape or apart(passed, passed * 0) <= s.tolerance:
            return NOT_APPLICABLE, "no input is added to its output"
        if not passed.isfinite().all():
            return NOT_APPLICABLE, "without matrices it gives nan"
        if (change := apart(twice, 2 * passed)) > s.tolerance:
            if _has_option(s):
                return NOT_APPLICABLE, f"it has {_AFTER_NORM}"
            if not _ends_in_norm(s.run(x, layer=full, **s.hides_future)):
                words = "the sum begins at what a norm gives"
                return "fails", f"the input does not reach the output whole: {words}"
            said = "its last step is a norm: tokens come out of one size"
        bare.train()
        dropped = drops(lambda: s.run(x, layer=bare, **s.hides_future))
        change = apart(s.run(x, layer=bare, **s.hides_future), passed)
    table = s.takes_order and s.has_table  # whose sum with the input may lose some
    if dropped and change > s.tolerance and not table:
        words = "it stands after the sum, not before"
        return "fails", f"dropout drops the input itself ({size(change)}): {words}"
    return "holds", said + ", in training too" * (change <= s.tolerance)


def _has_option(s: Probe) -> bool:
    return any(
        getattr(owner, _AFTER_NORM, False)
        for part in s.layer.modules()
        for owner in (part, getattr(part, "config", None))
    )


def _bare(s: Probe, *, matrices: bool) -> nn.Module:
    """Gives a copy with gains of 1, without biases, and without matrices."""
    layer = copy.deepcopy(s.layer)
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            if weight.is_floating_point() and (weight.ndim < 2 or not matrices):
                weight.fill_(float(weight.ndim < 2 and "bias" not in name))
    return layer


def _ends_in_norm(found: Tensor) -> bool:
    """Whether all tokens have one size, or one spread: then a norm is the last step."""
    sizes = found.square().mean(-1), found.var(-1, correction=0)
    return any(bool(each.std() < 1e-3 * each.mean()) for each in sizes)


def _mixing_norm(s: Probe) -> str:
    """Names a part with gains alone whose outputs depend on other tokens."""
    got: dict[str, tuple[Any, Tensor]] = {}

    def note(name: str) -> Any:
        def before(part: nn.Module, inputs: Any) -> None:
            x = inputs[0] if len(inputs) == 1 else None
            if isinstance(x, Tensor) and x.ndim > 2 and x.shape[-2] > 1:
                got.setdefault(name, (part, x.detach().clone()))

        return before

    layer, hooks = s.layer, []
    for name, part in layer.named_modules():
        axes = {weight.ndim for weight in part.parameters()}
        if name and axes == {1} and not any(part.children()):
            hooks.append(part.register_forward_pre_hook(note(name)))
    try:
        with torch.no_grad():
            s.run(s.x(), **s.hides_future)
    finally:
        for hook in hooks:
            hook.remove()
    for name, (part, x) in got.items():
        changed = x.clone()
        changed[..., -1, :] = changed[..., -1, :].flip(-1) * 3 + 1
        with torch.no_grad():
            before, after = part(x), part(changed)
        if not isinstance(before, Tensor) or before.shape != x.shape:
            continue
        if (change := apart(after[..., :-1, :], before[..., :-1, :])) > s.tolerance:
            words = f"changing the last token changes others by {size(change)}"
            return f"{name} is a norm over more than one token: {words}"
    return ""
