"""What every converted layer shares: its call, its rotation, copies of the weights."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor, nn

from attention_lib.kv_cache import CacheLike, LayerCache
from attention_lib.masks import combine_masks
from attention_lib.multi_head import MultiHeadLayer
from attention_lib.rope import Scaling, rope_angles
from attention_lib.validation import (
    require_layer_cache,
    require_layout,
    require_token_positions,
)


class PublishedAttention(nn.Module):
    """A published attention layer in this book's parts; see ``from_transformers``.

    Args:
        attention: holds the weights.
        head_dim: the width that is rotated; None without rotation.
        base: of the rotation; see ``rope_angles``.
        scaling: of the rotation; see ``rope_angles``.
        causal: whether no token attends to a later one.
        near: makes the additional mask of the layer's model from the positions of
            queries and of keys, if its layers attend to a part of the text.
        placed: whether the attention gets the position of each key.
        norm: of the input plus the output, if the layer adds them itself.
    """

    def __init__(
        self,
        attention: MultiHeadLayer,
        *,
        head_dim: int | None = None,
        base: float = 10_000.0,
        scaling: Scaling | None = None,
        causal: bool = True,
        near: Callable[[Tensor, Tensor], Bool[Tensor, "*B T K"]] | None = None,
        placed: bool = False,
        norm: nn.LayerNorm | None = None,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.head_dim = head_dim
        self.base = base
        self.scaling = scaling
        self.causal = causal
        self.near = near
        # A window needs positions, too: of the new tokens, and the cache keeps them.
        self.windowed = getattr(attention, "window", None) is not None
        self.placed = placed
        self.norm = norm

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        positions: Num[Tensor, "*B T"] | None = None,
        memory: Float[Tensor, "B S M"] | None = None,
        cache: CacheLike | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Attend like the published layer with its model's mask.

        Args:
            x: the tokens; with a cache, those that are new.
            mask: hides more, such as padding; broadcasts to (B, T, T), or to (B, T, S)
                with a memory or a cache, where S counts all tokens so far.
            positions: of each token, in its text; for all texts, or (B, T). Counted
                from 0 when left out, or from the length of the cache.
            memory: the source of keys and values, if the layer takes one.
            cache: from ``new_cache``; keeps what later tokens need.
        """
        require_layout(x, "batch", "length", "width")
        require_layer_cache(cache, x, None, self.causal, 0)
        if cache is not None and not self.causal:
            raise ValueError("cache must be None: this layer attends to later tokens")
        given = positions is not None
        if positions is None:
            start = 0 if cache is None else cache.length
            positions = torch.arange(start, start + x.shape[1], device=x.device)
        options: dict[str, Any] = {}
        if memory is None and (self.placed or self.near is not None):
            require_token_positions(positions, x)
            known = self._known(positions, cache, len(x))
            if self.near is not None:
                seen = self.near(positions, known)
                mask = seen if mask is None else combine_masks(mask, seen)
            if self.placed:
                options["key_positions"] = known
        if self.windowed and given:
            options["positions"] = positions
        if self.head_dim is not None:
            options["angles"] = rope_angles(
                positions, self.head_dim, base=self.base, scaling=self.scaling
            )
        attended = self.attention(
            x, mask, causal=self.causal, memory=memory, cache=cache, **options
        )
        return attended if self.norm is None else self.norm(x + attended)

    def _known(
        self, positions: Tensor, cache: CacheLike | None, batch_size: int
    ) -> Num[Tensor, "*B K"]:
        """Return the positions of all keys; a cache keeps those of earlier calls.

        They are never changed in place: copies of a cache may share them.
        """
        if cache is None:
            return positions
        before = vars(cache).get("key_positions")
        if before is None:
            before = torch.arange(cache.length, device=positions.device)
        before = before[..., : cache.length]
        if before.ndim > 1:  # the cache may have been repeated
            before = before.repeat(batch_size // len(before), 1)
        rows = [batch_size] if before.ndim > 1 or positions.ndim > 1 else []
        both = [it.expand(*rows, -1) for it in (before, positions)]
        known = torch.cat(both, dim=-1)
        vars(cache)["key_positions"] = known
        return known

    def new_cache(self, batch_size: int, max_len: int) -> LayerCache:
        """Make an empty cache for that many texts of at most ``max_len`` tokens."""
        return self.attention.new_cache(batch_size, max_len)


def read_rotation(layer: Any) -> dict[str, Any]:
    """Read base and scaling from the layer's config, perhaps one per layer type."""
    config = layer.config
    parameters: Mapping[str, Any] = config.rope_parameters
    kinds = getattr(config, "layer_types", None) or {}
    kind = kinds[layer.layer_idx] if kinds else ""
    parameters = parameters.get(getattr(layer, "layer_type", kind), parameters)
    scaling = {key: value for key, value in parameters.items() if key != "type"}
    if scaling.get("partial_rotary_factor") == 1:
        del scaling["partial_rotary_factor"]
    if scaling.get("rope_type") == "dynamic":
        name = "original_max_position_embeddings"
        scaling.setdefault(name, config.max_position_embeddings)
    return {"base": float(scaling["rope_theta"]), "scaling": scaling}


def load_copies(ours: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load copies of published weights into our layer, which may be on ``meta``."""
    copies = {
        name: weight.detach().clone(memory_format=torch.contiguous_format)
        for name, weight in weights.items()
    }
    ours.load_state_dict(copies, assign=True)
