"""The probe of the formula: what a layer computes, by its own weights.

The weights of queries, keys, values and output are found by their names. Then the
layer is compared with softmax(QKᵀ / √D) V of these weights, and where that differs,
with what usual slips give.
"""

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.examine.adapters import values_of
from attention_lib.examine.formula_variants import (
    TILED,
    Roles,
    Variant,
    attend,
    find_options,
    find_slips,
)
from attention_lib.examine.outcomes import FaultError, NotApplicableError, apart
from attention_lib.examine.probe import Probe

_FORMULA = "softmax(QKᵀ/√D)V of its own weights"
_SLACK = 1e-5
# What changes the formula on purpose.
_OPTIONS = (
    "softcap", "attn_logit_softcapping", "logits_soft_cap", "softclamp_logits",
    "window", "sliding_window", "window_size", "max_attend_past", "sinks", "alibi",
    "sparse_topk", "query_pre_attn_scalar", "qk_norm", "relative_attention_num_buckets",
    "use_alibi", "residual_multiplier", "attention_multiplier", "l2_distance",
    "sigmoid",
)  # fmt: skip
_HEADS = (
    "num_heads", "n_heads", "num_attention_heads", "n_head", "heads", "nhead", "h",
)  # fmt: skip
_ROLES = {
    "query": "q|query|queries",
    "key": "k|key|keys",
    "value": "v|value|values",
    "out": "o|out|output|dense|proj|c_proj",
    "qkv": "qkv|in|c_attn|query_key_value",
}


def probe_formula(probe: Probe) -> str:
    """Test that the layer computes the formula of its own weights, or name the slip."""
    if (roles := find_roles(probe.layer)) is None:
        raise NotApplicableError("no names tell queries, keys, values and output apart")
    for name, value in probe.values_of(_OPTIONS):
        if value is not False:
            raise NotApplicableError(f"it has {name}, which changes the formula")
    variants = list(_right(probe, roles))
    if not variants:
        raise NotApplicableError("no number of heads fits its weights")
    least, words = torch.inf, ""
    for options in [{}, probe.causal_options] if probe.causal_options else [{}]:
        words, near = _compare(probe, roles, variants, options)
        least = min(least, near)
    if words:
        return words
    if probe.knows_positions:
        raise NotApplicableError("it knows positions of its own")
    change = f"{least:.2f}" if least >= 0.01 else "below 0.01, yet not 0"
    raise FaultError(f"{change} apart from {_FORMULA}")


def _compare(
    probe: Probe, roles: Roles, variants: list[Variant], options: dict[str, Any]
) -> tuple[str, float]:
    """Return what agrees with one call, or "" and the least difference."""
    x = probe.x()
    wanted = probe.run(x, **options)
    causal = bool(options) or probe.is_causal or probe.claims_causal

    def far(variant: Variant) -> float:
        try:
            return apart(attend(x, roles, variant, causal=causal), wanted)
        except RuntimeError:  # it does not fit these sizes
            return torch.inf

    right = [far(variant) for variant in variants]
    if (near := min(right)) < _SLACK:
        variant = variants[right.index(near)]
        loud = attend(30 * x, roles, variant, causal=causal)
        change = apart(loud, probe.run(30 * x, **options))
        if change > 0.01:
            words = f"of large scores, up and down, {change:.2f} apart from it"
            raise FaultError(f"{_FORMULA}, but {words}")
        return f"{_FORMULA}: 0 apart", 0.0
    for variant, words in find_options(variants):
        if far(variant) < _SLACK:
            return f"{_FORMULA}, {words}: 0 apart", 0.0
    width = roles.query.shape[0]
    for variant, words in find_slips(variants, width, rotated=probe.knows_positions):
        if far(variant) < _SLACK:
            raise FaultError(words)
    return "", near


def _heads(layer: nn.Module, roles: Roles) -> list[int]:
    """Return how many heads the layer says that it has, or may have."""
    width = roles.query.shape[0]
    for _, value in values_of([layer], _HEADS):
        if isinstance(value, int) and width % value == 0:
            return [value]
        if isinstance(value, nn.ModuleList):
            return [len(value)]
    narrow = min(width, roles.key.shape[0])
    return [n for n in range(1, width + 1) if narrow % n == 0 == width % n]


def _right(probe: Probe, roles: Roles) -> Iterator[Variant]:
    """Yield the formula for each number of heads that fits the weights."""
    tiled = type(probe.layer).__module__.startswith("x_transformers")
    for heads in _heads(probe.layer, roles):
        key_heads, rest = divmod(roles.key.shape[0], roles.query.shape[0] // heads)
        if rest == 0 and heads % key_heads == 0:
            yield {"heads": heads, "groups": TILED if tiled else ""}


def find_roles(layer: nn.Module) -> Roles | None:
    """Return the weights by their names; None where one is missing or left over."""
    whole: dict[tuple[str, str], Tensor] = {}
    for name, parameter in layer.named_parameters():
        role = _role(name)
        if role is None or parameter.ndim > 2:
            return None
        value = parameter.detach()
        at = role, "bias" if value.ndim == 1 else "weight"
        owner = layer.get_submodule(name.rpartition(".")[0])
        if value.ndim == 2 and type(owner).__name__ == "Conv1D":
            value = value.T  # GPT-2's: (in, out)
        if at in whole and role in ("qkv", "out"):
            return None
        whole[at] = torch.cat([whole[at], value]) if at in whole else value
    for kind in ("weight", "bias"):
        if ("qkv", kind) in whole:
            fused = whole.pop(("qkv", kind))
            width = whole.get(("out", "weight"), fused[:1]).shape[-1]
            rest = fused.shape[0] - width
            if rest <= 0 or rest % 2:
                return None
            parts = fused.split([width, rest // 2, rest // 2])
            for role, part in zip(_ROLES, parts, strict=False):
                whole.setdefault((role, kind), part)
    roles = list(_ROLES)[:4]
    if any((role, "weight") not in whole for role in roles[:3]):
        return None
    weights = [whole.get((role, "weight")) for role in roles]
    biases = tuple(whole.get((role, "bias")) for role in roles)
    return Roles(*weights, biases)  # type: ignore[arg-type, call-arg]


def _role(name: str) -> str | None:
    """Return what a parameter is for, by the last words of its name."""
    words = [w for w in name.lower().split(".") if w not in ("weight", "bias")]
    last = re.sub(r"_?(weight|bias)$", "", words[-1] if words else "")
    for role, names in _ROLES.items():
        if re.fullmatch(rf"(to_?|w_?)?({names})(_?(proj|lin|linear|layer|w))?", last):
            return role
    return None
