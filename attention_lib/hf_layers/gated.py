"""Qwen3-Next's softmax layers: partial rotation of each head, and an output gate."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lib.grouped_query import GroupedQueryAttention
from attention_lib.hf_layers.parts import PublishedAttention, load_copies, read_rotation
from attention_lib.kv_cache import CacheLike
from attention_lib.multi_head import add_head_axis, merge_heads
from attention_lib.validation import require_layer_cache


class GatedAttention(GroupedQueryAttention):
    """Qwen3-Next's softmax attention: partly rotated heads, and an output gate.

    The gate scales the output of each head, number by number.
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
        """Attend like ``GroupedQueryAttention``, and apply the gate.

        It has no window, so ``positions`` are not used.
        """
        mask = add_head_axis(mask)
        require_layer_cache(cache, x, mask, causal, self.num_heads)
        empty = cache is None or getattr(cache, "is_empty", False)
        square = memory is None and empty
        query, key, value = self._queries_keys_values(x, memory, angles, cache)
        causal = causal and (cache is None or x.shape[1] > 1)
        found = self._attend(query, key, value, mask, causal, square=square)
        return self.out_proj(merge_heads(found) * self.gate_proj(x).sigmoid())

    def _rotate(self, x: Tensor, angles: Tensor) -> Tensor:
        """Rotate a part of each head; the rest has no position."""
        width = 2 * angles.shape[-1]
        return torch.cat((super()._rotate(x[..., :width], angles), x[..., width:]), -1)


def convert_gated(layer: Any) -> PublishedAttention:
    """Split the rows of its query projection, which are [query, gate] for each head."""
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
    for name, weight in layer.named_parameters():
        if name.startswith("q_proj"):
            query, gate = weight.unflatten(0, (heads, 2, head_dim)).unbind(1)
            weights[name] = query.flatten(0, 1)
            weights[name.replace("q_proj", "gate_proj")] = gate.flatten(0, 1)
        else:
            weights[name.replace("o_proj", "out_proj")] = weight
    load_copies(ours, weights)
    rotation = read_rotation(layer)
    part = rotation["scaling"].pop("partial_rotary_factor", 1.0)
    return PublishedAttention(ours, head_dim=int(head_dim * part), **rotation)
