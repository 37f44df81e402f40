"""A training run that the reader moves through: `view_snapshots`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._maps import read_words
from attention_lib.course.views._packing import pack
from attention_lib.course.views._strings import SNAPSHOTS
from attention_lib.course.views._tables import plain_table
from attention_lib.plotting._figure import as_array

POINTS = 150  # of the curve; a run has more steps than a screen has room for


def view_snapshots(
    words: Sequence[str],
    weights: Mapping[int, Any],
    *,
    queries: Mapping[str, tuple[int, int]],
    heads: Sequence[str],
    samples: Mapping[int, str],
    measured: Mapping[int, float],
    losses: Sequence[float],
) -> Interactive:
    """Shows losses, attention weights and a sample at each snapshot of a run.

    A slider moves through the snapshots. For a query the weights of all heads are
    shown, one line per head, over the words of the text.

    Args:
        words: the text, one word for each key.
        weights: for each snapshot's step (H, T, T).
        queries: for each name the place of the query, and of the word that it has to
            find.
        heads: the names of the heads.
        samples: a text that the model wrote, for each snapshot.
        measured: the held-out loss at each snapshot.
        losses: the training loss of each step.

    Returns:
        What a cell shows when it is the cell's last line.

    Raises:
        TypeError: words or heads that are no lists of words.
        ValueError: no snapshot; weights of another shape; snapshots that differ.
    """
    words, heads = read_words("words", words), read_words("heads", heads)
    steps = list(weights)
    if not steps:
        raise ValueError("weights must hold one snapshot at least; got none")
    for name, of in (("samples", samples), ("measured", measured)):
        if list(of) != steps:
            raise ValueError(f"{name} must have the steps {steps}; got {list(of)}")
    wanted = (len(heads), len(words), len(words))
    arrays = {step: as_array(array) for step, array in weights.items()}
    for step, array in arrays.items():
        if array.shape != wanted:
            raise ValueError(f"weights[{step}] must be {wanted}; got {array.shape}")
    every = max(1, -(-len(losses) // POINTS))
    means = [np.mean(losses[at : at + every]) for at in range(0, len(losses), every)]
    data = {
        "words": words,
        "heads": heads,
        "steps": steps,
        "queries": [[name, *places] for name, places in queries.items()],
        # (S, queries, H, keys up to the query)
        "weights": [
            [pack(array[:, row, : row + 1], 2) for row, _ in queries.values()]
            for array in arrays.values()
        ],
        "samples": list(samples.values()),
        "measured": pack(np.array(list(measured.values())), 2),
        "losses": pack(np.array(means), 2),
        "every": every,
    }
    line = SNAPSHOTS["line"].format(steps=len(steps), heads=len(heads))
    return Interactive("snapshots", data, _static(arrays, data, measured), line)


def _static(
    arrays: Mapping[int, np.ndarray],
    data: Mapping[str, Any],
    measured: Mapping[int, float],
) -> str:
    """Gives the losses, and the largest weight of a head on each word to be found."""
    rows = [
        (
            str(step),
            [
                f"{measured[step]:.2f}",
                *(f"{array[:, row, key].max():.2f}" for _, row, key in data["queries"]),
                text,
            ],
        )
        for (step, array), text in zip(arrays.items(), data["samples"], strict=True)
    ]
    names = [SNAPSHOTS["largest"].format(name=name) for name, *_ in data["queries"]]
    head = [*SNAPSHOTS["head"], *names, SNAPSHOTS["sample"]]
    return plain_table(SNAPSHOTS["caption"], head, rows)
