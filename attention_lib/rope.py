"""Rotary positions: turn queries and keys, so that a score sees only their offset.

Shapes: B batch, H heads, T length, D head_dim, P = D/2 pairs of coordinates. An angle
belongs to a position and a pair; the speed of a pair is its angle per position.

``scaling`` slows pairs down, so that a longer text has the angles of the trained one;
see ``rope_scaling``.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Num
from torch import Tensor

from attention_lib.validation import (
    require_above_zero,
    require_angles,
    require_choice,
    require_rotation,
    require_rows,
    require_scaling,
)

Scaling = Mapping[str, Any]

# For each rope_type what it needs, then what it takes besides.
_LENGTH = "original_max_position_embeddings"
_YARN = "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"
SCALINGS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "default": ((), ()),
    "linear": (("factor",), ()),
    "dynamic": (("factor", _LENGTH), ()),
    "yarn": (("factor", _LENGTH), (*_YARN, "truncate")),
    "llama3": (("factor", _LENGTH, "low_freq_factor", "high_freq_factor"), ()),
}


def rope_frequencies(
    positions: Float[Tensor, "*B T"], head_dim: int, base: float, scaling: Scaling
) -> Float[Tensor, "... P"]:
    """Gives the speed of each pair, in radians per position.

    The order of operations is that of ``transformers``: at position 100,000, another
    rounding of a speed would change an angle in the second decimal.

    Args:
        positions: floats; their type is that of the speeds. With ``dynamic``, each row
            of positions has speeds of its own, ``(*B, 1, P)``.
        head_dim: width of what is turned.
        base: how many positions the slowest pair needs per radian, about.
        scaling: an empty one leaves the speeds as they are.
    """
    kind = scaling.get("rope_type", "default")
    grown: float | Tensor = base
    if kind == "dynamic":
        grown = base * _growth(positions, scaling) ** (head_dim / (head_dim - 2))
    pair = torch.arange(0, head_dim, 2, device=positions.device).to(positions.dtype)
    radian = grown ** (pair / head_dim)  # how many positions a pair needs for it
    if kind == "linear":
        return 1 / radian / scaling["factor"]
    if kind == "yarn":
        return _yarn(radian, head_dim, base, scaling)
    return _llama3(1 / radian, scaling) if kind == "llama3" else 1 / radian


def grows_beyond(scalings: Iterable[Scaling | None]) -> int | None:
    """Return the longest text whose speeds do not depend on its length.

    Args:
        scalings: those of all layers.

    Returns:
        The trained length of ``dynamic``, the shortest if there are several; None if no
        scaling depends on the length.
    """
    lengths = [
        each[_LENGTH]
        for each in scalings
        if each is not None and each.get("rope_type") == "dynamic"
    ]
    return min(lengths, default=None)


def _growth(positions: Tensor, scaling: Scaling) -> Float[Tensor, "*B 1 1"]:
    """Return by how much the base of each text grows: 1 within the trained length."""
    factor, trained = scaling["factor"], scaling[_LENGTH]
    length = positions.amax(dim=-1)[..., None, None] + 1  # of a text, not of all
    longer = factor * length / trained - (factor - 1)
    return torch.where(length > trained, longer, 1.0)


def _yarn(
    radian: Float[Tensor, " P"], head_dim: int, base: float, scaling: Scaling
) -> Float[Tensor, " P"]:
    """Leaves fast pairs, divides slow ones by the factor, and blends those between."""

    def pair_of(turns: float) -> float:
        """The pair, a decimal, with so many full turns in the trained length."""
        per_turn = scaling[_LENGTH] / (turns * 2 * math.pi)
        return head_dim * math.log(per_turn) / (2 * math.log(base))

    fast = pair_of(float(scaling.get("beta_fast") or 32))
    slow = pair_of(float(scaling.get("beta_slow") or 1))
    if scaling.get("truncate", True):
        fast, slow = math.floor(fast), math.ceil(slow)
    fast, slow = max(fast, 0), min(slow, head_dim - 1)
    slow += 0.001 if fast == slow else 0
    pair = torch.arange(len(radian), device=radian.device).to(radian.dtype)
    kept = 1 - ((pair - fast) / (slow - fast)).clamp(0, 1)
    return 1 / (scaling["factor"] * radian) * (1 - kept) + 1 / radian * kept


def _llama3(speeds: Float[Tensor, " P"], scaling: Scaling) -> Float[Tensor, " P"]:
    """Does the same by wavelength, with other bounds: Llama 3.1."""
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turn = 2 * math.pi / speeds  # positions per full turn
    slow = speeds / scaling["factor"]
    kept = (scaling[_LENGTH] / turn - low) / (high - low)
    blend = (1 - kept) * speeds / scaling["factor"] + kept * speeds
    blend = torch.where(turn > scaling[_LENGTH] / low, slow, blend)
    return torch.where(turn < scaling[_LENGTH] / high, speeds, blend)


Layout = Literal["half", "interleaved"]


def rope_angles(
    positions: Num[Tensor, "*B T"],
    head_dim: int,
    *,
    base: float = 10_000.0,
    scaling: Scaling | None = None,
) -> Float[Tensor, "*B T P"]:
    """Gives each position its angles, in radians: fast pairs first.

    Su et al. (2021), equations (14) and (15): position · base^(-2i / head_dim).

    Args:
        positions: whole numbers give angles in float32, bit for bit as ``transformers``
            computes them; floats keep their type, so float64 gives exact angles.
        head_dim: width of what is turned; even.
        base: how slowly the slowest pair turns: about ``base`` positions per radian.
        scaling: how speeds are changed for texts longer than those of training:
            ``linear`` (Chen et al., 2023), ``dynamic`` (a larger base, by how far the
            largest position of each row goes beyond the trained length; keys that a
            cache holds keep their old speeds), ``yarn`` (Peng et al., 2023; see also
            ``rope_attention_factor``) or ``llama3``.

    Raises:
        TypeError: positions that are no tensor of numbers; a width that is not an int;
            a scaling that is no mapping.
        ValueError: an odd width; a base that is not above 0; a ``rope_type`` or a key
            that is not known, a missing key, or a number out of bounds.
    """
    require_above_zero(base=base)
    require_rotation(positions, head_dim)
    if scaling is not None:
        require_scaling(scaling, SCALINGS, head_dim=head_dim, base=base)
    if not positions.is_floating_point():
        positions = positions.float()
    return positions[..., None] * rope_frequencies(
        positions, head_dim, base, scaling or {}
    )


def apply_rope(
    x: Float[Tensor, "*B T D"],
    angles: Float[Tensor, "*#B T P"],
    *,
    layout: Layout = "half",
) -> Float[Tensor, "*B T D"]:
    """Turns each pair of coordinates by its angle.

    Args:
        x: queries or keys.
        angles: of ``rope_angles``; leading axes broadcast.
        layout: which coordinates are a pair: ``half`` takes i and i + D/2, as
            Hugging Face's checkpoints of Llama do; ``interleaved`` 2i and 2i + 1, as
            in Su et al. (2021), equation (34), and Meta's checkpoints.

    Raises:
        ValueError: angles that do not fit x; an unknown layout.
    """
    require_choice("layout", layout, get_args(Layout))
    require_angles(x, angles)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    if layout == "half":
        first, second = x.chunk(2, dim=-1)
        turned = first * cos - second * sin, second * cos + first * sin
        return torch.cat(turned, dim=-1)
    first, second = x[..., 0::2], x[..., 1::2]
    turned = first * cos - second * sin, second * cos + first * sin
    return torch.stack(turned, dim=-1).flatten(start_dim=-2)


def convert_layout(
    weight: Float[Tensor, "N ..."], num_heads: int, *, layout: Layout
) -> Float[Tensor, "N ..."]:
    """Reorders a projection's rows into this layout, from the other one.

    Scores stay the same when the projections of queries and of keys are both converted,
    and ``apply_rope`` is told the new layout.

    Args:
        weight: of a projection whose rows are heads · head_dim, head after head; or its
            bias; or the scales of a norm over each head, as one head.
        num_heads: of this projection: keys may have fewer heads than queries.
        layout: the one wanted.

    Raises:
        TypeError: a weight that is no tensor of floats; heads that are not an int.
        ValueError: rows that are not whole pairs for each head; an unknown layout.
    """
    require_choice("layout", layout, get_args(Layout))
    require_rows(weight, num_heads)
    pairs = (-1, 2) if layout == "half" else (2, -1)  # as they stand until now
    rows = weight.unflatten(0, (num_heads, *pairs))  # (H, P, 2, M) or (H, 2, P, M)
    return rows.transpose(1, 2).reshape(weight.shape)


def rope_attention_factor(scaling: Scaling | None) -> float:
    """Gives what queries and keys are multiplied by, next to the rotation: YaRN's rule.

    Peng et al. (2023): 0.1 · ln(factor) + 1, unless ``attention_factor``
    or ``mscale`` say otherwise. Scores grow by its square. Other scalings have 1.

    Args:
        scaling: as for ``rope_angles``.
    """
    if scaling is None:
        return 1.0
    require_scaling(scaling, SCALINGS)
    if scaling["rope_type"] != "yarn":
        return 1.0
    if scaling.get("attention_factor") is not None:
        return float(scaling["attention_factor"])
    log = math.log(scaling["factor"])
    over, under = scaling.get("mscale"), scaling.get("mscale_all_dim")
    if over and under:
        return (0.1 * over * log + 1) / (0.1 * under * log + 1)
    return 0.1 * log + 1
