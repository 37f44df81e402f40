"""A query and a key that are rotated by their positions: `view_rope`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._maps import read_words
from attention_lib.course.views._packing import pack
from attention_lib.course.views._strings import ROPE
from attention_lib.course.views._tables import plain_table
from attention_lib.plotting._figure import as_array
from attention_lib.validation import require_above_zero

POSITIONS, LAST = (4, 1), 40  # at first; the last one that can be chosen


def view_rope(
    query: Any,
    key: Any,
    words: Sequence[str],
    *,
    frequencies: Mapping[str, float],
) -> Interactive:
    """Show one pair of a query and of a key, rotated by their positions.

    The reader moves both positions, alone or together, and chooses the pair's
    frequency. The score stays the same while the offset does.

    Args:
        query: (2,), one pair of coordinates before rotation.
        key: (2,), likewise.
        words: the names of the two.
        frequencies: from names to radians per position. The first is shown initially.

    Raises:
        TypeError: query or key that do not hold numbers; words that are not a list;
            frequencies that are not a mapping.
        ValueError: not two numbers; not two words; no frequencies, or one that is not
            above 0.
    """
    pairs = [_pair(name, array) for name, array in (("query", query), ("key", key))]
    names = read_words("words", words)
    if len(names) != 2:
        raise ValueError(f"words must name the query and the key; got {names}")
    if not isinstance(frequencies, Mapping):
        raise TypeError(
            f"frequencies must map names to numbers; got {type(frequencies).__name__}"
        )
    if not frequencies:
        raise ValueError("frequencies must hold at least one; got an empty mapping")
    require_above_zero(
        **{f"frequencies[{name!r}]": each for name, each in frequencies.items()}
    )
    data = {
        "pairs": [pack(pair, 4) for pair in pairs],
        "words": names,
        "speeds": [[name, float(each)] for name, each in frequencies.items()],
        "positions": list(POSITIONS),
        "longest": LAST,
    }
    chosen = ", ".join(frequencies)
    line = ROPE["line"].format(query=names[0], key=names[1], frequencies=chosen)
    return Interactive("rope", data, _static(pairs, names, frequencies), line)


def rotated_score(
    query: np.ndarray, key: np.ndarray, frequency: float, positions: Sequence[int]
) -> float:
    """Return the score of two pairs, (2,) each, rotated by frequency · position."""
    rotated = [
        pair @ np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]])
        for pair, a in zip((query, key), frequency * np.array(positions), strict=True)
    ]
    return float(rotated[0] @ rotated[1])


def _static(
    pairs: list[np.ndarray],
    words: list[str],
    frequencies: Mapping[str, float],
) -> str:
    """Return the initial score, then with both positions moved, then with one moved."""
    (query, key), (p, s) = pairs, POSITIONS
    lines = []
    for at in [(p, s), (p + 10, s + 10), (p + 1, s)]:
        scores = [rotated_score(query, key, each, at) for each in frequencies.values()]
        cells = [f"{at[0] - at[1]}", *(f"{score:.3f}" for score in scores)]
        where = ROPE["positions"].format(
            query=words[0], first=at[0], key=words[1], second=at[1]
        )
        lines.append((where, cells))
    return plain_table(ROPE["caption"], [*ROPE["head"], *frequencies], lines)


def _pair(name: str, array: Any) -> np.ndarray:
    pair = as_array(array)
    if pair.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold numbers; got {pair.dtype}")
    if pair.shape != (2,) or not np.isfinite(pair).all() or not pair.any():
        raise ValueError(f"{name} must be two finite numbers, not both 0; got {pair}")
    return pair.astype(float)
