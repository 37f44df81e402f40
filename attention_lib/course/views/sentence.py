"""A sentence whose words show what they attend to: `view_sentence`."""

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._maps import read_maps
from attention_lib.course.views._packing import pack
from attention_lib.course.views._strings import SENTENCE
from attention_lib.course.views._tables import plain_table
from attention_lib.course.views.weights import _require_index

SHOWN, SAID = 0.005, 0.05  # smaller weights get no line; are not mentioned
# The layout of the static text, in em: see sentence.css. Widths of letters are about
# those of a serif face; each word is centred in its slot.
WIDE, NARROW = 26, 17  # longest line on a screen, on a phone
THIN, BROAD, GAP = 0.33, 0.55, 0.22
ROW, TOP, BOTTOM = 2.85, 0.72, 2.7
MOST = 3  # keys that a sentence or a row of the table names


def view_sentence(
    scores: Any,
    words: Sequence[str],
    mask: Any = None,
    *,
    query: int = 0,
) -> Interactive:
    """Show a text; a word under the pointer draws lines to the words it attends to.

    Width and darkness of a line show its weight. The page computes the weights from the
    scores, so the reader can change the temperature and remove the mask.

    Args:
        scores: (T, T), scaled, before the mask: the input of softmax.
        words: the T words of the text.
        mask: boolean, True where a query may attend; broadcasts to (T, T).
        query: the word that is chosen initially, 0 to T − 1.

    Raises:
        TypeError: scores that do not hold numbers; words that are not a list; a mask
            that is not boolean; a query that is not an int.
        ValueError: shapes or words that do not fit together; nan or inf among the
            scores; a query that does not exist.
    """
    maps = read_maps(None, words, None, scores, mask)
    if maps.weights.shape[:2] != (1, 1) or maps.scores is None:
        raise ValueError(f"scores must be (query, key); got {tuple(scores.shape)}")
    _require_index("query", query, len(maps.queries))
    # Softmax depends on differences only: the largest score of a row becomes 0.
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
    line = SENTENCE["line"].format(words=" ".join(maps.queries))
    return Interactive("sentence", data, still, line)


def _line(weights: np.ndarray, words: Sequence[str], query: int) -> str:
    """Return the text, with the chosen word's weights under the words.

    Without a script, each word is where `--x` and `--row` put it, in em, so that the
    lines of the weights meet it; `--x2` and `--row2` are those of a phone.
    """
    layouts = _layout(words, WIDE, by_sentence=True), _layout(words, NARROW)
    parts = []
    for index, (word, weight) in enumerate(zip(words, weights.tolist(), strict=True)):
        kind = " sentence-key" if weight >= SHOWN else ""
        kind += " sentence-query" if index == query else ""
        number = f"{weight:.2f}".removeprefix("0") if weight >= SHOWN else ""
        (x, row), (x2, row2) = (slots[index] for slots in layouts)
        parts.append(
            f'<span class="sentence-word{kind}" style="--w: {weight:.2f}; '
            f'--x: {x:.1f}; --row: {row}; --x2: {x2:.1f}; --row2: {row2}">'
            f'<span class="sentence-text">{html.escape(word)}</span>'
            f'<span class="sentence-number">{number}</span></span>'
        )
        parts.append('<br class="sentence-end">' if word == "." else "")
    wide, narrow = layouts
    drawn = [
        _curves(weights, wide, query, WIDE, "wide"),
        _curves(weights, narrow, query, NARROW, "narrow"),
    ]
    rows = [slots[-1][1] + 1 for slots in layouts]
    style = f"--rows: {rows[0]}; --rows2: {rows[1]}"
    inside = " ".join(filter(None, [*drawn, *parts]))
    return f'<p class="sentence-words" style="{style}">{inside}</p>'


def _layout(
    words: Sequence[str], widest: int, *, by_sentence: bool = False
) -> list[tuple[float, int]]:
    """Return each word's centre and its row, in lines of at most `widest` em."""
    slots, x, row = [], 0.0, 0
    for index, word in enumerate(words):
        width = 0.3 + sum(THIN if letter in "fijlrt.,'" else BROAD for letter in word)
        ended = by_sentence and index > 0 and words[index - 1] == "."
        if x > 0 and (ended or x + width > widest):
            x, row = 0.0, row + 1
        slots.append((x + width / 2, row))
        x += width + GAP
    return slots


def _curves(
    weights: np.ndarray,
    slots: Sequence[tuple[float, int]],
    query: int,
    widest: int,
    name: str,
) -> str:
    """Return the lines from the chosen word, as sentence.jsx draws them, in em."""
    from_x, from_row = slots[query]
    paths = []
    for key, (weight, (x, row)) in enumerate(zip(weights.tolist(), slots, strict=True)):
        if key == query or weight < SHOWN:
            continue
        top, bottom = (at * ROW + edge for at, edge in ((from_row, TOP), (row, BOTTOM)))
        if row == from_row:
            end, bend = top, -min(1, 0.3 + abs(x - from_x) / 7)
            bends = top + bend, end + bend
        else:
            if row > from_row:
                top, bottom = from_row * ROW + BOTTOM, row * ROW + TOP
            end, bow = bottom, 0.6 * (bottom - top)
            bends = top + bow, end - bow
        paths.append(
            f'<path d="M{from_x:.1f} {top:.2f}C{from_x:.1f} {bends[0]:.2f} '
            f'{x:.1f} {bends[1]:.2f} {x:.1f} {end:.2f}" '
            f'style="stroke-width: {1 + 7 * weight:.1f}px; '
            f'opacity: {0.12 + 0.88 * weight:.2f}"/>'
        )
    box = f"0 0 {widest} {(slots[-1][1] + 1) * ROW:.2f}"
    kind = f"sentence-lines sentence-{name}"
    lines = "".join(paths)
    return f'<svg class="{kind}" viewBox="{box}" aria-hidden="true">{lines}</svg>'


def _say(weights: np.ndarray, words: Sequence[str], query: int) -> str:
    """Say in a sentence or two what the chosen word attends to, and what comes next."""

    names = [SENTENCE["signs"].get(word, word) for word in words]

    def bold(index: int) -> str:
        return f"<b>{html.escape(names[index])}</b>"

    first, *others = np.argsort(-weights, kind="stable")[:MOST].tolist()
    best = [first, *(key for key in others if weights[key] >= SAID)]
    named = [names[key] for key in best]
    kinds = [
        "share"
        if named.count(word) == 1
        else "another"
        if word in named[:nth]
        else "one"
        for nth, word in enumerate(named)
    ]
    *shares, last = [
        SENTENCE[kind].format(weight=f"{weights[key]:.2f}", word=bold(key))
        for key, kind in zip(best, kinds, strict=True)
    ]
    mentions = SENTENCE["between"].join(shares) + SENTENCE["last"] * bool(shares) + last
    text = SENTENCE["looks"].format(word=bold(query), shares=mentions)
    if query + 1 == len(words):
        return str(text)
    return f"{text} {SENTENCE['next'].format(word=bold(query + 1))}"


def _table(weights: np.ndarray, words: Sequence[str]) -> str:
    """Return the largest weights of each query, folded."""
    rows = []
    for word, row in zip(words, weights, strict=True):
        best = np.argsort(-row, kind="stable")[:MOST]
        named = [f"{words[key]} {row[key]:.2f}" for key in best if row[key] >= SHOWN]
        rows.append((word, [", ".join(named) or SENTENCE["nothing"]]))
    table = plain_table(SENTENCE["caption"], SENTENCE["head"], rows)
    return f"<details><summary>{SENTENCE['all']}</summary>\n{table}\n</details>"
