"""The checks of chapter 7: each usual mistake is made, and must be named."""

import math
from functools import partial

import numpy as np
import torch

from attention_lib import (
    ModelConfig,
    SlidingWindowDataset,
    TinyBlock,
    TinyLM,
    causal_mask,
    sinusoidal_positions,
)
from attention_lib.course.exercises.ch07 import UNTIL_LAST, check_windows
from tests.answers import as_numbers, broken, solution

WORDS, POSITIONS, LAST_NORM = 32_000, 2_048, 64
ATTENTION, MLP, NORMS = 4_128, 8_352, 128
BLOCK = ATTENTION + MLP + NORMS
ALL = 2 * WORDS + POSITIONS + 2 * BLOCK + LAST_NORM
ENTROPY = math.log(8) + math.log(2) + math.log(6) / 2


# What readers write: each solution, and below it with pieces of its text replaced.

windows = check_windows.made
ROWS = "[token_ids[start : start + length + 1] for start in starts]"


def then(formula):
    """Windows, and one step more."""
    return windows(f"return {ROWS}", f"made = {ROWS}\n    return {formula}")


def each_as(formula):
    """Windows of another kind: a formula of each, of w."""
    return then(f"[{formula} for w in made]")


def only_where(count, otherwise):
    """Right but for texts of so many tokens."""

    def answer(token_ids, length, stride):
        chosen = otherwise if len(token_ids) == count else windows()
        return chosen(token_ids, length, stride)

    return answer


own = {"TinyBlock": TinyBlock, "causal_mask": causal_mask}
own |= {"sinusoidal_positions": sinusoidal_positions}
built = partial(solution, **own)("""
class Model(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers):
        super().__init__()
        sizes = d_model, num_heads
        self.table = nn.Parameter(torch.randn(vocab_size, d_model))
        self.blocks = nn.ModuleList([TinyBlock(*sizes) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)

    def forward(self, ids):
        x = self.table[ids]
        x = x + sinusoidal_positions(*x.shape[1:])
        for block in self.blocks:
            x = block(x, causal=True)
        return self.norm(x) @ self.table.T
""")
HEAD, RUN = "self.norm(x) @ self.table.T", "block(x, causal=True)"
TABLE, NORM = "sinusoidal_positions(*x.shape[1:])", "self.norm = nn.LayerNorm(d_model)"
FIRST, BARE = "self.norm(self.table[ids])", "F.layer_norm(x, x.shape[-1:])"
OTHER = "nn.Linear(d_model, vocab_size, bias=False)"


def owning(part, *pieces):
    """A model with one thing more, ``self.more``."""
    return built("self.norm = ", f"self.more = {part}\n        self.norm = ", *pieces)


MISTAKES = {
    "windows": [
        (each_as("(w[:-1], w[1:])"), "Inputs and targets are cut out of it later"),
        (lambda ids, length, stride: 3, "a int, not a list of windows"),
        (lambda ids, length, stride: [ids[:5], ids[5:]], "Window 1 is not righ"),
        (lambda *given: windows()(*given)[:1], "There must be 3 windows here"),
        (only_where(10, then("made[:-2]")), "3, stride 2: The last window is"),
        (then("[[w.clone() for w in made], token_ids.zero_()][0]"), "changes the ids"),
        (only_where(11, lambda *_: None), "your code gives nothing back"),
        (only_where(10, broken), "stride 2: Your code raised ValueError in"),
    ],
    "language_model": [
        (built(HEAD, f"{HEAD}, 0"), "Your forward returns a tuple"),
        (built(" @ self.table.T", ""), "shape (2, 7, 11) here; yours have (2, 7, 8)"),
        (built(HEAD, f"({HEAD}).mT"), "yours have (2, 11, 7)"),
        (built(TABLE, "sinusoidal_positions(16, 8)[: x.shape[1]]"), "40 of them: Your"),
        (
            built(TABLE, "sinusoidal_positions(1024, 8)[: x.shape[1]]"),
            "1,120 of them: ",
        ),
        (built("return", "x = x if len(x[0]) < 9 else x[0]\n        return"), "40 of"),
        (built("nn.ModuleList", ""), "a plain list hides its blocks"),
        (built("range(num_layers", "range(num_layers - 1"), "3 blocks are wanted here"),
        (
            built("(*sizes) for _ in range(num_layers)]", "(*sizes)] * num_layers"),
            "PyTorch finds 1: each must be built on its",
        ),
        (built(RUN, "x"), "Each block must run once"),
        (built(RUN, f"block({RUN}, causal=True)"), "Each block must run once"),
        (built(RUN, "block(x)"), "A position sees the future"),
        (built(RUN, "block(x, causal_mask(len(x[0])).T)"), "A position sees the futu"),
        (built(RUN, "block(x, torch.eye(len(x[0])) > 0)"), "The last position does n"),
        (built(TABLE, "0"), "The first block reads the same vector at each"),
        (built(TABLE, f"{TABLE}.flip(0)"), "The positions are not the sinusoids"),
        (built(TABLE, "torch.arange(len(x[0]))[:, None]"), "The positions are not th"),
        (built("self.norm(x)", "x"), "The last norm is missing"),
        (built("self.norm(x)", "x", "self.table[ids]", FIRST), "is not between"),
        (built("table.T", "table.T.detach()"), "Nothing that a gradient reaches ser"),
        (owning(OTHER, HEAD, "self.more(self.norm(x))"), "The head has a matrix of"),
        (owning("nn.Parameter(torch.ones(vocab_size))"), "The head has a bias"),
        (owning("nn.Embedding(64, d_model)"), "There are 512 parameters more than the"),
        (built(HEAD, f"({HEAD}).softmax(-1)"), "is there a softmax, which"),
        (built("return", "return -"), "The logits are not the last norm's"),
        (built(RUN, f"x + {RUN}"), "unchanged"),
        (built("(*sizes)", '(*sizes, norm="post")'), "must be those of ShortLM"),
        (built(NORM, "pass", "self.norm(x)", BARE), "There are 16 parameters fewer"),
    ],
    "model_parameters": [
        (7, "That is not the number: list the parts"),
    ],
    "entropy": [
        (1, "not the number: add up the entropies"),
    ],
}


# What is right, in the book's way and in others.


def windows_by_recursion(token_ids, length, stride):
    rest = token_ids[stride:]
    more = windows_by_recursion(rest, length, stride) if len(rest) > 1 else []
    return [token_ids[: length + 1], *more]


MODEL = TinyLM(ModelConfig(1000, 64, 32, num_heads=4, num_layers=2))
RIGHT = {
    "windows": [
        windows(*UNTIL_LAST),
        lambda *given: list(SlidingWindowDataset(*given)),
        windows_by_recursion,
        each_as("w.tolist()"),
        each_as("w.numpy()"),
        then("tuple(map(tuple, made))"),
        windows("in starts", "in sorted(starts)"),
        lambda *given: [window.clone() for window in windows()(*given)],
        lambda *given: np.array(windows()(*given), dtype=object),
    ],
    "language_model": [
        built(),
        built(  # as PyTorch's users do
            "self.table = nn.Parameter(torch.randn(vocab_size, d_model))",
            f"self.words, self.head = nn.Embedding(vocab_size, d_model), {OTHER}\n"
            "        self.head.weight = self.words.weight",
            *("self.table[ids]", "self.words(ids)", HEAD, "self.head(self.norm(x))"),
        ),
        owning("sinusoidal_positions(2048, d_model)", TABLE, "self.more[: x.shape[1]]"),
        built(
            *("nn.ModuleList([", "nn.ModuleDict({str(i): "),
            *("for _ in range(num_layers)]", "for i in range(num_layers)}"),
            *("block in self.blocks", "block in self.blocks.values()"),
        ),
        built(HEAD, "F.linear(self.norm(x), self.table)"),
        built(HEAD, "torch.einsum('btm,vm->btv', self.norm(x), self.table)"),
        built("self.table[ids]", "F.embedding(ids, self.table)"),
        built("self.table[ids]", "F.one_hot(ids, 11).to(self.table) @ self.table"),
        built("self.table[ids]", "self.table[ids] * 8**0.5"),
        built(RUN, "block(x, causal_mask(x.shape[1]))"),
        built(RUN, "block(x, mask=causal_mask(x.shape[1])[None])"),
        built(TABLE, f"{TABLE}[None]"),
        built("ModuleList([", "Sequential(*["),
        built(HEAD, f"{HEAD} / 8**0.5"),
        built(HEAD, f"({HEAD}).log_softmax(-1)"),
        owning("nn.Dropout(0.1)", "(*sizes)", "(*sizes, dropout=0.1)"),
    ],
    "model_parameters": [
        ALL,
        sum(p.numel() for p in MODEL.parameters()),
        *as_numbers(91_328),
        2 * (32_000 + 12_608) + 2_048 + 64,
    ],
    "entropy": [
        ENTROPY,
        -sum(p * math.log(p) for p in [1 / 16] * 8 + [1 / 96] * 48),  # by texts
        *(3.67, 3.668, np.float32(3.67), np.float64(ENTROPY), np.array(ENTROPY)),
        torch.tensor(ENTROPY),
        math.log(16 * 6**0.5),
        (math.log(16) + math.log(96)) / 2,
    ],
}
