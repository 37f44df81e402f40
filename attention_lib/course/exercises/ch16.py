"""Checks of chapter 16: layers of windows, a cache with sinks, a memory."""

import math
from typing import Any

import torch

from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Verdict,
    after,
    judge,
    judge_number,
    run,
)
from attention_lib.reproducibility import seeded


def check_window_layers(answer: object) -> Verdict:
    """Checks how many layers reach 4,095 tokens back with windows of 128 keys."""
    mistakes = [
        (32, "A window of 128 keys goes 127 tokens back: the token itself is in it."),
        (31, "One layer less than 32, which is not enough either: a window of 128 keys "
         "goes 127 tokens back."),
        (34, "One layer fewer is enough: the first token stands 4,095 back."),
        (4095 / 127, "Layers are whole: round up."),
        (1, "One layer sees 128 keys."),
        (2, "The reach of layers adds up. It does not multiply."),
        (12, "The reach of layers adds up. It does not double with each."),
        (127, "That is how far back one layer goes."),
        (128, "That is how many keys one layer sees."),
        (4095, "A layer goes more than one token back."),
        (4096, "A layer goes more than one token back."),
    ]  # fmt: skip
    return judge_number(
        answer,
        33,
        "32 layers go 32 · 127 = 4,064 tokens back, and 4,095 are needed.",
        mistakes,
        "Not that many: how far back does one layer go, and how far back is the first "
        "token?",
    )


def check_kept_positions(answer: object) -> Verdict:
    """Checks which positions a cache holds: a window's, and the first ones."""
    for length, window, sinks, so_far in [
        (9, 3, 2, ""),
        (5, 3, 3, "Right where sinks and window are apart. Where they overlap:"),
        (2, 4, 3, "Right for a long text. For a short one:"),
        (6, 2, 0, "Right with sinks. Without any:"),
        (12, 1, 4, "Right for windows of several keys. For a window of 1:"),
        (3, 1, 5, "Right for a long text. For one that is shorter than the sinks:"),
    ]:
        came = run(answer, length, window, sinks)
        if came is NOT_YET and not so_far:
            return NOT_YET
        wrong = came if isinstance(came, Verdict) else _places(came, length)
        if not wrong:
            assert isinstance(came, list)
            wrong = _compare(came, length, window, sinks)
        if wrong:
            return after(so_far, wrong)
    return Verdict(True, "However long the text grows, the cache does not.")


def _places(came: object, length: int) -> Verdict | None:
    """Says where an answer is no sorted list of positions."""
    if not isinstance(came, list):
        return Verdict(
            False, f"Your function returns a {type(came).__name__}: a list is wanted."
        )
    if not all(type(place) is int for place in came):
        return Verdict(False, "The list must hold positions: ints.")
    if len(set(came)) < len(came):
        return Verdict(False, "Some position is in the list twice.")
    if came and not 0 <= min(came) <= max(came) < length:
        return Verdict(False, f"Positions go from 0 to {length - 1} here.")
    if came != sorted(came):
        return Verdict(False, "The list is not sorted.")
    return None


def _compare(came: list[int], length: int, window: int, sinks: int) -> Verdict | None:
    def kept(width: int, first: int) -> list[int]:
        seen = range(length)
        return [i for i in seen if i < first or i >= length - width]

    mistakes = [
        (kept(window, 0), "The first tokens are missing."),
        (kept(0, sinks), "The window is missing."),
        (kept(window - 1, sinks), "The window is one key short: the newest token is "
         "in it."),
        (kept(window + 1, sinks), "The window is one key too long: the newest token "
         "is one of its keys."),
        (kept(window - sinks, sinks), "The sinks stand beside the window: they take "
         "none of its keys."),
        (kept(window, sinks + 1), "There is one sink too many."),
        (kept(window, sinks - 1), "There is one sink too few."),
        (kept(sinks, window), "Window and sinks have changed places."),
        (kept(length, 0), "All positions are kept: the window is gone."),
        ([i - sinks for i in kept(window, sinks) if i >= sinks], "Count positions from "
         "the beginning of the text."),
        ([i for i in range(length) if i not in kept(window, sinks)], "These are the "
         "positions that can go."),
    ]  # fmt: skip
    right = kept(window, sinks)
    if came == right:
        return None
    fits = (message for mistaken, message in mistakes if came == mistaken)
    return Verdict(
        False,
        next(fits, f"After {length} tokens, a window of {window} and {sinks} sinks: "
             f"{len(right)} positions are needed; yours are {came}."),
    )  # fmt: skip


def check_delta_memory(answer: object) -> Verdict:
    """Checks a class that writes by the gated delta rule, and reads."""
    rng = seeded(0)
    for tokens, key_dim, value_dim, fades, part, size, so_far in [
        (4, 3, 2, False, False, 1, ""),
        (5, 2, 4, False, True, 1, "Right without decay and with β = 1. With other β:"),
        (5, 4, 3, True, True, 1, "Right without decay. With it:"),
        (5, 3, 4, True, True, 0.7, "Right for keys of length 1. For shorter ones:"),
    ]:
        made = run(answer, key_dim, value_dim)
        if isinstance(made, Verdict):
            return made if made is NOT_YET or not so_far else after(so_far, made)
        if not (hasattr(made, "write") and hasattr(made, "read")):
            came = type(made).__name__
            return Verdict(False, f"Your function returns a {came}: a class with "
                           "write and read is wanted.")  # fmt: skip
        keys = torch.randn(tokens, key_dim, generator=rng)
        keys = size * keys / keys.norm(dim=1, keepdim=True)
        values = torch.randn(tokens, value_dim, generator=rng)
        ends = torch.rand(2, tokens, generator=rng)
        fade = (0.2 + 0.6 * ends[0] if fades else torch.ones(tokens)).log().tolist()
        betas = (0.2 + 0.6 * ends[1] if part else torch.ones(tokens)).tolist()
        query = torch.randn(key_dim, generator=rng)
        text = [*zip(keys, values, fade, betas, strict=True)]

        def use(text: Any, query: Any, made: Any = made) -> Any:
            for key, value, log_decay, beta in text:
                made.write(key, value, log_decay, beta)
            read = made.read(query)
            return NOT_YET if read is None or read is ... else read

        def memory(kind: str, text: Any = text, query: Any = query) -> torch.Tensor:
            return _memory(kind, text, query)

        mistakes = [(memory(kind), message) for kind, message in _WRONG.items()]
        right, before = memory(""), (keys.clone(), values.clone())
        came = run(use, text, query)
        if came is NOT_YET:
            return after(so_far, NOT_YET) if so_far else NOT_YET
        wrong = came if isinstance(came, Verdict) else None
        wrong = wrong or judge(lambda came=came: came, (), right, mistakes)
        if wrong:
            return after(so_far, wrong)
        if not (keys.equal(before[0]) and values.equal(before[1])):
            return Verdict(False, "The result is right, but your code changes its "
                           "input: work on a copy.")  # fmt: skip
        if judge(made.read, (query,), came):
            return Verdict(False, "A second read with the same query finds something "
                           "else: reading must change nothing.")  # fmt: skip
        again = run(answer, key_dim, value_dim)
        fresh = run(lambda again=again, query=query: again.read(query))
        if isinstance(fresh, torch.Tensor) and fresh.abs().max() > 0:
            return Verdict(False, "A new memory already holds something: each must "
                           "have a state of its own, zeros at first.")  # fmt: skip
    return Verdict(True, "A key that is written again finds its new value only.")


# What the memory may do instead, and what to say then.
_WRONG = {
    "added": "The value is added to what is there: write the difference to what the "
    "key finds.",
    "stays": "The state never fades.",
    "late": "The state fades after the write: it must fade before the key looks.",
    "looked": "The key looks into the state before it fades: fade first.",
    "raw": "Only the last write is there: the state must stay, and the decay is a "
    "logarithm, where 0 means that all stays.",
    "whole": "β is missing: it says how much of the difference is written.",
    "value": "β must also shrink what is taken away, not the value alone.",
    "found": "β must also shrink the value, not only what is taken away.",
    "sign": "What the key finds must be taken away from the value.",
    "nothing": "The state is still empty: does write change it?",
    "unit": "The key is used as it comes: the equation does not make it longer.",
}


def _memory(kind: str, text: Any, query: torch.Tensor) -> torch.Tensor:
    state = torch.zeros(len(query), len(text[0][1]))
    for key, value, log_decay, beta in text:
        fade = log_decay if kind == "raw" else math.exp(log_decay)
        key = key / key.norm() if kind == "unit" else key
        before = key @ state
        if kind not in ("stays", "late"):
            state = fade * state
        found = before if kind == "looked" else key @ state
        one = {"whole": 1.0, "nothing": 0.0}.get(kind, beta)
        new = {
            "added": one * value,
            "value": one * value - found,
            "found": value - one * found,
            "sign": one * (value + found),
        }.get(kind, one * (value - found))
        state = state + torch.outer(key, new)
        if kind == "late":
            state = fade * state
    return query @ state
