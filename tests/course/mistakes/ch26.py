"""The checks of chapter 26: each usual mistake is made, and must be named."""

import numpy as np
import torch

from attention_lib.course.exercises.ch26 import check_crop, check_min_p, check_q4_0


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


blocks, crop, min_p = check_q4_0.made, check_crop.made, check_min_p.made
HALF = "raw[:, :2].copy().view(np.float16).astype(np.float32)"
CODES, HSTACK = "codes.astype(np.float32) - 8", "np.hstack("
KEY, VALUE = "key[:, :length]", "value[:, :length]"
SUM = "kept / kept.sum()"


def by_rows(raw):
    numbers = np.empty((len(raw), 32), np.float32)
    for row, (block, own) in enumerate(zip(raw, numbers, strict=True)):
        scale = float(np.frombuffer(block[:2].tobytes(), "<f2")[0])
        for i, byte in enumerate(block[2:].tolist()):
            own[i], own[i + 16] = scale * (byte % 16 - 8), scale * (byte // 16 - 8)
        assert numbers[row] is not own
    return numbers


def by_torch(raw):
    raw = torch.from_numpy(raw.copy())
    scale = raw[:, :2].contiguous().view(torch.float16).float()
    codes = torch.cat([raw[:, 2:] & 15, raw[:, 2:] >> 4], dim=1)
    return (scale * (codes.float() - 8)).numpy()


def by_narrow(layers, length):
    return {
        layer: tuple(part.narrow(1, 0, length) for part in pair)
        for layer, pair in layers.items()
    }


def by_index(layers, length):
    kept = torch.arange(length)
    return {it: (layers[it][0][:, kept], layers[it][1][:, kept]) for it in (1, 0)}


def by_loop(layers, length):
    made = {}
    for layer in layers:
        key, value = layers[layer]
        made[layer] = [key[:, :length, :], value[:, :length, :]]
    return made


def by_split(layers, length):
    sizes = [length, 5 - length]
    return {it: [part.split(sizes, dim=1)[0] for part in layers[it]] for it in layers}


def by_removal(layers, length):
    made = dict(layers)
    for layer, (key, value) in layers.items():
        made[layer] = key[:, : length - 5 or None], value[:, : length - 5 or None]
    return made


def by_where(logits, share):
    p = logits.softmax(0)
    p = torch.where(p < share * p.max(), 0.0, p)
    return p / p.sum()


def by_clone(logits, share):
    p = torch.softmax(logits, dim=0).clone()
    p[p < p.max() * share] = 0
    return p / p.sum()


def by_exponentials(logits, share):
    powers = (logits - logits.max()).exp()  # the largest is 1
    powers = powers * (powers >= share)
    return powers / powers.sum()


def in_float64(logits, share):
    return min_p()(logits.double(), share)


def by_numpy(logits, share):
    powers = np.exp(logits.numpy() - logits.numpy().max())
    powers[powers < share] = 0
    return torch.from_numpy(powers / powers.sum())


def by_normalize(logits, share):
    p = logits.softmax(-1)
    return torch.nn.functional.normalize(p * (p >= share * p.max()), p=1, dim=-1)


def by_topk(logits, share):
    p, order = logits.softmax(-1).sort(descending=True)
    p = p * (p >= share * p[0])
    return torch.zeros_like(p).scatter(0, order, p / p.sum())


RIGHT = {
    "q4_0": [
        by_signed_bytes,
        by_rows,
        by_torch,
        blocks("np.float16", "'<f2'"),
        blocks(HALF, "np.ascontiguousarray(raw[:, :2]).view('<f2').astype('f4')"),
        blocks("raw[:, 2:] & 15", "raw[:, 2:] % 16"),
        blocks("raw[:, 2:] >> 4", "raw[:, 2:] // 16"),
        blocks(CODES, "codes.astype(int) - 8"),
        blocks(HSTACK, "np.concatenate(", "raw[:, 2:] >> 4]", "raw[:, 2:] >> 4], 1"),
    ],
    "crop": [
        by_clones,
        by_narrow,
        by_index,
        by_loop,
        by_split,
        by_removal,
        crop(
            "(key[:, :length], value[:, :length])",
            "[key[:, :length], value[:, :length]]",
        ),
        crop(KEY, "key[..., :length, :]"),
        crop(VALUE, "value[:, 0:length].contiguous()"),
    ],
    "min_p": [
        by_minus_infinity,
        by_where,
        by_clone,
        by_exponentials,
        in_float64,
        by_numpy,
        by_normalize,
        by_topk,
        min_p("logits.softmax(-1)", "torch.softmax(logits, 0)"),
    ],
}
MISTAKES = {
    "q4_0": [
        (blocks(CODES, "codes.astype(np.float32) - 7"), "look at [0, "),
        (blocks("raw[:, :2]", "raw[:, 2:4]"), "look at [0, "),
        (blocks("& 15", "& 7"), "look at [0, "),
        (blocks("scale * (", "(", " - 8)", " - 8) * 1.0"), "look at [0, "),
        (blocks("return scale", "return -scale"), "look at [0, "),
        (
            blocks("return scale * (codes.astype(np.float32) - 8)", "return codes"),
            "look at [0, ",
        ),
    ],
    "crop": [
        (in_place, "Your code changes its input: work on a copy."),
        (keep_all_at_0, "It fails where no token is kept: "),
        (crop(KEY, "key"), "The shape must be (72,)"),
        (crop(KEY, "key[:, : length + 1]"), "The shape must be (72,)"),
        (crop(KEY, "key[:, :length].flatten()"), "Keys and values keep three axes"),
        (crop(KEY, "key[None, :, :length]"), "Keys and values keep three axes"),
        (lambda layers, length: {0: layers[0]}, "The shape must be (72,)"),
    ],
    "min_p": [
        (min_p(SUM, "kept.softmax(-1)"), "look at ["),
        (min_p("logits.softmax(-1)", "logits.sigmoid()"), "look at ["),
        (lambda logits, share: logits.softmax(-1), "look at ["),
        (min_p("probabilities.max()", "probabilities.mean()"), "look at ["),
        (min_p(SUM, "kept / kept.max()"), "look at ["),
        (lambda logits, share: (logits.softmax(-1) >= share).float(), "look at ["),
    ],
}
