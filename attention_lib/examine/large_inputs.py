"""The check with large inputs: scores of many hundreds, and a cap on scores.

Shapes: B batch, T length, K keys.
"""

from typing import Any

from torch import Tensor

from attention_lib.examine.behaviour import Said, apart, size
from attention_lib.examine.probe import Probe
from attention_lib.examine.trace_smells import capped_scores

_WHOLE = "is a maximum taken of the whole batch, not of each row?"
_CAPS = "softcap", "attn_logit_softcapping", "logits_soft_cap", "logit_cap"


def probe_large(s: Probe) -> Said:
    """Scores of many hundreds overflow nothing, and hidden tokens stay hidden."""
    for scale in (30.0, 300.0):
        x = s.x() * scale
        if not s.run(x, **s.hides_future).isfinite().all():
            quiet = f"; a loud text makes quiet ones nan: {_WHOLE}" * bool(_loud(s))
            return "fails", f"inputs {scale:.0f} times as large: nan{quiet}"
        changed = x.clone()
        changed[:, 4:] = s.x(seed=2)[:, 4:] * scale
        for more in [s.hides_future] if s.hides_future else [{}] if s.is_causal else []:
            before = s.run(x, **more)[:, :4]
            change = apart(s.run(changed, **more)[:, :4], before)
            if change > s.tolerance:
                fill = " (a fill too near 0?)" * (_leak(s, None, **more) < 0.01)
                words = f"inputs {scale:.0f} times as large: the future shows, "
                return "fails", f"{words}{size(change)}{fill}"
        if "mask" in s.takes:
            mask = s.hidden([4])
            before, after = (s.run(each, mask)[:, :4] for each in (x, changed))
            if (change := apart(after, before)) > s.tolerance:
                fill = " (a fill too near 0?)" * (_leak(s, mask) < 0.01)
                words = f"inputs {scale:.0f} times as large: padding shows, "
                return "fails", f"{words}{size(change)}{fill}"
    if change := _loud(s):
        words = f"a text 1000 times as large changes others, {size(change)}"
        return "fails", f"{words}: {_WHOLE}"
    if wrong := _squashed(s):
        return "fails", wrong
    return "holds", "inputs 30 and 300 times as large: finite, 0 from hidden tokens"


def _leak(s: Probe, mask: Tensor | None, **more: Any) -> float:
    """How much the first four outputs change with later tokens, at usual sizes."""
    x, changed = s.x(), s.x()
    changed[:, 4:] = s.x(seed=2)[:, 4:]
    before, after = (s.run(each, mask, **more)[:, :4] for each in (x, changed))
    return apart(after, before)


def _loud(s: Probe) -> float:
    """How much a loud text changes quiet ones, where another text changes none."""
    quiet, changes = [0, 1, 2, 4, 5, 6], []
    before = s.run(s.x(), **s.hides_future)[quiet]
    for text in (s.x(seed=2)[3], 1000 * s.x()[3]):
        x = s.x()
        x[3] = text
        changes.append(apart(s.run(x, **s.hides_future)[quiet], before))
    return changes[1] if changes[0] <= s.tolerance < changes[1] else 0.0


def _squashed(s: Probe) -> str:
    """Says where a cap on scores is not the cap that the layer names."""
    caps = {
        float(value)
        for part in s.layer.modules()
        for owner in (part, getattr(part, "config", None))
        for name in _CAPS
        if isinstance(value := getattr(owner, name, None), int | float) and value > 0
    }
    try:
        most = capped_scores(s, 1000 * s.x())
    except Exception:
        return ""
    if len(caps) != 1 or not most or min(caps) < 2:
        return ""
    cap = caps.pop()
    words = f"of scores no larger than {most:.3g}, though it names a cap of {cap:g}"
    return f"the softmax is taken {words}" if most < 0.9 * cap else ""
