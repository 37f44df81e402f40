"""Shared by the museum's checks: the difference of two tensors."""

import torch
from torch import Tensor

from attention_lib.reproducibility import seeded

Found = tuple[bool, str]  # whether all is well, and the numbers


def apart(first: Tensor, second: Tensor) -> float:
    """Return the largest difference; infinite if the shapes differ or one is nan."""
    if first.shape != second.shape:
        return torch.inf
    gap = (first.double() - second.double()).abs().amax().item()
    return torch.inf if gap != gap else gap


def same(first: Tensor, second: Tensor, what: str, within: float = 1e-9) -> Found:
    """Return whether two tensors agree, and their difference in words."""
    gap = apart(first, second)
    return gap <= within, f"{what}: {gap:.2g}"


def drawn(batch: int, length: int, width: int, seed: int = 0) -> Tensor:
    """Return (B, T, M) in float64, the same for each seed."""
    return torch.randn(batch, length, width, generator=seeded(seed), dtype=torch.double)
