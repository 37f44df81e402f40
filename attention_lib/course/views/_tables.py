"""Tables that show a view's content without a script."""

import html
from collections.abc import Iterable, Sequence

NUMBER_BYTES = 2  # of each number that is kept or moved: half precision


def plain_table(
    caption: str, head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]
) -> str:
    """Return an HTML table whose first row and first column are headings.

    Args:
        caption: one sentence or two.
        head: the headings of all columns, the first included.
        rows: for each row its heading, and its cells.
    """
    tops = "".join(f'<th scope="col">{html.escape(word)}</th>' for word in head)
    lines = [
        f'<tr><th scope="row">{html.escape(word)}</th>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for word, cells in rows
    ]
    return "\n".join(
        [
            "<table>",
            f"<caption>{html.escape(caption)}</caption>",
            f"<thead><tr>{tops}</tr></thead>",
            *("<tbody>", *lines, "</tbody>"),
            "</table>",
        ]
    )
