"""Qwen3-Next's layers with softmax: a part of each head turns, and a gate closes."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.hf_layers.parts import PublishedAttention, load_copies, read_rotation
from attention_lib.kv_cache import CacheLike
from attention_lib.multi_head import add_head_axis, merge_heads


class GatedAttention(GroupedQueryAttention):
    """Qwen3-Next's softmax attention: a part of each head turns, and a gate closes.

    Its gate says how much of what each head finds goes on, number by number.
    """

    gate_proj: nn.Linear

    def forward(
        self,
        x: Float[Tensor, "B T M"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
        memory: Float[Tensor, "B S M"] | None = None,
        angles: Float[Tensor, "*B T P"] | None = None,
        cache: CacheLike | None = None,
        positions: Int[Tensor, "*B T"] | None = None,
    ) -> Float[Tensor, "B T M"]:
        """Attends as ``GroupedQueryAttention`` does, and closes the gate.

        It has no window, so it does not read ``positions``.
        """
        square = memory is None and (cache is None or cache.is_empty)
        query, key, value = self._queries_keys_values(x, memory, angles, cache)
        causal = causal and (cache is None or x.shape[1] > 1)
        found = self._attend(
            query, key, value, add_head_axis(mask), causal, square=square
        )
        return self.out_proj(merge_heads(found) * self.gate_proj(x).sigmoid())

    def _rotate(self, x: Tensor, angles: Tensor) -> Tensor:
        """Rotate a part of each head; the rest has no position."""
        width = 2 * angles.shape[-1]
        return torch.cat((super()._rotate(x[..., :width], angles), x[..., width:]), -1)


def rebuild_gated(layer: Any) -> PublishedAttention:
    """Splits the rows of its query projection, which stand per head [query, gate]."""
    width, head_dim = layer.q_proj.in_features, layer.head_dim
    heads = layer.q_proj.out_features // head_dim // 2
    biased = layer.q_proj.bias is not None
    with torch.device("meta"):
        ours = GatedAttention(
            width,
            heads,
            layer.k_proj.out_features // head_dim,
            head_dim=head_dim,
            qkv_bias=biased,
            out_bias=layer.o_proj.bias is not None,
            qk_norm="rms_plus_one",
            norm_eps=layer.q_norm.eps,
            scale=layer.scaling,
        )
        ours.gate_proj = nn.Linear(width, heads * head_dim, bias=biased)
    weights = {}
    for name, own in layer.named_parameters():
        if name.startswith("q_proj"):
            query, gate = own.unflatten(0, (heads, 2, head_dim)).unbind(1)
            weights[name] = query.flatten(0, 1)
            weights[name.replace("q_proj", "gate_proj")] = gate.flatten(0, 1)
        else:
            weights[name.replace("o_proj", "out_proj")] = own
    load_copies(ours, weights)
    rotation = read_rotation(layer)
    part = rotation["scaling"].pop("partial_rotary_factor", 1.0)
    return PublishedAttention(ours, head_dim=int(head_dim * part), **rotation)
