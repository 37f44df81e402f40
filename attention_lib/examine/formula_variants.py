"""Attention with given weights as tables: for each part the right way, and its slips.

Each table maps a name to a function and the words for the fault; the first entry is
right. Shapes: B batch, T length, M d_model, H heads, G query heads per head of keys,
D head_dim.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attention_lib.rope import apply_rope, rope_angles

Table = dict[str, tuple[Callable[..., Any], str]]


class Roles(NamedTuple):
    """The weights of a layer by what they are for, each as (out, in)."""

    query: Tensor
    key: Tensor
    value: Tensor
    out: Tensor | None
    biases: tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]


@dataclass(frozen=True)
class FormulaVariant:
    """One way to compute attention: the right one, or with one slip."""

    heads: int
    projections: str = "qkv"
    split: str = "right"
    groups: str = "neighbours"
    norm: str = "none"
    layout: str = "none"
    rotated: str = "query and key"
    angles: str = "right"
    scale: str = "1/√D"
    mask: str = "right"
    softmax: str = "keys"
    merge: str = "right"
    output: str = "right"


PROJECTIONS = {
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
}


def _by_reshape(x: Tensor, head_dim: int) -> Tensor:
    return x.reshape(x.shape[0], -1, x.shape[1], head_dim)


SPLITS: Table = {  # (B, T, H·D) to (B, H, T, D)
    "right": (lambda x, head_dim: x.unflatten(-1, (-1, head_dim)).transpose(1, 2), ""),
    "reshape": (_by_reshape, "heads are cut by a reshape without a transpose"),
    "last": (
        lambda x, head_dim: x.unflatten(-1, (head_dim, -1)).permute(0, 3, 1, 2),
        "the features of a head lie apart: (D, H) instead of (H, D)",
    ),
    "both": (_by_reshape, "heads are cut and merged by a reshape without a transpose"),
}
MERGES: Table = {  # (B, H, T, D) to (B, T, H·D)
    "right": (lambda x: x.transpose(1, 2).flatten(2), ""),
    "reshape": (
        lambda x: x.reshape(x.shape[0], x.shape[2], -1),
        "heads are merged by a reshape without a transpose",
    ),
    "last": (
        lambda x: x.permute(0, 2, 3, 1).flatten(2),
        "merged as (D, H) instead of (H, D)",
    ),
    "sum": (
        lambda x: x.sum(1).repeat(1, 1, x.shape[1]),
        "heads are added, not laid side by side",
    ),
    "backwards": (
        lambda x: x.flip(1).transpose(1, 2).flatten(2),
        "heads are merged in the reverse order",
    ),
}
_SHARINGS: dict[str, Callable[[Tensor, int], Tensor]] = {  # (B, H / G, T, D) to H heads
    "neighbours": lambda x, groups: x.repeat_interleave(groups, 1),
    "tiled": lambda x, groups: x.repeat(1, groups, 1, 1),
    "backwards": lambda x, groups: x.repeat_interleave(groups, 1).flip(1),
    "first": lambda x, groups: x[:, :1].expand(-1, groups * x.shape[1], -1, -1),
}
GROUPS = {  # how keys are shared, how values are, and the words
    "neighbours": ("neighbours", "neighbours", ""),
    "tiled": ("tiled", "tiled", "query heads share keys in turn, not as neighbours"),
    "tiled values": (
        *("neighbours", "tiled"),
        "query heads share values in turn, and keys as neighbours",
    ),
    "tiled keys": (
        *("tiled", "neighbours"),
        "query heads share keys in turn, and values as neighbours",
    ),
    "backwards": (
        *("backwards", "backwards"),
        "query heads share keys in the reverse order",
    ),
    "first": ("first", "first", "all query heads read the first head of keys"),
}
NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "length": lambda x: nn.functional.normalize(x, dim=-1),
    "rms": lambda x: nn.functional.rms_norm(x, x.shape[-1:]),
}
SCALES: Table = {
    "1/√D": (lambda query, x: query.shape[-1] ** -0.5, ""),
    "none": (lambda query, x: 1.0, "the scores are not scaled"),
    "1/√M": (
        lambda query, x: x.shape[-1] ** -0.5,
        "the scores are divided by √d_model",
    ),
    "1/D": (
        lambda query, x: 1 / query.shape[-1],
        "the scores are divided by D, not √D",
    ),
    "√D": (lambda query, x: query.shape[-1] ** 0.5, "the scores are multiplied by √D"),
    "1/√T": (lambda query, x: x.shape[1] ** -0.5, "the scores are divided by √T"),
    "1/√H": (lambda query, x: query.shape[1] ** -0.5, "the scores are divided by √H"),
}


def _hide(scores: Tensor, seen: Tensor) -> Tensor:
    return scores.masked_fill(~seen, float("-inf"))


def _softmax(scores: Tensor, seen: Tensor, axis: int = -1) -> Tensor:
    return _hide(scores, seen).softmax(axis).nan_to_num(0.0)


def _relu(scores: Tensor, seen: Tensor) -> Tensor:
    weights = _hide(scores, seen).relu()
    return weights / weights.sum(-1, keepdim=True)


SOFTMAXES: Table = {
    "keys": (_softmax, ""),
    "queries": (
        lambda s, seen: _softmax(s, seen, -2),
        "the softmax runs over the queries",
    ),
    "heads": (lambda s, seen: _softmax(s, seen, 1), "the softmax runs over the heads"),
    "batch": (lambda s, seen: _softmax(s, seen, 0), "the softmax runs over the batch"),
    "none": (lambda s, seen: s * seen, "there is no softmax"),
    "exp": (
        lambda s, seen: _hide(s, seen).exp(),
        "the weights are not divided by their sum",
    ),
    "sigmoid": (
        lambda s, seen: _hide(s, seen).sigmoid(),
        "a sigmoid stands where the softmax belongs",
    ),
    "relu": (_relu, "a ReLU stands where the exponential belongs"),
    "twice": (
        lambda s, seen: _softmax(_softmax(s, seen), seen),
        "the softmax is taken twice",
    ),
}
MASKS: Table = {  # from scores and the causal mask to weights
    "after": (lambda s, seen: s.softmax(-1) * seen, "the mask comes after the softmax"),
    "zero": (
        lambda s, seen: (s * seen).softmax(-1),
        "the mask sets scores to 0, not to -inf",
    ),
    "ahead": (
        lambda s, seen: _softmax(s, (seen | True).tril(1)),
        "the causal mask lies one token too far to the right",
    ),
    "behind": (
        lambda s, seen: _softmax(s, seen.tril(-1)),
        "the causal mask hides each token from itself",
    ),
    "upside down": (
        lambda s, seen: _softmax(s, seen.mT),
        "the causal mask is the upper triangle",
    ),
}
OUTPUTS: Table = {
    "right": (lambda context, x, w, bias: nn.functional.linear(context, w, bias), ""),
    "missing": (
        lambda context, x, w, bias: context,
        "the output projection is not used",
    ),
    "no bias": (
        lambda context, x, w, bias: nn.functional.linear(context, w),
        "the bias of the output is not used",
    ),
    "residual": (
        lambda context, x, w, bias: nn.functional.linear(context, w, bias) + x,
        "the input is added to the output",
    ),
    "twice": (
        lambda context, x, w, bias: nn.functional.linear(
            nn.functional.linear(context, w, bias), w, bias
        ),
        "the output projection is applied twice",
    ),
    "turned": (
        lambda context, x, w, bias: nn.functional.linear(context, w.T, bias),
        "the output projection is transposed",
    ),
}
ANGLES = {  # of RoPE, in each layout
    "mirrored": "RoPE does not rotate: is a sign of the sine wrong?",
    "mirrored, plus": "RoPE does not rotate: both sines have a plus",
    "slow": "the exponents of RoPE's frequencies are half as large: i/D, not 2i/D",
    "fast": "the exponents of RoPE's frequencies are twice as large: 4i/D, not 2i/D",
    "keys otherwise": "RoPE pairs the features of keys otherwise than of queries",
}
ROTATED = {
    "query": "RoPE turns the queries, and not the keys",
    "key": "RoPE turns the keys, and not the queries",
    "query and key and value": "RoPE turns the values, too",
}


def _words(table: dict[str, Any]) -> dict[str, str]:
    return {name: entry[-1] for name, entry in table.items() if entry[-1]}


#: The words for each slip, by the part of the formula that it is in.
SLIPS: dict[str, dict[str, str]] = {
    "scale": _words(SCALES),
    "softmax": _words(SOFTMAXES),
    "split": _words(SPLITS),
    "merge": _words(MERGES),
    "projections": PROJECTIONS,
    "groups": _words(GROUPS),
    "mask": _words(MASKS),
    "output": _words(OUTPUTS),
}


def attend(x: Tensor, roles: Roles, variant: FormulaVariant, *, causal: bool) -> Tensor:
    """Compute attention with these weights in this way."""
    if variant.mask != "right" and not causal:
        raise RuntimeError("no causal mask")
    weights = dict(
        zip("qkv", zip(roles[:3], roles.biases[:3], strict=True), strict=True)
    )
    parts = [
        x if letter == "x" else nn.functional.linear(x, *weights[letter])
        for letter in variant.projections
    ]
    head_dim = roles.query.shape[0] // variant.heads
    query, key, value = (SPLITS[variant.split][0](each, head_dim) for each in parts)
    if (groups := query.shape[1] // key.shape[1]) > 1:
        keys, values, _ = GROUPS[variant.groups]
        key, value = _SHARINGS[keys](key, groups), _SHARINGS[values](value, groups)
    query, key = NORMS[variant.norm](query), NORMS[variant.norm](key)
    if variant.layout != "none":
        query, key, value = _rotate(query, key, value, variant)
    scores = query @ key.mT * SCALES[variant.scale][0](query, x)
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device)
    seen = seen.tril() if causal else seen
    weigh = MASKS.get(variant.mask, SOFTMAXES[variant.softmax])[0]
    context = weigh(scores, seen) @ value
    merge = "reshape" if variant.split == "both" else variant.merge
    context = MERGES[merge][0](context)
    if roles.out is None:
        return context + x if variant.output == "residual" else context
    return OUTPUTS[variant.output][0](context, x, roles.out, roles.biases[3])


def _rotate(
    query: Tensor, key: Tensor, value: Tensor, variant: FormulaVariant
) -> tuple[Tensor, Tensor, Tensor]:
    """Rotate by position what this variant rotates."""
    width, parts = query.shape[-1], {"query": query, "key": key, "value": value}
    if width % 2:
        raise RuntimeError("an odd width")
    position = torch.arange(query.shape[-2], device=query.device, dtype=query.dtype)
    angles = rope_angles(position, width)
    if factor := {"slow": 1, "fast": 4}.get(variant.angles):
        exponents = torch.arange(width // 2).to(position) * factor / width
        angles = position[:, None] * 1e4**-exponents
    for name in variant.rotated.split(" and "):
        layout: Any = variant.layout
        if variant.angles == "keys otherwise" and name == "key":
            layout = "interleaved" if layout == "half" else "half"
        if variant.angles.startswith("mirrored"):
            sign = -1 if variant.angles == "mirrored" else 1
            parts[name] = _mirror(parts[name], angles, layout, sign)
        else:
            parts[name] = apply_rope(parts[name], angles, layout=layout)
    return parts["query"], parts["key"], parts["value"]


def _mirror(x: Tensor, angles: Tensor, layout: str, sign: int) -> Tensor:
    """Apply RoPE with one sign lost, which mirrors pairs (a, b) instead."""
    cos, sin = angles.cos(), angles.sin()
    half = layout == "half"
    a, b = x.chunk(2, -1) if half else (x[..., ::2], x[..., 1::2])
    pair = a * cos + sign * b * sin, b * cos + sign * a * sin
    return torch.cat(pair, -1) if half else torch.stack(pair, -1).flatten(-2)
