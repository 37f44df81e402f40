"""The check of what a layer gives in 16 bits, beside what it gives in 32.

Shapes: B batch, T length, M d_model.
"""

import copy

import torch
from torch import nn

from attention_lib.examine.behaviour import HALF_DTYPES, LONG_LEN, Said, apart, size
from attention_lib.examine.caching import in_pieces
from attention_lib.examine.op_counter import overflows, watched
from attention_lib.examine.probe import Probe


def probe_half_precision(s: Probe) -> Said:
    """In bfloat16 and float16 it runs, keeps the type, and stays near."""
    wide = s.copied(torch.float32)
    x, worst = s.x().float(), {}
    wanted = s.run(x, layer=wide, **s.hides_future)
    with watched() as types:
        s.run(x, layer=wide, **s.hides_future)
    if inside := [name for name, given in types.items() if given & HALF_DTYPES]:
        words = [name.strip("_") for name in inside if name != "_to_copy"]
        where = f", for {', '.join(words)}" if words else ""
        return "fails", f"of float32 numbers it makes 16 bits inside{where}"
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
        if wrong := _far_in_halves(s, narrow, dtype):
            return "fails", f"{name} {wrong}"
    return "holds", "bfloat16 within 0.1 and float16 within 0.02 of float32"


def _far_in_halves(s: Probe, narrow: nn.Module, dtype: torch.dtype) -> str:
    """Looks at a long text, and at numbers whose squares float16 does not have.

    The same weights and the same input, rounded, are computed in float32, too.
    """
    x = s.x(1, LONG_LEN).to(dtype)
    try:
        with torch.no_grad():
            found = s.run(x, layer=narrow, **s.hides_future).float()
            wide = copy.deepcopy(narrow).float()
            wanted = s.run(x.float(), layer=wide, **s.hides_future)
    except Exception:
        return ""  # a table of positions has an end
    if dtype == torch.bfloat16 and (change := apart(found, wanted)) > 0.05:
        words = "are positions or sums kept in 16 bits?"
        return (
            f"at T = {LONG_LEN} is {size(change)} apart from its weights in float32; {words}"
        )
    if "cache" in s.takes and s.calling.new_cache is not None:
        t, exact = copy.copy(s), copy.copy(s)
        t.layer, t.dtype = narrow, dtype
        exact.layer, exact.dtype = wide, dtype
        found = in_pieces(t, t.x(), [2, 1, 3])
        wanted = in_pieces(exact, t.x().float(), [2, 1, 3])
        if found.dtype != dtype:
            return f"with a cache gives {str(found.dtype).removeprefix('torch.')}"
        if (change := apart(found.float(), wanted)) > 0.1:
            return f"with a cache is {size(change)} apart from its weights in float32"
    x = s.x().to(dtype)
    x[..., 0] = 400
    if overflows(lambda: s.run(x, layer=narrow, **s.hides_future)):
        return "overflows in a norm: the square of 400 is infinite"
    return ""
