"""Attention alone, for one text: in tiles, with the whole table, and PyTorch's kernel.

A case is one call of a function with queries, keys and values, without projections.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.flash_attention import flash_attention
from attention_lib.masks import causal_mask

NUM_HEADS, HEAD_DIM = 8, 32
KEYS = 2048
REFERENCE, PLAIN, OURS = "PyTorch's kernel", "the whole table", "tiles of 64"
TILES = {OURS: 64, "tiles of 256": 256}
WAYS = (REFERENCE, PLAIN, *TILES)


def attention(name: str, hidden: str, length: int) -> Callable[..., Tensor]:
    """Return a function that attends in this way, with the mask made beforehand."""
    causal = hidden == "causal"
    if name == REFERENCE:
        return partial(F.scaled_dot_product_attention, is_causal=causal)
    if name == PLAIN:
        mask = causal_mask(length) if causal else None
        return partial(scaled_dot_product_attention, mask=mask)
    return partial(flash_attention, causal=causal, tile=TILES[name])


def make_call(name: str, hidden: str, which: str) -> Callable[[], Any]:
    """Return the timed call: forward, or forward and backward."""
    shape = 1, NUM_HEADS, KEYS, HEAD_DIM
    generator = torch.Generator().manual_seed(0)
    *inputs, upstream = (torch.randn(shape, generator=generator) for _ in range(4))
    attend = attention(name, hidden, KEYS)
    if which == "forward":
        return torch.inference_mode()(lambda: attend(*inputs))
    inputs = [x.requires_grad_() for x in inputs]
    return lambda: torch.autograd.grad(attend(*inputs), inputs, upstream)
