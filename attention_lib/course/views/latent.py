"""What remains of a trained head with narrower latents: `view_latent`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._maps import read_maps
from attention_lib.course.views._packing import pack
from attention_lib.course.views._strings import LATENT
from attention_lib.course.views._tables import NUMBER_BYTES, plain_table
from attention_lib.validation import require_positive


def view_latent(
    weights: Any,
    latents: Mapping[int, Any],
    words: Sequence[str],
    *,
    losses: Mapping[int, float],
    all_numbers: int,
) -> Interactive:
    """Let the reader choose the latent's width, and see what remains of a head's map.

    Args:
        weights: (T, T), the causal map of the head, with all its keys.
        latents: from a latent's width to the map with its keys.
        words: of the text.
        losses: of the whole model, by width; width 0 means the original model.
        all_numbers: how many numbers per token a cache keeps without latents.

    Raises:
        TypeError: maps that do not hold numbers; words that are not a list; latents or
            losses that are not a mapping; a size that is not an int.
        ValueError: a map of the wrong shape; words that do not name its rows; no
            widths, one below 1, or one without a loss.
    """
    require_positive(all_numbers=all_numbers)
    for name, mapping in (("latents", latents), ("losses", losses)):
        if not isinstance(mapping, Mapping):
            received = type(mapping).__name__
            raise TypeError(f"{name} must map widths to values; got {received}")
    if not latents:
        raise ValueError("latents must hold at least one width; got an empty mapping")
    require_positive(**{f"latents[{width}]": width for width in latents})
    if missing := [width for width in (0, *latents) if width not in losses]:
        raise ValueError(f"losses must hold width {missing[0]}; got {[*losses]}")
    widths = sorted(latents)
    maps = [_map(weights, words), *(_map(latents[width], words) for width in widths)]
    moved = [float(np.abs(map_ - maps[0]).max()) for map_ in maps]
    sizes = [NUMBER_BYTES * numbers for numbers in (all_numbers, *widths)]
    loss = [float(losses[width]) for width in (0, *widths)]
    below = np.tril(np.ones_like(maps[0], dtype=bool))
    data = {
        "words": list(words),
        "maps": [pack(map_[below], 3) for map_ in maps],
        "widths": widths,
        "numbers": [all_numbers, *widths],
        "sizes": sizes,
        "losses": pack(np.array(loss), 2).split(" "),
        "moved": pack(np.array(moved), 2).split(" "),
    }
    names = [
        LATENT["none"],
        *(LATENT["latent"].format(width=width) for width in widths),
    ]
    rows = [
        (name, [f"{size}", f"{change:.2f}", f"{value:.2f}"])
        for name, size, change, value in zip(names, sizes, moved, loss, strict=True)
    ]
    static = plain_table(LATENT["caption"], LATENT["head"], rows)
    line = LATENT["line"].format(widths=", ".join(map(str, widths)))
    return Interactive("latent", data, static, line)


def _map(weights: Any, words: Sequence[str]) -> np.ndarray:
    plain = read_maps(weights, words, None, None, None).weights
    if plain.shape[:2] != (1, 1):
        raise ValueError(f"a map must be (query, key); got {plain.shape}")
    return np.asarray(plain[0, 0])
