"""The base classes of the museum's programs, so that each shows only its fault.

Shapes: B batch, H heads, T new tokens, K all tokens, M d_model, D head_dim.
"""

import torch
from torch import Tensor, nn

from attention_lib.generation import generate
from attention_lib.kv_cache import LayerCache
from attention_lib.masks import causal_mask, sliding_window_mask, with_causal
from attention_lib.multi_head import add_head_axis, merge_heads, split_heads
from attention_lib.positions import sinusoidal_positions
from attention_lib.rope import apply_rope, rope_angles


class Heads(nn.Module):
    """Multi-head attention in steps that a program can replace one by one."""

    def __init__(self, d_model: int = 12, num_heads: int = 3) -> None:
        super().__init__()
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model)
        self.num_heads = num_heads

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Project, encode positions, use the cache, attend, and merge heads."""
        query, key, value = self.project(x)  # (B, H, T, D) each
        start = 0 if cache is None else cache.length
        query, key = self.encode_positions(query, key, start)
        if cache is not None:
            key, value = cache.append(key, value)  # (B, H, K, D)
        visible = self.visible(mask, causal, query, key)
        return self.out_proj(self.merge(self.attend(query, key, value, visible)))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, (B, H, T, D) each."""
        query, key, value = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return self.split(query), self.split(key), self.split(value)

    def split(self, x: Tensor) -> Tensor:
        """Split (B, T, M) into heads, (B, H, T, D)."""
        return split_heads(x, self.num_heads)

    def encode_positions(
        self, query: Tensor, key: Tensor, start: int
    ) -> tuple[Tensor, Tensor]:
        """Return queries and keys as they are: without positions."""
        return query, key

    def visible(
        self, mask: Tensor | None, causal: bool, query: Tensor, key: Tensor
    ) -> Tensor:
        """Return the mask, True where a query may attend: it broadcasts to scores."""
        mask = with_causal(add_head_axis(mask), causal, query, key)
        everything = torch.ones(
            query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device
        )
        return everything if mask is None else mask

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """Return the context of each head, (B, H, T, D)."""
        return self.weights(self.scores(query, key), mask) @ value

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """Return the scaled scores, (B, H, T, K)."""
        return query @ key.mT / query.shape[-1] ** 0.5

    def weights(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return the softmax over the visible keys; an empty row gets zeros."""
        low = torch.finfo(scores.dtype).min
        return scores.where(mask, low).softmax(dim=-1) * mask

    def merge(self, context: Tensor) -> Tensor:
        """Merge heads (B, H, T, D) into (B, T, M)."""
        return merge_heads(context)

    def new_cache(self, batch_size: int, max_len: int) -> LayerCache:
        """Make an empty cache in the layer's type."""
        weight = self.out_proj.weight
        width = weight.shape[1] // self.num_heads
        return LayerCache(
            *(batch_size, self.num_heads, max_len, width),
            device=weight.device,
            dtype=weight.dtype,
        )


class RotaryHeads(Heads):
    """``Heads`` whose queries and keys are rotated by their positions."""

    def encode_positions(
        self, query: Tensor, key: Tensor, start: int
    ) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys; the first token has the position ``start``."""
        angles = self.angles(start + torch.arange(query.shape[-2]), query)
        return self.rotate(query, angles), self.rotate(key, angles)

    def angles(self, positions: Tensor, like: Tensor) -> Tensor:
        """Return angles (T, D / 2) in radians."""
        wide = torch.promote_types(like.dtype, torch.float32)  # 16 bits end at 256
        return rope_angles(positions.to(wide), like.shape[-1])

    def rotate(self, x: Tensor, angles: Tensor) -> Tensor:
        """Rotate coordinate i with i + D / 2, as in Hugging Face's checkpoints."""
        return apply_rope(x, angles)


class GroupedHeads(Heads):
    """``Heads`` whose query heads share half as many KV heads."""

    def __init__(self, d_model: int = 16, num_heads: int = 4) -> None:
        super().__init__(d_model, num_heads)
        self.k_proj = nn.Linear(d_model, d_model // 2, bias=False)
        self.v_proj = nn.Linear(d_model, d_model // 2, bias=False)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, and keys and values, each repeated for its query heads."""
        few = self.num_heads // 2
        key, value = self.k_proj(x), self.v_proj(x)
        key, value = split_heads(key, few), split_heads(value, few)
        return self.split(self.q_proj(x)), self.share(key), self.share(value)

    def share(self, x: Tensor) -> Tensor:
        """Repeat (B, H / 2, T, D) to (B, H, T, D): heads 0 and 1 share the first."""
        return x.repeat_interleave(2, dim=1)


#: The names that every program may use, beside those that chapters import.
PARTS = {
    "Heads": Heads,
    "RotaryHeads": RotaryHeads,
    "GroupedHeads": GroupedHeads,
    "add_head_axis": add_head_axis,
    "apply_rope": apply_rope,
    "causal_mask": causal_mask,
    "generate": generate,
    "rope_angles": rope_angles,
    "sinusoidal_positions": sinusoidal_positions,
    "sliding_window_mask": sliding_window_mask,
}
