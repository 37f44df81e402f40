"""What a layer computes, by its own weights: the formula, or a known slip from it.

The weights of queries, keys, values and output are found by their names. Then the
layer is compared with softmax(QKᵀ / √D) V of these weights, and where that differs,
with what usual slips give.

Shapes: B batch, T length, M d_model, H heads, D head_dim.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attention_lib.checks.subject import Subject
from attention_lib.rope import apply_rope, rope_angles

_ROLES = {
    "query": "q|query|queries",
    "key": "k|key|keys",
    "value": "v|value|values",
    "out": "o|out|output|dense|proj|c_proj",
    "qkv": "qkv|in|c_attn|query_key_value",
}
# What changes the formula on purpose.
_OPTIONS = (
    "softcap", "attn_logit_softcapping", "logits_soft_cap", "softclamp_logits",
    "window", "sliding_window", "window_size", "max_attend_past", "sinks", "alibi",
    "sparse_topk", "query_pre_attn_scalar", "qk_norm", "relative_attention_num_buckets",
    "use_alibi", "residual_multiplier", "attention_multiplier", "l2_distance",
    "sigmoid",
)  # fmt: skip


class Roles(NamedTuple):
    """The weights of a layer by what they are for, each as (out, in)."""

    query: Tensor
    key: Tensor
    value: Tensor
    out: Tensor | None
    biases: tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def _role(name: str) -> str | None:
    """Says what a parameter is for, by the last words of its name."""
    words = [w for w in name.lower().split(".") if w not in ("weight", "bias")]
    last = words[-1] if words else ""
    last = re.sub(r"_?(weight|bias)$", "", last)
    for role, names in _ROLES.items():
        if re.fullmatch(rf"(to_?|w_?)?({names})(_?(proj|lin|linear|layer|w))?", last):
            return role
    return None


def find_roles(layer: nn.Module) -> Roles | None:
    """Finds the weights by their names; None where one is missing or left over."""
    found: dict[tuple[str, str], list[Tensor]] = {}
    for name, parameter in layer.named_parameters():
        role = _role(name)
        if role is None or parameter.ndim > 2:
            return None
        owner = layer.get_submodule(name.rpartition(".")[0])
        value = parameter.detach()
        if parameter.ndim == 2:
            turned = type(owner).__name__ == "Conv1D"  # GPT-2's: (in, out)
            value = value.T if turned else value
        kind = "bias" if parameter.ndim == 1 else "weight"
        found.setdefault((role, kind), []).append(value)
    if any(
        len(parts) > 1 for (role, _), parts in found.items() if role in ("qkv", "out")
    ):
        return None
    whole = {role: torch.cat(parts) for role, parts in found.items()}
    for kind in ("weight", "bias"):
        if ("qkv", kind) in whole:
            fused = whole.pop(("qkv", kind))
            width = whole.get(("out", "weight"), fused[:1]).shape[-1]
            sizes = _cut(fused.shape[0], width)
            if sizes is None:
                return None
            for role, part in zip(
                ("query", "key", "value"), fused.split(sizes), strict=True
            ):
                whole.setdefault((role, kind), part)
    names = "query", "key", "value", "out"
    if any((role, "weight") not in whole for role in names[:3]):
        return None
    weights = [whole.get((role, "weight")) for role in names]
    biases = tuple(whole.get((role, "bias")) for role in names)
    return Roles(*weights, biases)  # type: ignore[arg-type, call-arg]


def _cut(rows: int, width: int) -> list[int] | None:
    """Cuts fused rows into queries, keys and values."""
    rest = rows - width
    return [width, rest // 2, rest // 2] if rest > 0 and rest % 2 == 0 else None


@dataclass(frozen=True)
class Way:
    """One way to compute attention: the right one, or with one slip."""

    heads: int
    scale: str = "1/√D"
    softmax: str = "keys"
    split: str = "right"
    merge: str = "right"
    roles: str = "qkv"
    groups: str = "neighbours"
    end: str = "right"
    norm: str = "none"
    layout: str = "none"
    turned: str = "query and key"
    mask: str = "right"


_SLIPS: dict[str, dict[str, str]] = {
    "scale": {
        "none": "the scores are not scaled",
        "1/√M": "the scores are divided by √d_model",
        "1/D": "the scores are divided by D, not √D",
        "√D": "the scores are multiplied by √D",
        "1/√T": "the scores are divided by √T",
        "1/√H": "the scores are divided by √H",
    },
    "softmax": {
        "queries": "the softmax runs over the queries",
        "heads": "the softmax runs over the heads",
        "batch": "the softmax runs over the batch",
        "none": "there is no softmax",
        "exp": "the weights are not divided by their sum",
        "sigmoid": "a sigmoid stands where the softmax belongs",
        "relu": "a ReLU stands where the exponential belongs",
        "twice": "the softmax is taken twice",
    },
    "split": {
        "reshape": "heads are cut by a reshape without a transpose",
        "last": "the features of a head lie apart: (D, H) instead of (H, D)",
        "both": "heads are cut and merged by a reshape without a transpose",
    },
    "merge": {
        "reshape": "heads are merged by a reshape without a transpose",
        "last": "merged as (D, H) instead of (H, D)",
        "sum": "heads are added, not laid side by side",
        "backwards": "heads are merged in the reverse order",
    },
    "roles": {
        "kqv": "queries and keys are swapped",
        "qvk": "keys and values are swapped",
        "vkq": "queries and values are swapped",
        "qqv": "queries serve as keys, too",
        "qkk": "keys serve as values, too",
        "kkv": "keys serve as queries, too",
        "qkq": "queries serve as values, too",
        "vqk": "queries, keys and values are mixed up",
        "kvq": "queries, keys and values are mixed up",
        "qkx": "the input itself serves as values",
    },
    "groups": {"tiled": "query heads share keys in turn, not as neighbours"},
    "mask": {
        "after": "the mask comes after the softmax",
        "zero": "the mask sets scores to 0, not to -inf",
        "ahead": "the causal mask lies one token too far to the right",
        "behind": "the causal mask hides each token from itself",
        "upside down": "the causal mask is the upper triangle",
    },
    "end": {
        "missing": "the output projection is not used",
        "no bias": "the bias of the output is not used",
        "residual": "the input is added to the output",
        "twice": "the output projection is applied twice",
        "turned": "the output projection is transposed",
    },
}


def find_formula(s: Subject) -> tuple[str, str]:
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
    s: Subject, roles: Roles, ways: list[Way], kind: str
) -> tuple[str, str, float]:
    """Compares one call with the formula and its slips: verdict, words, difference."""
    x, more = s.x(), s.hides_future if kind == "told causal" else {}
    wanted = s.run(x, **more)
    causal = bool(more) or s.is_causal or s.says_causal
    slack = 1e-5

    def far(way: Way) -> float:
        try:
            return _apart(attend(x, roles, way, causal=causal), wanted)
        except RuntimeError:
            return torch.inf  # it does not fit these sizes

    right = [far(way) for way in ways]
    if min(right) < slack:
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


def _variants(way: Way) -> Iterator[tuple[Way, str]]:
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


def _heads(s: Subject, roles: Roles) -> list[int]:
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


def _right(s: Subject, roles: Roles) -> Iterator[Way]:
    for heads in _heads(s, roles):
        head_dim = roles.query.shape[0] // heads
        if (
            roles.key.shape[0] % head_dim == 0
            and heads % (roles.key.shape[0] // head_dim) == 0
        ):
            theirs = type(s.layer).__module__.startswith("x_transformers")
            yield Way(heads, groups="tiled" if theirs else "neighbours")


def _wrong(s: Subject, roles: Roles, *, turned: bool) -> Iterator[tuple[Way, str]]:
    """The slips; beside positions, too, where the layer knows them."""
    ways = list(_right(s, roles))
    for layout in ("none", "half", "interleaved") if turned else ("none",):
        for way in ways:
            for part, slips in _SLIPS.items():
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
    told = {way.heads for way in ways}
    for heads in range(1, roles.query.shape[0] + 1):
        if heads not in told and roles.query.shape[0] % heads == 0:
            yield Way(heads), f"it has {heads} heads, not {min(told)}"


def attend(x: Tensor, roles: Roles, way: Way, *, causal: bool) -> Tensor:
    """Computes attention with these weights in this way."""
    names = dict(zip("qkv", zip(roles[:3], roles.biases[:3], strict=True), strict=True))
    parts = []
    for letter in way.roles:
        if letter == "x":
            parts.append(x)
            continue
        weight, bias = names[letter]
        parts.append(nn.functional.linear(x, weight, bias))
    head_dim = roles.query.shape[0] // way.heads
    query, key, value = (_split(part, head_dim, way.split) for part in parts)
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        tiled = way.groups == "tiled"
        key, value = (
            each.repeat(1, groups, 1, 1) if tiled else each.repeat_interleave(groups, 1)
            for each in (key, value)
        )
    query, key = (_normed(each, way.norm) for each in (query, key))
    if way.layout != "none":
        query, key, value = _turned(query, key, value, way)
    scores = query @ key.mT * _scale(way, head_dim, x)
    weights = _masked(scores, way, causal=causal)
    context = weights @ value
    return _end(
        _merge(context, "reshape" if way.split == "both" else way.merge),
        x,
        roles,
        way.end,
    )


def _split(x: Tensor, head_dim: int, how: str) -> Tensor:
    batch, length, width = x.shape
    heads = width // head_dim
    if how in ("reshape", "both"):
        return x.reshape(batch, heads, length, head_dim)
    if how == "last":
        return x.view(batch, length, head_dim, heads).permute(0, 3, 1, 2)
    return x.view(batch, length, heads, head_dim).transpose(1, 2)


def _scale(way: Way, head_dim: int, x: Tensor) -> float:
    sizes: dict[str, float] = {
        "1/√D": head_dim**-0.5,
        "none": 1.0,
        "1/√M": x.shape[-1] ** -0.5,
        "1/D": 1 / head_dim,
        "√D": head_dim**0.5,
        "1/√T": x.shape[1] ** -0.5,
        "1/√H": way.heads**-0.5,
    }
    return sizes[way.scale]


def _normed(x: Tensor, how: str) -> Tensor:
    if how == "length":
        return nn.functional.normalize(x, dim=-1)
    return nn.functional.rms_norm(x, x.shape[-1:]) if how == "rms" else x


def _turned(
    query: Tensor, key: Tensor, value: Tensor, way: Way
) -> tuple[Tensor, Tensor, Tensor]:
    """Turns by position what this way turns."""
    width, parts = query.shape[-1], {"query": query, "key": key, "value": value}
    if width % 2:
        raise RuntimeError("an odd width")
    place = torch.arange(query.shape[-2], device=query.device, dtype=query.dtype)
    angles = rope_angles(place, width)
    for name in way.turned.split(" and "):
        layout: Any = way.layout
        parts[name] = apply_rope(parts[name], angles, layout=layout)
    return parts["query"], parts["key"], parts["value"]


def _masked(scores: Tensor, way: Way, *, causal: bool) -> Tensor:
    """Gives the weights under the causal mask of this way."""
    every = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
    if way.mask == "right":
        return _weights(scores, every.tril() if causal else every, way.softmax)
    if not causal:
        raise RuntimeError("no causal mask")
    if way.mask == "after":
        return scores.softmax(-1) * every.tril()
    if way.mask == "zero":
        return (scores * every.tril()).softmax(-1)
    moved = {
        "ahead": every.tril(1), "behind": every.tril(-1), "upside down": every.triu()
    }[way.mask]  # fmt: skip
    return _weights(scores, moved, way.softmax)


def _weights(scores: Tensor, mask: Tensor, how: str) -> Tensor:
    hidden = scores.masked_fill(~mask, float("-inf"))
    axes = {"keys": -1, "queries": -2, "heads": 1, "batch": 0, "twice": -1}
    if how in axes:
        weights = hidden.softmax(axes[how]).nan_to_num(0.0)
        if how == "twice":
            weights = weights.masked_fill(~mask, float("-inf")).softmax(-1)
        return weights
    kinds: dict[str, Any] = {
        "none": lambda: scores * mask,
        "exp": lambda: hidden.exp(),
        "sigmoid": lambda: hidden.sigmoid(),
        "relu": lambda: hidden.relu() / hidden.relu().sum(-1, keepdim=True),
    }
    return kinds[how]()


def _merge(context: Tensor, how: str) -> Tensor:
    batch, heads, length, head_dim = context.shape
    if how == "reshape":
        return context.reshape(batch, length, heads * head_dim)
    if how == "last":
        return context.permute(0, 2, 3, 1).flatten(2)
    if how == "sum":
        return context.sum(1).repeat(1, 1, heads)
    if how == "backwards":
        context = context.flip(1)
    return context.transpose(1, 2).flatten(2)


def _end(context: Tensor, x: Tensor, roles: Roles, how: str) -> Tensor:
    bias = roles.biases[3]
    if how == "missing" or roles.out is None:
        return context + x if how == "residual" else context
    weight = roles.out.T if how == "turned" else roles.out
    if how == "no bias" and bias is None:
        raise RuntimeError("no bias")
    found = nn.functional.linear(context, weight, None if how == "no bias" else bias)
    if how == "residual":
        return found + x
    return nn.functional.linear(found, weight, bias) if how == "twice" else found


def check_formula(s: Subject) -> tuple[Any, str]:
    """What its own weights give by the formula."""
    return find_formula(s)
