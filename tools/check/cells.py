"""Recurrent layers on the pretended GPU: PyTorch calls fused cells on any GPU.

The CPU has no kernels for them, so here they are put together from smaller operations,
forward and, since autograd sees those, backward.
"""

import torch
from torch import Tensor


def register(library: torch.library.Library) -> None:
    """Add the cells, with autograd and without."""
    for key in ("AutogradPrivateUse1", "PrivateUse1"):
        library.impl("_thnn_fused_lstm_cell", lstm_cell, key)
        library.impl("_thnn_fused_gru_cell", gru_cell, key)


def lstm_cell(
    inputs: Tensor,
    hidden: Tensor,
    cell: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output, the cell state, and the gates."""
    gates = _with(inputs, input_bias) + _with(hidden, hidden_bias)
    enter, keep, new, leave = gates.chunk(4, dim=1)
    cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * cell.tanh(), cell, gates


def gru_cell(
    inputs: Tensor,
    hidden: Tensor,
    state: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the output, and the gates."""
    gates = _with(inputs, input_bias)
    reset, keep, new = gates.chunk(3, dim=1)
    own_reset, own_keep, own_new = _with(hidden, hidden_bias).chunk(3, dim=1)
    new = (new + (reset + own_reset).sigmoid() * own_new).tanh()
    return new + (keep + own_keep).sigmoid() * (state - new), gates


def _with(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias
