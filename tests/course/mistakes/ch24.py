"""The checks of chapter 24: each usual mistake is made, and must be named."""

import numpy as np
import torch

from attention_lib.course.exercises.ch24 import check_crop, check_min_p, check_q4_0


def by_signed_bytes(raw):
    scale = raw[:, :2].copy().view("<f2").astype(np.float32)
    lower, upper = raw[:, 2:] & 15, raw[:, 2:] // 16
    codes = np.concatenate([lower, upper], axis=1).astype(np.int8) - 8
    return (scale * codes).astype(np.float32)


def by_clones(layers, length):
    return {it: [part[:, :length].clone() for part in layers[it]] for it in layers}


def in_place(layers, length):
    for layer, (key, value) in layers.items():
        layers[layer] = key[:, :length], value[:, :length]
    return layers


def keep_all_at_0(layers, length):
    return check_crop.made()(layers, length or 5)


def by_minus_infinity(logits, share):
    low = logits < logits.max() + torch.tensor(share).log()
    return logits.masked_fill(low, -torch.inf).softmax(-1)


RIGHT = {
    "q4_0": [check_q4_0.made(), by_signed_bytes],
    "crop": [check_crop.made(), by_clones],
    "min_p": [check_min_p.made(), by_minus_infinity],
}
MISTAKES = {
    "crop": [
        (in_place, "Your code changes its input: work on a copy."),
        (keep_all_at_0, "It fails where no token is kept: "),
    ],
}
