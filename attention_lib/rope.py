"""Rotary positions: rotate queries and keys, so that a score depends on their offset.

Shapes: B batch, H heads, T length, D head_dim, P = D/2 pairs of coordinates. An angle
belongs to a position and a pair; the frequency of a pair is its angle per position.

``scaling`` lowers frequencies, so that a longer text has the angles of the trained
length; see ``rope_frequencies``.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Num
from torch import Tensor

from attention_lib.validation import (
    require_angles,
    require_base,
    require_choice,
    require_instance,
    require_rotation,
    require_rows,
    require_scaling,
)

Scaling = Mapping[str, Any]

# For each rope_type the keys that it needs, then those that it also accepts.
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
    """Return the frequency of each pair, in radians per position.

    The order of operations is that of ``transformers``: at position 100,000, rounding a
    frequency differently would change an angle in the second decimal.

    Args:
        positions: floats, whose type the frequencies get. With ``dynamic``, each row of
            positions has its own frequencies, ``(*B, 1, P)``.
        head_dim: width of what is rotated.
        base: about how many positions the slowest pair needs per radian.
        scaling: an empty one leaves the frequencies as they are.
    """
    require_base(base=base)
    require_rotation(positions, head_dim)
    require_instance("scaling", scaling, Mapping)
    kind = scaling.get("rope_type", "default")
    grown: float | Tensor = base
    if kind == "dynamic" and positions.numel():
        grown = base * _growth(positions, scaling) ** (head_dim / (head_dim - 2))
    pair = torch.arange(0, head_dim, 2, device=positions.device).to(positions.dtype)
    radian = grown ** (pair / head_dim)  # positions per radian
    if kind == "linear":
        return 1 / radian / scaling["factor"]
    if kind == "yarn":
        return _yarn(radian, head_dim, base, scaling)
    return _llama3(1 / radian, scaling) if kind == "llama3" else 1 / radian


def grows_beyond(scalings: Iterable[Scaling | None]) -> int | None:
    """Return the longest text whose frequencies do not depend on its length.

    Args:
        scalings: those of all layers.

    Returns:
        The trained length of ``dynamic``, the shortest if there are several; None if no
        scaling depends on the length.
    """
    given = [each for each in scalings if each is not None]
    for each in given:
        require_scaling(each, SCALINGS)
    lengths = [each[_LENGTH] for each in given if each["rope_type"] == "dynamic"]
    return min(lengths, default=None)


def _growth(positions: Tensor, scaling: Scaling) -> Float[Tensor, "*B 1 1"]:
    """Return the factor by which each text's base grows: 1 up to the trained length."""
    factor, trained = scaling["factor"], scaling[_LENGTH]
    length = positions.amax(dim=-1)[..., None, None] + 1  # of a text, not of all
    longer = factor * length / trained - (factor - 1)
    return torch.where(length > trained, longer, 1.0)


def _yarn(
    radian: Float[Tensor, " P"], head_dim: int, base: float, scaling: Scaling
) -> Float[Tensor, " P"]:
    """Keep fast pairs, divide slow ones by the factor, and blend those between."""

    def pair_of(rotations: float) -> float:
        """Return the pair, a decimal, that rotates so often in the trained length."""
        per_rotation = scaling[_LENGTH] / (rotations * 2 * math.pi)
        return head_dim * math.log(per_rotation) / (2 * math.log(base))

    fast = pair_of(float(scaling.get("beta_fast") or 32))
    slow = pair_of(float(scaling.get("beta_slow") or 1))
    if scaling.get("truncate", True):
        fast, slow = math.floor(fast), math.ceil(slow)
    fast, slow = max(fast, 0), min(slow, head_dim - 1)
    slow += 0.001 if fast == slow else 0
    pair = torch.arange(len(radian), device=radian.device).to(radian.dtype)
    kept = 1 - ((pair - fast) / (slow - fast)).clamp(0, 1)
    return 1 / (scaling["factor"] * radian) * (1 - kept) + 1 / radian * kept


def _llama3(frequencies: Float[Tensor, " P"], scaling: Scaling) -> Float[Tensor, " P"]:
    """Do the same by wavelength, with different bounds: Llama 3.1."""
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    wavelength = 2 * math.pi / frequencies  # positions per full rotation
    slow = frequencies / scaling["factor"]
    kept = (scaling[_LENGTH] / wavelength - low) / ((high - low) or 1)
    blend = (1 - kept) * frequencies / scaling["factor"] + kept * frequencies
    blend = torch.where(wavelength > scaling[_LENGTH] / low, slow, blend)
    return torch.where(wavelength < scaling[_LENGTH] / high, frequencies, blend)


Layout = Literal["half", "interleaved"]


def rope_angles(
    positions: Num[Tensor, "*B T"],
    head_dim: int,
    *,
    base: float = 10_000.0,
    scaling: Scaling | None = None,
) -> Float[Tensor, "*B T P"]:
    """Return the angles of each position, in radians: fast pairs first.

    Su et al. (2021), equations (14) and (15): position · base^(-2i / head_dim).

    Args:
        positions: whole numbers yield angles in float32, bit for bit as
            ``transformers`` computes them; floats keep their type, so float64 yields
            exact angles.
        head_dim: width of what is rotated; even.
        base: how slowly the slowest pair rotates: about ``base`` positions per radian.
        scaling: how frequencies change for texts longer than those of training:
            ``linear`` (Chen et al., 2023), ``dynamic`` (a larger base, by how far the
            largest position of each row goes beyond the trained length; keys that a
            cache holds keep their old frequencies), ``yarn`` (Peng et al., 2023; see
            also ``rope_attention_factor``) or ``llama3``.

    Raises:
        TypeError: positions that are not a tensor of numbers; a width that is not an
            int; a scaling that is not a mapping.
        ValueError: an odd width; a base that is not above 0; an unknown ``rope_type``
            or key, a missing key, or a number out of bounds.
    """
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
    """Rotate each pair of coordinates by its angle.

    Args:
        x: queries or keys.
        angles: from ``rope_angles``; leading axes broadcast.
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
        rotated = first * cos - second * sin, second * cos + first * sin
        return torch.cat(rotated, dim=-1)
    first, second = x[..., 0::2], x[..., 1::2]
    rotated = first * cos - second * sin, second * cos + first * sin
    return torch.stack(rotated, dim=-1).flatten(start_dim=-2)


def convert_layout(
    weight: Float[Tensor, "N ..."], num_heads: int, *, layout: Layout
) -> Float[Tensor, "N ..."]:
    """Reorder a projection's rows into this layout, from the other one.

    Scores stay the same when the projections of queries and of keys are both converted,
    and ``apply_rope`` gets the new layout.

    Args:
        weight: of a projection whose rows are heads · head_dim, head after head; or its
            bias; or the scales of a norm over each head, as one head.
        num_heads: of this projection: keys may have fewer heads than queries.
        layout: the one to convert to.

    Raises:
        TypeError: a weight that is not a tensor of floats; heads that are not an int.
        ValueError: rows that are not whole pairs for each head; an unknown layout.
    """
    require_choice("layout", layout, get_args(Layout))
    require_rows(weight, num_heads)
    pairs = (-1, 2) if layout == "half" else (2, -1)  # in the present layout
    rows = weight.unflatten(0, (num_heads, *pairs))  # (H, P, 2, M) or (H, 2, P, M)
    return rows.transpose(1, 2).reshape(weight.shape)


def rope_attention_factor(scaling: Scaling | None) -> float:
    """Return YaRN's factor for queries and keys, applied with the rotation.

    Peng et al. (2023): 0.1 · ln(factor) + 1, unless ``attention_factor`` or ``mscale``
    specify it. Scores grow by its square. For other scalings it is 1.

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
