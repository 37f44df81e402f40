"""What a layer computes, by its own weights: the formula, or a known slip from it.

The weights of queries, keys, values and output are found by their names. Then the
layer is compared with softmax(QKᵀ / √D) V of these weights, and where that differs,
with what usual slips give.

Shapes: B batch, T length, M d_model, H heads, D head_dim.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.examine.formula_variants import SLIPS, TURNS, FormulaVariant, attend
from attention_lib.examine.parameter_roles import Roles, find_roles
from attention_lib.examine.probe import Probe

# What changes the formula on purpose.
_OPTIONS = (
    "softcap", "attn_logit_softcapping", "logits_soft_cap", "softclamp_logits",
    "window", "sliding_window", "window_size", "max_attend_past", "sinks", "alibi",
    "sparse_topk", "query_pre_attn_scalar", "qk_norm", "relative_attention_num_buckets",
    "use_alibi", "residual_multiplier", "attention_multiplier", "l2_distance",
    "sigmoid",
)  # fmt: skip


def find_formula(s: Probe) -> tuple[str, str]:
    """Compares the layer with the formula of its own weights, then with slips."""
    no = "does not apply"
    if (roles := find_roles(s.layer)) is None:
        return no, "no names tell queries, keys, values and output apart"
    for part in s.layer.modules():
        for owner in (part, getattr(part, "config", None)):
            for name in _OPTIONS:
                value = getattr(owner, name, None)
                if value is not None and value is not False:
                    return no, f"it has {name}, which changes the formula"
    ways = list(_right(s, roles))
    if not ways:
        return no, "no number of heads fits its weights"
    least = torch.inf
    for kind in ("bare", "told causal"):
        with torch.no_grad():
            verdict, words, near = _compare(s, roles, ways, kind)
        least = min(least, near)
        if verdict == "fails" or not s.hides_future:
            break
    if verdict:
        return verdict, words
    if s.takes_order:
        return no, "it knows positions of its own"
    words = f"{least:.2f}" if least >= 0.01 else "below 0.01, yet not 0"
    return "fails", f"{words} apart from softmax(QKᵀ/√D)V of its own weights"


def _compare(
    s: Probe, roles: Roles, ways: list[FormulaVariant], kind: str
) -> tuple[str, str, float]:
    """Compares one call with the formula and its slips: verdict, words, difference."""
    x, more = s.x(), s.hides_future if kind == "told causal" else {}
    wanted = s.run(x, **more)
    causal = bool(more) or s.is_causal or s.says_causal
    slack = 1e-5

    def far(way: FormulaVariant) -> float:
        try:
            own = causal or way.mask in ("after", "zero")  # where the future shows
            return _apart(attend(x, roles, way, causal=own), wanted)
        except RuntimeError:
            return torch.inf  # it does not fit these sizes

    right = [far(way) for way in ways]
    if min(right) < slack:
        way = ways[right.index(min(right))]
        far_apart = _apart(
            attend(30 * x, roles, way, causal=causal), s.run(30 * x, **more)
        )
        if far_apart > 0.01:
            words = f"of large scores, up and down, {far_apart:.2f} apart from it"
            return "fails", f"softmax(QKᵀ/√D)V of its own weights, but {words}", 0.0
        return "holds", "softmax(QKᵀ/√D)V of its own weights: 0 apart", 0.0
    for way in ways:
        for also, words in _variants(way):
            if far(also) < slack:
                words = f"softmax(QKᵀ/√D)V of its own weights, {words}: 0 apart"
                return "holds", words, 0.0
    for way, words in _wrong(s, roles, turned=s.takes_order):
        if far(way) < slack:
            return "fails", words, min(right)
    return "", "", min(right)


def _variants(way: FormulaVariant) -> Iterator[tuple[FormulaVariant, str]]:
    """What is made otherwise on purpose, without weights of its own."""
    norms = {"none": "", "length": "QK-norm", "rms": "QK-norm"}
    layouts = {"none": "", "half": "RoPE", "interleaved": "RoPE"}
    for norm, first in norms.items():
        for scale in ("1/√D", "none", "√D") if first else ("1/√D",):
            for layout, second in layouts.items():
                words = " and ".join(each for each in (first, second) if each)
                if words:
                    other = replace(way, norm=norm, layout=layout, scale=scale)
                    yield other, f"with {words}"


def _apart(found: Tensor, wanted: Tensor) -> float:
    if found.shape != wanted.shape:
        return float("inf")
    change = float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1))
    return change if change == change else float("inf")


def _heads(s: Probe, roles: Roles) -> list[int]:
    """How many heads the layer says that it has, or may have."""
    names = (
        "num_heads",
        "n_heads",
        "num_attention_heads",
        "n_head",
        "heads",
        "nhead",
        "h",
    )
    width = min(roles.query.shape[0], roles.key.shape[0])
    for owner in (s.layer, getattr(s.layer, "config", None)):
        for name in names:
            value = getattr(owner, name, None)
            if isinstance(value, int) and roles.query.shape[0] % value == 0:
                return [value]
            if isinstance(value, nn.ModuleList):
                return [len(value)]
    return [
        n
        for n in range(1, roles.query.shape[0] + 1)
        if width % n == 0 == roles.query.shape[0] % n
    ]


def _right(s: Probe, roles: Roles) -> Iterator[FormulaVariant]:
    for heads in _heads(s, roles):
        head_dim = roles.query.shape[0] // heads
        if (
            roles.key.shape[0] % head_dim == 0
            and heads % (roles.key.shape[0] // head_dim) == 0
        ):
            theirs = type(s.layer).__module__.startswith("x_transformers")
            yield FormulaVariant(heads, groups="tiled" if theirs else "neighbours")


def _wrong(
    s: Probe, roles: Roles, *, turned: bool
) -> Iterator[tuple[FormulaVariant, str]]:
    """The slips; beside positions, too, where the layer knows them."""
    ways = list(_right(s, roles))
    for layout in ("none", "half", "interleaved") if turned else ("none",):
        for way in ways:
            for part, slips in SLIPS.items():
                for name, words in slips.items():
                    changes = {part: name, "layout": layout}
                    yield replace(way, **changes), words  # type: ignore[arg-type]
    for way in ways:
        for layout in ("half", "interleaved"):
            for who, words in (
                ("query", "RoPE turns the queries, and not the keys"),
                ("key", "RoPE turns the keys, and not the queries"),
                ("query and key and value", "RoPE turns the values, too"),
            ):
                yield replace(way, layout=layout, turned=who), words
            for angles, words in TURNS.items():
                yield replace(way, layout=layout, angles=angles), words
    told = {way.heads for way in ways}
    for heads in range(1, roles.query.shape[0] + 1):
        if heads not in told and roles.query.shape[0] % heads == 0:
            yield FormulaVariant(heads), f"it has {heads} heads, not {min(told)}"


def probe_formula(s: Probe) -> tuple[Any, str]:
    """What its own weights give by the formula."""
    return find_formula(s)
