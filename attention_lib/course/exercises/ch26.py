"""Exercises of chapter 26: another type of block, a cropped cache, another sampler."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attention_lib.course.exercises.exercise import Exercise, slip
from attention_lib.course.exercises.verdict import Stop
from attention_lib.reproducibility import seeded


def _blocks(count: int) -> tuple[np.ndarray]:
    """Draw blocks of Q4_0, as bytes (N, 18)."""
    drawn = torch.randint(0, 256, (count, 18), generator=seeded(0)).numpy()
    raw = drawn.astype(np.uint8)
    scales = np.linspace(0.25, 2, count, dtype=np.float16)
    raw[:, :2] = scales.view(np.uint8).reshape(-1, 2)
    return (raw,)


CODES = "np.hstack([raw[:, 2:] & 15, raw[:, 2:] >> 4])"
check_q4_0 = Exercise(
    solution="""
def my_q4_0(raw):
    scale = raw[:, :2].copy().view(np.float16).astype(np.float32)
    codes = np.hstack([raw[:, 2:] & 15, raw[:, 2:] >> 4])
    return scale * (codes.astype(np.float32) - 8)
""",
    names={"np": np},
    cases=[((3,), ""), ((1,), "")],
    inputs=_blocks,
    slips=[
        slip("Code 8 means 0: subtract 8 from each code.", " - 8)", ")"),
        slip("Bytes have no sign, so 3 - 8 becomes 251: make floats of them first.",
             "codes.astype(np.float32) - 8", "codes - np.uint8(8)"),
        slip("The lower halves of the bytes come first.", CODES,
             "np.hstack([raw[:, 2:] >> 4, raw[:, 2:] & 15])"),
        slip("The two codes of a byte are 16 numbers apart, not side by side.", CODES,
             "np.stack([raw[:, 2:] & 15, raw[:, 2:] >> 4], 2).reshape(-1, 32)"),
    ],
    praise="32 numbers from 18 bytes: 4.5 bits for each.",
)  # fmt: skip


def _layers(length: int) -> tuple[dict[int, tuple[Tensor, Tensor]], int]:
    """Draw a cache of two layers with 5 tokens, and a length to keep."""
    drawn = torch.randn(4, 2, 5, 3, generator=seeded(0))
    return {0: (drawn[0], drawn[1]), 1: (drawn[2], drawn[3])}, length


def _cropped(answer: Any, layers: Any, length: int) -> Any:
    """Let an answer crop, and return all numbers that it keeps, in one row."""
    kept = answer(layers, length)
    if not isinstance(kept, dict):
        return kept
    shapes = {tuple(part.shape[:-2]) for it in kept.values() for part in it}
    if shapes - {(2,)}:
        raise Stop("Keys and values keep three axes: heads, tokens, numbers.")
    return torch.cat([part.flatten() for it in sorted(kept) for part in kept[it]])


check_crop = Exercise(
    solution="""
def my_crop(layers, length):
    return {
        layer: (key[:, :length], value[:, :length])
        for layer, (key, value) in layers.items()
    }
""",
    cases=[((3,), ""), ((1,), ""), ((0,), "It fails where no token is kept: ")],
    inputs=_layers,
    use=_cropped,
    slips=[
        slip("These are the last tokens: keep the first ones.",
             "key[:, :length], value[:, :length]",
             "key[:, 5 - length :], value[:, 5 - length :]"),
        slip("The values are still those of all tokens.", "value[:, :length]", "value"),
        slip("The first axis is the head: tokens are along the second.",
             "key[:, :length], value[:, :length]", "key[:length], value[:length]"),
        slip("This removes so many tokens: keep so many.",
             "key[:, :length], value[:, :length]",
             "key[:, : 5 - length], value[:, : 5 - length]"),
    ],
    praise="The first tokens stay: guesses that were wrong are gone.",
)  # fmt: skip


KEPT = "probabilities >= share * probabilities.max()"
check_min_p = Exercise(
    solution="""
def my_min_p(logits, share):
    probabilities = logits.softmax(-1)
    kept = probabilities * (probabilities >= share * probabilities.max())
    return kept / kept.sum()
""",
    cases=[((0.2,), ""), ((0.5,), ""), ((0.0,), "With a share of 0, all stay: ")],
    inputs=lambda share: (2 * torch.randn(8, generator=seeded(3)), share),
    slips=[
        slip("The probabilities that stay must sum to 1 again.", "kept / kept.sum()",
             "kept"),
        slip("`share` is a share of the largest probability, not a probability.", KEPT,
             "probabilities >= share"),
        slip("Compare probabilities, not logits.", KEPT,
             "logits >= share * logits.max()"),
        slip("This keeps the improbable ones.", KEPT,
             "probabilities <= share * probabilities.max()"),
    ],
    praise="Where the model is sure, few tokens stay; where it is not, many.",
)  # fmt: skip
