"""Exercises of chapter 20: texts that mix, a divisor, and an examiner."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attention_lib.course.exercises.ch03 import Suspects, judge_finder
from attention_lib.course.exercises.exercise import Exercise, make_object, slip
from attention_lib.course.exercises.verdict import (
    NOT_YET,
    Stop,
    Verdict,
    one_number,
    run,
)
from attention_lib.reproducibility import seeded


def check_mixing_finder(answer: object) -> Verdict:
    """Check ``mixes_texts(layer, x)`` on functions that mix texts, and that do not."""
    x = torch.randn(3, 4, 2, generator=seeded(0))
    return judge_finder(
        answer,
        x,
        _MIXERS,
        _MIXER_PATTERNS,
        claims=("keeps texts apart", "mixes texts"),
        changed="Your code changes x itself: change a copy of it.",
    )


def _leak(to: Any, other: Any) -> Callable[[Tensor], Tensor]:
    """Return a function in which one part of a batch sees another part."""

    def leaky(x: Tensor) -> Tensor:
        changed = x.clone()
        if len(x) > 1:
            changed[to] = x[to] + x[other]
        return changed

    return leaky


def _first_text(x: Tensor) -> Tensor:
    """All texts look at the keys of the first one."""
    return (x @ x[:1].mT).softmax(-1) @ x


_MIXERS: Suspects = [
    ("attention in each text", lambda x: (x @ x.mT).softmax(-1) @ x, False),
    ("a mean over the batch", lambda x: x - x.mean(0), True),
    ("a softmax over the batch", lambda x: x.softmax(0), True),
    ("attention that mixes tokens", lambda x: x.flip(1) + x.mean(1, True), False),
    ("a function in which only the last text sees another", _leak(-1, 0), True),
    ("a function in which only the first text sees another", _leak(0, -1), True),
    ("one in which all look at the keys of the first text", _first_text, True),
    ("a function that leaves x as it is", lambda x: x, False),
    ("a function that rounds differently", lambda x: x + 1e-9 * len(x), False),
    ("a function that doubles each text", lambda x: 2 * x, False),
    ("a function that multiplies by the number of texts", lambda x: x * len(x), True),
    ("one in which only the last text sees the one before it", _leak(-1, -2), True),
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


def _said(answer: Callable[..., Any], *given: Any) -> str:
    """Return in words what the finder says of attention with three divisors."""
    said: list[str] = []
    for divisor in (2.0, 1.0, 8.0):
        came = answer(_attend_by(divisor), *given)
        if came is None or came is ...:
            words = "Nothing is returned for some: is a return missing?"
            raise Stop(words if said else NOT_YET)
        said.append(f"divided by {divisor} you say {one_number(came)}")
    return f"For attention {', '.join(said)}"


def _attend_by(divisor: float) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return (query @ key.mT / divisor).softmax(-1) @ value

    return attend


check_divisor_finder = Exercise(
    solution="""
def find_divisor(attend, query, key, value, candidates):
    found = attend(query, key, value)
    for c in candidates:
        weights = (query @ key.mT / c).softmax(-1)
        if torch.allclose(weights @ value, found):
            return c
""",
    # A feature whose values are 0 gives 0, whatever the divisor is.
    inputs=lambda *candidates: (
        *torch.randn(2, 5, 4, generator=seeded(0)),
        torch.randn(5, 4, generator=seeded(1)) * torch.tensor([0, 1, 1, 1]),
        [*candidates],
    ),
    use=_said,
    cases=[((1.0, 2.0, 4.0, 8.0), "")],
    slips=[
        slip("You give the factor, not the divisor: one over it.",
             "return c", "return 1 / c"),
        slip("You give the place in the list, not the number.",
             "return c", "return candidates.index(c)"),
        slip("You always say the root of the width: compare what comes.",
             "return c", "return query.shape[-1] ** 0.5"),
        slip("You name the first candidate each time: compare results, and all numbers "
             "of them.", "return c", "return candidates[0]"),
        slip("You name the first candidate each time: compare results, and all numbers "
             "of them.", "torch.allclose(weights @ value, found)",
             "(weights @ value == found).any()"),
        slip("You say the last candidate each time: compare results.",
             "return c", "return candidates[-1]"),
    ],
    praise="The one that agrees names the divisor.",
)  # fmt: skip


def _attend(x: Tensor, mask: Tensor) -> Tensor:
    scores = (x @ x.mT).masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ x


def _centred(x: Tensor) -> Tensor:
    return x + (x - x.mean(-1, keepdim=True)).roll(-1, 1)


def _leak_where(opens: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a function in which tokens see some of the next token's numbers."""

    def leaky(x: Tensor) -> Tensor:
        ahead = x.roll(-1, 1)
        return x + ahead * opens(ahead)

    return leaky


def _wrong_word(answer: Any, layer: Callable[[Tensor], Tensor], *given: Any) -> str:
    """Say what is wrong with ``is_causal`` of an examiner whose map is right."""
    examiner = answer(layer, *given)
    causal, truth = run(examiner.is_causal), not examiner.depends().triu(1).any()
    if causal is NOT_YET:
        return "The map is right; is_causal returns nothing."
    if isinstance(causal, Verdict):
        return causal.message
    if isinstance(causal, bool | Tensor) and bool(causal) == truth:
        return ""
    is_it = "causal" if truth else "not causal"
    return f"The layer is {is_it}; your is_causal says {causal}."


FULL = torch.ones(4, 4, dtype=torch.bool)
PAST = FULL.tril()
NEAR = PAST.triu(-1)
MOVE = "changed[:, position] += torch.randn_like(changed[:, position])"
ANY_SCALE = "torch.stack([self.map_for(x) for x in self.inputs]).any(dim=0)"
STACK = "torch.stack(columns, dim=1)"
check_examiner = Exercise(
    solution="""
class Examiner:
    def __init__(self, layer, x, scales):
        self.layer, self.inputs = layer, [scale * x for scale in scales]

    def depends(self):
        return torch.stack([self.map_for(x) for x in self.inputs]).any(dim=0)

    def map_for(self, x):
        before, columns = self.layer(x), []
        for position in range(x.shape[1]):
            changed = x.clone()
            changed[:, position] += torch.randn_like(changed[:, position])
            change = (self.layer(changed) - before).abs().amax(dim=(0, 2))
            columns.append(change > 1e-6)
        return torch.stack(columns, dim=1)

    def is_causal(self):
        return not bool(self.depends().triu(1).any())
""",
    inputs=lambda layer, *scales: (
        layer,
        torch.randn(2, 4, 3, generator=seeded(1), dtype=torch.float64),
        [1.0, *scales],
    ),
    use=lambda answer, *given: make_object(
        answer, *given, methods=["depends", "is_causal"]
    ).depends(),
    fault=_wrong_word,
    cases=[
        ((lambda x: _attend(x, PAST),), ""),
        ((lambda x: _attend(x, FULL),), "For attention without a mask:"),
        ((lambda x: _attend(x, NEAR),), "For attention of one token before:"),
        ((_centred,), "For a layer that hides equal changes:"),
        ((_leak((1, 0), (1, 3)),), "For a leak in the second text only:"),
        ((_leak(np.s_[:, 1, -1], np.s_[:, 2, 0]),),
         "For a leak in one feature only:"),
        ((_leak(np.s_[:, 1, 0], np.s_[:, 2, 1]),),
         "For a leak from one feature only:"),
        ((lambda x: x + 1e-12 * x.sum(1, True),),
         "For a layer whose sums round differently:"),
        ((lambda x: x + x.detach().roll(-1, 1),),
         "For a layer that passes no gradient:"),
        ((_leak_where(lambda ahead: ahead > 10), 100.0),
         "For a leak of large numbers only:"),
        ((_leak_where(lambda ahead: ahead.abs() < 1), 100.0),
         "For a leak of small numbers only:"),
    ],
    slips=[
        # What only the last cases can show comes first.
        slip("Only the last scale is tried.", ".any(dim=0)", "[-1]"),
        slip("A change at any scale counts: not only at the first, or at all of them.",
             ".any(dim=0)", "[0]"),
        slip("A change at any scale counts: not only at the first, or at all of them.",
             ".any(dim=0)", ".all(dim=0)"),
        slip("Rows and columns are swapped: a row is an output.",
             STACK, "torch.stack(columns, dim=0)"),
        slip("True must mean that an output changes.",
             "change > 1e-6", "change <= 1e-6"),
        slip("All is True: ignore rounding, and look for NaN.",
             "change > 1e-6", "change >= 0"),
        slip("All is False: is x changed, and compared?", MOVE, "pass"),
        slip("Only the diagonal is looked at.",
             STACK, STACK + " & torch.eye(len(columns)).bool()"),
        slip("Later inputs are left out.", STACK, STACK + ".tril()"),
    ],
    praise="This is the heart of examine: change, and compare.",
)  # fmt: skip
