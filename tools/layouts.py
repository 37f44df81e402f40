"""Started in a kernel by tools.variations: `nn.Linear` stores its weight by columns.

The values are the same. But products run through memory in another order, and so may
sum in another order, as they do on other processors and in other builds.
"""

from torch import nn


def _by_columns(layer: nn.Linear) -> None:
    _as_usual(layer)
    layer.weight.data = layer.weight.data.t().contiguous().t()


_as_usual = nn.Linear.reset_parameters
nn.Linear.reset_parameters = _by_columns  # type: ignore[assignment,method-assign]
