"""Exercises of chapter 20: texts that mix, a divisor, and an examiner."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attention_lib.course.exercises.exercise import Exercise, make_object, slip
from attention_lib.course.exercises.shared import FinderExercise, Suspects, as_number
from attention_lib.course.exercises.verdict import NOT_YET, Verdict, run
from attention_lib.reproducibility import seeded


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
check_mixing_finder = FinderExercise(
    inputs=lambda: torch.randn(3, 4, 2, generator=seeded(0)),
    suspects=_MIXERS,
    patterns=_MIXER_PATTERNS,
    claims=("keeps texts apart", "mixes texts"),
    changed="Your code changes x itself: change a copy of it.",
)


def _attend_by(divisor: float) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return (query @ key.mT / divisor).softmax(-1) @ value

    return attend


def _no_divisor(came: Tensor, right: Tensor, *given: Any) -> str:
    """Say of a number that it is not the divisor, and where to look."""
    if not came.isfinite():
        return "You return NaN or infinity: are the outputs the weights, all above 0?"
    return (
        f"For c = {right:g} you return {came:g}. Print what `attend` returns: is it "
        "the table of weights, and does each row sum to 1?"
    )


PRODUCTS, LOGS = "(products[0, 0] - products[0, 1])", "(logs[0, 0] - logs[0, 1])"
RATIO = f"{PRODUCTS} / {LOGS}"
EYE = "torch.eye(len(key), dtype=key.dtype)"
MIXES = "You get mixes of keys or queries: with which values do you get the weights?"
ROUNDED = "c may be any number: return it without rounding."
check_divisor_finder = Exercise(
    solution="""
def find_divisor(attend, query, key):
    weights = attend(query, key, torch.eye(len(key), dtype=key.dtype))
    products, logs = query @ key.mT, weights.log()
    return (products[0, 0] - products[0, 1]) / (logs[0, 0] - logs[0, 1])
""",
    # With this seed no two products in a row are close: float32 is enough for any pair.
    inputs=lambda divisor, *shape: (
        _attend_by(divisor),
        *torch.randn(2, *shape, generator=seeded(185)),
    ),
    use=as_number,
    otherwise=_no_divisor,
    cases=[
        ((2.0, 4, 3), ""),
        ((2.6, 4, 3), "Right for one divisor. For another:"),
        ((1.0, 4, 3), "Right for one divisor. For another:"),
        ((7.0, 3, 5), "Right for more tokens than features. For fewer:"),
        ((0.7, 3, 5), "Right for large divisors. For one below 1:"),
    ],
    slips=[
        # Rounded, 2.6 is the width.
        slip(ROUNDED, RATIO, f"round(float({RATIO}))"),
        slip(ROUNDED, RATIO, f"{PRODUCTS} // {LOGS}"),
        slip("You return the factor, 1 / c: divide the other way round.",
             RATIO, f"{LOGS} / {PRODUCTS}"),
        slip("The sign is wrong: subtract in the same order above and below.",
             LOGS, "(logs[0, 1] - logs[0, 0])"),
        slip("That is the root of the width. This `attend` may divide by any other "
             "number: measure it.",
             RATIO, "query.shape[-1] ** 0.5"),
        slip("That is the width. Measure what `attend` divides by.",
             RATIO, "query.shape[-1]"),
        slip("You compare the weights themselves: take their logarithms first.",
             ".log()", ""),
        slip("You have the ratio of two weights: take its logarithm.",
             ".log()", "", LOGS, "logs[0, 0] / logs[0, 1]"),
        slip("One weight is not enough, because it is divided by the sum of its row: "
             "take two of a row.", PRODUCTS, "products[0, 0]", LOGS, "logs[0, 0]"),
        slip("The two weights must be in the same row: each row is divided by its own "
             "sum.", "[0, 1]", "[1, 0]"),
        slip("Softmax uses powers of e: take the natural logarithm.",
             ".log()", ".log2()"),
        slip("Softmax uses powers of e: take the natural logarithm.",
             ".log()", ".log10()"),
        slip("Your products are divided by the root of the width: take them as they "
             "are.", "query @ key.mT", "query @ key.mT / query.shape[-1] ** 0.5"),
        slip("In your products, rows are keys: each query needs a row.",
             "query @ key.mT", "key @ query.mT"),
        slip("You call `attend` with queries and keys in each other's place.",
             "attend(query, key,", "attend(key, query,"),
        slip(MIXES, EYE, "key"),
        slip(MIXES, EYE, "query"),
    ],
    praise="Whoever chooses the values can read the weights.",
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
