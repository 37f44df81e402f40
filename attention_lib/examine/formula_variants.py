"""Ways to compute attention with given weights: the right one, and known slips.

Shapes: B batch, T length, M d_model, H heads, D head_dim.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attention_lib.examine.parameter_roles import Roles
from attention_lib.rope import apply_rope, rope_angles


@dataclass(frozen=True)
class FormulaVariant:
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
    angles: str = "right"
    mask: str = "right"


SLIPS: dict[str, dict[str, str]] = {
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
    "groups": {
        "tiled": "query heads share keys in turn, not as neighbours",
        "tiled values": "query heads share values in turn, and keys as neighbours",
        "tiled keys": "query heads share keys in turn, and values as neighbours",
        "backwards": "query heads share keys in the reverse order",
        "first": "all query heads read the first head of keys",
    },
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

# Of RoPE, in each layout.
TURNS = {
    "mirrored": "RoPE does not rotate: is a sign of the sine wrong?",
    "mirrored, plus": "RoPE does not rotate: both sines have a plus",
    "slow": "the exponents of RoPE's frequencies are half as large: i/D, not 2i/D",
    "fast": "the exponents of RoPE's frequencies are twice as large: 4i/D, not 2i/D",
    "keys otherwise": "RoPE pairs the features of keys otherwise than of queries",
}


def attend(x: Tensor, roles: Roles, way: FormulaVariant, *, causal: bool) -> Tensor:
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
        key = _shared(key, groups, way.groups, "tiled keys")
        value = _shared(value, groups, way.groups, "tiled values")
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


def _shared(x: Tensor, groups: int, how: str, own: str) -> Tensor:
    """Gives each query head its head of keys or of values, (B, H, T, D)."""
    if how in ("tiled", own):
        return x.repeat(1, groups, 1, 1)
    if how == "first":
        return x[:, :1].expand(-1, groups * x.shape[1], -1, -1)
    x = x.repeat_interleave(groups, 1)
    return x.flip(1) if how == "backwards" else x


def _split(x: Tensor, head_dim: int, how: str) -> Tensor:
    batch, length, width = x.shape
    heads = width // head_dim
    if how in ("reshape", "both"):
        return x.reshape(batch, heads, length, head_dim)
    if how == "last":
        return x.view(batch, length, head_dim, heads).permute(0, 3, 1, 2)
    return x.view(batch, length, heads, head_dim).transpose(1, 2)


def _scale(way: FormulaVariant, head_dim: int, x: Tensor) -> float:
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
    query: Tensor, key: Tensor, value: Tensor, way: FormulaVariant
) -> tuple[Tensor, Tensor, Tensor]:
    """Turns by position what this way turns."""
    width, parts = query.shape[-1], {"query": query, "key": key, "value": value}
    if width % 2:
        raise RuntimeError("an odd width")
    place = torch.arange(query.shape[-2], device=query.device, dtype=query.dtype)
    angles = rope_angles(place, width)
    if way.angles == "slow":
        angles = place[:, None] * 1e4 ** -(torch.arange(width // 2).to(place) / width)
    elif way.angles == "fast":
        angles = place[:, None] * 1e4 ** -(
            torch.arange(width // 2).to(place) * 4 / width
        )
    for name in way.turned.split(" and "):
        layout: Any = way.layout
        if way.angles == "keys otherwise" and name == "key":
            layout = "interleaved" if layout == "half" else "half"
        found = apply_rope(parts[name], angles, layout=layout)
        if way.angles.startswith("mirrored"):
            found = _mirrored(parts[name], angles, layout, way.angles)
        parts[name] = found
    return parts["query"], parts["key"], parts["value"]


def _mirrored(x: Tensor, angles: Tensor, layout: str, how: str) -> Tensor:
    """RoPE with one sign lost, which turns nothing: (a, b) to mirrored pairs."""
    cos, sin = angles.cos(), angles.sin()
    half = layout == "half"
    a, b = x.chunk(2, -1) if half else (x[..., ::2], x[..., 1::2])
    sign = -1 if how == "mirrored" else 1
    pair = a * cos + sign * b * sin, b * cos + sign * a * sin
    return torch.cat(pair, -1) if half else torch.stack(pair, -1).flatten(-2)


def _masked(scores: Tensor, way: FormulaVariant, *, causal: bool) -> Tensor:
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
