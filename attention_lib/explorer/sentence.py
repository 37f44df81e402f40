"""A sentence whose words show where they look: `explore_sentence`."""

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_lib.explorer._interactive import Interactive
from attention_lib.explorer._maps import check_place, read_maps
from attention_lib.explorer._packing import pack
from attention_lib.explorer._tables import plain_table

SHOWN, SAID = 0.005, 0.05  # a smaller weight is no line; is not said
MOST = 3  # keys that a sentence or a row of the table names
# What is said of a word; the page has the same in explorer_source/src/strings.js.
LOOKS = "To go on after {word}, this head takes {shares}."
NEXT = "The next word is {word}."


def explore_sentence(
    scores: Any,
    words: Sequence[str],
    mask: Any = None,
    *,
    query: int = 0,
) -> Interactive:
    """Shows a text; a word that is pointed at draws lines to what it looks at.

    Width and darkness of a line are its weight. The page computes the weights from the
    scores, so the reader changes the temperature, and takes the mask away.

    Args:
        scores: (T, T), scaled, before the mask: what softmax gets.
        words: the T words of the text.
        mask: boolean, True where a query may attend; broadcasts to (T, T).
        query: which word is chosen at first, 0 to T − 1.

    Returns:
        What a cell shows when it is the cell's last line.

    Raises:
        TypeError: scores that hold no numbers; words that are no list; a mask that is
            not boolean; a query that is not an int.
        ValueError: shapes or words that do not fit together; nan or inf among the
            scores; a query that is not there.
    """
    maps = read_maps(None, words, None, scores, mask)
    if maps.weights.shape[:2] != (1, 1) or maps.scores is None:
        raise ValueError(f"scores must be (query, key); got {tuple(scores.shape)}")
    check_place("query", query, len(maps.queries))
    # Softmax sees differences only: the largest score of a row becomes 0.
    given = maps.scores[0, 0]
    given = given - given.max(axis=-1, keepdims=True)
    data: dict[str, Any] = {"words": maps.queries, "query": query}
    data["scores"] = pack(given, 4)
    if maps.mask is not None:
        data["mask"] = "".join(np.where(maps.mask[0, 0], "x", ".").ravel())
    weights = maps.weights[0, 0]
    still = "\n".join(
        [
            _line(weights[query], maps.queries, query),
            f'<p class="sentence-said">{_say(weights[query], maps.queries, query)}</p>',
            _table(weights, maps.queries),
        ]
    )
    line = f"<a sentence to point at: {' '.join(maps.queries)}>"
    return Interactive("sentence", data, still, line)


def _line(weights: np.ndarray, words: Sequence[str], query: int) -> str:
    """Gives the text, with the chosen word's weights under the words."""
    parts = []
    for place, (word, weight) in enumerate(zip(words, weights.tolist(), strict=True)):
        kind = " sentence-key" if weight >= SHOWN else ""
        kind += " sentence-query" if place == query else ""
        number = f"{weight:.2f}".removeprefix("0") if weight >= SHOWN else ""
        parts.append(
            f'<span class="sentence-word{kind}" style="--w: {weight:.2f}">'
            f'<span class="sentence-text">{html.escape(word)}</span>'
            f'<span class="sentence-number">{number}</span></span>'
        )
        parts.append('<br class="sentence-end">' if word == "." else "")
    return f'<p class="sentence-words">{" ".join(filter(None, parts))}</p>'


def _say(weights: np.ndarray, words: Sequence[str], query: int) -> str:
    """Gives one sentence or two: what the chosen word looks at, and what comes next."""

    def bold(place: int) -> str:
        return f"<b>{html.escape(words[place])}</b>"

    first, *others = np.argsort(-weights, kind="stable")[:MOST].tolist()
    best = [first, *(key for key in others if weights[key] >= SAID)]
    *shares, last = [f"{weights[key]:.2f} from {bold(key)}" for key in best]
    said = f"{', '.join(shares)} and {last}" if shares else last
    text = LOOKS.format(word=bold(query), shares=said)
    if query + 1 == len(words):
        return text
    return f"{text} {NEXT.format(word=bold(query + 1))}"


def _table(weights: np.ndarray, words: Sequence[str]) -> str:
    """Gives the largest weights of each query, folded."""
    rows = []
    for word, row in zip(words, weights, strict=True):
        best = np.argsort(-row, kind="stable")[:MOST]
        named = [f"{words[key]} {row[key]:.2f}" for key in best if row[key] >= SHOWN]
        rows.append((word, [", ".join(named) or "nothing"]))
    table = plain_table(
        "Each word, and the words on which its largest weights are.",
        ["word", "looks at"],
        rows,
    )
    return f"<details><summary>All words in numbers</summary>\n{table}\n</details>"
