"""The checks of chapter 18: each usual mistake is made, and must be named."""

from typing import ClassVar

import torch

from attention_lib.course.exercises import ch18
from attention_lib.linear_attention import delta_step, gated_delta_rule
from tests.answers import as_numbers

chunk, memory = ch18.check_linear_chunk.made, ch18.check_delta_memory.made
STATE, SUMS = "S + k.T @ v", "z + k.sum(dim=0)"


def one_by_one(q, k, v, S, z):
    outputs = []
    for query, key, value in zip(q, k, v, strict=True):
        S, z = S + torch.outer(key, value), z + key
        outputs.append(query @ S / (query @ z))
    return torch.stack(outputs), S, z


def with_ones(q, k, v, S, z):
    """A column of ones sums the weights along with the values."""
    values = torch.cat([v, torch.ones(len(v), 1)], dim=1)
    state = torch.cat([S, z[:, None]], dim=1)
    mixed = (q @ k.T).tril() @ values + q @ state
    state = state + k.T @ values
    return mixed[:, :-1] / mixed[:, -1:], state[:, :-1], state[:, -1]


def by_sums(q, k, v, S, z):
    states = S + (k[:, :, None] * v[:, None]).cumsum(0)
    sums = z + k.cumsum(0)
    mixed = (q[:, None] @ states)[:, 0] / (q * sums).sum(1, keepdim=True)
    return mixed, states[-1], sums[-1]


def in_place(q, k, v, S, z):
    result = chunk()(q, k, v, S, z)
    S += k.T @ v
    return result


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
    """Keep all tokens, and read them at once: it says the right thing."""

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
    "state_length": [
        *as_numbers(512), 32 * 128**2 / 1024, 2**19 // 2**10, 524288 / (4 * 256),
    ],
    "linear_chunk": [
        one_by_one, with_ones, by_sums,
        lambda *given: list(chunk()(*given)),
        chunk(ch18.TABLE, "torch.einsum('id,jd->ij', q, k).tril()"),
        chunk(ch18.TABLE, "(q @ k.T) * torch.ones(len(q), len(q)).tril()"),
        chunk(ch18.TABLE, "(k @ q.T).triu().T"),
        chunk(ch18.SUM, "(q * (z + k.cumsum(0))).sum(1)"),
        chunk(ch18.MIXED, "torch.cat([weights, q], 1) @ torch.cat([v, S])"),
        chunk(ch18.DIVIDED, "(mixed.T / total).T"),
        chunk(STATE, "S + torch.einsum('cd,cv->dv', k, v)", SUMS, "z + k.T.sum(1)"),
    ],
    "delta_memory": [
        Steps, Collected,
        memory(ch18.NEW, "torch.outer(beta * key, value - found)"),
        memory(ch18.NEW, "torch.outer(key, beta * (value - found))"),
        memory(ch18.NEW, "beta * key[:, None] * (value - found)"),
        memory(ch18.NEW, "beta * key[:, None] @ (value - found)[None]"),
        memory(ch18.FADE, "self.state = self.state * 2.718281828459045 ** log_decay"),
        memory(ch18.FOUND, "found = self.state.T @ key"),
        memory(ch18.FOUND, "found = (key[:, None] * self.state).sum(0)"),
        memory(ch18.READ, "return self.state.T @ query"),
        memory(ch18.MADE, "self.state = torch.zeros((key_dim, value_dim))"),
    ],
}  # fmt: skip
MISTAKES = {
    "state_length": [
        (5, "Not at that length"),
    ],
    "linear_chunk": [
        (lambda *given: chunk()(*given)[0], "three tensors are wanted"),
        (lambda *given: chunk()(*given)[:2], "return three tensors"),
        (in_place, "changes the state"),
        (chunk(STATE, "S + v.T @ k"), "RuntimeError"),
        (chunk(STATE, "(S + k.T @ v).T"), "the state after the chunk, has the shape"),
        (chunk(SUMS, "z + k.sum(dim=1).sum()"), "The sum after the chunk"),
        (chunk(SUMS, "(z + k.sum(dim=0))[None]"), "the sum after the chunk, has the"),
        (chunk(ch18.DIVIDED, "mixed / total[None, :].mean()"), "the content is not"),
        (chunk(STATE, "S / 2 + k.T @ v"), "One token at a time"),
        (chunk(ch18.TABLE, "(q @ k.T).tril() * (len(q) > 1)"), "One token at a time"),
    ],
    "delta_memory": [
        (memory("key, value - found", "value - found, key"), "RuntimeError"),
        (memory(ch18.READ, "return self.state"), "shape must be"),
        (memory(ch18.READ, "found = query @ self.state; self.state *= 0; return found"),
         "A second read"),
        (memory(ch18.READ, "found = query @ self.state; del self.state; return found"),
         "A second read"),
        (Shared, "A new one must hold zeros"),
        (memory(ch18.WRITE, "value -= found\n        self.state = self.state + beta * "
                "torch.outer(key, value)"), "changes its input"),
    ],
}  # fmt: skip
