"""How far layers with windows and sinks reach, to try: `view_reach`."""

import torch

from attention_lib.course.views._interactive import Interactive
from attention_lib.course.views._strings import REACH
from attention_lib.course.views._tables import plain_table
from attention_lib.sparse_attention import sink_window_mask
from attention_lib.validation import require_not_negative, require_positive

MOST_LAYERS = 8


def view_reach(
    length: int, *, window: int, num_sinks: int = 0, layers: int = 1
) -> Interactive:
    """Let the reader choose window, sinks and layers, and show what reaches what.

    Args:
        length: tokens of the text, at most 20.
        window: the initial number of keys that a query sees, its own included.
        num_sinks: the initial number of first keys that it sees as well.
        layers: the initial number of layers, at most 8.

    Raises:
        TypeError: a number that is not an int.
        ValueError: a number below 1, or sinks below 0; more than the view can show.
    """
    require_positive(length=length, window=window, layers=layers)
    require_not_negative(num_sinks=num_sinks)
    most = {"length": 20, "layers": MOST_LAYERS, "window": length, "num_sinks": length}
    given = {"length": length, "layers": layers, "window": window}
    for name, number in (given | {"num_sinks": num_sinks}).items():
        if number > most[name]:
            raise ValueError(f"{name} must be at most {most[name]}; got {number}")
    mask = sink_window_mask(length, window, num_sinks).double()
    reached, lines = torch.eye(length, dtype=torch.float64), []
    for layer in range(1, MOST_LAYERS + 1):
        reached = (mask @ reached > 0).double()
        words = REACH["layer" if layer == 1 else "layers"].format(count=layer)
        count = int(reached[-1].sum())
        lines.append((words, [REACH["reached"].format(count=count, length=length)]))
    sinks = REACH["sink" if num_sinks == 1 else "sinks"].format(count=num_sinks)
    caption = REACH["caption"].format(window=window, sinks=sinks)
    static = plain_table(caption, REACH["head"], lines)
    data = {"length": length, "window": window, "sinks": num_sinks, "layers": layers}
    line = REACH["line"].format(window=window, sinks=sinks, length=length)
    return Interactive("reach", data | {"most": MOST_LAYERS}, static, line)
