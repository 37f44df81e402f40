"""The map of a translation that grows word by word: `view_alignment`."""

from collections.abc import Mapping, Sequence
from typing import Any

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._maps import read_maps
from attention_lib.course.views._packing import pack, static_table
from attention_lib.course.views._strings import ALIGN


def view_alignment(
    weights: Mapping[str, Any],
    written: Mapping[str, Sequence[str]],
    read: Mapping[str, Sequence[str]],
) -> Interactive:
    """Let the reader predict, before each word is generated, which word it attends to.

    Args:
        weights: from a sentence's name to its weights of cross-attention, (T, S).
        written: from its name to the T words of the rows.
        read: from its name to the S words of the columns.

    Raises:
        TypeError: weights that do not hold numbers, or are not a mapping; words that
            are not a list.
        ValueError: no sentences, or one without words; a map of the wrong shape; words
            that do not name its rows and columns.
    """
    if not isinstance(weights, Mapping):
        received = type(weights).__name__
        raise TypeError(f"weights must map sentences to maps; got {received}")
    if not weights:
        raise ValueError(
            "weights must hold at least one sentence; got an empty mapping"
        )
    checked = {}
    for name, each in weights.items():
        for given, words in (("written", written), ("read", read)):
            if name not in words:
                raise ValueError(
                    f"{given} must have the sentence {name!r}; got {[*words]}"
                )
        checked[name] = read_maps(each, written[name], read[name], None, None)
        if checked[name].weights.shape[:2] != (1, 1):
            shape = checked[name].weights.shape
            raise ValueError(f"a map must be (written, read); got {shape}")
    sentences = [
        {
            "name": name,
            "written": maps.queries,
            "read": maps.keys,
            "weights": pack(maps.weights, 3),
        }
        for name, maps in checked.items()
    ]
    first = next(iter(checked.values()))
    weights_of_first = first.weights[0, 0]
    table = static_table(weights_of_first, first.queries, first.keys, ALIGN["caption"])
    line = ALIGN["line"].format(count=len(sentences))
    return Interactive("align", {"sentences": sentences}, table, line)
