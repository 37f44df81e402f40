"""The checks of chapter 7: each usual mistake is made, and must be named."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from attention_lib import ModelConfig, SlidingWindowDataset, TinyLM

WORDS, PLACES, LAST_NORM = 32_000, 2_048, 64
ATTENTION, MLP, NORMS = 4_128, 8_352, 128
BLOCK = ATTENTION + MLP + NORMS
ALL = 2 * WORDS + PLACES + 2 * BLOCK + LAST_NORM
ENTROPY = math.log(8) + math.log(2) + math.log(6) / 2


# What readers write. Each function is named in MISTAKES with the words it must meet.


def windows(more=1, start=0, stride=None, then=lambda made, ids, length: made):
    """Cuts windows of ``length + more``, with one step another."""

    def answer(token_ids, length, step):
        step = (stride or (lambda length, step: step))(length, step)
        made, at = [], start
        while True:
            made.append(token_ids[at : at + length + more])
            if at + length + more >= len(token_ids):
                return then(made, token_ids, length)
            at += step

    return answer


def full_ones_only(made, token_ids, length):
    return [window for window in made if len(window) == len(made[0])]


def one_for_each_start(token_ids, length, stride):
    starts = range(0, len(token_ids) - 1, stride)
    return [token_ids[at : at + length + 1] for at in starts]


def one_too_many(made, token_ids, length):
    return [*made, token_ids[-1:]]


def moved_back(made, token_ids, length):
    return [*made[:-1], token_ids[-length - 1 :]]


def filled_up(made, token_ids, length):
    return [F.pad(window, (0, length + 1 - len(window))) for window in made]


def pairs(made, token_ids, length):
    return [(window[:-1], window[1:]) for window in made]


def places(made, token_ids, length):
    return [torch.isin(token_ids, window).nonzero()[:, 0] for window in made]


def without_last(made, token_ids, length):
    return made[:-1]


def as_the_stride(length, stride):
    return length if stride < length else stride


def with_change(made, token_ids, length):
    made = [window.clone() for window in made]
    token_ids[0] = 0
    return made


def only_where(count, otherwise):
    """Right but for texts of so many tokens."""

    def answer(token_ids, length, stride):
        chosen = otherwise if len(token_ids) == count else windows()
        return chosen(token_ids, length, stride)

    return answer


def broken(*inputs):
    raise ValueError


MISTAKES = {
    "windows": [
        (windows(more=0), "nobody's target: 4 targets need 5 tokens"),
        (windows(stride=lambda length, _: length + 1), "neighbours share a tok"),
        (
            windows(stride=lambda length, _: length + 1, then=full_ones_only),
            "neighbours share a token",
        ),
        (windows(more=2), "Some targets stand in two windows"),
        (windows(start=1), "The first token is lost: the targets are shifted"),
        (windows(start=1, then=full_ones_only), "The first token is lost, and so is"),
        (windows(more=0, start=1), "These are the targets"),
        (windows(stride=lambda *_: 1), "A window starts at every token: use"),
        (windows(then=one_too_many), "holds one token: it has no target"),
        (windows(then=without_last), "is missing, though it is full"),
        (windows(then=places), "the places of the tokens: their ids"),
        (windows(then=pairs), "Inputs and targets are cut out of it later"),
        (lambda ids, length, stride: 3, "a int, not a list of windows"),
        (lambda ids, length, stride: [ids[:5], ids[5:]], "Window 1 is not righ"),
        (lambda *given: windows()(*given)[:1], "There must be 3 windows here"),
        (windows(then=full_ones_only), "For 11, length and stride 4: the la"),
        (windows(then=moved_back), "the last window was moved back"),
        (windows(then=filled_up), "the last window was filled up"),
        (windows(stride=as_the_stride), "the stride is not used: the next"),
        (lambda ids, length, stride: windows()(ids, 4, stride), "these windows hold 5"),
        (one_for_each_start, "stop once the last token is in"),
        (only_where(10, windows(then=without_last)), "3, stride 2: the last window is"),
        (windows(then=with_change), "Your code changes the ids"),
        (only_where(11, lambda *_: None), "your code gives nothing back"),
        (only_where(10, broken), "stride 2: Your code raised ValueError in"),
    ],
    "model_parameters": [
        (ALL - WORDS, "One table of 1,000 words is missing"),
        (ALL - PLACES, "The places are missing"),
        (ALL - WORDS - PLACES, "and one of the two tables"),
        (ALL - LAST_NORM, "64 are missing: the last norm, or"),
        (ALL - LAST_NORM - 2 * 32, "The last norm and the biases"),
        (ALL - 2 * 160, "320 are missing: the five norms, or"),
        (ALL - 2 * 192, "384 are missing: all biases, or"),
        (ALL - 2 * 192 - 320, "All biases and all norms are missing"),
        (ALL - 2 * NORMS, "The norms inside the blocks are missing"),
        (ALL - 5 * 32, "a scale and a shift"),
        (ALL + 2 * 96, "keys and values have no bias here"),
        (ALL + 1000, "The head has no bias"),
        (ALL - BLOCK, "There are two blocks"),
        (ALL + 2 * 3 * ATTENTION, "Four heads share out the width"),
        (ALL - 2 * (MLP - 2_112), "The MLP is four times as wide"),
        (2 * WORDS, "Those are the words alone"),
        (2 * BLOCK, "Those are the blocks alone"),
        (BLOCK, "That is one block"),
        (7, "Not that many: list the parts"),
    ],
    "entropy": [
        (3 + 1 + math.log2(6) / 2, "These are bits"),
        (math.log(8) + math.log(6) / 2, "Whether there is a verb is a choice"),
        (math.log(8 * 2 * 6), "Only half of the texts have a verb: its"),
        (math.log(8) + math.log(6), "a text that always has a verb"),
        (math.log(8 * 2**0.5 * 6**0.5), "−p ln p of both"),
        (math.log(8 * 2**0.5 * 6), "two outcomes, and only half"),
        (math.log(56), "There are 56 texts, but not all are as probable"),
        (math.log(2 * 6**0.5), "Is the name left out"),
        (math.log(16), "Which verb it is must be drawn, too"),
        (math.log(8), "That is the name alone"),
        (math.exp(ENTROPY), "That is e to the entropy"),
        (ENTROPY / 1.5, "That is the entropy a word"),
        (1, "Not that: add up the entropies"),
        (-1, "above 0, not -1"),
    ],
}


# What is right, in the book's way and in others.


def windows_as_lists(token_ids, length, stride):
    return [window.tolist() for window in windows()(token_ids, length, stride)]


def windows_of_the_library(token_ids, length, stride):
    return list(SlidingWindowDataset(token_ids, length, stride))


def windows_as_arrays(token_ids, length, stride):
    return [window.numpy() for window in windows()(token_ids, length, stride)]


def windows_as_tuples(token_ids, length, stride):
    return tuple(map(tuple, windows()(token_ids, length, stride)))


def parameters_of_the_library():
    config = ModelConfig(
        vocab_size=1000, context_len=64, d_model=32, num_heads=4, num_layers=2
    )
    return sum(p.numel() for p in TinyLM(config).parameters())


def entropy_by_texts():
    """The mean of -ln p over all 8 + 48 texts."""
    texts = [1 / 16] * 8 + [1 / 96] * 48
    return -sum(p * math.log(p) for p in texts)


RIGHT = {
    "windows": [
        windows(),
        windows_of_the_library,
        windows_as_lists,
        windows_as_arrays,
        windows_as_tuples,
    ],
    "model_parameters": [
        ALL,
        parameters_of_the_library(),
        torch.tensor(91_328),
    ],
    "entropy": [
        ENTROPY,
        entropy_by_texts(),
        np.float32(3.67),
    ],
}
