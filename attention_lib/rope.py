"""Rotary positions: turn queries and keys, so that a score sees only their offset.

Shapes: B batch, H heads, T length, D head_dim, P = D/2 pairs of coordinates. An angle
belongs to a position and a pair.
"""

from typing import Literal, get_args

import torch
from jaxtyping import Float, Num
from torch import Tensor

from attention_lib.validation import (
    check_above_zero,
    check_angles,
    check_choice,
    check_rotation,
)

Layout = Literal["half", "interleaved"]


def rope_angles(
    positions: Num[Tensor, "*B T"], head_dim: int, *, base: float = 10_000.0
) -> Float[Tensor, "*B T P"]:
    """Gives each position its angles, in radians: fast pairs first.

    Su et al. (2021), equations (14) and (15): position · base^(-2i / head_dim).

    Args:
        positions: whole numbers give angles in float32; floats keep their type.
        head_dim: width of what is turned; even.
        base: how slowly the slowest pair turns: about ``base`` positions per radian.

    Raises:
        TypeError: positions that are no tensor of numbers; a width that is not an int.
        ValueError: an odd width; a base that is not above 0.
    """
    check_above_zero(base=base)
    check_rotation(positions, head_dim)
    dtype = positions.dtype if positions.is_floating_point() else torch.float32
    pair = torch.arange(0, head_dim, 2, dtype=dtype, device=positions.device)
    return positions.to(dtype)[..., None] / base ** (pair / head_dim)


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
            Hugging Face's checkpoints do; ``interleaved`` 2i and 2i + 1, as in Su et
            al. (2021), equation (34), and Meta's checkpoints.

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
