"""RMSNorm, which Llama and its relatives use instead of a layer norm.

Shapes: W width of a vector.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attention_lib.validation import (
    require_above_zero,
    require_features,
    require_flags,
    require_positive,
)

QKNorm = Literal["rms", "rms_plus_one"]


class RMSNorm(nn.Module):
    """Divide each vector by the root of its mean square, then scale each number.

    Zhang and Sennrich (2019), equation (4), without their shift. Half precision is
    computed in float32.

    Args:
        width: how many numbers a vector has.
        eps: added to the mean square.
        unit_offset: whether the scale is 1 + weight, with a weight that starts at 0,
            as in Gemma; otherwise the scale is the weight, which starts at 1.

    Raises:
        TypeError: a width that is not an int; an input of a different type or device.
        ValueError: a width below 1; an eps that is not above 0; an input
            of a different width.
    """

    def __init__(
        self, width: int, *, eps: float = 1e-6, unit_offset: bool = False
    ) -> None:
        super().__init__()
        require_positive(width=width)
        require_above_zero(eps=eps)
        require_flags(unit_offset=unit_offset)
        self.weight = nn.Parameter(
            torch.zeros(width) if unit_offset else torch.ones(width)
        )
        self.eps = eps
        self.unit_offset = unit_offset

    def forward(self, x: Float[Tensor, "*B W"]) -> Float[Tensor, "*B W"]:
        """Scale each vector to a mean square of 1, then by the weight."""
        require_features(x, weight=self.weight)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # at least float32
        normed = wide * (wide.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt()
        weight = self.weight.to(wide.dtype)
        return (normed * (1 + weight if self.unit_offset else weight)).to(x.dtype)
