"""Attention weights, row by row: `view_weights`.

The view is one piece of HTML with its script inside: no server, no widget, nothing
from a different host. It works in the book's pages, in JupyterLab, VS Code and
Colab, and follows their light and dark colours. A front end that runs no scripts, such
as GitHub or a notebook that is not trusted, shows a table of the first head instead.
"""

from collections.abc import Mapping
from typing import Any

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._maps import Maps, read_maps
from attention_lib.course.views._packing import static_table
from attention_lib.course.views._strings import WEIGHTS


def view_weights(
    weights: Any,
    queries: Any,
    keys: Any = None,
    *,
    scores: Any = None,
    mask: Any = None,
    layer: int = 0,
    head: int = 0,
    query: int = 0,
    goal: tuple[str, int, int, float] | None = None,
) -> Interactive:
    """Show attention weights as maps that the reader walks through, row by row.

    Mouse, finger or arrow keys choose a query; its row is shown in numbers, to three
    decimals. If there are several, the reader chooses sentence, layer and head. With
    ``scores``, the page computes the weights, and temperature and mask can be changed.

    Args:
        weights: (Q, K), (H, Q, K) or (L, H, Q, K), or a list of L arrays (H, Q, K), on
            any device; or a mapping from sentences' names to such. None if
            ``scores`` are given.
        queries: the words of the rows, or a mapping from names to them.
        keys: the words of the columns, likewise; the queries when left out.
        scores: the input of softmax, scaled, before the mask; of the shapes of
            ``weights``. None if the page should not recompute the softmax.
        mask: boolean, True where a query may attend; broadcasts to (L, H, Q, K). One
            for all sentences, or a mapping. Hidden cells are marked.
        layer: the initial layer, 0 to L − 1 in the first sentence.
        head: the initial head, 0 to H − 1.
        query: the initial row, 0 to Q − 1.
        goal: something to find, and the row, the column and the least weight there
            that show that it was found, in any sentence, layer and head.

    Raises:
        TypeError: weights or scores that are not numbers, or neither; words that are
            not a list; a mask that is not boolean; a layer, head or query that is not
            an int.
        ValueError: shapes or words that do not fit together; numbers below 0 among the
            weights; nan or inf; scores that do not yield the weights; a sentence that
            is missing in a mapping; a layer, head, query or goal that does not exist.
    """
    given = {"weights": weights, "queries": queries, "keys": keys}
    given |= {"scores": scores, "mask": mask}
    main = scores if weights is None else weights
    names = list(main) if isinstance(main, Mapping) else [""]
    if not names:
        raise ValueError(
            "weights must hold at least one sentence; got an empty mapping"
        )
    sentences = {name: read_maps(**_of(name, given)) for name in names}
    first = sentences[names[0]]
    layers, heads, rows, columns = first.weights.shape
    _require_index("layer", layer, layers)
    _require_index("head", head, heads)
    _require_index("query", query, rows)
    data: dict[str, Any] = {
        "sentences": [maps.data(str(name)) for name, maps in sentences.items()]
    }
    if layer or head or query:
        data["first"] = [layer * heads + head, query]
    if goal is not None:
        text, row, column, least = goal
        _require_index("goal[1]", row, rows)
        _require_index("goal[2]", column, columns)
        data["goal"] = {"text": text, "row": row, "column": column, "least": least}
    caption = _caption(names, first, layer, head)
    shown = first.weights[layer, head]
    table = static_table(shown, first.queries, first.keys, caption)
    return Interactive("weights", data, table, _line(names, first))


def _of(name: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return one sentence's part of each argument; plain values apply to all."""
    part = {}
    for argument, value in given.items():
        if isinstance(value, Mapping):
            if name not in value:
                raise ValueError(
                    f"{argument} must have the sentence {name!r}; got {list(value)}"
                )
            value = value[name]
        part[argument] = value
    return part


def _require_index(name: str, index: object, count: int) -> None:
    if not isinstance(index, int) or isinstance(index, bool):
        raise TypeError(f"{name} must be an int; got {type(index).__name__}")
    if not 0 <= index < count:
        raise ValueError(f"{name} must be 0 to {count - 1}; got {index}")


def _caption(names: list[Any], maps: Maps, layer: int, head: int) -> str:
    layers, heads = maps.weights.shape[:2]
    kind = "layer_head" if layers > 1 else "head_of" if heads > 1 else "head"
    which = WEIGHTS[kind].format(
        layer=layer + 1, head=head + 1, layers=layers, heads=heads
    )
    if names[1:]:
        which = WEIGHTS["of"].format(which=which, name=names[0], count=len(names))
    return WEIGHTS["caption"].format(which=which)


def _line(names: list[Any], maps: Maps) -> str:
    layers, heads, query_len, key_len = maps.weights.shape
    return WEIGHTS["lines" if names[1:] else "line"].format(
        count=len(names), layers=layers, heads=heads, queries=query_len, keys=key_len
    )
