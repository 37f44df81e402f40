"""Rotary positions: their scaling, and rows in pairs."""

from collections.abc import Mapping
from typing import Any

from attention_lib.validation._common import require_floats, require_int, require_number
from attention_lib.validation.sizes import (
    require_base,
    require_choice,
    require_flags,
    require_positive,
)

# Least values; all others must be above 0.
_LEAST = {"factor": 1, "mscale": 0, "mscale_all_dim": 0}
# The first may not be larger than the second.
_ORDERED = ("low_freq_factor", "high_freq_factor"), ("beta_slow", "beta_fast")


def require_scaling(
    scaling: Any,
    known: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]],
    *,
    head_dim: int | None = None,
    base: float | None = None,
) -> None:
    """Check a scaling of rotary positions: known keys, numbers that fit.

    Args:
        scaling: the argument, like Hugging Face's ``rope_parameters``.
        known: for each ``rope_type`` the keys that it needs, then the optional ones.
        head_dim: the rotated width, if known.
        base: of the frequencies, if known; ``rope_theta`` must agree with it.
    """
    if not isinstance(scaling, Mapping):
        raise TypeError(f"scaling must be a mapping; got {type(scaling).__name__}")
    kind: Any = scaling.get("rope_type")
    require_choice("rope_type, in scaling,", kind, known)
    needed, optional = known[kind]
    every = "rope_type", "rope_theta", *needed, *optional
    for key in scaling:
        require_choice(f"each key of scaling for {kind!r}", key, every)
    given = {key: n for key, n in scaling.items() if n is not None}
    if missing := [key for key in needed if key not in given]:
        raise ValueError(f"scaling for {kind!r} needs {', '.join(missing)}")
    for key, number in given.items():
        _require_entry(f"{key}, in scaling,", key, number)
    given.setdefault("beta_fast", 32)
    given.setdefault("beta_slow", 1)
    for low, high in _ORDERED:
        if low in given and given[low] > given[high]:
            raise ValueError(
                f"{low}, in scaling, must not be above {high}; got {given[low]} and "
                f"{given[high]}"
            )
    if base is not None:
        require_base(base=base)
    if base is not None and given.get("rope_theta", base) != base:
        raise ValueError(
            f"scaling has rope_theta {given['rope_theta']}, but the base is {base}: "
            "they must agree"
        )
    if kind == "yarn" and base is not None and base <= 1:
        raise ValueError(f"base must be above 1 with 'yarn'; got {base}")
    if kind == "dynamic" and head_dim == 2:
        raise ValueError("head_dim must be at least 4 with 'dynamic'; got 2")


def require_rows(weight: Any, num_heads: int) -> None:
    """Check that a weight's rows are heads of whole pairs."""
    require_floats("weight", weight)
    require_positive(num_heads=num_heads)
    if weight.ndim == 0 or weight.shape[0] % (2 * num_heads) or 0 in weight.shape:
        raise ValueError(
            f"weight must have num_heads · head_dim rows, head_dim even; got "
            f"{tuple(weight.shape)} for {num_heads} heads"
        )


def _require_entry(name: str, key: str, number: Any) -> None:
    if key == "truncate":
        require_flags(**{name: number})
    elif key == "original_max_position_embeddings":
        require_int(name, number)
        require_number(name, number, "at least 1", lambda n: n >= 1)
    elif key in _LEAST:
        least = _LEAST[key]
        wanted = f"at least {least} and at most 1e6"
        require_number(name, number, wanted, lambda n: least <= n <= 1e6)
    elif key == "rope_theta":
        require_base(**{name: number})
    elif key != "rope_type":
        wanted = "from 1e-6 to 1e6"
        require_number(name, number, wanted, lambda n: 1e-6 <= n <= 1e6)
