"""RMSNorm, which Llama and its relatives have in place of a layer norm.

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
    """Divides each vector by the root of its mean square, then scales each number.

    Zhang and Sennrich (2019), equation (4), without their shift. Half precision is
    computed in float32.

    Args:
        width: how many numbers a vector has.
        eps: added to the mean square.
        plus_one: whether the scale is 1 + weight, and the weight starts at 0, as in
            Gemma; else the scale is the weight, and starts at 1.

    Raises:
        TypeError: a width that is not an int; an input of another type or device.
        ValueError: a width below 1; an eps that is not above 0; another width of input.
    """

    def __init__(
        self, width: int, *, eps: float = 1e-6, plus_one: bool = False
    ) -> None:
        super().__init__()
        require_positive(width=width)
        require_above_zero(eps=eps)
        require_flags(plus_one=plus_one)
        self.weight = nn.Parameter(
            torch.zeros(width) if plus_one else torch.ones(width)
        )
        self.eps = eps
        self.plus_one = plus_one

    def forward(self, x: Float[Tensor, "*B W"]) -> Float[Tensor, "*B W"]:
        """Brings the mean square of each vector to 1, then scales it."""
        require_features(x, weight=self.weight)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # at least float32
        normed = wide * (wide.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt()
        weight = 1 + self.weight if self.plus_one else self.weight
        return (normed * weight).to(x.dtype)
