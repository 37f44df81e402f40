"""Numbers for the page: short, and comparable between records."""

import html
from collections.abc import Sequence

import numpy as np

from attention_lib.course.views._strings import TABLE

LIMIT = 16  # rows and columns of a table that is read without a script


def pack(numbers: np.ndarray, decimals: int) -> str:
    """Write numbers one after another, row by row: ``.5 1. -.25``.

    Each keeps its decimal point, so that a comparison of records treats it as rounded.
    """
    rounded = np.round(np.ravel(numbers).astype(float), decimals) + 0.0  # no -0.0
    return " ".join(_short(f"{number:.{decimals}f}") for number in rounded)


def _short(number: str) -> str:
    sign, digits = ("-", number[1:]) if number[0] == "-" else ("", number)
    digits = digits.rstrip("0").removeprefix("0")
    return sign + (digits if digits != "." else ".0")


def static_table(
    weights: np.ndarray, queries: Sequence[str], keys: Sequence[str], caption: str
) -> str:
    """Return weights (Q, K) as an HTML table without a script, its cells tinted.

    Only the first 16 rows and columns are shown; the caption says so.
    """
    rows, columns = queries[:LIMIT], keys[:LIMIT]
    for shown, words, axis in [(rows, queries, "queries"), (columns, keys, "keys")]:
        if len(shown) < len(words):
            caption += TABLE[axis].format(shown=len(shown), count=len(words))
    top = float(weights.max()) or 1.0
    head = "".join(f'<th scope="col">{html.escape(word)}</th>' for word in columns)
    lines = [
        f'<tr><th scope="row">{html.escape(word)}</th>'
        + "".join(_cell(weight, top) for weight in line[:LIMIT])
        + "</tr>"
        for word, line in zip(rows, weights.tolist(), strict=False)
    ]
    return "\n".join(
        [
            "<table>",
            f"<caption>{html.escape(caption)}</caption>",
            f'<thead><tr><th scope="col">{TABLE["corner"]}</th>{head}</tr></thead>',
            *("<tbody>", *lines, "</tbody>"),
            "</table>",
        ]
    )


def _cell(weight: float, top: float) -> str:
    # Half of the colour at most: dark and light words stay legible on it.
    colour = f"rgba(0, 114, 178, {0.5 * weight / top:.2f})"
    return f'<td style="background-color: {colour}">{weight:.2f}</td>'
