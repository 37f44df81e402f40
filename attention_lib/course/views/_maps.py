"""The arguments of `view_weights` for one sentence, checked and in one form."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attention_lib.course.views._packing import pack
from attention_lib.plotting._figure import as_array
from attention_lib.validation import require_mask

AXES = "(query, key), (heads, query, key) or (layers, heads, query, key)"


@dataclass(frozen=True)
class Maps:
    """The maps of one sentence: L layers of H heads.

    Attributes:
        weights: (L, H, Q, K).
        scores: (L, H, Q, K), if the page computes the weights itself.
        mask: boolean, (L, H, Q, K), if there is one.
    """

    queries: list[str]
    keys: list[str]
    weights: np.ndarray
    scores: np.ndarray | None
    mask: np.ndarray | None

    def data(self, name: str) -> dict[str, Any]:
        """Return the page's data."""
        layers, heads, _, key_len = self.weights.shape
        data: dict[str, Any] = {"name": name, "queries": self.queries}
        if self.keys != self.queries:
            data["keys"] = self.keys
        data |= {"layers": layers, "heads": heads}
        if self.mask is not None:
            masks = self.mask.reshape(layers * heads, -1, key_len)
            same = (masks == masks[0]).all()
            signs = np.where(masks[:1] if same else masks, "x", ".")
            data["masks"] = ["".join(mask.ravel()) for mask in signs]
        if self.scores is not None:
            # At a temperature of 0.1 their rounding changes no weight by 0.001.
            return data | {"scores": pack(self.scores, 4)}
        shown = self.weights if self.mask is None else self.weights[self.mask]
        return data | {"weights": pack(shown, 3)}


def read_maps(weights: Any, queries: Any, keys: Any, scores: Any, mask: Any) -> Maps:
    """Check the arguments of ``view_weights`` for one sentence.

    Raises:
        TypeError: neither weights nor scores, or of a wrong kind; words that
            are not a list; a mask that is not boolean.
        ValueError: shapes or words that do not fit together; numbers that cannot
            be weights; scores that do not yield the weights.
    """
    if weights is None and scores is None:
        raise TypeError("view_weights needs weights or scores; got None for both")
    given = None if weights is None else _stack("weights", weights)
    raw = None if scores is None else _stack("scores", scores)
    if given is not None and raw is not None and given.shape != raw.shape:
        raise ValueError(
            f"weights and scores must have the same shape; got weights {given.shape} "
            f"and scores {raw.shape}"
        )
    like = given if given is not None else raw
    assert like is not None
    if mask is not None:
        mask = as_array(mask) if hasattr(mask, "dtype") else mask
        require_mask(mask, like.shape, like=like)
        mask = np.broadcast_to(mask, like.shape)
    if raw is not None:
        given = _agreed(softmax_rows(raw, mask), given)
    assert given is not None
    if (given < 0).any():
        raise ValueError(
            f"weights hold {given.min():.3g}, below 0: are they scores? Pass those as "
            "`scores=`"
        )
    named = read_words("queries", queries)
    columns = named if keys is None else read_words("keys", keys)
    if (len(named), len(columns)) != given.shape[-2:]:
        raise ValueError(
            f"{len(named)} queries and {len(columns)} keys do not name the rows and "
            f"columns of {tuple(given.shape[-2:])}: one word each"
        )
    return Maps(named, columns, given, raw, mask)


def softmax_rows(scores: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """Return the weights of scores (..., K): zeros where the mask allows nothing."""
    allowed = np.ones(scores.shape, dtype=bool) if mask is None else mask
    top = scores.max(axis=-1, keepdims=True, where=allowed, initial=-np.inf)
    parts = np.exp(np.where(allowed, scores, -np.inf) - np.where(top > -np.inf, top, 0))
    total = parts.sum(axis=-1, keepdims=True)
    return np.asarray(parts / np.where(total, total, 1))


def _stack(name: str, arrays: Any) -> np.ndarray:
    """Stack an array, or a list of one array per layer, to (L, H, Q, K)."""
    if isinstance(arrays, list | tuple) and any(hasattr(a, "shape") for a in arrays):
        shapes = [tuple(array.shape) for array in arrays]
        if len(set(shapes)) > 1 or len(shapes[0]) != 3:
            raise ValueError(
                f"{name} as a list must hold one (heads, query, key) per layer, of "
                f"one shape; got {', '.join(map(str, shapes))}"
            )
        array = np.stack([as_array(array) for array in arrays])
    else:
        array = as_array(arrays)
    if array.dtype.kind not in "fiu":
        received = array.dtype if hasattr(arrays, "dtype") else type(arrays).__name__
        raise TypeError(f"{name} must be a tensor or array of numbers; got {received}")
    if array.ndim not in (2, 3, 4) or not array.size:
        raise ValueError(f"{name} must be {AXES}, and not empty; got {array.shape}")
    if not np.isfinite(array).all():
        more = ": give them unmasked, and `mask=` beside them" * (name == "scores")
        raise ValueError(f"{name} hold nan or inf{more}")
    return array.reshape(*(1,) * (4 - array.ndim), *array.shape).astype(float)


def _agreed(ours: np.ndarray, given: np.ndarray | None) -> np.ndarray:
    """Return the weights computed from scores, if the given weights agree."""
    off = 0.0 if given is None else float(np.abs(ours - given).max())
    if off > 0.02:
        raise ValueError(
            f"softmax(scores) differs from weights by up to {off:.2f}: scores must be "
            "scaled already, and the mask must be the one of the weights"
        )
    return ours


def read_words(name: str, words: Any) -> list[str]:
    """Return a list of words; an error names the argument."""
    if isinstance(words, str) or not isinstance(words, Sequence):
        received = repr(words) if isinstance(words, str) else type(words).__name__
        raise TypeError(f"{name} must be a list of words; got {received}")
    if not all(isinstance(word, str) for word in words):
        raise TypeError(f"{name} must be words; got {list(words)!r}")
    return list(words)
