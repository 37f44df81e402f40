"""Examine a layer that one did not write: what holds, in one table.

Shapes in all modules here: B batch, T length, K keys, M d_model. Masks are boolean,
True means "may attend".
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

from attention_lib.examine import (
    adapters,
    behaviour,
    caching,
    extremes,
    formula,
    masking,
    reference,
    tools,
    training,
)
from attention_lib.examine.outcomes import (
    FaultError,
    NotApplicableError,
    first_line,
    raised_at,
)
from attention_lib.examine.probe import Probe, width_of
from attention_lib.examine.report import Finding, Outcome, Report
from attention_lib.examine.trace import find_suspects
from attention_lib.validation import (
    require_choice,
    require_flags,
    require_function,
    require_not_negative,
    require_positive,
)

__all__ = ["CHECKS", "Finding", "Report", "examine"]

# Each check by its name, with its probe and the section that explains it.
CHECKS: dict[str, tuple[Callable[[Probe], str], str, str]] = {
    "shape": (behaviour.probe_shape, "04-multi-head", "every-shape"),
    "deterministic": (behaviour.probe_deterministic, "06-tiny-block", "block-dropout"),
    "future": (masking.probe_future, "03-masks", "leak-map"),
    "padding": (masking.probe_padding, "03-masks", "padding"),
    "batch": (behaviour.probe_batch, "03-masks", "both"),
    "order": (behaviour.probe_order, "05-positions", "order-blind"),
    "offset": (behaviour.probe_offset, "05-positions", "offset-only"),
    "empty rows": (masking.probe_empty_rows, "03-masks", "nan-laboratory"),
    "memory": (behaviour.probe_memory, "04-multi-head", "cross-heads"),
    "large scores": (extremes.probe_large, "03-masks", "fill-values"),
    "half precision": (extremes.probe_half_precision, "03-masks", "fill-values"),
    "gradients": (training.probe_gradients, "08-training", "one-step"),
    "trainable": (training.probe_trainable, "08-training", "one-step"),
    "training": (training.probe_training, "06-tiny-block", "block-dropout"),
    "parts": (behaviour.probe_parts, "06-tiny-block", "residual"),
    "cache": (caching.probe_cache, "09-kv-cache", "the-cache"),
    "formula": (formula.probe_formula, "02-single-head", "three-projections"),
    "reference": (reference.probe_reference, "04-multi-head", "proved-equal"),
    "parameters": (tools.probe_parameters, "04-multi-head", "what-it-costs"),
    "flops": (tools.probe_flops, "04-multi-head", "what-it-costs"),
    "device": (tools.probe_device, "20-health-checks", "tools"),
    "compile": (tools.probe_compile, "20-health-checks", "tools"),
    "export": (tools.probe_export, "20-health-checks", "tools"),
}
# Checks whose faults are explained by a suspicious step, where there is one.
_EXPLAINED = {"deterministic", "batch", "order", "large scores", "future", "padding"}


def examine(
    layer: Any,
    *,
    d_model: int | None = None,
    causal: bool | None = None,
    calls: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    checks: Sequence[str] | None = None,
    progress: bool = True,
    seed: int = 0,
) -> Report:
    """Examine a layer from (B, T, M) to (B, T, M): which checks hold.

    It works on copies with random weights, so the layer stays as it is. Layers of this
    library, of ``torch.nn``, of x-transformers and of ``transformers`` are called as
    their signature says, and so are others that are called in the same way.

    Args:
        layer: a module; or a function of queries, keys, values and a mask, each of
            four axes, which is examined inside of a layer.
        d_model: the width of the input; read from the layer when left out.
        causal: whether the layer always hides the future. Left out, it is what the
            layer says, and what it does.
        calls: how to call another layer: ``calls(layer, x)``, or with ``mask=None``
            (boolean, (B, T, K); True means that the query may see the key, and K is
            what a cache holds and T more), ``causal=False``, ``cache=None`` or
            ``memory=None`` after these, as far as the layer takes them. Where it takes
            a cache, ``layer.new_cache(batch_size, max_len)`` makes an empty one, which
            the call fills. Without ``calls``, a mask is tried as (B, T, T), (B, 1, T,
            T), (B, T) and (T, T), and ``cache.length`` counts the tokens that a cache
            holds; what has other names, such as ``key_padding_mask``, needs ``calls``.
        reference: a right layer, or a function of x, with the same weights.
        checks: the names of some of ``CHECKS``; all when left out.
        progress: whether to show a progress bar.
        seed: of the random numbers.

    Raises:
        TypeError: neither module nor function; a width that is not known; an argument
            of another type.
        ValueError: an unknown check; a width below 1; a seed below 0.
    """
    names = _names(checks)
    require_not_negative(seed=seed)
    require_flags(progress=progress)
    if d_model is not None:
        require_positive(d_model=d_model)
    if causal is not None:
        require_flags(causal=causal)
    for name, function in (("calls", calls), ("reference", reference)):
        if function is not None:
            require_function(name, function)
    title = type(layer).__name__
    if not isinstance(layer, nn.Module):
        if not callable(layer) or isinstance(layer, type):
            raise TypeError(f"layer must be a module or a function; got {title}")
        title = getattr(layer, "__name__", title)
        layer, d_model = adapters.FunctionLayer(layer), None
    options: dict[str, Any] = dict(calls=calls, reference=reference, seed=seed)
    findings = []
    with torch.no_grad():  # a probe that needs gradients says so
        probe = Probe(layer, d_model or width_of(layer), causal, **options)
        for name in tqdm(names, disable=not progress, desc="checks", leave=False):
            verdict, seen = _run(name, probe)
            if probe.problem is not None and "shape" not in names:
                seen = f"{seen}: {_run('shape', probe)[1]}"  # no other check says why
            findings.append(Finding(name, verdict, seen, CHECKS[name][1:]))
        return Report(title, findings, _leaks(probe))


def _names(checks: Sequence[str] | None) -> list[str]:
    """Return the names of the checks to run."""
    if checks is None:
        return list(CHECKS)
    if isinstance(checks, str) or not isinstance(checks, Sequence):
        raise TypeError(f"checks must be a list of names; got {checks!r}")
    require_positive(checks=len(checks))
    for name in checks:
        require_choice("checks", name, CHECKS)
    return list(checks)


def _run(name: str, probe: Probe) -> tuple[Outcome, str]:
    """Run one check; an error is a failure and its words."""
    if probe.problem is not None:
        if name != "shape":
            return "does not apply", "the layer cannot be called"
        others = ", ".join(probe.calling.unknown)
        words = f"it takes {others}, too: " if others else "is it called otherwise? "
        hint = f"{words}say how to call it: calls=lambda layer, x, ...: layer(...)"
        return "fails", f"{_raised(probe.problem)} ({hint})"
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(probe.seed)
            probe.layer = probe.copied(probe.dtype)  # one that nobody has called
            try:
                return "holds", CHECKS[name][0](probe)
            except FaultError as fault:
                why = find_suspects(probe) if name in _EXPLAINED else ""
                return "fails", f"{fault}; {why}" if why else str(fault)
    except NotApplicableError as reason:
        return "does not apply", str(reason)
    except Exception as error:
        return "fails", _raised(error)


def _raised(error: Exception) -> str:
    return f"raised {type(error).__name__}: {first_line(error)}{raised_at(error)}"


def _leaks(probe: Probe) -> dict[str, Any]:
    """Return what outputs depend on, for the picture; nothing where the layer fails."""
    found: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        found["no mask"] = probe.leaks().numpy(force=True)
        if probe.causal_options:
            found["causal"] = probe.leaks(causal=True).numpy(force=True)
        if "mask" in probe.takes:
            leaks = probe.leaks(probe.padding([4])).amax(dim=0)
            found["two hidden"] = leaks.numpy(force=True)
    return found
