"""Attention tile by tile, with what is kept and what is moved: `view_flash`."""

from typing import Any

import torch

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import FLASH
from attention_lib.course.views._tables import NUMBER_BYTES, plain_table
from attention_lib.flash_attention import OnlineSoftmax, pieces
from attention_lib.validation import require_positive, require_tile


def view_flash(
    scores: Any,
    value: Any,
    *,
    tile: int | tuple[int, int],
    head_dim: int,
) -> Interactive:
    """Let the reader step through the tiles of a table of scores.

    Args:
        scores: (Q, K), scaled.
        value: (K, V).
        tile: as in ``flash_attention``.
        head_dim: the width of a query and of a key, for the bytes.

    Raises:
        TypeError: a size that is not an int; arguments that are not tensors.
        ValueError: shapes that do not fit together; a size below 1.
    """
    require_positive(head_dim=head_dim)
    for name, given in (("scores", scores), ("value", value)):
        if not isinstance(given, torch.Tensor):
            raise TypeError(f"{name} must be a tensor; got {type(given).__name__}")
    if scores.ndim != 2 or value.ndim != 2 or len(value) != scores.shape[1]:
        raise ValueError(
            "scores must be (Q, K) and value (K, V); got "
            f"{tuple(scores.shape)} and {tuple(value.shape)}"
        )
    rows, columns = require_tile(tile)
    scores, value = scores.detach().cpu(), value.detach().cpu()
    steps: list[dict[str, Any]] = []
    moved, width = 0, value.shape[1]
    for r in pieces(len(scores), rows):
        height = r.stop - r.start
        online = OnlineSoftmax((height, width), dtype=value.dtype)
        moved += height * head_dim
        for c in pieces(scores.shape[1], columns):
            length, before = c.stop - c.start, online.largest
            online.add(scores[r, c], value[c])
            moved += length * (head_dim + width)
            if c.stop == scores.shape[1]:
                moved += height * width
            fast = height * (head_dim + width + 2 + length)
            fast += length * (head_dim + width)
            kept = [before.sub(online.largest).exp(), online.largest, online.total]
            table = torch.cat([*kept, online.result()[0]], dim=1)
            step = {"rows": [r.start, r.stop], "columns": [c.start, c.stop]}
            step["kept"] = [[f"{x:.2f}" for x in row] for row in table.tolist()]
            for row in step["kept"] if c.start == 0 else ():
                row[0] = ""  # there was nothing to shrink
            steps.append(
                step | {"moved": moved * NUMBER_BYTES, "fast": fast * NUMBER_BYTES}
            )
    size = scores.numel()
    apart = (len(scores) + scores.shape[1]) * (head_dim + width) + 4 * size
    data = {
        "scores": [[f"{x:.2f}" for x in row] for row in scores.tolist()],
        "steps": steps,
        "apart": apart * NUMBER_BYTES,
        "table": size * NUMBER_BYTES,
    }
    lines = [
        (
            FLASH["tile"].format(
                queries=_range(step["rows"]), keys=_range(step["columns"])
            ),
            [f"{step['fast']}", f"{step['moved']}"],
        )
        for step in steps
    ]
    caption = FLASH["caption"].format(apart=data["apart"])
    static = plain_table(caption, FLASH["head"], lines)
    return Interactive("flash", data, static, FLASH["line"].format(count=len(steps)))


def _range(ends: list[int]) -> str:
    first, stop = ends
    if stop == first + 1:
        return f"{first}"
    return FLASH["range"].format(first=first, last=stop - 1)
