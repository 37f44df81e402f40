"""A mask that the reader edits by clicks, and the resulting weights: `view_mask`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._maps import Maps, read_maps
from attention_lib.course.views._packing import pack, static_table
from attention_lib.course.views._strings import MASK
from attention_lib.course.views._tables import plain_table


def view_mask(
    scores: Any,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    *,
    masks: Mapping[str, Any],
) -> Interactive:
    """Show a mask whose cells the reader clicks, and the resulting weights.

    If a row may attend to nothing, the page shows the four answers that are in use.

    Args:
        scores: (Q, K), scaled, before any mask: the input of softmax.
        queries: the words of the rows.
        keys: the words of the columns; the queries when left out.
        masks: masks to start from, by name; boolean, True where a query may attend,
            each broadcasts to (Q, K). The first is shown initially.

    Raises:
        TypeError: scores that do not hold numbers; words that are not a list; masks
            that are not a mapping, or one that is not boolean.
        ValueError: scores with the wrong axes, or with nan or inf; words that do not
            name rows and columns; no masks; a mask that does not broadcast to (Q, K).
    """
    if not isinstance(masks, Mapping):
        raise TypeError(
            f"masks must map names to boolean masks; got {type(masks).__name__}"
        )
    if not masks:
        raise ValueError("masks must hold at least one mask; got an empty mapping")
    plain = read_maps(None, queries, keys, scores, None)
    if plain.weights.shape[:2] != (1, 1):
        raise ValueError(f"scores must be (query, key); got {tuple(scores.shape)}")
    maps = {str(name): _masked(name, mask, plain) for name, mask in masks.items()}
    data: dict[str, Any] = {"queries": plain.queries}
    if plain.keys != plain.queries:
        data["keys"] = plain.keys
    data |= {
        "scores": pack(_scores(plain), 4),
        "masks": [[name, _signs(of)] for name, of in maps.items()],
        "answers": list(MASK["answers"].items()),
        "note": MASK["note"],
    }
    line = MASK["line"].format(
        queries=len(plain.queries), keys=len(plain.keys), masks=", ".join(maps)
    )
    return Interactive("mask", data, _static(maps), line)


def _masked(name: str, mask: Any, plain: Maps) -> Maps:
    """Return the maps under one mask; an error names the mask."""
    try:
        return read_maps(None, plain.queries, plain.keys, _scores(plain), mask)
    except (TypeError, ValueError) as error:
        raise type(error)(f"masks[{name!r}]: {error}") from None


def _scores(maps: Maps) -> np.ndarray:
    assert maps.scores is not None  # all are made from scores here
    return maps.scores[0, 0]


def _allowed(maps: Maps) -> np.ndarray:
    return (
        np.ones(maps.weights.shape[-2:], bool) if maps.mask is None else maps.mask[0, 0]
    )


def _signs(maps: Maps) -> str:
    return "".join(np.where(_allowed(maps), "x", ".").ravel())


def _static(maps: dict[str, Maps]) -> str:
    """Return the weights under each mask, then the results for the first empty row."""
    tables = [
        static_table(
            of.weights[0, 0],
            of.queries,
            of.keys,
            MASK["caption"].format(name=name),
        )
        for name, of in maps.items()
    ]
    for name, of in maps.items():
        empty = np.flatnonzero(~_allowed(of).any(axis=-1))
        if empty.size:
            row = int(empty[0])
            caption = MASK["empty"].format(
                name=name, row=row, word=of.queries[row], note=MASK["note"]
            )
            answers = empty_row(_scores(of)[row])
            lines = [
                (
                    MASK["answers"][kind],
                    [f"{weight:.2f}" for weight in weights.tolist()],
                )
                for kind, weights in answers.items()
            ]
            tables.append(plain_table(caption, [MASK["hidden"], *of.keys], lines))
            break
    return "\n".join(tables)


def empty_row(scores: np.ndarray) -> dict[str, np.ndarray]:
    """Return each answer for a row (K,) that may attend to nothing."""
    row = torch.tensor(scores, dtype=torch.float64)
    softmax_of = {
        "inf": torch.full_like(row, float("-inf")),
        "fill": torch.full_like(row, -1e9),
        "add": row - 1e9,
    }
    made = {"zeros": torch.zeros_like(row)}
    made |= {kind: changed.softmax(dim=-1) for kind, changed in softmax_of.items()}
    return {kind: weights.numpy() for kind, weights in made.items()}
