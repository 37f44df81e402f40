"""Tokens as arrows in the plane that the reader moves: `view_vectors`."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._maps import read_words
from attention_lib.course.views._packing import pack
from attention_lib.course.views._strings import VECTORS
from attention_lib.course.views._tables import plain_table
from attention_lib.plotting._figure import COLOURS, as_array
from attention_lib.toy import attention


def view_vectors(
    x: Any,
    words: Sequence[str],
    *,
    query: int = 0,
    axes: tuple[str, str] = ("x", "y"),
) -> Interactive:
    """Show tokens of two numbers as arrows to drag; scores, weights and mix follow.

    The same rows are queries, keys and values, as in ``attention(x, x, x)``. The reader
    moves each arrow by mouse, finger or arrow keys, and chooses the query, the
    temperature, and whether scores are divided by √2.

    Args:
        x: (T, 2), one row per token, for 2 to 6 tokens.
        words: T words, all different.
        query: the initial query, 0 to T − 1.
        axes: the names of the two numbers.

    Raises:
        TypeError: x that does not hold numbers; words or axes that are not a list; a
            query that is not an int.
        ValueError: the wrong shape; nan or inf; words that do not name the tokens; a
            query that does not exist; not two axes.
    """
    points = _read_points(x)
    names = read_words("words", words)
    if len(names) != len(points) or len(set(names)) < len(names):
        raise ValueError(
            f"words must name the {len(points)} rows of x, all different; got {names}"
        )
    if not isinstance(query, int) or isinstance(query, bool):
        raise TypeError(f"query must be an int; got {type(query).__name__}")
    if not 0 <= query < len(names):
        raise ValueError(f"query must be 0 to {len(names) - 1}; got {query}")
    called = read_words("axes", axes)
    if len(called) != 2:
        raise ValueError(f"axes must be two names; got {called}")
    data = {
        "words": names,
        "axes": called,
        "x": pack(points, 4),
        "query": query,
        "limit": math.floor(np.abs(points).max()) + 1,
    }
    line = VECTORS["line"].format(words=", ".join(names), query=names[query])
    return Interactive("vectors", data, _static(points, names, query, called), line)


def _static(points: np.ndarray, words: list[str], query: int, axes: list[str]) -> str:
    """Return one query's scores, weights and mix, as a table."""
    context, weights = attention(points[query : query + 1], points, points)
    scores = points @ points[query]
    columns = zip(scores, scores / math.sqrt(2), weights[0], strict=True)
    rows = [
        (word, [f"{at[0]:.1f}, {at[1]:.1f}", *(f"{number:.3f}" for number in numbers)])
        for word, at, numbers in zip(words, points, columns, strict=True)
    ]
    first, second = (f"{number:.3f}" for number in context[0])
    caption = VECTORS["caption"].format(query=words[query], first=first, second=second)
    head = [each.format(axes=", ".join(axes)) for each in VECTORS["head"]]
    return plain_table(caption, head, rows)


def _read_points(x: Any) -> np.ndarray:
    points = as_array(x)
    if points.dtype.kind not in "fiu":
        raise TypeError(f"x must hold numbers; got {points.dtype}")
    if points.ndim != 2 or points.shape[1] != 2 or not 2 <= len(points) <= len(COLOURS):
        raise ValueError(
            f"x must be (tokens, 2), for 2 to {len(COLOURS)} tokens; got {points.shape}"
        )
    if not np.isfinite(points).all():
        raise ValueError("x holds nan or inf")
    return points.astype(float)
