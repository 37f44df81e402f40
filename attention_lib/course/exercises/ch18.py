"""Checks of chapter 18: FLOPs, texts that mix, a divisor, and an examiner."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attention_lib.course.exercises.ch03 import Suspects, judge_finder
from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Mistakes,
    Verdict,
    after,
    judge,
    judge_number,
    run,
)
from attention_lib.reproducibility import seeded


def check_flops(answer: object) -> Verdict:
    """Checks the FLOPs of one layer: 64 wide, 4 heads, 10 tokens."""
    return judge_number(
        answer,
        353_280,
        "8 · 10 · 64 · 64 for the projections, 4 · 10 · 10 · 64 for scores and mix.",
        [
            (176_640, "These are multiply-adds: each is two operations."),
            (327_680, "These are the projections alone: scores and mix are missing."),
            (25_600, "These are scores and mix alone: the projections are missing."),
            (271_360, "The output projection is missing."),
            (340_480, "Scores and mix are two products: one of them is missing."),
            (430_080, "The width of all heads together is 64: do not take each "
             "product of scores four times."),
            (334_080, "Scores and mix run in each of the heads: together they are as "
             "wide as the model."),
            (3_532_800, "One text of 10 tokens: is the length counted twice?"),
            (35_328, "That is the count for each of the tokens."),
            (16_384, "That is the number of weights in the projections."),
        ],
        "Count the four projections first, then the two products of all pairs.",
    )  # fmt: skip


def check_mixing_finder(answer: object) -> Verdict:
    """Checks ``mixes_texts(layer, x)`` on functions that mix texts, and that do not."""
    x = torch.randn(3, 4, 2, generator=seeded(0))
    return judge_finder(
        answer,
        x,
        _MIXERS,
        _MIXER_PATTERNS,
        claims=("keeps texts apart", "mixes texts"),
        changed="Your code changes x itself: change a copy of it.",
    )


def _last_only(x: Tensor) -> Tensor:
    rows = [*x[:-1], x[-1] + (x[0] if len(x) > 1 else 0)]
    return torch.stack(rows)


def _first_only(x: Tensor) -> Tensor:
    rows = [x[0] + (x[-1] if len(x) > 1 else 0), *x[1:]]
    return torch.stack(rows)


def _first_text(x: Tensor) -> Tensor:
    """All texts look at the keys of the first one."""
    return (x @ x[:1].mT).softmax(-1) @ x


def _one_before(x: Tensor) -> Tensor:
    rows = [*x[:-1], x[-1] + (x[-2] if len(x) > 1 else 0)]
    return torch.stack(rows)


_MIXERS: Suspects = [
    ("attention in each text", lambda x: (x @ x.mT).softmax(-1) @ x, False),
    ("a mean over the batch", lambda x: x - x.mean(0), True),
    ("a softmax over the batch", lambda x: x.softmax(0), True),
    ("attention that mixes tokens", lambda x: x.flip(1) + x.mean(1, True), False),
    ("a function in which only the last text sees another", _last_only, True),
    ("a function in which only the first text sees another", _first_only, True),
    ("one in which all look at the keys of the first text", _first_text, True),
    ("a function that leaves x as it is", lambda x: x, False),
    ("one that rounds otherwise", lambda x: x + 1e-9 * len(x), False),
    ("a function that doubles each text", lambda x: 2 * x, False),
    ("a function that multiplies by the number of texts", lambda x: x * len(x), True),
    ("one in which only the last text sees the one before it", _one_before, True),
    ("one that gives each text the output of another", lambda x: x.roll(1, 0), True),
]
_MIXER_PATTERNS = {
    13 * "1": "You say that all mix: which outputs may not differ?",
    13 * "0": "You say that none mixes: is each text called alone?",
    "1001000111000": "Every judgement is the wrong way round: True means that texts "
    "mix.",
    "0110010000101": "A mixing in a later text is missed: try each text.",
    "0110101000111": "A mixing in the first text is missed: try each text.",
    "0110001000101": "A mixing in a single text is missed: try each text.",
    "1001001000000": "You take single tokens: take single texts, with all their "
    "tokens.",
    "0110111000011": "No text is called alone: what depends on the number of texts is "
    "missed.",
}


def check_divisor_finder(answer: object) -> Verdict:
    """Checks ``find_divisor`` on attention with known divisors."""
    generator = seeded(0)
    query, key, value = (torch.randn(5, 4, generator=generator) for _ in range(3))
    candidates = [1.0, 2.0, 4.0, 8.0]
    said: list[float] = []
    for true in (2.0, 1.0, 8.0):
        copies = [each.clone() for each in (query, key, value)]
        came = run(answer, _attend_by(true), *copies, list(candidates))
        if came is NOT_YET and said:
            return Verdict(False, "Nothing comes back for some: is a return missing?")
        if isinstance(came, Verdict):
            return came
        if not all(map(torch.equal, copies, (query, key, value))):
            return Verdict(False, "Your code changes its input: work on a copy.")
        if isinstance(came, bool) or not isinstance(came, int | float):
            kind = type(came).__name__
            return Verdict(False, f"Your function returns a {kind}: give a number.")
        said.append(came)
    if said == [2.0, 1.0, 8.0]:
        return Verdict(True, "The one that agrees names the divisor.")
    usual: dict[tuple[float, ...], str] = {
        (0.5, 1.0, 0.125): "You give the factor, not the divisor: one over it.",
        (1, 0, 3): "You give the place in the list, not the number.",
        (2.0, 2.0, 2.0): "You always say the root of the width: compare what comes.",
        (1.0, 1.0, 1.0): "You say the first candidate each time: compare results.",
        (8.0, 8.0, 8.0): "You say the last candidate each time: compare results.",
    }
    pairs = zip(said, (2.0, 1.0, 8.0), strict=True)
    came, right = next((c, r) for c, r in pairs if c != r)
    words = f"For attention divided by {right} you say {came}."
    return Verdict(False, usual.get(tuple(said), words))


def _attend_by(divisor: float) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return (query @ key.mT / divisor).softmax(-1) @ value

    return attend


def check_examiner(answer: object) -> Verdict:
    """Checks a class with ``depends()`` and ``is_causal()`` on several layers."""
    x = torch.randn(2, 4, 3, generator=seeded(1), dtype=torch.float64)
    for name, function, wanted in _EXAMINED:
        given = x.clone()
        made = run(answer, function, given)
        if isinstance(made, Verdict):
            return made
        if not (hasattr(made, "depends") and hasattr(made, "is_causal")):
            came = type(made).__name__
            wish = "a class with depends and is_causal is wanted."
            return Verdict(False, f"Your function returns a {came}: {wish}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            wrong = judge(made.depends, (), wanted, _of_map(wanted))
            if wrong:
                return wrong if wrong is NOT_YET else after(f"For {name}:", wrong)
            causal = run(made.is_causal)
        if not torch.equal(given, x):
            return Verdict(False, "Your code changes x itself: change a copy of it.")
        if isinstance(causal, Verdict):
            if causal is NOT_YET:
                return Verdict(False, "The map is right; is_causal gives nothing back.")
            return causal
        truth = not bool(wanted.triu(1).any())
        if not isinstance(causal, bool | torch.Tensor) or bool(causal) != truth:
            is_it = "causal" if truth else "not causal"
            return Verdict(False, f"{name} is {is_it}; your is_causal says {causal}.")
    return Verdict(True, "This is the heart of examine: change, and compare.")


def _of_map(right: Tensor) -> Mistakes:
    size = len(right)
    later = torch.ones(size, size).triu(1) > 0
    return [
        (right.mT, "Rows and columns are swapped: a row is an output."),
        (~right, "True must mean that an output changes."),
        (torch.ones_like(right), "All is True: ignore rounding, and look for NaN."),
        (torch.zeros_like(right), "All is False: is x changed, and compared?"),
        (right & torch.eye(size).bool(), "Only the diagonal is looked at."),
        (right & ~later, "Later inputs are left out."),
    ]


def _attend(x: Tensor, mask: Tensor) -> Tensor:
    scores = (x @ x.mT).masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ x


def _centred(x: Tensor) -> Tensor:
    return x + (x - x.mean(-1, keepdim=True)).roll(-1, 1)


def _second_text(x: Tensor) -> Tensor:
    """Only in the second text, output 0 sees token 3."""
    x = x.clone()
    x[1, 0] = x[1, 0] + x[1, 3]
    return x


def _last_feature(x: Tensor) -> Tensor:
    """Only the last feature of output 1 depends on token 2."""
    x = x.clone()
    x[:, 1, -1] = x[:, 1, -1] + x[:, 2, 0]
    return x


def _of_a_feature(x: Tensor) -> Tensor:
    """Output 1 depends on a single feature of token 2, neither the first nor last."""
    x = x.clone()
    x[:, 1, 0] = x[:, 1, 0] + x[:, 2, 1]
    return x


_FULL = torch.ones(4, 4, dtype=torch.bool)
_EYE = torch.eye(4, dtype=torch.bool)
_SHIFT = _EYE | _EYE.roll(1, 1)


def _with(*pairs: tuple[int, int]) -> Tensor:
    found = _EYE.clone()
    for row, column in pairs:
        found[row, column] = True
    return found


# In words; the layer; what its outputs depend on.
_EXAMINED: Sequence[tuple[str, Callable[[Tensor], Tensor], Tensor]] = [
    ("causal attention", lambda x: _attend(x, _FULL.tril()), _FULL.tril()),
    ("attention without a mask", lambda x: _attend(x, _FULL), _FULL),
    ("attention of one token before", lambda x: _attend(x, _FULL.tril().triu(-1)),
     _FULL.tril().triu(-1)),
    ("a layer that hides equal changes", _centred, _SHIFT),
    ("a leak in the second text only", _second_text, _with((0, 3))),
    ("a leak in one feature only", _last_feature, _with((1, 2))),
    ("a leak from one feature only", _of_a_feature, _with((1, 2))),
    ("a layer whose sums round otherwise", lambda x: x + 1e-12 * x.sum(1, True), _EYE),
    ("a layer that passes no gradient", lambda x: x + x.detach().roll(-1, 1), _SHIFT),
]  # fmt: skip
