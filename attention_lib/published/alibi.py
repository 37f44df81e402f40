"""BLOOM and MPT: ALiBi, a slope per head that makes far keys score less."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.masks import with_causal
from attention_lib.multi_head import MultiHeadAttention
from attention_lib.published.parts import Rebuilt, give

ALIBI = "BloomAttention", "MptAttention"


class AlibiAttention(MultiHeadAttention):
    """Each score loses slope · distance: Press et al. (2022), section 3.

    A softmax forgets what all scores of a row have in common, so slope · place of the
    key does the same. That is one more coordinate: slope · place in each key, and 1 in
    each query.
    """

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        *,
        alone: bool,
    ) -> Tensor:
        scale = query.shape[-1] ** -0.5
        place = torch.arange(key.shape[-2], device=key.device).to(key.dtype)
        slope = alibi_slopes(self.num_heads).to(key)[:, None, None]  # (H, 1, 1)
        bias = slope * place[:, None] / scale  # (H, K, 1)
        key = torch.cat((key, bias.expand(*key.shape[:-1], 1)), dim=-1)
        query = torch.cat((query, torch.ones_like(query[..., :1])), dim=-1)
        mask = with_causal(mask, causal, query, key)
        return scaled_dot_product_attention(query, key, value, mask, scale=scale)


def alibi_slopes(num_heads: int) -> Float[Tensor, " H"]:
    """Gives each head its slope: 2^(-8/n), 2^(-16/n) and so on for n heads.

    Where n is no power of two, those of the power below come first, and then every
    second one of the power above.
    """
    below = 2 ** math.floor(math.log2(num_heads))
    first = 2 ** (-8 / below * torch.arange(1, below + 1))
    between = 2 ** (-4 / below * torch.arange(1, 2 * below + 1, 2))
    return torch.cat((first, between))[:num_heads]


def rebuild_alibi(layer: Any) -> Rebuilt:
    """Cuts the fused projection: BLOOM's rows stand head by head, MPT's do not.

    BLOOM's layer adds what its caller gives it besides; ours leaves that to the block.
    """
    bloom = type(layer).__name__ == "BloomAttention"
    fused = layer.query_key_value if bloom else layer.Wqkv
    heads = layer.num_heads if bloom else layer.n_heads
    width = layer.hidden_size
    usual = bloom or math.isclose(layer.softmax_scale, (width / heads) ** -0.5)
    if not usual or (not bloom and layer.clip_qkv):
        raise ValueError("layer clips its queries or has a scale of its own: not known")
    with torch.device("meta"):
        ours = AlibiAttention(width, heads, qkv_bias=bloom)
    out = layer.dense if bloom else layer.out_proj
    weights = {f"out_proj.{name}": own for name, own in out.named_parameters()}
    weights.setdefault("out_proj.bias", out.weight.new_zeros(width))
    for kind, own in fused.named_parameters():
        if bloom:  # (H, 3, D, ...) -> (3, H, D, ...)
            own = own.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2)
        for name, part in zip("qkv", own.chunk(3), strict=True):
            weights[f"{name}_proj.{kind}"] = part
    give(ours, weights)
    return Rebuilt(ours)
