"""The checks of chapter 17: each usual mistake is made, and must be named."""

from typing import ClassVar

import numpy as np
import torch

from attention_lib.course.exercises import ch17
from attention_lib.linear_attention import delta_step, gated_delta_rule
from tests.answers import as_numbers

kept, memory = ch17.check_kept_positions.made, ch17.check_delta_memory.made


class Steps:
    """The library's own step."""

    def __init__(self, key_dim, value_dim):
        self.state = torch.zeros(key_dim, value_dim)

    def write(self, key, value, log_decay, beta):
        numbers = torch.tensor([[log_decay]]), torch.tensor([[beta]])
        rows = key[None], key[None], value[None]
        self.state = delta_step(*rows, *numbers, self.state)[1]

    def read(self, query):
        return query @ self.state


class Collected:
    """Keeps all tokens, and reads them at once: it says the right thing."""

    def __init__(self, key_dim, value_dim):
        self.text = [(torch.zeros(key_dim), torch.zeros(value_dim), 0.0, 0.0)]

    def write(self, *token):
        self.text.append(token)

    def read(self, query):
        keys, values, fades, betas = zip(*self.text, strict=True)
        tensors = torch.stack(keys), torch.stack(values)
        numbers = torch.tensor(fades), torch.tensor(betas)
        asked = query.expand(len(keys), -1)
        return gated_delta_rule(asked, *tensors, *numbers)[-1]


class Shared:
    """One state for all memories."""

    states: ClassVar = {}

    def __init__(self, key_dim, value_dim):
        self.sizes = key_dim, value_dim
        self.states.setdefault(self.sizes, torch.zeros(key_dim, value_dim))
        self.mine = memory()(key_dim, value_dim)

    def write(self, *token):
        self.mine.write(*token)
        self.states[self.sizes] = self.mine.state

    def read(self, query):
        return query @ self.states[self.sizes]


RIGHT = {
    "window_layers": [
        *as_numbers(33), np.ceil(4095 / 127), 4095 // 127 + 1,
    ],
    "kept_positions": [
        kept(ch17.KEPT, "not num_sinks <= place < length - window"),
        kept(ch17.KEPT, "place + window >= length or place < num_sinks"),
        kept(ch17.KEPT, f"{ch17.LAST} or {ch17.FIRST}"),
        kept(ch17.KEPT, "length - place <= window or place <= num_sinks - 1"),
        kept(ch17.KEPT, "place in range(num_sinks) or place > length - window - 1"),
        lambda n, w, s: sorted({*range(n)[:s], *range(n)[max(n - w, 0) :]}),
        lambda n, w, s: [*range(min(s, n)), *range(max(s, n - w), n)],
        lambda n, w, s: list(range(n)) if n <= w + s
        else list(range(s)) + list(range(n - w, n)),
        lambda n, w, s: list(dict.fromkeys([*range(n)[:s], *range(max(n - w, 0), n)])),
    ],
    "delta_memory": [
        Steps, Collected,
        memory(ch17.NEW, "torch.outer(beta * key, value - found)"),
        memory(ch17.NEW, "torch.outer(key, beta * (value - found))"),
        memory(ch17.NEW, "beta * key[:, None] * (value - found)"),
        memory(ch17.NEW, "beta * key[:, None] @ (value - found)[None]"),
        memory(ch17.FADE, "self.state = self.state * 2.718281828459045 ** log_decay"),
        memory(ch17.FOUND, "found = self.state.T @ key"),
        memory(ch17.FOUND, "found = (key[:, None] * self.state).sum(0)"),
        memory(ch17.READ, "return self.state.T @ query"),
        memory(ch17.MADE, "self.state = torch.zeros((key_dim, value_dim))"),
    ],
}  # fmt: skip
MISTAKES = {
    "window_layers": [
        (5, "Not that many"), (-1, "above 0"), ("33", "one number"),
    ],
    "kept_positions": [
        (lambda n, w, s: [*range(s), *range(n - w, n)], "Where they overlap"),
        (lambda n, w, s: [*range(s), *range(max(s, n - w), n)], "For a short one"),
        (kept(ch17.FIRST, "place < (num_sinks or 1)"), "Without any"),
        (kept("- window", "- max(window, 2)"), "For a window of 1"),
        (lambda n, w, s: [*range(n if n <= w else s), *range(max(s, n - w), n)][:n + s],
         "shorter than the sinks"),
        (lambda n, w, s: kept()(n, w, s)[::-1], "not sorted"),
        (lambda n, w, s: {*kept()(n, w, s)}, "returns a set"),
        (lambda n, w, s: torch.tensor(kept()(n, w, s)), "returns a Tensor"),
        (lambda n, w, s: [1 + i for i in kept()(n, w, s)], "from 0 to 8"),
        (lambda n, w, s: [float(i) for i in kept()(n, w, s)], "ints"),
        (lambda n, w, s: kept()(n, w, s) * 2, "twice"),
        (lambda n, w, s: [], "positions are needed"),
        (lambda n, w, s: 1 / 0, "ZeroDivisionError"),
    ],
    "delta_memory": [
        (memory(ch17.WRITE, "self.state = beta * torch.outer(key, value)"),
         "Only the last write"),
        (memory("value - found", "-found"), "still empty"),
        (memory(ch17.NEW, "(1 - beta) * torch.outer(key, value - found)"),
         "still empty"),
        (memory("key, value - found", "value - found, key"), "RuntimeError"),
        (memory(ch17.READ, "return self.state"), "shape must be"),
        (memory(ch17.READ, "found = query @ self.state; self.state *= 0; return found"),
         "A second read"),
        (memory(ch17.READ, "found = query @ self.state; del self.state; return found"),
         "A second read"),
        (Shared, "A new one must hold zeros"),
        (memory(ch17.WRITE, "value -= found\n        self.state = self.state + beta * "
                "torch.outer(key, value)"), "changes its input"),
        (memory()(3, 2), "Give the function itself"),
        (lambda *sizes: torch.zeros(sizes), "a class with write and read"),
    ],
}  # fmt: skip
