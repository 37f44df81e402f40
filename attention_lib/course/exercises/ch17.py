"""Exercises of chapter 17: layers of windows, a cache with sinks, a memory."""

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

check_window_layers = NumberExercise(
    solution="""
my_layers = -(-4095 // 127)
""",
    mistakes=[
        (32, "A window of 128 keys goes 127 tokens back: the token itself is in it."),
        (31, "One layer less than 32, which is not enough either: a window of 128 keys "
         "goes 127 tokens back."),
        (34, "One layer fewer is enough: the first token is 4,095 back."),
        (4095 / 127, "Layers are whole: round up."),
        (1, "One layer sees 128 keys."),
        (2, "The reach of layers adds up. It does not multiply."),
        (12, "The reach of layers adds up. It does not double with each."),
        (127, "That is how far back one layer goes."),
        (128, "That is how many keys one layer sees."),
        (4095, "A layer goes more than one token back."),
        (4096, "A layer goes more than one token back."),
    ],
    praise="32 layers go 32 · 127 = 4,064 tokens back, and 4,095 are needed.",
    otherwise="Not that many: how far back does one layer go, and how far back is the "
    "first token?",
)  # fmt: skip


def _positions(answer: Any, length: int, window: int, sinks: int) -> Any:
    """Return the positions as a tensor; a verdict where they are no sorted list."""
    came = answer(length, window, sinks)
    if came is None or came is ...:
        return None
    if not isinstance(came, list):
        words = f"Your function returns a {type(came).__name__}: a list is wanted."
    elif not all(type(position) is int for position in came):
        words = "The list must hold positions: ints."
    elif len(set(came)) < len(came):
        words = "Some position is in the list twice."
    elif came and not 0 <= min(came) <= max(came) < length:
        words = f"Positions go from 0 to {length - 1} here."
    elif came != sorted(came):
        words = "The list is not sorted."
    else:
        return torch.tensor(came)
    return Verdict(False, words)


FIRST, LAST = "place < num_sinks", "place >= length - window"
KEPT = f"{FIRST} or {LAST}"
check_kept_positions = Exercise(
    solution="""
def kept(length, window, num_sinks):
    return [
        place
        for place in range(length)
        if place < num_sinks or place >= length - window
    ]
""",
    cases=[
        ((9, 3, 2), ""),
        ((5, 3, 3), "Right where sinks and window are apart. Where they overlap:"),
        ((2, 4, 3), "Right for a long text. For a short one:"),
        ((6, 2, 0), "Right with sinks. Without any:"),
        ((12, 1, 4), "Right for windows of several keys. For a window of 1:"),
        ((3, 1, 5), "Right for a long text. For one that is shorter than the sinks:"),
    ],
    inputs=lambda *numbers: numbers,
    use=_positions,
    otherwise=lambda came, right, length, window, sinks: (
        f"After {length} tokens, a window of {window} and {sinks} sinks: {len(right)} "
        f"positions are needed; yours are {came.tolist()}."
    ),
    slips=[
        slip("The first tokens are missing.", KEPT, LAST),
        slip("The window is missing.", KEPT, FIRST),
        slip("The window is one key short: the newest token is in it.",
             "- window", "- window + 1"),
        slip("The window is one key too long: the newest token is one of its keys.",
             "- window", "- window - 1"),
        slip("The sinks are beside the window: they take none of its keys.",
             "- window", "- window + num_sinks"),
        slip("There is one sink too many.", FIRST, "place <= num_sinks"),
        slip("There is one sink too few.", FIRST, "place < num_sinks - 1"),
        slip("Window and sinks have changed places.",
             "window, num_sinks", "num_sinks, window"),
        slip("All positions are kept: the window is gone.", KEPT, "True"),
        slip("Count positions from the beginning of the text.",
             "        place\n", "        place - num_sinks\n",
             KEPT, f"place >= num_sinks and ({KEPT})"),
        slip("These are the positions that can go.", KEPT, f"not ({KEPT})"),
    ],
    praise="However long the text grows, the cache does not.",
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
        words = "A second read with the same query finds something else: reading must "
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
