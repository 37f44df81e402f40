"""Nine types in which GGUF files store numbers, unpacked to float32.

Quantised numbers are stored in blocks: a few shared scales, then a few bits for each
number. Each function takes blocks of bytes, (N, bytes of a block), and returns their
numbers, (N, numbers of a block). In types whose name ends in K, each group of numbers
has a scale of 6 or 8 bits, to be multiplied by a half-precision scale of the block.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.float32]
CHUNK = 2**16  # bytes unpacked at once: what they become fits into a cache


class BlockType(NamedTuple):
    """How one type stores its numbers.

    Attributes:
        name: as llama.cpp writes it.
        numbers: how many numbers a block holds.
        nbytes: how many bytes it takes.
        unpack: from blocks of bytes to their numbers.
    """

    name: str
    numbers: int
    nbytes: int
    unpack: Callable[[Bytes], Numbers]


def unpack_blocks(raw: Bytes, kind: BlockType) -> Numbers:
    """Return the numbers of whole blocks of one type, in order."""
    blocks = raw.reshape(-1, kind.nbytes)
    numbers = np.empty((len(blocks), kind.numbers), np.float32)
    step = CHUNK // kind.nbytes
    with np.errstate(invalid="ignore"):  # as PyTorch: 0 · inf is NaN, without a word
        for start in range(0, len(blocks), step):
            part = slice(start, start + step)
            numbers[part] = kind.unpack(blocks[part])
    return numbers.reshape(-1)


def _halves(blocks: Bytes, start: int = 0) -> Numbers:
    """Read the half-precision number that starts at this byte of each block."""
    return blocks[:, start : start + 2].view("<f2").astype(np.float32)  # (N, 1)


def _nibbles(packed: Bytes) -> Bytes:
    """Split each byte of the last axis: first all lower halves, then all upper ones."""
    return np.concatenate((packed & 15, packed >> 4), axis=-1)


def _f32(blocks: Bytes) -> Numbers:
    return blocks.view("<f4")


def _bf16(blocks: Bytes) -> Numbers:  # the upper half of a float32
    return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _q8_0(blocks: Bytes) -> Numbers:  # scale, 32 signed bytes
    return _halves(blocks) * blocks[:, 2:].view(np.int8)


def _q4_0(blocks: Bytes) -> Numbers:  # scale, 32 codes of 4 bits, of which 8 means 0
    return _halves(blocks) * (_nibbles(blocks[:, 2:]).astype(np.int8) - np.int8(8))


def _q4_1(blocks: Bytes) -> Numbers:  # scale, minimum, 32 codes of 4 bits
    return _halves(blocks) * _nibbles(blocks[:, 4:]) + _halves(blocks, 2)


def _k_scales(blocks: Bytes) -> tuple[Any, Any]:
    """Return the scale and the offset of each of 8 groups, (N, 8, 1).

    Bytes 4 to 15 hold 8 scales and 8 offsets of 6 bits. The first four of each have a
    byte of their own, whose upper two bits belong to the last four.
    """
    scale, offset, rest = np.split(blocks[:, 4:16], 3, axis=1)  # (N, 4) each
    scales = np.hstack((scale & 63, (rest & 15) | ((scale >> 2) & 48)))
    offsets = np.hstack((offset & 63, (rest >> 4) | ((offset >> 2) & 48)))
    scales, offsets = _halves(blocks) * scales, _halves(blocks, 2) * offsets
    return scales[:, :, None], offsets[:, :, None]


def _k_codes(packed: Bytes) -> Bytes:
    """Return the 4-bit codes of 8 groups, (N, 8, 32): two groups share 32 bytes."""
    return _nibbles(packed.reshape(-1, 4, 32)).reshape(-1, 8, 32)


def _q4_k(blocks: Bytes) -> Numbers:  # see _k_scales, then 256 codes of 4 bits
    scales, offsets = _k_scales(blocks)
    return (scales * _k_codes(blocks[:, 16:]) - offsets).reshape(-1, 256)


def _q5_k(blocks: Bytes) -> Numbers:  # as Q4_K, and a fifth bit of each code
    scales, offsets = _k_scales(blocks)
    groups = np.arange(8, dtype=np.uint8)[:, None]
    fifth = (blocks[:, None, 16:48] >> groups) & 1  # (N, 8, 32): bit g is for group g
    codes = _k_codes(blocks[:, 48:]) | (fifth << 4)
    return (scales * codes - offsets).reshape(-1, 256)


def _q6_k(blocks: Bytes) -> Numbers:  # 4 lower bits, 2 upper ones, scales, one scale
    lower = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 8, 32)
    shifts = np.array([[0], [2], [4], [6]], np.uint8)
    upper = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts) & 3  # (N, 2, 4, 32)
    codes = (lower | (upper.reshape(-1, 8, 32) << 4)).astype(np.int8) - np.int8(32)
    scales = _halves(blocks, 208) * blocks[:, 192:208].view(np.int8)  # (N, 16)
    return (scales[:, :, None] * codes.reshape(-1, 16, 16)).reshape(-1, 256)


# By the number that stands for the type in a file.
BLOCK_TYPES = {
    0: BlockType("F32", 1, 4, _f32),
    1: BlockType("F16", 1, 2, _halves),
    2: BlockType("Q4_0", 32, 18, _q4_0),
    3: BlockType("Q4_1", 32, 20, _q4_1),
    8: BlockType("Q8_0", 32, 34, _q8_0),
    12: BlockType("Q4_K", 256, 144, _q4_k),
    13: BlockType("Q5_K", 256, 176, _q5_k),
    14: BlockType("Q6_K", 256, 210, _q6_k),
    30: BlockType("BF16", 1, 2, _bf16),
}
