"""The check against a reference: in which calls a layer agrees with it, where not.

Both get the same weights, and are called in each way that both take. What is the same
and what differs first tells where to look: a layer that differs only beside padding
on the left has another fault than one that differs in every call.

Shapes: B batch, T length, M d_model.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.examine.behaviour import NOT_APPLICABLE, Said, first_line
from attention_lib.examine.call_variants import (
    ONE_BY_ONE,
    PIECES,
    OwnDrawError,
    bare_call,
    both_told,
    find_ways,
    told_causal,
)
from attention_lib.examine.first_divergence import tell_first_step
from attention_lib.examine.masking import no_mask_per_text
from attention_lib.examine.precision import error_words, far_apart, halves, training
from attention_lib.examine.probe import Probe
from attention_lib.examine.shared_weights import (
    fresh,
    listed,
    made_alike,
    missing_weights,
    other_weights,
)
from attention_lib.examine.submodules import tell_inside, tell_reach
from attention_lib.examine.trace_smells import changed_in_place

_REFUSALS = ValueError, NotImplementedError
_OPTIONAL = "T =", "beside", "mask", "padding", "memory"


class _Function(nn.Module):
    """A function of x as a layer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def probe_reference(s: Probe) -> Said:
    """It gives what a reference gives, in each way in which both can be called."""
    if s.reference is None:
        return NOT_APPLICABLE, "no reference was given"
    other = _subject(s, s.reference)
    if other.problem is not None:
        return "fails", f"the reference cannot be called: {first_line(other.problem)}"
    if words := other_weights(s.original, other.original):
        return "fails", words
    mine, other = made_alike(s, other)
    if not both_told(mine, other):  # then neither is, also where it reads a cache
        for each in (mine, other):
            each.hides_future = {}
    same: list[str] = []
    apart: list[str] = []
    first = step = ""
    ways = [*find_ways(mine, other)]
    first_way = ways[0][0]
    for words, run in ways:
        found = _compare(mine, other, words, run)
        if found is None:
            continue
        if not found:
            same.append(words)
            continue
        if not apart:
            where = "" if "gradient" in words else tell_reach(mine, other, run)
            no_parts = "room" in words or "gradient" in words
            inside = "" if no_parts else tell_inside(mine, other, run)
            step = tell_first_step(mine, other, run, gradients="gradient" in words)
            first = f"{found} {words}{where}{inside}"
            if words == "in its input after a call":
                first, step = f"it changes its input{changed_in_place(mine)}", ""
        elif words == PIECES and apart == [ONE_BY_ONE]:  # where less is equal by chance
            step = tell_first_step(mine, other, run) or step
        apart.append(words)
    more = told_causal if both_told(mine, other) else bare_call
    rest = *halves(mine, other, more), *training(mine, other, more)
    for words, found, tell in rest:
        if found:
            if not apart:
                first, step = f"{found} {words}", tell()
            apart.append(words)
        else:
            same.append(words)
    masks = _mask_per_text(mine, other)
    if not apart:
        words = f"0 apart from the reference, called in {len(same)} ways"
        if masks and not isinstance(mine.mask_error, (*_REFUSALS, AssertionError)):
            return "fails", f"{masks}; else {words}"
        return "holds", f"{words}; {masks}" if masks else words
    told = [words for words in same if "room" not in words and "gradient" not in words]
    agreed = f"the same {listed(told)}" if told else ""
    others = f"; also {listed(apart[1:])}" if len(apart) > 1 else ""
    if not agreed:
        words = f"in each call, {first}"
    elif first_way in apart:  # the rest follows from it
        words = f"{first}{others}; {agreed}"
    else:
        words = f"{agreed}; {first}{others}"
    words += missing_weights(s.original, other.original)
    words += f"; {masks}" if masks else ""
    return "fails", f"{words}. Step by step: {step}" if step else words


def _mask_per_text(mine: Probe, other: Probe) -> str:
    """Says that the reference takes a mask for each text, where the layer does not."""
    words = no_mask_per_text(mine)
    if not words or "mask" not in other.takes or no_mask_per_text(other):
        return ""
    return f"{words}; the reference does"


def _subject(s: Probe, reference: Any) -> Probe:
    """The reference as what is examined; called as the reader says, or by its names."""
    layer = reference if isinstance(reference, nn.Module) else _Function(reference)
    told: dict[str, Any] = dict(
        d_model=s.d_model, causal=s.told_causal, reference=None, seed=s.seed
    )
    if s.calls is not None and isinstance(reference, nn.Module):
        found = Probe(layer, calls=s.calls, **told)
        if found.problem is None:
            return found
    return Probe(layer, calls=None, **told)


def _compare(
    mine: Probe, other: Probe, words: str, run: Callable[[Probe], Tensor]
) -> str | None:
    """Says how far the two are apart; None where the reference cannot be called so."""
    with torch.no_grad():
        try:
            wanted = run(fresh(other))
        except Exception:
            return None  # the reference does not take this
        try:
            found = run(fresh(mine))
        except OwnDrawError:
            return None
        except Exception as error:
            if isinstance(error, _REFUSALS) and any(w in words for w in _OPTIONAL):
                return None  # it says that it does not take this
            return error_words(error)
    if not wanted.isfinite().all():
        return None
    if not found.isfinite().all():
        return "nan"
    loud = any(word in words for word in ("larger", "loud"))  # float32 inside shows
    return far_apart(found, wanted, 2e-3 if loud else mine.tolerance)
