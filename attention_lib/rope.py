"""Rotary positions: turn queries and keys, so that a score sees only their offset.

Shapes: B batch, H heads, T length, D head_dim, P = D/2 pairs of coordinates. An angle
belongs to a position and a pair; the speed of a pair is its angle per position.

``scaling`` slows pairs down, so that a longer text has the angles of the trained one;
see ``rope_scaling``.
"""

import math
from typing import Literal, get_args

import torch
from jaxtyping import Float, Num
from torch import Tensor

from attention_lib.rope_scaling import SCALINGS, Scaling, pair_speeds
from attention_lib.validation import (
    check_above_zero,
    check_angles,
    check_choice,
    check_rotation,
    check_rows,
    check_scaling,
)

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
    check_above_zero(base=base)
    check_rotation(positions, head_dim)
    if scaling is not None:
        check_scaling(scaling, SCALINGS, head_dim=head_dim, base=base)
    if not positions.is_floating_point():
        positions = positions.float()
    return positions[..., None] * pair_speeds(positions, head_dim, base, scaling or {})


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
    check_choice("layout", layout, get_args(Layout))
    check_angles(x, angles)
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
    check_choice("layout", layout, get_args(Layout))
    check_rows(weight, num_heads)
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
    check_scaling(scaling, SCALINGS)
    if scaling["rope_type"] != "yarn":
        return 1.0
    if scaling.get("attention_factor") is not None:
        return float(scaling["attention_factor"])
    log = math.log(scaling["factor"])
    over, under = scaling.get("mscale"), scaling.get("mscale_all_dim")
    if over and under:
        return (0.1 * over * log + 1) / (0.1 * under * log + 1)
    return 0.1 * log + 1
