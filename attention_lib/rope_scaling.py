"""How fast each pair turns, and how that is slowed down for longer texts.

Shapes: T length, P = D/2 pairs of coordinates. The speed of a pair is its angle per
position. A scaling slows pairs down, so that a longer text has the angles of the
trained one. It is a mapping with the names of Hugging Face's ``rope_parameters``;
``SCALINGS`` lists what each ``rope_type`` takes.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

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


def pair_speeds(
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
