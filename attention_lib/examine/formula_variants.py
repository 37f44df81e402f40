"""Attention with given weights as tables: for each part the right way, and its slips.

Shapes, besides: H heads, G query heads per head of keys, D head_dim.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
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


def _merge_by_reshape(x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], x.shape[2], -1)


def _hide(scores: Tensor, seen: Tensor) -> Tensor:
    return scores.masked_fill(~seen, float("-inf"))


def _softmax(scores: Tensor, seen: Tensor, axis: int = -1) -> Tensor:
    return _hide(scores, seen).softmax(axis).nan_to_num(0.0)


def _relu(scores: Tensor, seen: Tensor) -> Tensor:
    weights = _hide(scores, seen).relu()
    return weights / weights.sum(-1, keepdim=True)


_BOTH = "heads are cut and merged by a reshape without a transpose"
TILED = "query heads share keys in turn, not as neighbours"
_NOT_SCALED = "the scores are not scaled"
_SCALED_UP = "the scores are multiplied by √D"
_AFTER = "the mask comes after the softmax"
_ZERO = "the mask sets scores to 0, not to -inf"
_APART = "the features of a head lie apart: (D, H) instead of (H, D)"
_ADDED = "heads are added, not laid side by side"
_REVERSED = "heads are merged in the reverse order"
_RIGHT = "the causal mask lies one token too far to the right"
_ITSELF = "the causal mask hides each token from itself"
_EXPONENTS = "the exponents of RoPE's frequencies are"
_KEYS = "RoPE pairs the features of keys"
_TWICE = "the output projection is applied twice"
linear = nn.functional.linear
#: For each part of the formula: its slips by their words. "" is right.
_TABLES: dict[str, dict[str, Any]] = {
    "scale": {  # of query (B, H, T, D) and x
        "": lambda query, x: query.shape[-1] ** -0.5,
        _NOT_SCALED: lambda query, x: 1.0,
        "the scores are divided by √d_model": lambda query, x: x.shape[-1] ** -0.5,
        "the scores are divided by D, not √D": lambda query, x: 1 / query.shape[-1],
        _SCALED_UP: lambda query, x: query.shape[-1] ** 0.5,
        "the scores are divided by √T": lambda query, x: x.shape[1] ** -0.5,
        "the scores are divided by √H": lambda query, x: query.shape[1] ** -0.5,
    },
    "softmax": {  # of scores (B, H, T, K), and of what each query may see
        "": _softmax,
        "the softmax runs over the queries": partial(_softmax, axis=-2),
        "the softmax runs over the heads": partial(_softmax, axis=1),
        "the softmax runs over the batch": partial(_softmax, axis=0),
        "there is no softmax": lambda s, seen: s * seen,
        "the weights are not divided by their sum": lambda s, seen: s.exp() * seen,
        "a sigmoid in place of the softmax": lambda s, seen: s.sigmoid() * seen,
        "a ReLU in place of the exponential": _relu,
        "the softmax is taken twice": lambda s, seen: _softmax(_softmax(s, seen), seen),
    },
    "split": {  # of x (B, T, H·D) and D, to (B, H, T, D)
        "": lambda x, D: x.unflatten(-1, (-1, D)).transpose(1, 2),
        "heads are cut by a reshape without a transpose": _by_reshape,
        _APART: lambda x, D: x.unflatten(-1, (D, -1)).permute(0, 3, 1, 2),
        _BOTH: _by_reshape,
    },
    "merge": {  # (B, H, T, D) to (B, T, H·D)
        "": lambda x: x.transpose(1, 2).flatten(2),
        "heads are merged by a reshape without a transpose": _merge_by_reshape,
        "merged as (D, H) instead of (H, D)": lambda x: x.permute(0, 2, 3, 1).flatten(
            2
        ),
        _ADDED: lambda x: x.sum(1).repeat(1, 1, x.shape[1]),
        _REVERSED: lambda x: x.flip(1).transpose(1, 2).flatten(2),
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
    "groups": {  # how query heads share keys, and how they share values: of _SHARED
        "": "nn",
        TILED: "tt",
        "query heads share values in turn, and keys as neighbours": "nt",
        "query heads share keys in turn, and values as neighbours": "tn",
        "query heads share keys in the reverse order": "rr",
        "all query heads read the first head of keys": "11",
    },
    "mask": {  # of scores and the causal mask, in the place of a softmax
        _AFTER: lambda s, seen: s.softmax(-1) * seen,
        _ZERO: lambda s, seen: (s * seen).softmax(-1),
        _RIGHT: lambda s, seen: _softmax(s, (seen | True).tril(1)),
        _ITSELF: lambda s, seen: _softmax(s, seen.tril(-1)),
        "the causal mask is the upper triangle": lambda s, seen: _softmax(s, seen.mT),
    },
    "output": {  # of the merged heads, x, the weight and the bias
        "": lambda heads, x, w, b: linear(heads, w, b),
        "the output projection is not used": lambda heads, x, w, b: heads,
        "the bias of the output is not used": lambda heads, x, w, b: linear(heads, w),
        "the input is added to the output": lambda h, x, w, b: linear(h, w, b) + x,
        _TWICE: lambda heads, x, w, b: linear(linear(heads, w, b), w, b),
        "the output projection is transposed": lambda h, x, w, b: linear(h, w.T, b),
    },
}
#: How heads (B, H, T, D) of keys or values are repeated for their groups of queries.
_SHARED: dict[str, Callable[[Tensor, int], Tensor]] = {
    "n": lambda x, groups: x.repeat_interleave(groups, 1),  # as neighbours
    "t": lambda x, groups: x.repeat(1, groups, 1, 1),  # in turn
    "r": lambda x, groups: x.repeat_interleave(groups, 1).flip(1),
    "1": lambda x, groups: x[:, :1].expand(-1, groups * x.shape[1], -1, -1),
}
_NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda x: x,
    "length": lambda x: nn.functional.normalize(x, dim=-1),
    "rms": lambda x: nn.functional.rms_norm(x, x.shape[-1:]),
}
#: Slips of RoPE in each layout: what is rotated, or by which angles.
_ROPE_SLIPS = {
    "RoPE turns the queries, and not the keys": {"rotated": "q"},
    "RoPE turns the keys, and not the queries": {"rotated": "k"},
    "RoPE turns the values, too": {"rotated": "qkv"},
    "RoPE does not rotate: is a sign of the sine wrong?": {"angles": "mirrored"},
    "RoPE does not rotate: both sines have a plus": {"angles": "mirrored, plus"},
    f"{_EXPONENTS} half as large: i/D, not 2i/D": {"angles": "slow"},
    f"{_EXPONENTS} twice as large: 4i/D, not 2i/D": {"angles": "fast"},
    f"{_KEYS} otherwise than of queries": {"angles": "keys otherwise"},
}
_LAYOUTS = "", "half", "interleaved"
#: One way to compute attention: ``heads``, the slip of each part of ``_TABLES`` (right
#: without one), ``norm``, and of RoPE ``layout``, what is ``rotated``, and ``angles``.
Variant = dict[str, Any]


def find_options(variants: list[Variant]) -> Iterator[tuple[Variant, str]]:
    """Yield what other layers add without weights of their own."""
    scaled = [("", ""), *product(("length", "rms"), ("", _NOT_SCALED, _SCALED_UP))]
    for right, (norm, scale), layout in product(variants, scaled, _LAYOUTS):
        words = ["QK-norm"] * bool(norm) + ["RoPE"] * bool(layout)
        changes = {"norm": norm, "scale": scale, "layout": layout}
        if words:
            yield right | changes, f"with {' and '.join(words)}"


def find_slips(
    variants: list[Variant], width: int, *, rotated: bool
) -> Iterator[tuple[Variant, str]]:
    """Yield the slips; with RoPE, too, where the layer knows positions."""
    slips = [(part, words) for part, table in _TABLES.items() for words in table]
    layouts = _LAYOUTS if rotated else ("",)
    for layout, right, (part, words) in product(layouts, variants, slips):
        if words:
            yield right | {part: words, "layout": layout}, words
    for right, layout, words in product(variants, _LAYOUTS[1:], _ROPE_SLIPS):
        yield right | {"layout": layout, **_ROPE_SLIPS[words]}, words
    named = {right["heads"] for right in variants}
    for heads in range(1, width + 1):
        if heads not in named and width % heads == 0:
            yield {"heads": heads}, f"it has {heads} heads, not {min(named)}"


def attend(x: Tensor, roles: Roles, variant: Variant, *, causal: bool) -> Tensor:
    """Compute attention with these weights in this way."""
    late = variant.get("mask") in (_AFTER, _ZERO)  # then the future shows
    if "mask" in variant and not (causal := causal or late):
        raise RuntimeError("no causal mask")
    chosen = ((part, variant.get(part, "")) for part in _TABLES)
    way: dict[str, Any] = {part: _TABLES[part].get(name) for part, name in chosen}
    given = dict(zip("qkv", zip(roles[:3], roles.biases[:3], strict=True), strict=True))
    parts = [x if it == "x" else linear(x, *given[it]) for it in way["projections"]]
    head_dim = roles.query.shape[0] // variant["heads"]
    query, key, value = (way["split"](part, head_dim) for part in parts)
    if (groups := query.shape[1] // key.shape[1]) > 1:
        ways = zip(way["groups"], (key, value), strict=True)
        key, value = (_SHARED[how](each, groups) for how, each in ways)
    query, key = (_NORMS[variant.get("norm", "")](each) for each in (query, key))
    if variant.get("layout"):
        query, key, value = _rotate({"q": query, "k": key, "v": value}, variant)
    scores = query @ key.mT * way["scale"](query, x)
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device)
    weigh = way["mask"] or way["softmax"]
    context = weigh(scores, seen.tril() if causal else seen) @ value
    merge = _merge_by_reshape if variant.get("split") == _BOTH else way["merge"]
    heads = merge(context)
    if roles.out is None:
        return heads + x if "added" in variant.get("output", "") else heads
    return way["output"](heads, x, roles.out, roles.biases[3])


def _rotate(parts: dict[str, Tensor], variant: Variant) -> Iterable[Tensor]:
    """Rotate by position what this variant rotates."""
    query, how = parts["q"], variant.get("angles", "")
    if (width := query.shape[-1]) % 2:
        raise RuntimeError("an odd width")
    position = torch.arange(query.shape[-2], device=query.device, dtype=query.dtype)
    # 2i/D is the half or the double of itself where the base is its root or its square.
    base = {"slow": 1e2, "fast": 1e8}.get(how, 1e4)
    angles = rope_angles(position, width, base=base)
    index = torch.arange(width, device=query.device)
    for name in variant.get("rotated", "qk"):
        half = (variant["layout"] == "half") != (
            how == "keys otherwise" and name == "k"
        )
        rotate = partial(apply_rope, layout="half" if half else "interleaved")
        to, back = rotate(parts[name], angles), rotate(parts[name], -angles)
        first = index < width // 2 if half else index % 2 == 0
        mirrored = {"mirrored": (to, back), "mirrored, plus": (back, to)}
        parts[name] = torch.where(first, *mirrored[how]) if how in mirrored else to
    return parts.values()
