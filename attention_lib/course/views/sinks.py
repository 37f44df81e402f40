"""A window over a text, and first tokens that are kept beside it: `view_sinks`."""

from collections.abc import Mapping, Sequence

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import SINKS
from attention_lib.course.views._tables import plain_table
from attention_lib.validation import require_positive


def view_sinks(
    losses: Mapping[int, Sequence[float]],
    *,
    windows: Sequence[int],
    full: float,
    length: int,
) -> Interactive:
    """Let the reader choose a window and kept first tokens; show mask and loss.

    Args:
        losses: for each number of first tokens kept, the loss with each window.
        windows: how many keys a query sees, the first tokens included.
        full: the loss with all tokens in sight.
        length: tokens of the text.

    Raises:
        TypeError: a length or a window that is not an int.
        ValueError: no losses; not one for each window; a window below 1.
    """
    require_positive(length=length)
    for window in windows:
        require_positive(windows=window)
    for first, row in losses.items():
        if len(row) != len(windows):
            raise ValueError(
                f"losses[{first}] must have {len(windows)} numbers; got {len(row)}"
            )
    if not losses:
        raise ValueError("losses must hold at least one row; got none")
    lines = [
        (str(window), [f"{row[i]:.2f}" for row in losses.values()])
        for i, window in enumerate(windows)
    ]
    head = [SINKS["window"], *(SINKS["first"].format(count=count) for count in losses)]
    static = plain_table(SINKS["caption"].format(full=f"{full:.2f}"), head, lines)
    data = {"windows": list(windows), "firsts": list(losses), "full": full}
    data |= {"losses": [list(row) for row in losses.values()], "length": length}
    return Interactive("sinks", data, static, SINKS["line"].format(count=len(windows)))
