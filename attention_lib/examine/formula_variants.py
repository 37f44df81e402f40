"""Attention with given weights as tables: for each part the right way, and its slips.

Shapes: B batch, T length, M d_model, H heads, G query heads per head of keys,
D head_dim.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attention_lib.rope import apply_rope, rope_angles


class Roles(NamedTuple):
    """The weights of a layer by what they are for, each as (out, in)."""

    query: Tensor
    key: Tensor
    value: Tensor
    out: Tensor | None
    biases: tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def _by_reshape(x: Tensor, head_dim: int) -> Tensor:
    return x.reshape(x.shape[0], -1, x.shape[1], head_dim)


def _hide(scores: Tensor, seen: Tensor) -> Tensor:
    return scores.masked_fill(~seen, float("-inf"))


def _softmax(scores: Tensor, seen: Tensor, axis: int = -1) -> Tensor:
    return _hide(scores, seen).softmax(axis).nan_to_num(0.0)


def _relu(scores: Tensor, seen: Tensor) -> Tensor:
    weights = _hide(scores, seen).relu()
    return weights / weights.sum(-1, keepdim=True)


BOTH = "heads are cut and merged by a reshape without a transpose"
TILED = "query heads share keys in turn, not as neighbours"
NOT_SCALED = "the scores are not scaled"
SCALED_UP = "the scores are multiplied by √D"
AFTER = "the mask comes after the softmax"
ZERO = "the mask sets scores to 0, not to -inf"
linear = nn.functional.linear
#: For each part of the formula: its slips by their words. "" is right.
TABLES: dict[str, dict[str, Any]] = {
    "scale": {  # of query (B, H, T, D) and x
        "": lambda query, x: query.shape[-1] ** -0.5,
        NOT_SCALED: lambda query, x: 1.0,
        "the scores are divided by √d_model": lambda query, x: x.shape[-1] ** -0.5,
        "the scores are divided by D, not √D": lambda query, x: 1 / query.shape[-1],
        SCALED_UP: lambda query, x: query.shape[-1] ** 0.5,
        "the scores are divided by √T": lambda query, x: x.shape[1] ** -0.5,
        "the scores are divided by √H": lambda query, x: query.shape[1] ** -0.5,
    },
    "softmax": {  # of scores (B, H, T, K), and of what each query may see
        "": _softmax,
        "the softmax runs over the queries": partial(_softmax, axis=-2),
        "the softmax runs over the heads": partial(_softmax, axis=1),
        "the softmax runs over the batch": partial(_softmax, axis=0),
        "there is no softmax": lambda s, seen: s * seen,
        "the weights are not divided by their sum": (
            lambda s, seen: _hide(s, seen).exp()
        ),
        "a sigmoid in place of the softmax": (lambda s, seen: _hide(s, seen).sigmoid()),
        "a ReLU in place of the exponential": _relu,
        "the softmax is taken twice": lambda s, seen: _softmax(_softmax(s, seen), seen),
    },
    "split": {  # (B, T, H·D) to (B, H, T, D)
        "": lambda x, head_dim: x.unflatten(-1, (-1, head_dim)).transpose(1, 2),
        "heads are cut by a reshape without a transpose": _by_reshape,
        "the features of a head lie apart: (D, H) instead of (H, D)": (
            lambda x, head_dim: x.unflatten(-1, (head_dim, -1)).permute(0, 3, 1, 2)
        ),
        BOTH: _by_reshape,
    },
    "merge": {  # (B, H, T, D) to (B, T, H·D)
        "": lambda x: x.transpose(1, 2).flatten(2),
        "heads are merged by a reshape without a transpose": (
            lambda x: x.reshape(x.shape[0], x.shape[2], -1)
        ),
        "merged as (D, H) instead of (H, D)": (
            lambda x: x.permute(0, 2, 3, 1).flatten(2)
        ),
        "heads are added, not laid side by side": (
            lambda x: x.sum(1).repeat(1, 1, x.shape[1])
        ),
        "heads are merged in the reverse order": (
            lambda x: x.flip(1).transpose(1, 2).flatten(2)
        ),
    },
    "projections": {  # what serves as queries, keys and values; x is the input
        "": "qkv",
        "queries and keys are swapped": "kqv",
        "keys and values are swapped": "qvk",
        "queries and values are swapped": "vkq",
        "queries serve as keys, too": "qqv",
        "keys serve as values, too": "qkk",
        "keys serve as queries, too": "kkv",
        "queries serve as values, too": "qkq",
        "queries, keys and values are mixed up": "vqk",
        "queries, keys and values are mixed up in a circle": "kvq",
        "the input itself serves as values": "qkx",
    },
    "groups": {  # how query heads share keys, and how they share values: of SHARED
        "": "nn",
        TILED: "tt",
        "query heads share values in turn, and keys as neighbours": "nt",
        "query heads share keys in turn, and values as neighbours": "tn",
        "query heads share keys in the reverse order": "rr",
        "all query heads read the first head of keys": "11",
    },
    "mask": {  # of scores and the causal mask, in the place of a softmax
        AFTER: lambda s, seen: s.softmax(-1) * seen,
        ZERO: lambda s, seen: (s * seen).softmax(-1),
        "the causal mask lies one token too far to the right": (
            lambda s, seen: _softmax(s, (seen | True).tril(1))
        ),
        "the causal mask hides each token from itself": (
            lambda s, seen: _softmax(s, seen.tril(-1))
        ),
        "the causal mask is the upper triangle": lambda s, seen: _softmax(s, seen.mT),
    },
    "output": {  # of the merged heads, x, the weight and the bias
        "": lambda heads, x, w, bias: linear(heads, w, bias),
        "the output projection is not used": lambda heads, x, w, bias: heads,
        "the bias of the output is not used": (
            lambda heads, x, w, bias: linear(heads, w)
        ),
        "the input is added to the output": (
            lambda heads, x, w, bias: linear(heads, w, bias) + x
        ),
        "the output projection is applied twice": (
            lambda heads, x, w, bias: linear(linear(heads, w, bias), w, bias)
        ),
        "the output projection is transposed": (
            lambda heads, x, w, bias: linear(heads, w.T, bias)
        ),
    },
}
#: How heads (B, H, T, D) of keys or values are repeated for their groups of queries.
SHARED: dict[str, Callable[[Tensor, int], Tensor]] = {
    "n": lambda x, groups: x.repeat_interleave(groups, 1),  # as neighbours
    "t": lambda x, groups: x.repeat(1, groups, 1, 1),  # in turn
    "r": lambda x, groups: x.repeat_interleave(groups, 1).flip(1),
    "1": lambda x, groups: x[:, :1].expand(-1, groups * x.shape[1], -1, -1),
}
NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda x: x,
    "length": lambda x: nn.functional.normalize(x, dim=-1),
    "rms": lambda x: nn.functional.rms_norm(x, x.shape[-1:]),
}
#: Slips of RoPE in each layout: what is rotated, and by which angles.
ROTATED = {
    "RoPE turns the queries, and not the keys": "q",
    "RoPE turns the keys, and not the queries": "k",
    "RoPE turns the values, too": "qkv",
}
ANGLES = {
    "RoPE does not rotate: is a sign of the sine wrong?": "mirrored",
    "RoPE does not rotate: both sines have a plus": "mirrored, plus",
    "the exponents of RoPE's frequencies are half as large: i/D, not 2i/D": "slow",
    "the exponents of RoPE's frequencies are twice as large: 4i/D, not 2i/D": "fast",
    "RoPE pairs the features of keys otherwise than of queries": "keys otherwise",
}


@dataclass(frozen=True)
class FormulaVariant:
    """One way to compute attention: the right one, or with one slip of ``TABLES``."""

    heads: int
    projections: str = ""
    split: str = ""
    groups: str = ""
    norm: str = ""
    layout: str = ""  # of RoPE
    rotated: str = "qk"
    angles: str = ""
    scale: str = ""
    mask: str = ""
    softmax: str = ""
    merge: str = ""
    output: str = ""

    def __getitem__(self, part: str) -> Any:
        """Return what this variant computes in a part of the formula."""
        return TABLES[part][getattr(self, part)]


def attend(x: Tensor, roles: Roles, variant: FormulaVariant, *, causal: bool) -> Tensor:
    """Compute attention with these weights in this way."""
    if variant.mask and not causal:
        raise RuntimeError("no causal mask")
    given = dict(zip("qkv", zip(roles[:3], roles.biases[:3], strict=True), strict=True))
    names = variant["projections"]
    parts = [x if name == "x" else linear(x, *given[name]) for name in names]
    head_dim = roles.query.shape[0] // variant.heads
    query, key, value = (variant["split"](part, head_dim) for part in parts)
    if (groups := query.shape[1] // key.shape[1]) > 1:
        ways = zip(variant["groups"], (key, value), strict=True)
        key, value = (SHARED[way](each, groups) for way, each in ways)
    query, key = (NORMS[variant.norm](each) for each in (query, key))
    if variant.layout:
        query, key, value = _rotate(query, key, value, variant)
    scores = query @ key.mT * variant["scale"](query, x)
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device)
    weigh = variant["mask" if variant.mask else "softmax"]
    context = weigh(scores, seen.tril() if causal else seen) @ value
    if variant.split == BOTH:
        heads = context.reshape(x.shape[0], x.shape[1], -1)
    else:
        heads = variant["merge"](context)
    if roles.out is None:
        return heads + x if "added" in variant.output else heads
    return variant["output"](heads, x, roles.out, roles.biases[3])


def _rotate(
    query: Tensor, key: Tensor, value: Tensor, variant: FormulaVariant
) -> tuple[Tensor, Tensor, Tensor]:
    """Rotate by position what this variant rotates."""
    width, parts = query.shape[-1], {"q": query, "k": key, "v": value}
    if width % 2:
        raise RuntimeError("an odd width")
    position = torch.arange(query.shape[-2], device=query.device, dtype=query.dtype)
    angles = rope_angles(position, width)
    if factor := {"slow": 1, "fast": 4}.get(variant.angles):
        exponents = torch.arange(width // 2).to(position) * factor / width
        angles = position[:, None] * 1e4**-exponents
    for name in variant.rotated:
        layout: Any = variant.layout
        if variant.angles == "keys otherwise" and name == "k":
            layout = "interleaved" if layout == "half" else "half"
        if variant.angles.startswith("mirrored"):
            sign = -1 if variant.angles == "mirrored" else 1
            parts[name] = _mirror(parts[name], angles, layout, sign)
        else:
            parts[name] = apply_rope(parts[name], angles, layout=layout)
    return parts["q"], parts["k"], parts["v"]


def _mirror(x: Tensor, angles: Tensor, layout: str, sign: int) -> Tensor:
    """Apply RoPE with one sign lost, which mirrors pairs (a, b) instead."""
    cos, sin = angles.cos(), angles.sin()
    half = layout == "half"
    a, b = x.chunk(2, -1) if half else (x[..., ::2], x[..., 1::2])
    pair = a * cos + sign * b * sin, b * cos + sign * a * sin
    return torch.cat(pair, -1) if half else torch.stack(pair, -1).flatten(-2)
