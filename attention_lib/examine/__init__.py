"""Examine a layer that one did not write: what holds, in one table.

Shapes: B batch, T length, K keys, M d_model. Masks are boolean, True means "may
attend".
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

from attention_lib.examine import (
    behaviour,
    caching,
    formula,
    half_precision,
    large_inputs,
    masking,
    references,
    residual,
    training,
    weights_and_tools,
)
from attention_lib.examine.adapters import Calling, find_calling
from attention_lib.examine.counting import count_flops, saved_bytes
from attention_lib.examine.function_layer import FunctionLayer
from attention_lib.examine.probe import Probe
from attention_lib.examine.report import Finding, Report
from attention_lib.examine.source_lines import raised_at
from attention_lib.examine.trace_smells import find_suspects
from attention_lib.validation import (
    require_choice,
    require_flags,
    require_function,
    require_not_negative,
    require_positive,
)

__all__ = [
    "CHECKS",
    "Calling",
    "Finding",
    "FunctionLayer",
    "Report",
    "count_flops",
    "examine",
    "find_calling",
    "saved_bytes",
]

# Each check by its name, and the section that explains it: chapter and label.
CHECKS: dict[str, tuple[Callable[[Probe], Any], tuple[str, str]]] = {
    "shape": (behaviour.probe_shape, ("04-multi-head", "every-shape")),
    "deterministic": (
        behaviour.probe_deterministic,
        ("06-tiny-block", "block-dropout"),
    ),
    "future": (masking.probe_future, ("03-masks", "leak-map")),
    "padding": (masking.probe_padding, ("03-masks", "padding")),
    "batch": (behaviour.probe_batch, ("03-masks", "both")),
    "order": (behaviour.probe_order, ("05-positions", "order-blind")),
    "offset": (behaviour.probe_offset, ("05-positions", "offset-only")),
    "empty rows": (masking.probe_empty_rows, ("03-masks", "nan-laboratory")),
    "memory": (behaviour.probe_memory, ("04-multi-head", "cross-heads")),
    "large scores": (large_inputs.probe_large, ("03-masks", "fill-values")),
    "half precision": (
        half_precision.probe_half_precision,
        ("03-masks", "fill-values"),
    ),
    "gradients": (weights_and_tools.probe_gradients, ("08-training", "one-step")),
    "trainable": (training.probe_trainable, ("08-training", "one-step")),
    "training": (training.probe_training, ("06-tiny-block", "block-dropout")),
    "parts": (residual.probe_parts, ("06-tiny-block", "residual")),
    "cache": (caching.probe_cache, ("09-kv-cache", "the-cache")),
    "formula": (formula.probe_formula, ("02-single-head", "three-projections")),
    "reference": (references.probe_reference, ("04-multi-head", "proved-equal")),
    "parameters": (
        weights_and_tools.probe_parameters,
        ("04-multi-head", "what-it-costs"),
    ),
    "flops": (weights_and_tools.probe_flops, ("04-multi-head", "what-it-costs")),
    "device": (weights_and_tools.probe_device, ("18-health-checks", "tools")),
    "compile": (weights_and_tools.probe_compile, ("18-health-checks", "tools")),
    "export": (weights_and_tools.probe_export, ("18-health-checks", "tools")),
}


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
    """Examines a layer from (B, T, M) to (B, T, M): which checks hold.

    It works on copies with random weights, so the layer stays as it is. Layers of this
    library, of ``torch.nn``, of x-transformers and of ``transformers`` are called by
    what their signature says, and so are others that are called alike.

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
        reference: a layer, or a function of x, with the same weights, that gives what
            is right.
        checks: the names of some of ``CHECKS``; all when left out.
        progress: whether a bar shows how far it is.
        seed: of the random numbers.

    Raises:
        TypeError: neither module nor function; a width that nothing tells; an
            argument of another type.
        ValueError: an unknown check; a width below 1; a seed below 0.
    """
    subject, names = _prepared(
        layer, d_model, causal, calls, reference, checks, seed, progress
    )
    findings = []
    for name in tqdm(names, disable=not progress, desc="checks", leave=False):
        check, section = CHECKS[name]
        verdict, seen = _said(check, subject)
        findings.append(Finding(name, verdict, seen, section))
    name = type(layer).__name__
    if not isinstance(layer, nn.Module):
        name = getattr(layer, "__name__", name)
    return Report(name, findings, _leaks(subject))


def _said(check: Callable[[Probe], Any], subject: Probe) -> tuple[Any, str]:
    """Gives what a check says; an error is a failure, and stands in it."""
    if subject.problem is not None:
        if check is not behaviour.probe_shape:
            return behaviour.NOT_APPLICABLE, "the layer cannot be called"
        return (
            "fails",
            f"{_words(subject.problem)} ({_hint(subject)})",
        )
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(subject.seed)
            subject.layer = subject.copied(subject.dtype)  # nobody has called this one
            verdict, seen = check(subject)
            if verdict == "fails" and check in _EXPLAINED:
                seen += f"; {why}" if (why := find_suspects(subject)) else ""
            return verdict, seen
    except Exception as error:
        return "fails", _words(error)


_EXPLAINED = {
    behaviour.probe_deterministic, behaviour.probe_batch, behaviour.probe_order,
    large_inputs.probe_large, masking.probe_future, masking.probe_padding,
}  # fmt: skip


def _hint(subject: Probe) -> str:
    names = ", ".join(subject.calling.unknown)
    words = f"it takes {names}, too: " if names else "is it called otherwise? "
    return f"{words}say how to call it: calls=lambda layer, x, ...: layer(...)"


def _words(error: Exception) -> str:
    words = f"{behaviour.first_line(error)}{raised_at(error)}"
    return f"raised {type(error).__name__}: {words}"


def _leaks(subject: Probe) -> dict[str, Any]:
    """What outputs depend on, for the picture; nothing where the layer fails."""
    found: dict[str, Any] = {}
    try:
        found["no mask"] = subject.leaks().numpy(force=True)
        if subject.hides_future:
            found["causal"] = subject.leaks(causal=True).numpy(force=True)
        if "mask" in subject.takes:
            mask = subject.hidden([4])
            found["two hidden"] = subject.leaks(mask).amax(dim=0).numpy(force=True)
    except Exception:
        return found
    return found


def _names(checks: Sequence[str] | None) -> list[str]:
    """The names of the checks to run."""
    if checks is None:
        return list(CHECKS)
    if isinstance(checks, str) or not isinstance(checks, Sequence):
        raise TypeError(f"checks must be a list of names; got {checks!r}")
    require_positive(checks=len(checks))
    for name in checks:
        require_choice("checks", name, CHECKS)
    return list(checks)


def _prepared(
    layer: Any,
    d_model: int | None,
    causal: bool | None,
    calls: Callable[..., Any] | None,
    reference: Callable[..., Any] | None,
    checks: Sequence[str] | None,
    seed: int,
    progress: bool,
) -> tuple[Probe, list[str]]:
    names = _names(checks)
    require_not_negative(seed=seed)
    require_flags(progress=progress)
    if d_model is not None:
        require_positive(d_model=d_model)
    if causal is not None:
        require_flags(causal=causal)
    for name, way in (("calls", calls), ("reference", reference)):
        if way is not None:
            require_function(name, way)
    if not isinstance(layer, nn.Module):
        if not callable(layer) or isinstance(layer, type):
            came = type(layer).__name__
            raise TypeError(f"layer must be a module or a function; got {came}")
        layer, d_model = FunctionLayer(layer), None
    subject = Probe(
        layer,
        d_model=d_model,
        causal=causal,
        calls=calls,
        reference=reference,
        seed=seed,
    )
    return subject, names
