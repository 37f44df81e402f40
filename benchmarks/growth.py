"""Attention alone, forward, as the text grows to 16,384 tokens: one head, causal.

Tables of scores grow with the square of the length. A way that needs more memory than
half of what is free is left out, and the run says so.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.flash_attention import flash_attention
from attention_lib.masks import causal_mask

HEAD_DIM = 64
KEYS = (1024, 4096, 16384)
REFERENCE, PLAIN = "PyTorch's kernel", "the whole table"
TABLE, TILES = "PyTorch's kernel, a mask as a table", "tiles of 256"
WAYS = (REFERENCE, TABLE, TILES, PLAIN)
# Bytes per pair of tokens. Of scores, their copy that is filled, weights, their copy
# without empty rows, with some to spare; else a mask, and what the kernel makes of it.
BYTES = {PLAIN: 20, TABLE: 6}


def missing(name: str, keys: int) -> str:
    """Return why a function is left out at a length; an empty text if it fits."""
    needed = BYTES.get(name, 0) * keys**2
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed <= free / 2:
        return ""
    return f"{name}, {keys} keys: {needed >> 20} MiB, and {free >> 20} MiB are free"


def make_call(name: str, keys: int) -> Callable[[], Any]:
    """Return the timed call, with the mask made beforehand."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(3, 1, 1, keys, HEAD_DIM, generator=generator).unbind()
    attend: Callable[..., Tensor]
    if name == REFERENCE:
        attend = partial(F.scaled_dot_product_attention, is_causal=True)
    elif name == TILES:
        attend = partial(flash_attention, causal=True, tile=256)
    elif name == TABLE:
        attend = partial(F.scaled_dot_product_attention, attn_mask=causal_mask(keys))
    else:
        attend = partial(scaled_dot_product_attention, mask=causal_mask(keys))
    return torch.inference_mode()(lambda: attend(*inputs))
