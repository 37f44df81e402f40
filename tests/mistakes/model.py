"""The checks of chapter 7: each usual mistake is made, and must be named."""

import math
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attention_lib import (
    ModelConfig,
    SlidingWindowDataset,
    TinyBlock,
    TinyLM,
    causal_mask,
    sinusoidal_positions,
)

WORDS, POSITIONS, LAST_NORM = 32_000, 2_048, 64
ATTENTION, MLP, NORMS = 4_128, 8_352, 128
BLOCK = ATTENTION + MLP + NORMS
ALL = 2 * WORDS + POSITIONS + 2 * BLOCK + LAST_NORM
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


def until_nothing_is_left(token_ids, length, stride):
    starts = range(0, len(token_ids) + 1, stride)
    return [token_ids[at : at + length + 1] for at in starts]


def one_too_many(made, token_ids, length):
    return [*made, token_ids[-1:]]


def moved_back(made, token_ids, length):
    return [*made[:-1], token_ids[-length - 1 :]]


def filled_up(made, token_ids, length):
    return [F.pad(window, (0, length + 1 - len(window))) for window in made]


def pairs(made, token_ids, length):
    return [(window[:-1], window[1:]) for window in made]


def positions(made, token_ids, length):
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


def built(
    embed=lambda self, ids: F.embedding(ids, self.table),
    positions=lambda x: x + sinusoidal_positions(x.shape[1], x.shape[2]),
    blocks=lambda count, make: nn.ModuleList(make() for _ in range(count)),
    run=lambda block, x: block(x, causal=True),
    head=lambda self, x: x @ self.table.T,
    extra=lambda *sizes: None,
    norm=True,
    then=lambda logits: logits,
    make=TinyBlock,
):
    """A model of exercise 7.4, with one part another."""

    class Model(nn.Module):
        def __init__(self, vocab_size, d_model, num_heads, num_layers):
            super().__init__()
            self.table = nn.Parameter(torch.randn(vocab_size, d_model))
            self.blocks = blocks(num_layers, lambda: make(d_model, num_heads))
            self.last_norm = nn.LayerNorm(d_model)
            self.extra = extra(vocab_size, d_model)

        def forward(self, ids):
            x = positions(embed(self, ids))
            for block in self.blocks:
                x = run(block, x)
            x = self.last_norm(x) if norm else x
            return then(head(self, x))

    return Model


class FirstNorm(built()):
    def forward(self, ids):
        x = self.last_norm(F.embedding(ids, self.table))
        x = x + sinusoidal_positions(ids.shape[1], x.shape[2])
        for block in self.blocks:
            x = block(x, causal=True)
        return x @ self.table.T


class LastNormOfItsOwn(built()):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.last_norm = None

    def forward(self, ids):
        x = F.embedding(ids, self.table)
        x = x + sinusoidal_positions(ids.shape[1], x.shape[2])
        for block in self.blocks:
            x = block(x, causal=True)
        return F.layer_norm(x, x.shape[-1:]) @ self.table.T


class Usual(nn.Module):
    """``nn.Embedding``, blocks by name, a head that shares its weight."""

    def __init__(self, vocab_size, d_model, num_heads, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        table = sinusoidal_positions(128, d_model)
        self.register_buffer("positions", table, persistent=False)
        self.blocks = nn.ModuleDict(
            {f"block{i}": TinyBlock(d_model, num_heads) for i in range(num_layers)}
        )
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids) + self.positions[: ids.shape[1]]
        for block in self.blocks.values():
            x = block(x=x, causal=True)
        return self.head(self.norm(x))


def short_table(x):
    return x + sinusoidal_positions(16, x.shape[2])[: x.shape[1]]


def one_short(count, make):
    return nn.ModuleList(make() for _ in range(count - 1))


def the_same_again(count, make):
    return nn.ModuleList([make()] * count)


def itself_only(block, x):
    return block(x, torch.eye(x.shape[1], dtype=torch.bool))


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
        (windows(then=positions), "the positions of the tokens: their ids"),
        (windows(then=pairs), "Inputs and targets are cut out of it later"),
        (lambda ids, length, stride: 3, "a int, not a list of windows"),
        (lambda ids, length, stride: [ids[:5], ids[5:]], "Window 1 is not righ"),
        (lambda *given: windows()(*given)[:1], "There must be 3 windows here"),
        (windows(then=full_ones_only), "For 11, length and stride 4: the la"),
        (windows(then=moved_back), "the last window was moved back"),
        (windows(then=filled_up), "the last window was filled up"),
        (windows(stride=as_the_stride), "the stride is not used: the next"),
        (lambda ids, length, stride: windows()(ids, 4, stride), "these windows hold 5"),
        (until_nothing_is_left, "The last window holds one token"),
        (only_where(10, until_nothing_is_left), "stride 2: the last window is empty"),
        (only_where(10, windows(then=without_last)), "3, stride 2: the last window is"),
        (windows(then=with_change), "Your code changes the ids"),
        (only_where(11, lambda *_: None), "your code gives nothing back"),
        (only_where(10, broken), "stride 2: Your code raised ValueError in"),
    ],
    "language_model": [
        (lambda *sizes: "text", "Your function returns a str: it must be a module"),
        (built(then=lambda logits: (logits, 0)), "Your forward returns a tuple"),
        (built(head=lambda self, x: x), "shape (2, 7, 11) here; yours have (2, 7, 8)"),
        (built(then=lambda logits: logits.mT), "yours have (2, 11, 7)"),
        (built(positions=short_table), "For 40 of them: Your code raised "),
        (
            built(then=lambda y: y if y.shape[1] == 7 else y[0]),
            "For 40 of them: The logits must have",
        ),
        (
            built(blocks=lambda count, make: [make() for _ in range(count)]),
            "a plain list hides its blocks",
        ),
        (built(blocks=one_short), "3 blocks are wanted here, PyTorch finds 2"),
        (built(blocks=the_same_again), "PyTorch finds 1: each must be built on its"),
        (built(run=lambda block, x: x), "Each block must run once"),
        (
            built(run=lambda block, x: block(block(x, causal=True), causal=True)),
            "Each block must run once",
        ),
        (built(run=lambda block, x: block(x)), "A position sees the future"),
        (
            built(run=lambda block, x: block(x, causal_mask(x.shape[1]).T)),
            "A position sees the future",
        ),
        (built(run=itself_only), "The last position does not see the first"),
        (built(positions=lambda x: x), "The first block reads the same vector at each"),
        (
            built(positions=lambda x: x + sinusoidal_positions(*x.shape[1:]).flip(0)),
            "The positions are not the sinusoids",
        ),
        (
            built(positions=lambda x: x + torch.arange(x.shape[1])[:, None]),
            "The positions are not the sinusoids",
        ),
        (built(norm=False), "The last norm is missing"),
        (FirstNorm, "does not stand between blocks and head"),
        (
            built(head=lambda self, x: x @ self.table.T.detach()),
            "Nothing that a gradient reaches serves as the head's matrix",
        ),
        (
            built(
                extra=lambda vocab_size, d_model: nn.Linear(d_model, vocab_size, False),
                head=lambda self, x: self.extra(x),
            ),
            "The head has a matrix of its own",
        ),
        (
            built(extra=lambda vocab_size, _: nn.Parameter(torch.ones(vocab_size))),
            "The head has a bias",
        ),
        (
            built(extra=lambda _, d_model: nn.Embedding(64, d_model)),
            "There are 512 parameters more than the embedding",
        ),
        (built(then=lambda logits: logits.softmax(-1)), "is there a softmax, which"),
        (built(then=lambda logits: -logits), "The logits are not the last norm's"),
        (built(run=lambda block, x: x + block(x, causal=True)), "unchanged"),
        (built(make=partial(TinyBlock, norm="post")), "must be those of ShortLM"),
        (LastNormOfItsOwn, "There are 16 parameters fewer than the embedding"),
    ],
    "model_parameters": [
        (ALL - WORDS, "One table of 1,000 words is missing"),
        (ALL - POSITIONS, "The positions are missing"),
        (ALL - WORDS - POSITIONS, "and one of the two tables"),
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
        (ALL + 2 * 3 * ATTENTION, "Four heads share the width"),
        (ALL - 2 * (MLP - 2_112), "the MLP is four times as wide"),
        (2 * WORDS, "Those are the words alone"),
        (2 * BLOCK, "Those are the blocks alone"),
        (BLOCK, "That is one block"),
        (7, "That is not the number: list the parts"),
    ],
    "entropy": [
        (3 + 1 + math.log2(6) / 2, "These are bits"),
        (math.log(8) + math.log(6) / 2, "Whether there is a verb is a choice"),
        (math.log(8 * 2 * 6), "Only half of the texts have a verb: multiply"),
        (math.log(8) + math.log(6), "a text that always has a verb"),
        (math.log(8 * 2**0.5 * 6**0.5), "−p ln p of both"),
        (math.log(8 * 2**0.5 * 6), "two outcomes, and only half"),
        (math.log(56), "There are 56 texts, but not all are as probable"),
        (math.log(2 * 6**0.5), "Is the name left out"),
        (math.log(16), "Which verb it is must be drawn, too"),
        (math.log(8), "That is the name alone"),
        (math.exp(ENTROPY), "That is e to the entropy"),
        (ENTROPY / 1.5, "That is the entropy per word"),
        (1, "not the number: add up the entropies"),
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


def windows_by_chunks(token_ids, length, stride):
    count = math.ceil((len(token_ids) - 1) / stride)
    return [token_ids[i * stride :][: length + 1] for i in range(count)]


def windows_by_recursion(token_ids, length, stride):
    rest = token_ids[stride:]
    more = windows_by_recursion(rest, length, stride) if len(rest) > 1 else []
    return [token_ids[: length + 1], *more]


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
        one_for_each_start,
        windows_by_chunks,
        windows_by_recursion,
        lambda *given: [window.clone() for window in one_for_each_start(*given)],
        lambda *given: np.array(one_for_each_start(*given), dtype=object),
    ],
    "language_model": [
        built(),
        Usual,
        built(head=lambda self, x: F.linear(x, self.table)),
        built(head=lambda self, x: torch.einsum("btm,vm->btv", x, self.table)),
        built(embed=lambda self, ids: self.table[ids]),
        built(embed=lambda self, ids: F.one_hot(ids, 11).to(self.table) @ self.table),
        built(embed=lambda self, ids: self.table[ids] * 8**0.5),
        built(run=lambda block, x: block(x, causal_mask(x.shape[1]))),
        built(run=lambda block, x: block(x, mask=causal_mask(x.shape[1])[None])),
        built(positions=lambda x: x + sinusoidal_positions(*x.shape[1:])[None]),
        built(
            blocks=lambda count, make: nn.Sequential(*(make() for _ in range(count)))
        ),
        built(then=lambda logits: logits / 8**0.5),
        built(then=lambda logits: logits.log_softmax(-1)),
        built(extra=lambda *_: nn.Dropout(0.1), make=partial(TinyBlock, dropout=0.1)),
    ],
    "model_parameters": [
        ALL,
        parameters_of_the_library(),
        *(91_328, 91_328.0, np.int64(91_328), np.float32(91_328)),
        *(torch.tensor(91_328), torch.tensor(91_328.0), np.array(91_328)),
        2 * (32_000 + 12_608) + 2_048 + 64,
    ],
    "entropy": [
        ENTROPY,
        entropy_by_texts(),
        *(3.67, 3.668, np.float32(3.67), np.float64(ENTROPY), np.array(ENTROPY)),
        torch.tensor(ENTROPY),
        math.log(16 * 6**0.5),
        (math.log(16) + math.log(96)) / 2,
    ],
}
