"""What every rebuilt layer shares: its call, its rotation, copies of the weights."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor, nn

from attention_lib.kv_cache import CacheLike, LayerCache
from attention_lib.masks import combine_masks
from attention_lib.multi_head import MultiHeadLayer
from attention_lib.rope import Scaling, rope_angles
from attention_lib.validation import require_token_positions


class PublishedAttention(nn.Module):
    """A published attention layer in this book's parts; ``rebuild`` makes it.

    Args:
        attention: holds the weights.
        head_dim: the width that is turned; None where positions turn nothing.
        base: of the rotation; see ``rope_angles``.
        scaling: of the rotation; see ``rope_angles``.
        causal: whether no token sees a later one.
        near: makes the mask that the layer's model adds, of the positions of queries
            and of keys, where its layers see a part of the text.
        placed: whether the attention is given the position of each key.
        norm: of what comes in plus what was found, where the layer adds them itself.
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
        # A window counts positions, too: of the new tokens, and the cache keeps them.
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
        """Attends as the published layer does with the mask of its model.

        Args:
            x: the tokens; with a cache, those that are new.
            mask: hides more, such as padding; broadcasts to (B, T, T), or to (B, T, S)
                with a memory or a cache, where S counts all tokens so far.
            positions: of each token, in its text; for all texts, or (B, T). Counted
                from 0 when left out, or from the length of the cache.
            memory: the source of keys and values, where the layer takes one.
            cache: of ``new_cache``; keeps what later tokens need of these.
        """
        given = positions is not None
        if positions is None:
            start = 0 if cache is None else cache.length
            positions = torch.arange(start, start + x.shape[1], device=x.device)
        also: dict[str, Any] = {}
        if memory is None and (self.placed or self.near is not None):
            require_token_positions(positions, x)
            known = self._known(positions, cache, len(x))
            if self.near is not None:
                seen = self.near(positions, known)
                mask = seen if mask is None else combine_masks(mask, seen)
            if self.placed:
                also["key_positions"] = known
        if self.windowed and given:
            also["positions"] = positions
        if self.head_dim is not None:
            also["angles"] = rope_angles(
                positions, self.head_dim, base=self.base, scaling=self.scaling
            )
        found = self.attention(
            x, mask, causal=self.causal, memory=memory, cache=cache, **also
        )
        return found if self.norm is None else self.norm(x + found)

    def _known(
        self, positions: Tensor, cache: CacheLike | None, batch_size: int
    ) -> Num[Tensor, "*B K"]:
        """Return the positions of all keys; a cache keeps those of earlier calls.

        They are never written in place: copies of a cache may share them.
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
        """Makes an empty cache for so many texts of at most so many tokens."""
        return self.attention.new_cache(batch_size, max_len)


def read_rotation(layer: Any) -> dict[str, Any]:
    """Reads base and scaling from the layer's config, which may have them by kind."""
    config = layer.config
    found: Mapping[str, Any] = config.rope_parameters
    kinds = getattr(config, "layer_types", None) or {}
    kind = kinds[layer.layer_idx] if kinds else ""
    found = found.get(getattr(layer, "layer_type", kind), found)
    told = {key: value for key, value in found.items() if key != "type"}
    if told.get("partial_rotary_factor") == 1:
        del told["partial_rotary_factor"]
    if told.get("rope_type") == "dynamic":
        name = "original_max_position_embeddings"
        told.setdefault(name, config.max_position_embeddings)
    return {"base": float(told["rope_theta"]), "scaling": told}


def load_copies(ours: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Gives our layer, which may be on ``meta``, copies of published weights."""
    copies = {
        name: weight.detach().clone(memory_format=torch.contiguous_format)
        for name, weight in weights.items()
    }
    ours.load_state_dict(copies, assign=True)
