"""A query and a key that turn with their positions: `view_rope`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._maps import read_words
from attention_lib.course.views._packing import pack
from attention_lib.course.views._strings import ROPE
from attention_lib.course.views._tables import plain_table
from attention_lib.plotting._figure import as_array
from attention_lib.validation import require_above_zero, require_not_negative


def view_rope(
    query: Any,
    key: Any,
    words: Sequence[str],
    *,
    speeds: Mapping[str, float],
    positions: tuple[int, int] = (4, 1),
    longest: int = 40,
) -> Interactive:
    """Shows one pair of a query and of a key, turned by their positions.

    The reader moves both positions, alone or together, and chooses the pair's speed.
    The score stays while the offset stays.

    Args:
        query: (2,), one pair of coordinates before it is turned.
        key: (2,), likewise.
        words: what the two are called.
        speeds: from names to radians per position. The first is shown at first.
        positions: of the query and of the key, at first.
        longest: the last position that there is.

    Returns:
        What a cell shows when it is the cell's last line.

    Raises:
        TypeError: query or key that hold no numbers; words that are no list of words;
            speeds that are no mapping; positions that are not ints.
        ValueError: other than two numbers; other than two words; no speed, or one that
            is not above 0; a position below 0 or beyond the longest.
    """
    pairs = [_pair(name, array) for name, array in (("query", query), ("key", key))]
    names = read_words("words", words)
    if len(names) != 2:
        raise ValueError(f"words must name the query and the key; got {names}")
    if not isinstance(speeds, Mapping):
        raise TypeError(
            f"speeds must map names to numbers; got {type(speeds).__name__}"
        )
    if not speeds:
        raise ValueError("speeds must hold one at least; got an empty mapping")
    require_above_zero(**{f"speeds[{name!r}]": speed for name, speed in speeds.items()})
    require_not_negative(longest=longest)
    require_not_negative(
        **{f"positions[{i}]": place for i, place in enumerate(positions)}
    )
    if len(positions) != 2 or max(positions) > longest:
        raise ValueError(f"positions must be two, up to {longest}; got {positions}")
    data = {
        "pairs": [pack(pair, 4) for pair in pairs],
        "words": names,
        "speeds": [[name, float(speed)] for name, speed in speeds.items()],
        "positions": list(positions),
        "longest": longest,
    }
    line = ROPE["line"].format(query=names[0], key=names[1], speeds=", ".join(speeds))
    return Interactive("rope", data, _static(pairs, names, speeds, positions), line)


def turned_score(
    query: np.ndarray, key: np.ndarray, speed: float, positions: Sequence[int]
) -> float:
    """Gives the score of two pairs, (2,) each, turned by speed times position."""
    turned = [
        pair @ np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]])
        for pair, a in zip((query, key), speed * np.array(positions), strict=True)
    ]
    return float(turned[0] @ turned[1])


def _static(
    pairs: list[np.ndarray],
    words: list[str],
    speeds: Mapping[str, float],
    positions: tuple[int, int],
) -> str:
    """Gives the score at first, after both moved on, and after one did."""
    p, s = positions
    lines = []
    for at in [(p, s), (p + 10, s + 10), (p + 1, s)]:
        scores = [
            turned_score(pairs[0], pairs[1], speed, at) for speed in speeds.values()
        ]
        cells = [f"{at[0] - at[1]}", *(f"{score:.3f}" for score in scores)]
        where = ROPE["positions"].format(
            query=words[0], first=at[0], key=words[1], second=at[1]
        )
        lines.append((where, cells))
    return plain_table(ROPE["caption"], [*ROPE["head"], *speeds], lines)


def _pair(name: str, array: Any) -> np.ndarray:
    pair = as_array(array)
    if pair.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold numbers; got {pair.dtype}")
    if pair.shape != (2,) or not np.isfinite(pair).all() or not pair.any():
        raise ValueError(f"{name} must be two finite numbers, not both 0; got {pair}")
    return pair.astype(float)
