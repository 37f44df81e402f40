"""Detect bugs in layers and in positions, by comparison with correct numbers.

A layer is compared with an independent one that has the same weights, positions with
the library's or with those of a paper.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from attention_lib.course.museum.compare import Found, apart, drawn, same
from attention_lib.masks import sliding_window_mask
from attention_lib.multi_head import MultiHeadAttention
from attention_lib.positions import sinusoidal_positions
from attention_lib.rope import rope_angles

# Layers: their output, compared with an independent layer with the same weights.


def _against(layer: nn.Module, causal: bool = True, **options: Any) -> Found | None:
    """Compare a layer with the library's on some lengths, after copying the weights."""
    layer, other = layer.double(), MultiHeadAttention(12, 3).double()
    weights = layer.state_dict()
    wanted = {name: part.shape for name, part in other.state_dict().items()}
    if wanted != {name: part.shape for name, part in weights.items()}:
        return None
    other.load_state_dict(weights)
    gaps = []
    for length in (5, 6, 8):
        x = drawn(2, length, 12)
        extra = {name: option(length) for name, option in options.items()}
        gaps.append(apart(layer(x, causal=causal), other(x, causal=causal, **extra)))
    return max(gaps) < 1e-6, f"off by up to {max(gaps):.2g}"


def _rotary(layer: Any) -> Found | None:
    return _against(layer, angles=lambda n: rope_angles(torch.arange(n).double(), 4))


def _window(layer: Any) -> Found | None:
    return _against(layer, causal=False, mask=lambda n: sliding_window_mask(n, 4))


def _far(layer: Any) -> Found:
    """Compare neighbours' scores near and far: rotation must separate them equally."""
    layer = layer.double()
    query = drawn(1, 1, 4).expand(1, 1, 2, 4)
    offsets = []
    for start in (0, 1001):
        rotated, key = layer.encode_positions(query, query, start)
        offsets.append((rotated[..., 1, :] * key[..., 0, :]).sum())
    return same(
        offsets[0], offsets[1], "neighbours' score, near and far, differs by", 1e-3
    )


def width_of(layer: Any) -> int:
    """Return the width of a layer's input."""
    return getattr(layer, "out_proj", nn.Linear(1, 12)).out_features


def _inner_width(layer: Any) -> Found:
    """Check the query projection: all heads together are as wide as the model."""
    shape = tuple(layer.q_proj.weight.shape)
    return shape == (width_of(layer),) * 2, f"weights of queries: {shape}"


# Positions.


def _sees_order(encode: Any) -> Found:
    """Add positions to equal tokens: the rows must differ."""
    x = drawn(1, 1, 6).expand(3, 5, 6).clone()
    out = encode(x)
    gap = min(apart(out[0, i], out[0, j]) for i in range(5) for j in range(i))
    return gap > 1e-6, f"equal tokens, two positions: they differ by {gap:.2g}"


def _same_for_all(encode: Any) -> Found:
    x = drawn(1, 5, 6).expand(3, 5, 6).clone()
    out = encode(x)
    return same(out[0], out[2], "the same text in two rows differs by")


def _refuses(encode: Any) -> Found:
    """Try a text that may be too long: an error is fine, equal positions are not."""
    try:
        out = encode(torch.zeros(1, 40, 6, dtype=torch.double))
    except (ValueError, IndexError) as error:
        return True, f"{type(error).__name__}"
    gap = apart(out[0, 38], out[0, 39])
    return gap > 1e-6, f"positions 38 and 39 differ by {gap:.2g}"


def _table(table: Any) -> Found:
    gaps = [
        apart(table(7, width), sinusoidal_positions(7, width)) for width in (4, 5, 6)
    ]
    return max(gaps) < 1e-5, f"off by up to {max(gaps):.2g}"


#: Press et al. (2022): a geometric sequence for 4 and 8 heads; the published code
#: of BLOOM and MPT uses for 6: those of 4, then every second one of 8.
SLOPES = {
    4: [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8],
    8: [2.0**-n for n in range(1, 9)],
    6: [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3],
}


def _slopes(slopes: Any, counts: Iterable[int] = (4, 8)) -> Found:
    gaps = [apart(slopes(heads), torch.tensor(SLOPES[heads])) for heads in counts]
    return max(gaps) < 1e-6, f"off by up to {max(gaps):.2g}"


def _fresh_start(start: Any) -> Found:
    """Make two layers: they must not start with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first, second = start()
    gap = apart(first.q_proj.weight, second.q_proj.weight)
    return gap > 1e-6, f"two layers' weights differ by {gap:.2g}"


#: The checks of layers and of positions, by the kind of program.
LAYER_CHECKS: Mapping[str, Mapping[str, Callable[[Any], Found | None]]] = {
    "layer": {"inner width": _inner_width},
    "variant": {},
    "rotary": {"rotary": _rotary, "far positions": _far},
    "grouped": {},
    "window": {"window": _window},
    "places": {
        "sees the order": _sees_order,
        "same for all texts": _same_for_all,
        "refuses what is too long": _refuses,
    },
    "table": {"positions": _table},
    "slopes": {"slopes": _slopes},
    "more slopes": {"slopes": lambda slopes: _slopes(slopes, SLOPES)},
    "start": {"fresh start": _fresh_start},
}
