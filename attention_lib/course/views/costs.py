"""What the parts of a layer cost, to try: `view_costs`."""

from collections.abc import Sequence

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import COSTS
from attention_lib.course.views._tables import plain_table
from attention_lib.validation import require_positive

WIDTHS = [64, 128, 256, 512, 768, 1024, 2048, 4096, 8192, 16384]


def view_costs(
    d_model: int = 768, *, lengths: Sequence[int] = (64, 512, 1536, 4096)
) -> Interactive:
    """Let the reader choose length and width, and show where the FLOPs are.

    The parts are the matrix products of one layer for one text: the projections grow
    in proportion to the length, scores and mix with its square.

    Args:
        d_model: the initial width.
        lengths: the lengths to choose from, in their order.

    Raises:
        TypeError: a number that is not an int.
        ValueError: a number below 1; no lengths, or the same one twice.
    """
    require_positive(d_model=d_model, **{"the number of lengths": len(lengths)})
    for length in lengths:
        require_positive(lengths=length)
    if sorted(set(lengths)) != list(lengths):
        raise ValueError(f"lengths must grow; got {list(lengths)}")
    rows = []
    for length in lengths:
        counts = _flops(length, d_model)
        shares = [f"{count / sum(counts):.0%}" for count in counts]
        rows.append(
            (COSTS["length"].format(length=length), [f"{sum(counts):,}", *shares])
        )
    return Interactive(
        "costs",
        {
            "lengths": list(lengths),
            "widths": sorted({*WIDTHS, d_model}),
            "width": d_model,
        },
        plain_table(COSTS["caption"].format(width=d_model), COSTS["head"], rows),
        COSTS["line"].format(width=d_model),
    )


def _flops(length: int, width: int) -> list[int]:
    line, square = length * width**2, length**2 * width
    return [6 * line, 2 * square, 2 * square, 2 * line]
