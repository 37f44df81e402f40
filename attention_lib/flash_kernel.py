"""Attention in tiles as a Triton kernel: one program per piece of the queries.

The same sums as ``flash_attention``, in the same order, written for a GPU: each program
keeps its piece of queries and three running numbers in fast memory, and reads keys and
values once, tile by tile. It needs Triton (``pip install triton``, on Linux) and
tensors on a GPU. With TRITON_INTERPRET=1 set before Triton is first imported, the
kernel runs on a CPU, slowly, for tests.
"""

# Triton reads annotations as text; without it, `tl` has no meaning.
from __future__ import annotations

from typing import no_type_check

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention_lib._triton import jit, require_runnable, tl, triton
from attention_lib.flash_attention import TilePlan, attend_in_tiles
from attention_lib.validation import require_power_of_two


def flash_kernel(
    query: Float[Tensor, "*B Q D"],
    key: Float[Tensor, "*#B K D"],
    value: Float[Tensor, "*#B K V"],
    mask: Bool[Tensor, ...] | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    tile: int | tuple[int, int] = 64,
) -> Float[Tensor, "*B Q V"]:
    """Mix the values by the attention weights in one Triton kernel.

    It is called like ``flash_attention`` and equal to it; the backward pass is
    ``flash_backward``. It sums in float32. It is written to be read, not to be fast: it
    multiplies in float32, where a fast kernel uses the GPU's half-precision units.

    Args:
        query: and the rest: as in ``flash_attention``.
        key: as there.
        value: as there.
        mask: as there; it is read tile by tile, and not copied for heads that share it.
        causal: as there.
        scale: as there.
        tile: as there; powers of 2, at least 16.

    Raises:
        ModuleNotFoundError: Triton is not installed.
        TypeError: float64, or what ``flash_attention`` refuses.
        ValueError: a tile that is not a power of 2, tensors where Triton cannot run, or
            what ``flash_attention`` refuses.
    """
    inputs = query, key, value, mask
    return attend_in_tiles(
        _kernel_forward, *inputs, causal=causal, scale=scale, tile=tile
    )


@jit
@no_type_check
def attend_kernel(
    query, key, value, mask, mask_of, context, log_sum,
    query_len, key_len, head_dim, value_dim, scale,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, HEAD: tl.constexpr, VALUE: tl.constexpr,
):  # fmt: skip
    """Mix the values for ROWS queries of one head; arguments are addresses."""
    head = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    positions = rows + key_len - query_len  # aligned at the end
    across, out = tl.arange(0, HEAD), tl.arange(0, VALUE)
    at = (head * query_len + rows[:, None]) * head_dim + across
    inside = (rows[:, None] < query_len) & (across < head_dim)
    queries = tl.load(query + at, mask=inside, other=0.0).to(tl.float32)

    largest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, VALUE], tl.float32)
    end = key_len
    if CAUSAL:  # no tile that is entirely in the future
        end = tl.minimum(key_len, (tl.program_id(0) + 1) * ROWS + key_len - query_len)
    for start in range(0, end, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        entries = head * key_len + columns[:, None]
        known = columns[:, None] < key_len
        keys = tl.load(
            key + entries * head_dim + across,
            mask=known & (across < head_dim),
            other=0.0,
        ).to(tl.float32)
        values = tl.load(
            value + entries * value_dim + out,
            mask=known & (out < value_dim),
            other=0.0,
        ).to(tl.float32)

        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        allowed = (rows[:, None] < query_len) & (columns < key_len)
        if CAUSAL:
            allowed = allowed & (columns <= positions[:, None])
        if MASKED:
            lines = tl.load(mask_of + head) * query_len + rows[:, None]
            visible = tl.load(mask + lines * key_len + columns, mask=allowed, other=0)
            allowed = allowed & (visible != 0)
        scores = tl.where(allowed, scores, float("-inf"))

        new = tl.maximum(largest, tl.max(scores, axis=1))
        level = tl.where(new > float("-inf"), new, 0.0)  # not -inf - -inf
        shrink = tl.exp(largest - level)
        weights = tl.exp(scores - level[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        mixed = mixed * shrink[:, None]
        mixed += tl.dot(weights, values, input_precision="ieee")
        largest = new

    divisor = tl.where(total > 0, total, 1.0)
    at = (head * query_len + rows[:, None]) * value_dim + out
    inside = (rows[:, None] < query_len) & (out < value_dim)
    tl.store(context + at, mixed / divisor[:, None], mask=inside)
    at = head * query_len + rows
    tl.store(log_sum + at, largest + tl.log(divisor), mask=rows < query_len)


def _kernel_forward(
    query: Tensor, key: Tensor, value: Tensor, plan: TilePlan
) -> tuple[Tensor, Tensor]:
    """Allocate memory for the kernel, and start one program per head and piece."""
    require_runnable(attend_kernel, query=query)
    if query.dtype == torch.float64:
        raise TypeError("query must be of 32 bits or fewer, as the sums; got float64")
    rows, columns = require_power_of_two(tile=plan.tile)
    *leading, query_len, head_dim = query.shape
    key_len, value_dim = value.shape[-2:]
    context = query.new_empty(*leading, query_len, value_dim)
    log_sum = query.new_empty(*leading, query_len, dtype=torch.float32)
    mask, mask_of = _distinct_masks(plan.mask, leading, query)
    pieces = triton.cdiv(query_len, rows)
    attend_kernel[(pieces, log_sum.numel() // query_len)](
        query.contiguous(),
        key.contiguous(),
        value.contiguous(),
        mask,
        mask_of,
        context,
        log_sum,
        query_len,
        key_len,
        head_dim,
        value_dim,
        plan.scale,
        MASKED=plan.mask is not None,
        CAUSAL=plan.causal,
        ROWS=rows,
        COLUMNS=columns,
        HEAD=max(16, triton.next_power_of_2(head_dim)),
        VALUE=max(16, triton.next_power_of_2(value_dim)),
    )
    return context, log_sum


def _distinct_masks(
    mask: Tensor | None, leading: list[int], like: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the distinct masks, and for each head the index of its mask."""
    if mask is None:
        return like.new_empty(1, dtype=torch.uint8), like.new_empty(1, dtype=torch.long)
    for axis in range(len(leading)):
        if mask.stride(axis) == 0:  # shared along this axis
            mask = mask.narrow(axis, 0, 1)
    shape = mask.shape[:-2]
    number = torch.arange(shape.numel(), device=mask.device).view(shape)
    return mask.contiguous().view(torch.uint8), number.expand(leading).contiguous()
