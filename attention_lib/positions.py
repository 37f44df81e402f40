"""Position vectors: attention without a mask does not depend on the order of tokens.

Shapes: B batch, T length, M d_model. Add the vectors to the tokens: (B, T, M) + (T, M).
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lib.modules import is_unmodified
from attention_lib.validation import require_offset, require_positive


def sinusoidal_positions(
    length: int,
    d_model: int,
    *,
    offset: int = 0,
    device: torch.device | str | None = None,
) -> Float[Tensor, "T M"]:
    """Return a fixed vector of sines and cosines for each position, fast ones first.

    Vaswani et al. (2017), section 3.5. Columns 2i and 2i + 1 are the sine and the
    cosine of one angle, position / 10,000^(2i / d_model). An odd width ends with a
    sine.

    Args:
        length: how many positions.
        d_model: width of the vectors.
        offset: the first position.
        device: where the vectors are stored.

    Returns:
        Numbers from -1 to 1, in torch's default float type.

    Raises:
        TypeError: a size that is not an int.
        ValueError: a size below 1; an offset below 0.
    """
    require_positive(length=length, d_model=d_model)
    require_offset(offset)
    # In float32 the angle of position 100,000 would be wrong in the third decimal.
    position = torch.arange(offset, offset + length, dtype=torch.float64)
    pair = torch.arange(0, d_model, 2, dtype=torch.float64)
    angles = position[:, None] / 10_000 ** (pair / d_model)  # (T, M / 2, rounded up)
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1)  # (T, M / 2, 2)
    table = waves.flatten(start_dim=1)[:, :d_model]  # (T, M)
    return table.to(device=device, dtype=torch.get_default_dtype())


class LearnedPositions(nn.Module):
    """A trained vector for each position, as in GPT-2.

    Args:
        context_len: how many positions there are; no text may be longer.
        d_model: width of the vectors.

    Raises:
        TypeError: a size that is not an int; positions that are not whole numbers.
        ValueError: a size below 1; an offset below 0; positions that are not one per
            token, or outside the table; a text longer than ``context_len``.
    """

    def __init__(self, context_len: int, d_model: int) -> None:
        super().__init__()
        require_positive(context_len=context_len, d_model=d_model)
        self.context_len = context_len
        self.embedding = nn.Embedding(context_len, d_model)

    def forward(
        self,
        length: int,
        offset: int = 0,
        positions: Int[Tensor, "*B T"] | None = None,
    ) -> Float[Tensor, "*B T M"]:
        """Return the vectors of ``length`` positions, the first of them ``offset``.

        Args:
            length: how many.
            offset: the first position, if ``positions`` are left out.
            positions: the position of each token, if they are not consecutive.
        """
        require_positive(length=length)
        require_offset(offset, length, positions)
        if positions is not None:
            try:
                return self.embedding(positions)
            except IndexError as error:  # on the CPU, of a table's look-up
                raise ValueError(
                    f"positions must be between 0 and {self.context_len - 1}; got "
                    f"{positions.min()} to {positions.max()}"
                ) from error
        context_len, end = self.context_len, offset + length
        if end > context_len:
            raise ValueError(
                f"the text has {end} tokens, but only {context_len} positions were "
                f"learned: cut it, or build with context_len={end}"
            )
        if is_unmodified(self.embedding, nn.Embedding):
            return self.embedding.weight[offset:end]  # no copy
        device = next(self.parameters()).device
        return self.embedding(torch.arange(offset, end, device=device))
