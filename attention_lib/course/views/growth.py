"""Two heads that form while a model trains: `view_growth`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._maps import read_words
from attention_lib.course.views._packing import pack
from attention_lib.course.views._strings import GROWTH
from attention_lib.course.views._tables import plain_table
from attention_lib.plotting._figure import as_array


def view_growth(
    words: Sequence[str],
    weights: Mapping[int, Any],
    *,
    wanted: Mapping[str, Any],
    scores: Mapping[int, Sequence[float]],
    measured: Mapping[int, float],
) -> Interactive:
    """Show maps, scores and the loss at each snapshot of a run.

    A slider moves through the snapshots. Each head's map has a frame around the keys
    that its score counts.

    Args:
        words: the text, one word per token.
        weights: for each snapshot's step the maps (H, T, T) of H heads.
        wanted: for each head's name (T, T), True where its score counts a weight.
        scores: for each snapshot the score of each head, from 0 to 1.
        measured: the loss at each snapshot.

    Raises:
        TypeError: words that are not a list of words.
        ValueError: no snapshots; weights or wanted keys of the wrong shape; snapshots
            that differ.
    """
    words, steps = read_words("words", words), list(weights)
    if not steps:
        raise ValueError("weights must hold at least one snapshot; got none")
    for name, of in (("scores", scores), ("measured", measured)):
        if list(of) != steps:
            raise ValueError(f"{name} must have the steps {steps}; got {list(of)}")
    size = len(words)
    shape = (len(wanted), size, size)
    arrays = {step: as_array(array) for step, array in weights.items()}
    for step, array in arrays.items():
        if array.shape != shape or len(scores[step]) != len(wanted):
            raise ValueError(
                f"weights[{step}] must be {shape}, with {len(wanted)} scores; got "
                f"{array.shape}, with {len(scores[step])}"
            )
    marks = {name: as_array(each).astype(bool) for name, each in wanted.items()}
    for name, each in marks.items():
        if each.shape != (size, size):
            raise ValueError(
                f"wanted[{name!r}] must be {(size, size)}; got {each.shape}"
            )
    below = np.tril_indices(size)
    data = {
        "words": words,
        "steps": steps,
        "heads": list(wanted),
        "wanted": [
            "".join("01"[int(mark)] for mark in each[below]) for each in marks.values()
        ],
        # Of each map the part on and below the diagonal, row by row.
        "weights": [
            [pack(each[below], 2) for each in maps] for maps in arrays.values()
        ],
        "scores": [
            pack(np.array([scores[step][head] for step in steps]), 2)
            for head in range(len(marks))
        ],
        "measured": pack(np.array(list(measured.values())), 2),
    }
    lines = [
        (
            str(step),
            [f"{measured[step]:.2f}", *(f"{each:.2f}" for each in scores[step])],
        )
        for step in steps
    ]
    head = [*GROWTH["head"], *(GROWTH["score"].format(head=name) for name in wanted)]
    static = plain_table(GROWTH["caption"], head, lines)
    return Interactive("growth", data, static, GROWTH["line"].format(count=len(steps)))
