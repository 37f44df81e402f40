"""Multi-head attention as in textbooks: clear, not fast.

Masks are boolean, True means "may attend". An empty row becomes NaN here.
"""

import math

import torch
from torch import Tensor, nn


class TextbookHead(nn.Module):
    """One head of ``TextbookWrapper``."""

    def __init__(self, d_model: int, head_dim: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(d_model, head_dim)
        self.k_proj = nn.Linear(d_model, head_dim)
        self.v_proj = nn.Linear(d_model, head_dim)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return attend(query, key, value, mask, self.dropout)


class TextbookWrapper(nn.Module):
    """Heads in a list, one after the other, with concatenated outputs."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        head_dim = d_model // num_heads
        self.heads = nn.ModuleList(
            TextbookHead(d_model, head_dim) for _ in range(num_heads)
        )
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        found = [head(x, mask) for head in self.heads]
        return self.out_proj(torch.cat(found, dim=-1))


class TextbookSplit(nn.Module):
    """Three projections, split into heads by a view and a transpose."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, d_model = x.shape
        query = self.q_proj(x).view(batch, length, self.num_heads, self.head_dim)
        key = self.k_proj(x).view(batch, length, self.num_heads, self.head_dim)
        value = self.v_proj(x).view(batch, length, self.num_heads, self.head_dim)
        query, key, value = (
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
        )
        context = attend(query, key, value, mask, self.dropout)
        context = context.transpose(1, 2).contiguous().view(batch, length, d_model)
        return self.out_proj(context)


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: nn.Module
) -> Tensor:
    """Attend: scores, scale, mask, softmax, dropout, mix, in one line each."""
    scores = query @ key.transpose(-2, -1)
    if mask is not None:
        scores.masked_fill_(~mask, -torch.inf)
    weights = torch.softmax(scores / math.sqrt(query.shape[-1]), dim=-1)
    return dropout(weights) @ value
