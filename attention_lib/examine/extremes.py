"""Probes of extreme numbers: large inputs, and 16 bits."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attention_lib.examine.caching import in_pieces
from attention_lib.examine.outcomes import FaultError, apart, or_else, size
from attention_lib.examine.probe import HALF_DTYPES, VERY_LONG, Probe
from attention_lib.examine.recorder import operations_of
from attention_lib.examine.trace import capped_scores

_WHOLE = "is a maximum taken of the whole batch, not of each row?"
_CAPS = "softcap", "attn_logit_softcapping", "logits_soft_cap", "logit_cap"


def probe_large(probe: Probe) -> str:
    """Test that scores of many hundreds overflow nothing, and hidden tokens stay so."""
    options = probe.causal_options
    hidden: list[Any] = [("padding", probe.padding([4]), {})]
    if "mask" not in probe.takes:
        hidden = []
    if options or probe.is_causal:
        hidden.insert(0, ("the future", None, options))
    for scale in (30.0, 300.0):
        words = f"inputs {scale:.0f} times as large:"
        if not probe.run(probe.x() * scale, **options).isfinite().all():
            loud = f"; a loud text makes quiet ones nan: {_WHOLE}"
            raise FaultError(f"{words} nan" + (loud if _loud_text(probe) else ""))
        for what, mask, more in hidden:
            if (change := _leak(probe, scale, mask, more)) > probe.tolerance:
                small = _leak(probe, 1.0, mask, more) < 0.01
                words += f" {what} shows, {size(change)}"
                raise FaultError(words + " (a fill too near 0?)" * small)
    if change := _loud_text(probe):
        words = f"a text 1000 times as large changes others, {size(change)}"
        raise FaultError(f"{words}: {_WHOLE}")
    _expect_cap(probe)
    return "inputs 30 and 300 times as large: finite, 0 from hidden tokens"


def _leak(probe: Probe, scale: float, mask: Tensor | None, options: Any) -> float:
    """Return how much the first four outputs change with later tokens."""
    both = probe.x(), probe.x(other=np.s_[:, 4:])
    before, after = (probe.run(scale * x, mask, **options)[:, :4] for x in both)
    return apart(after, before)


def _loud_text(probe: Probe) -> float:
    """Return how much a loud text changes quiet ones, which another one leaves."""
    quiet, changes = [0, 1, 2, 4, 5, 6], []
    before = probe.run_causal(probe.x())[quiet]
    for text in (probe.x(seed=2)[3], 1000 * probe.x()[3]):
        x = probe.x()
        x[3] = text
        changes.append(apart(probe.run_causal(x)[quiet], before))
    return changes[1] if changes[0] <= probe.tolerance < changes[1] else 0.0


def _expect_cap(probe: Probe) -> None:
    """Test that a cap on scores is the cap that the layer names."""
    named = [value for _, value in probe.values_of(_CAPS)]
    caps = {float(each) for each in named if isinstance(each, int | float) and each > 0}
    most = or_else(0, capped_scores, probe, 1000 * probe.x())
    if len(caps) == 1 and most and min(caps) >= 2 and most < 0.9 * min(caps):
        words = f"of scores no larger than {most:.3g}, though it names a cap of"
        raise FaultError(f"the softmax is taken {words} {min(caps):g}")


def probe_half_precision(probe: Probe) -> str:
    """Test that in bfloat16 and float16 it runs, keeps the type and stays near."""
    wide, x = probe.copied(torch.float32), probe.x().float()
    wanted = probe.run_causal(x, layer=wide)
    types = operations_of(lambda: probe.run_causal(x, layer=wide)).types
    if inside := [name for name, given in types.items() if given & HALF_DTYPES]:
        names = ", ".join(name.strip("_") for name in inside if name != "_to_copy")
        where = f", for {names}" if names else ""
        raise FaultError(f"of float32 numbers it makes 16 bits inside{where}")
    for dtype, limit in ((torch.bfloat16, 0.1), (torch.float16, 0.02)):
        narrow, name = probe.copied(torch.float32).to(dtype), _name(dtype)
        found = probe.run_causal(x.to(dtype), layer=narrow)
        if found.dtype != dtype:
            raise FaultError(f"from {name} comes {_name(found.dtype)}")
        if not (change := apart(found.float(), wanted)) < limit:
            raise FaultError(f"{name} is {size(change)} apart, of at most {limit}")
        if "mask" in probe.takes:
            found = probe.run_causal(x.to(dtype), probe.padding([4, 6]), layer=narrow)
            if not found.isfinite().all():
                raise FaultError(f"{name} with a mask: nan")
        _expect_extremes(probe, narrow, dtype)
    return "bfloat16 within 0.1 and float16 within 0.02 of float32"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _expect_extremes(probe: Probe, narrow: nn.Module, dtype: torch.dtype) -> None:
    """Try a long text, a cache, and numbers whose squares float16 does not have.

    The same weights and the same input, rounded, are computed in float32, too.
    """
    name, words = _name(dtype), "apart from its weights in float32"
    half, exact = copy.copy(probe), copy.copy(probe)
    half.layer, exact.layer = narrow, copy.deepcopy(narrow).float()
    half.dtype = exact.dtype = dtype
    x = half.x(1, VERY_LONG)
    try:
        found, wanted = half.run_causal(x), exact.run_causal(x.float())
    except Exception:  # a table of positions has an end
        return
    if dtype == torch.bfloat16 and (change := apart(found.float(), wanted)) > 0.05:
        words = f"{size(change)} {words}; are positions or sums kept in 16 bits?"
        raise FaultError(f"{name} at T = {VERY_LONG} is {words}")
    if "cache" in probe.takes:
        found = in_pieces(half, half.x(), [2, 1, 3])
        wanted = in_pieces(exact, half.x().float(), [2, 1, 3])
        if found.dtype != dtype:
            raise FaultError(f"{name} with a cache gives {_name(found.dtype)}")
        if (change := apart(found.float(), wanted)) > 0.1:
            raise FaultError(f"{name} with a cache is {size(change)} {words}")
    x = half.x()
    x[..., 0] = 400
    seen = operations_of(lambda: half.run_causal(x))
    if seen.overflow and torch.float16 in seen.types["rsqrt"] | seen.types["sqrt"]:
        raise FaultError(f"{name} overflows in a norm: the square of 400 is infinite")
