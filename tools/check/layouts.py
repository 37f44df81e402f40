"""Started in a kernel by tools.check.variations: `nn.Linear` reads its weight by
columns.

The numbers are the same. But products run through memory in another order, and so may
sum in another order, as they do on other processors and in other builds.
"""

import torch.nn.functional as F
from torch import Tensor, nn


def _by_columns(layer: nn.Linear, x: Tensor) -> Tensor:
    return F.linear(x, layer.weight.t().contiguous().t(), layer.bias)


# Here and not where weights are drawn: memory in another order would draw others.
nn.Linear.forward = _by_columns  # type: ignore[assignment,method-assign]
