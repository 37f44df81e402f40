"""Checks of chapter 7: windows of a text, a model's parameters, a grammar's entropy."""

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attention_lib.exercises.verdict import (
    NOT_YET,
    Mistakes,
    Verdict,
    judge_number,
    run,
)

Windows = list[list[int]]

# No id is its own place, so that the two are told apart.
_TEXT = [31, 41, 59, 26, 53, 58, 97, 93, 23, 84, 62, 64, 33]


def check_windows(answer: object) -> Verdict:
    """Checks ``windows(token_ids, length, stride)``, each of ``length + 1`` tokens."""
    cases = [
        (13, 4, 4, _full_mistakes, ""),
        (11, 4, 4, _tail_mistakes, "Right for 13 ids. For 11, length and stride 4:"),
        (10, 3, 2, _stride_mistakes, "Right so far. For 10 ids, length 3, stride 2:"),
    ]  # fmt: skip
    for count, length, stride, mistakes, so_far in cases:
        token_ids = _TEXT[:count]
        right = _cut(token_ids, length + 1, stride)
        given = torch.tensor(token_ids)
        came = run(answer, given, length, stride)
        if came is NOT_YET and not so_far:
            return NOT_YET
        if isinstance(came, Verdict):
            nothing = "your code gives nothing back."
            message = nothing if came is NOT_YET else came.message
        else:
            message = _wrong_windows(came, right, mistakes(token_ids))
        if message:
            return Verdict(False, f"{so_far} {message}".strip())
        if given.tolist() != token_ids:
            return Verdict(False, "Your code changes the ids: leave them be.")
    return Verdict(
        True, "With stride = length, each token but the first is a target once."
    )


def check_model_parameters(answer: object) -> Verdict:
    """Checks how many parameters a model of two blocks, 32 wide, has."""
    words, places, last = 1000 * 32, 64 * 32, 2 * 32
    attention, mlp, norms = 4 * 32**2 + 32, 2 * 32 * 128 + 128 + 32, 2 * 2 * 32
    block = attention + mlp + norms
    right = 2 * words + places + 2 * block + last
    mistakes = [
        (right - words, "One table of 1,000 words is missing: by default the embedding "
         "and the head have one each."),
        (right - places, "The places are missing: each of 64 has a vector."),
        (right - words - places, "The places and one of the two tables of words are "
         "missing."),
        (right - last, "64 are missing: the last norm, or the bias of each attention's "
         "output."),
        (right - 2 * last, "The last norm and the biases of the attentions' outputs "
         "are missing."),
        (right - 320, "320 are missing: the five norms, or the biases of the MLPs."),
        (right - 384, "384 are missing: all biases, or all norms with the biases of "
         "the attentions' outputs."),
        (right - 704, "All biases and all norms are missing."),
        (right - 2 * norms, "The norms inside the blocks are missing."),
        (right - 160, "A norm has two numbers for each column: a scale and a shift."),
        (right + 192, "Queries, keys and values have no bias here."),
        (right + 1000, "The head has no bias."),
        (right - block, "There are two blocks."),
        (right + 6 * attention, "Four heads share out the width: together they are as "
         "large as one."),
        (right + 18 * 32**2, "Four heads share out the width: together they are as "
         "large as one."),
        (right - 2 * (mlp - 2 * 32**2 - 64), "The MLP is four times as wide within."),
        (2 * words, "Those are the words alone: add places, blocks and the last norm."),
        (2 * block, "Those are the blocks alone: what stands before and after them?"),
        (block, "That is one block: what else is there?"),
    ]  # fmt: skip
    return judge_number(
        answer,
        right,
        "Words 2 · 32,000, places 2,048, blocks 2 · 12,608, last norm 64.",
        mistakes,
        "Not that many: list the parts from the ids to the scores, and count each.",
    )


def check_entropy(answer: object) -> Verdict:
    """Checks the entropy of a grammar: one of 8 names, then perhaps one of 6 verbs."""
    name, choice, verb = math.log(8), math.log(2), math.log(6)
    right = name + choice + verb / 2
    mistakes = [
        (right / math.log(2), "These are bits: nats are asked for, so take ln."),
        (name + verb / 2, "Whether there is a verb is a choice, too: it has an entropy "
         "of its own."),
        (name + choice + verb, "Only half of the texts have a verb: its entropy counts "
         "with the probability that it is drawn."),
        (name + verb, "That is a text that always has a verb: here only half of them "
         "do, and whether is a choice of its own."),
        (name + choice / 2 + verb / 2, "The choice has two outcomes: −p ln p of both."),
        (name + choice / 2 + verb, "The choice has two outcomes, and only half of the "
         "texts have a verb."),
        (math.log(8 * 7), "There are 56 texts, but not all are as probable."),
        (choice + verb / 2, "Is the name left out, or the logarithm one of base 10?"),
        (name + choice, "Which verb it is must be drawn, too, in half of the texts."),
        (name, "That is the name alone."),
        (math.exp(right), "That is e to the entropy: as many equally probable texts "
         "would be as hard to guess."),
        (right / 1.5, "That is the entropy a word: a whole text is asked for."),
    ]  # fmt: skip
    return judge_number(
        answer,
        right,
        "ln 8 for the name, ln 2 for the choice, and half of the time ln 6.",
        mistakes,
        "Not that: add up the entropies of what is drawn, each as often as it is "
        "drawn.",
    )


def _cut(token_ids: Sequence[int], size: int, stride: int, start: int = 0) -> Windows:
    """Cuts windows of ``size`` until one of them holds the last token."""
    windows = [list(token_ids[start : start + size])]
    while start + size < len(token_ids):
        start += stride
        windows.append(list(token_ids[start : start + size]))
    return windows


def _wrong_windows(came: Any, right: Windows, mistakes: Mistakes) -> str:
    """Says what is wrong with the windows that came; nothing where all is right."""
    if not isinstance(came, list | tuple | Tensor | np.ndarray):
        return f"Your function returns a {type(came).__name__}, not a list of windows."
    try:
        windows = [[operator.index(i) for i in window] for window in came]
    except (TypeError, ValueError):
        return (
            "A window is one row of ids. Inputs and targets are cut out of it later, "
            "in the loss."
        )
    if windows == right:
        return ""
    fits = (message for mistaken, message in mistakes if windows == mistaken)
    return next(fits, None) or _first_difference(windows, right)


def _first_difference(windows: Windows, right: Windows) -> str:
    for i, (window, wanted) in enumerate(zip(windows, right, strict=False)):
        if window != wanted:
            return f"Window {i} is not right: yours is {window}."
    return f"There must be {len(right)} windows here; yours are {len(windows)}."


def _full_mistakes(token_ids: Sequence[int]) -> Mistakes:
    """What the usual mistakes give for length 4 and stride 4, where all fits."""
    places = list(range(len(token_ids)))
    right = _cut(token_ids, 5, 4)
    no_target = "A token after each window is nobody's target: 4 targets need 5 tokens."
    shared = "The first token of a window is nobody's target: neighbours share a token."
    twice = "Some targets stand in two windows: a window of 4 targets holds 5 tokens."
    return [
        (_cut(token_ids, 4, 4), no_target),
        (_cut(token_ids, 4, 4)[:-1], no_target),
        (_cut(token_ids, 5, 5), shared),
        (_cut(token_ids, 5, 5)[:-1], shared),
        (_cut(token_ids, 6, 4), twice),
        (_cut(token_ids, 6, 4)[:-1], twice),
        (_cut(token_ids, 5, 4, start=1), "The first token is lost: the targets are "
         "shifted in the loss, and nowhere else."),
        (_cut(token_ids, 5, 4, start=1)[:-1], "The first token is lost, and so is "
         "the end."),
        (_cut(token_ids, 4, 4, start=1), "These are the targets: the token before the "
         "first one is lost."),
        (_cut(token_ids, 5, 1), "A window starts at every token: use the stride."),
        ([*right, list(token_ids[-1:])], "The last window holds one token: it has no "
         "target."),
        (right[:-1], "The last window is missing, though it is full."),
        (_cut(places, 5, 4), "These are the places of the tokens: their ids are "
         "wanted."),
    ]  # fmt: skip


def _tail_mistakes(token_ids: Sequence[int]) -> Mistakes:
    """What the usual mistakes give for length 4 and stride 4, where a tail is left."""
    right = _cut(token_ids, 5, 4)
    short = 5 - len(right[-1])
    return [
        (right[:-1], "the last targets are lost: the last window may be shorter."),
        ([*right[:-1], list(token_ids[-5:])], "the last window was moved back: some "
         "targets stand twice. It may be shorter."),
        ([*right[:-1], right[-1] + [0] * short], "the last window was filled up: "
         "padding is the loader's work."),
    ]  # fmt: skip


def _stride_mistakes(token_ids: Sequence[int]) -> Mistakes:
    """What the usual mistakes give for length 3 and stride 2."""
    right = _cut(token_ids, 4, 2)
    return [
        (_cut(token_ids, 4, 3), "the stride is not used: the next window starts 3 "
         "tokens later."),
        (_cut(token_ids, 5, 2), "the length is not used: these windows hold 5 tokens."),
        ([*right, list(token_ids[8:])], "all that the last window holds stands in the "
         "one before it: stop once the last token is in."),
        (right[:-1], "the last window is missing."),
    ]  # fmt: skip
