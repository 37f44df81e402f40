"""A linear layer whose weights stay in 4 bits, as a Triton kernel.

Weights are stored in blocks of 32 along the input, as in the type Q4_1 of GGUF files: a
step and a minimum for each block, and two codes in each byte, the first half of a block
in the lower four bits. Each program reads the codes of its rows once, unpacks them in
registers, and never stores an unpacked weight. It needs Triton and a GPU; for tests,
TRITON_INTERPRET=1 runs it on a CPU, slowly.
"""

# Triton reads annotations as text; without it, `tl` has no meaning.
from __future__ import annotations

from typing import no_type_check

import torch
from jaxtyping import Float, Float16, UInt8
from torch import Tensor

from attention_lib._triton import jit, require_runnable, tl, triton

ROWS, BLOCKS = 16, 16  # outputs of one program, and blocks that it reads at once


def packed_linear(
    x: Float[Tensor, "*B M"],
    codes: UInt8[Tensor, "out blocks 16"],
    step: Float16[Tensor, "out blocks 1"],
    minimum: Float16[Tensor, "out blocks 1"],
) -> Float[Tensor, "*B out"]:
    """Multiply by weights in 4 bits, as ``F.linear`` by the unpacked ones.

    A weight is step · code + minimum. The sums are in float32, whatever the type of
    ``x``. It is written for one or a few rows: all weights are read once for each.

    Args:
        x: rows of M numbers, in 32 bits or fewer.
        codes: two in each byte; M is 32 times the number of blocks.
        step: one per block.
        minimum: one per block.

    Raises:
        ModuleNotFoundError: Triton is not installed.
        TypeError: float64.
        ValueError: sizes that do not fit, or tensors where Triton cannot run.
    """
    if codes.ndim != 3 or codes.shape[-1] != 16:
        raise ValueError(f"codes must be (out, blocks, 16); got {tuple(codes.shape)}")
    outputs, blocks, _ = codes.shape
    if x.shape[-1] != 32 * blocks or not step.shape == minimum.shape == (
        outputs, blocks, 1,
    ):  # fmt: skip
        raise ValueError(
            f"x must end in {32 * blocks}, the width of {blocks} blocks, step and "
            f"minimum be ({outputs}, {blocks}, 1); got {tuple(x.shape)}, "
            f"{tuple(step.shape)}, {tuple(minimum.shape)}"
        )
    if x.dtype == torch.float64:
        raise TypeError("x must be of 32 bits or fewer, as the sums; got float64")
    require_runnable(multiply_kernel, x=x)
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    result = x.new_empty(len(rows), outputs)
    tensors = (t.contiguous() for t in (codes, step, minimum))
    multiply_kernel[(triton.cdiv(outputs, ROWS), len(rows))](
        rows, *tensors, result, outputs, blocks, ROWS=ROWS, BLOCKS=BLOCKS
    )
    return result.view(*x.shape[:-1], outputs)


@jit
@no_type_check
def multiply_kernel(
    x, codes, step, minimum, result, outputs, blocks,
    ROWS: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Compute ROWS outputs of one row of x; arguments are addresses."""
    row = tl.program_id(1)
    out = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    half = tl.arange(0, 16)
    total = tl.zeros([ROWS], tl.float32)
    for start in range(0, blocks, BLOCKS):
        block = start + tl.arange(0, BLOCKS)
        known = (out[:, None] < outputs) & (block < blocks)  # (ROWS, BLOCKS)
        at = out[:, None] * blocks + block
        pairs = tl.load(
            codes + at[:, :, None] * 16 + half, mask=known[:, :, None], other=0
        )
        begin = x + (row * blocks + block[:, None]) * 32 + half  # (BLOCKS, 16)
        inside = block[:, None] < blocks
        first = tl.load(begin, mask=inside, other=0.0).to(tl.float32)
        second = tl.load(begin + 16, mask=inside, other=0.0).to(tl.float32)
        mixed = (pairs & 15).to(tl.float32) * first[None]
        mixed += (pairs >> 4).to(tl.float32) * second[None]
        steps = tl.load(step + at, mask=known, other=0.0).to(tl.float32)
        least = tl.load(minimum + at, mask=known, other=0.0).to(tl.float32)
        sums = tl.sum(first + second, axis=1)  # (BLOCKS,)
        total += tl.sum(steps * tl.sum(mixed, axis=2) + least * sums, axis=1)
    tl.store(result + row * outputs + out, total, mask=out < outputs)
