"""BLOOM and MPT: ALiBi, a slope per head that lowers the scores of far keys."""

import math
from typing import Any

import torch
from jaxtyping import Float, Num
from torch import Tensor

from attention_lib.hf_layers.parts import PublishedAttention, load_copies
from attention_lib.relative_attention import RelativeAttention
from attention_lib.validation import require_positive

ALIBI = "BloomAttention", "MptAttention"


class AlibiAttention(RelativeAttention):
    """Each score loses slope · distance: Press et al. (2022), section 3.

    Args:
        d_model: width of the input.
        num_heads: number of heads.
        qkv_bias: whether queries, keys and values get a bias. The output has one.
    """

    def __init__(self, d_model: int, num_heads: int, *, qkv_bias: bool = False) -> None:
        super().__init__(
            d_model, num_heads, num_buckets=0, qkv_bias=qkv_bias, out_bias=True
        )
        self.scale = (d_model // num_heads) ** -0.5

    def _bias(
        self, offset: Num[Tensor, "*B Q K"], dtype: torch.dtype
    ) -> Float[Tensor, "*B H Q K"]:
        # Slope · position of the key would do as well, but costs digits.
        slope = alibi_slopes(self.num_heads).to(offset.device, dtype)[:, None, None]
        return slope * offset[..., None, :, :]


def alibi_slopes(num_heads: int) -> Float[Tensor, " H"]:
    """Return the slope of each head, in float64: 2^(-8/n), 2^(-16/n) and so on.

    If the number of heads is not a power of two, the slopes for the power below come
    first, and then every second one for the power above.
    """
    require_positive(num_heads=num_heads)
    below = 2 ** math.floor(math.log2(num_heads))
    steps = torch.arange(1, 2 * below + 1, dtype=torch.float64)
    first, between = 2 ** (-8 / below * steps[:below]), 2 ** (-4 / below * steps[::2])
    return torch.cat((first, between))[:num_heads]


def convert_alibi(layer: Any) -> PublishedAttention:
    """Split the fused projection: BLOOM's rows are grouped by head, MPT's are not.

    BLOOM's layer also adds a residual that its caller passes; ours leaves that to the
    block.
    """
    bloom = type(layer).__name__ == "BloomAttention"
    fused = layer.query_key_value if bloom else layer.Wqkv
    heads = layer.num_heads if bloom else layer.n_heads
    width = layer.hidden_size
    usual = bloom or math.isclose(layer.softmax_scale, (width / heads) ** -0.5)
    if not usual or (not bloom and layer.clip_qkv):
        raise ValueError(
            "layer clips its queries or has a special scale: not supported"
        )
    with torch.device("meta"):
        ours = AlibiAttention(width, heads, qkv_bias=bloom)
    out = layer.dense if bloom else layer.out_proj
    weights = {f"out_proj.{name}": weight for name, weight in out.named_parameters()}
    weights.setdefault("out_proj.bias", out.weight.new_zeros(width))
    for kind, rows in fused.named_parameters():
        if bloom:  # (H, 3, D, ...) -> (3, H, D, ...)
            rows = rows.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2)
        for name, part in zip("qkv", rows.chunk(3), strict=True):
            weights[f"{name}_proj.{kind}"] = part
    load_copies(ours, weights)
    return PublishedAttention(ours, placed=True)
