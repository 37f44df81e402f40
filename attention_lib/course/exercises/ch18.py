"""Exercises of chapter 18: a state against a cache, a chunk, a memory."""

from typing import Any

import torch
from torch import Tensor

from attention_lib.course.exercises.exercise import (
    Exercise,
    NumberExercise,
    make_object,
    slip,
)
from attention_lib.course.exercises.verdict import Verdict, judge, run
from attention_lib.reproducibility import seeded

check_state_length = NumberExercise(
    solution="""
my_tokens = 32 * 128 * 128 / (2 * 2 * 256)
""",
    mistakes=[
        (1024, "The cache keeps keys and values, and those of both heads."),
        (2048, "That is keys alone, of one head: keys and values of both are kept."),
        (16, "There are 32 states, one for each head."),
        (32, "That is with a key and a value for each of 32 heads: there are 2 KV "
         "heads."),
        (64, "That is with keys alone, for each of 32 heads: there are 2 KV heads, and "
         "values."),
        (1, "That is one state against a cache of 32 heads: there are 32 states, and 2 "
         "KV heads."),
        (4, "A state has a row for each number of a key, and a column for each number "
         "of a value."),
        (8, "A state has a row for each number of a key, and a column for each number "
         "of a value."),
        (16384, "That is how many numbers one state holds."),
        (524288, "That is how many numbers all states hold."),
    ],
    praise="A token adds 1,024 numbers to the cache, and the states hold 524,288.",
    otherwise="Not at that length: divide the numbers of all states by the numbers "
    "that the cache keeps of one token.",
)  # fmt: skip

STILL = {"S": "state", "z": "sum"}


def _in_chunks(
    answer: Any, lengths: list[int], which: int, *text: Tensor
) -> Tensor | Verdict | None:
    """Call the answer chunk by chunk; return the outputs, the last state or its sum."""
    _, key, value = text
    state = torch.zeros(key.shape[1], value.shape[1])
    total, outputs = torch.zeros(key.shape[1]), []
    for piece in zip(*(x.split(lengths) for x in text), strict=True):
        before = state.clone(), total.clone()
        came = answer(*piece, state, total)
        if came is None or came is ...:
            return None
        if isinstance(came, Tensor | str) or not isinstance(came, tuple | list):
            words = f"Your function returns a {type(came).__name__}: three tensors "
            return Verdict(False, f"{words}are wanted.")
        if len(came) != 3 or not all(isinstance(each, Tensor) for each in came):
            words = "Your function must return three tensors: outputs, state and sum."
            return Verdict(False, words)
        now = state.nan_to_num(), total.nan_to_num()  # NaN is not equal to itself
        if not all(map(torch.equal, now, (it.nan_to_num() for it in before))):
            words = "Your code changes the state that it was given: make a new one."
            return Verdict(False, words)
        output, state, total = came
        shapes = [(key.shape[1], value.shape[1]), (key.shape[1],)]
        for name, each, shape in zip(STILL, (state, total), shapes, strict=True):
            if each.shape != shape:
                words = f"{name}, the {STILL[name]} after the chunk, has the shape "
                words += f"{tuple(each.shape)}; it must be {shape} here."
                return Verdict(False, words)
        outputs.append(output)
    return (torch.cat(outputs), state, total)[which]


def _positive(lengths: list[int], which: int) -> tuple[Any, ...]:
    """Draw queries and keys above 0, as φ makes them, and values."""
    rng, tokens = seeded(0), sum(lengths)
    query, key = torch.rand(2, tokens, 3, generator=rng) + 0.1
    return lengths, which, query, key, torch.randn(tokens, 2, generator=rng)


TABLE, SUM = "(q @ k.T).tril()", "weights.sum(dim=-1) + q @ z"
MIXED, DIVIDED = "weights @ v + q @ S", "mixed / total[:, None]"
check_linear_chunk = Exercise(
    solution="""
def one_linear_chunk(q, k, v, S, z):
    weights = (q @ k.T).tril()
    total = weights.sum(dim=-1) + q @ z
    mixed = weights @ v + q @ S
    return mixed / total[:, None], S + k.T @ v, z + k.sum(dim=0)
""",
    cases=[
        (([4], 0), ""),
        (([4], 1), "The outputs are right. The state after the chunk:"),
        (([4], 2), "Outputs and state are right. The sum after the chunk:"),
        (([4, 2], 0), "Right for the first chunk. For the next:"),
        (([1, 1, 1], 0), "Right for chunks of several tokens. One token at a time:"),
    ],
    inputs=_positive,
    use=_in_chunks,
    slips=[
        slip("A token sees those after it: the table must be causal.",
             TABLE, "(q @ k.T)"),
        slip("A token sees itself, too.", ".tril()", ".tril(-1)"),
        slip("The table is the wrong way round: rows are queries.",
             TABLE, "(k @ q.T).tril()"),
        slip("The outputs are not divided by the sum of the weights.",
             DIVIDED, "mixed"),
        slip("The outputs are divided by the number of tokens: divide by the sum of "
             "the weights.",
             DIVIDED, "mixed / torch.arange(1, len(q) + 1)[:, None]"),
        slip("There is no exponential here: the weights are the products themselves.",
             TABLE, "(q @ k.T).exp().tril()"),
        slip("Each output is divided by the sum of all weights of the chunk.",
             SUM, "weights.sum() + q @ z"),
        slip("What came before the chunk is not read.", MIXED, "weights @ v"),
        slip("What came before the chunk belongs to the sum of weights, too.",
             SUM, "weights.sum(dim=-1)"),
        slip("What came before the chunk is not read, neither by the values nor by the "
             "sum.", MIXED, "weights @ v", SUM, "weights.sum(dim=-1)"),
        slip("The tokens of the chunk are counted twice: read the state from before "
             "the chunk.",
             MIXED, "weights @ v + q @ (S + k.T @ v)",
             SUM, "weights.sum(dim=-1) + q @ (z + k.sum(dim=0))"),
        slip("The state stays as it was: add what the chunk writes.",
             "S + k.T @ v", "S"),
        slip("The state from before is lost: add to it.", "S + k.T @ v", "k.T @ v"),
        slip("The sum stays as it was: add the keys of the chunk.",
             "z + k.sum(dim=0)", "z"),
        slip("The sum from before is lost: add to it.",
             "z + k.sum(dim=0)", "k.sum(dim=0)"),
        slip("Add the sum of the keys, not their mean.",
             "k.sum(dim=0)", "k.mean(dim=0)"),
    ],
    praise="The table is as large as a chunk, however long the text is.",
)  # fmt: skip


def _text(
    sizes: tuple[int, int], tokens: int, fades: bool, part: bool, size: float
) -> tuple[Tensor, ...]:
    """Draw keys of a length, values, logarithms of decays, betas, and a query."""
    rng, ones = seeded(0), torch.ones(tokens)
    keys = torch.randn(tokens, sizes[0], generator=rng)
    values = torch.randn(tokens, sizes[1], generator=rng)
    fade, beta = 0.2 + 0.6 * torch.rand(2, tokens, generator=rng)
    return (
        size * keys / keys.norm(dim=1, keepdim=True),
        values,
        (fade if fades else ones).log(),
        beta if part else ones,
        torch.randn(sizes[0], generator=rng),
    )


def _read(
    made: Any, keys: Tensor, values: Tensor, fades: Tensor, betas: Tensor, query: Tensor
) -> Any:
    numbers = fades.tolist(), betas.tolist()
    for key, value, fade, beta in zip(keys, values, *numbers, strict=True):
        made.write(key, value, fade, beta)
    read = run(made.read, query)
    if not isinstance(read, Tensor):  # where nothing was written, it may fail
        return read if len(keys) else torch.zeros(values.shape[1])
    if judge(made.read, (query,), read.clone()):
        words = "A second read with the same query differs: reading must "
        return Verdict(False, f"{words}change nothing.")
    return read


FADE = "self.state = self.state * math.exp(log_decay)"
FOUND = "found = key @ self.state"
NEW = "beta * torch.outer(key, value - found)"
WRITE = f"self.state = self.state + {NEW}"
MADE, READ = "self.state = torch.zeros(key_dim, value_dim)", "return query @ self.state"
check_delta_memory = Exercise(
    solution="""
class MyDeltaMemory:
    def __init__(self, key_dim, value_dim):
        self.state = torch.zeros(key_dim, value_dim)

    def write(self, key, value, log_decay, beta):
        self.state = self.state * math.exp(log_decay)
        found = key @ self.state
        self.state = self.state + beta * torch.outer(key, value - found)

    def read(self, query):
        return query @ self.state
""",
    cases=[
        (((3, 2), 4, False, False, 1), ""),
        (((3, 2), 0, False, False, 1), "Right, but each memory has a state of its "
         "own. A new one must hold zeros:"),
        (((2, 4), 5, False, True, 1), "Right without decay and with β = 1. With "
         "other β:"),
        (((4, 3), 5, True, True, 1), "Right without decay. With it:"),
        (((3, 4), 5, True, True, 0.7), "Right for keys of length 1. For shorter ones:"),
    ],
    inputs=lambda sizes, *how: (sizes, *_text(sizes, *how)),
    use=lambda kind, sizes, *given: _read(
        make_object(kind, *sizes, methods=["write", "read"]), *given
    ),
    slips=[
        slip("The value is added to what is there: write the difference to what the "
             "key finds.", "value - found", "value"),
        slip("The state never fades.", FADE, "pass"),
        slip("The state fades after the write: it must fade before the key looks.",
             FADE, "pass", WRITE, f"{WRITE}; {FADE}"),
        slip("The key looks into the state before it fades: fade first.",
             FADE, f"{FOUND}; {FADE}", f"\n        {FOUND}\n", "\n"),
        slip("Only the last write is there: the state must stay, and the decay is a "
             "logarithm, where 0 means that all stays.",
             "math.exp(log_decay)", "log_decay"),
        slip("β is missing: it says how much of the difference is written.",
             "beta * ", ""),
        slip("β must also shrink what is taken away, not the value alone.",
             NEW, "torch.outer(key, beta * value - found)"),
        slip("β must also shrink the value, not only what is taken away.",
             NEW, "torch.outer(key, value - beta * found)"),
        slip("What the key finds must be taken away from the value.",
             "value - found", "value + found"),
        slip("The state is still empty: does write change it?", WRITE, "pass"),
        slip("The key is used as it comes: the equation does not make it longer.",
             FADE, f"{FADE}; key = key / key.norm()"),
    ],
    praise="A key that is written again finds its new value only.",
)  # fmt: skip
