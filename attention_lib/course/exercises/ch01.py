"""Exercises of chapter 1: softmax, temperature, attention without parameters."""

import math
from typing import Any

import numpy as np

from attention_lib.course.exercises.exercise import Exercise, slip
from attention_lib.course.exercises.verdict import (
    Stop,
    Verdict,
    judge_number,
    positive_number,
)
from attention_lib.toy import softmax


def check_temperature(answer: object) -> Verdict:
    """Check the temperature at which the largest of eight weights is one half."""
    temperature = positive_number(answer)
    if isinstance(temperature, Verdict):
        return temperature
    top = _top_weight(temperature)
    if _is_half(top):
        message = f"At temperature {temperature:g} the largest weight is {top:.3f}."
        return Verdict(True, message)
    if _is_half(_top_weight(1 / temperature)):
        message = "A temperature divides the scores: yours would multiply them."
        return Verdict(False, message)
    change = "sharp. Take a higher" if top > 0.5 else "flat. Take a lower"
    message = (
        f"The largest weight is {top:.3f}: the weights are too {change} temperature."
    )
    return Verdict(False, message)


def check_head_width(answer: object) -> Verdict:
    """Check the head width at which unscaled scores have standard deviation 32."""
    width = positive_number(answer)
    if isinstance(width, Verdict):
        return width
    narrower = "The root is taken the wrong way round: the width is above 32."
    mistakes = [
        (32, "That is the standard deviation. A head of this width has one of 5.7."),
        (math.sqrt(32), narrower),
        (6, narrower),  # the same, rounded
        (16, "Half of 32 is too narrow: the standard deviation is below the width."),
        (64, "Twice 32 is too narrow: the standard deviation grows slowly."),
        (32**4, "This is squared once too often: it is the square of a variance."),
    ]
    return judge_number(
        width,
        32**2,
        "The standard deviation is √D, so D = 32² = 1,024.",
        mistakes,
        f"At width {width:g} the standard deviation is {math.sqrt(width):.1f}, not 32.",
    )


def _is_half(weight: float) -> bool:
    return abs(weight - 0.5) <= 0.005


def _top_weight(temperature: float) -> float:
    """Return the largest weight of exercise 1.1."""
    scores = np.array([1.0, 2, 7, 12, 8, 5, 2, 1])
    # The inverse of a tiny temperature is infinite, which softmax refuses.
    return float(softmax(scores, temperature=min(temperature, 1e9)).max())


SHIFT = "x - x.max(axis=-1, keepdims=True)"
EXPONENTIAL = f"np.exp({SHIFT})"
SUM = "e.sum(axis=-1, keepdims=True)"
SHARES = f"e / {SUM}"
check_softmax = Exercise(
    solution="""
def my_softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
""",
    cases=[  # square, so that an axis that is lost gives numbers and no error
        ((np.array([[1.0, 2, 4], [0.5, -1, 0], [3, 1, 1]]),), ""),
        (
            (np.array([[1000.0, 0, 0, 0, 0], [-1000, -1001, -1002, -1000, -1000]]),),
            "This is right for small scores.",
        ),
    ],
    slips=[
        slip("Each column sums to 1, not each row: name the last axis.",
             "axis=-1", "axis=0"),
        slip("The whole array sums to 1, not each row: name the axis.", SUM, "e.sum()"),
        slip("The whole array sums to 1, not each row: name the axis.", SUM, "e.sum()",
             SHIFT, "x"),
        slip("Each row is divided by the sums of all rows: was an axis lost?",
             SUM, "e.sum(axis=-1)"),
        slip("Each row is divided by the sums of all rows: was an axis lost?",
             SUM, "e.sum(axis=-1)", SHIFT, "x"),
        slip("The exponentials are not divided by their sum.", SHARES, "e"),
        slip("The exponentials are not divided by their sum.", SHARES, "e", SHIFT, "x"),
        slip("The exponentials are not divided by their sum.", SHARES, "e",
             SHIFT, "x - x.max()"),
        slip("The exponential is missing.", EXPONENTIAL, "x"),
        slip("These are the logarithms of the weights.", SHARES, f"np.log({SHARES})"),
        slip("The largest score gets the least weight: is a sign wrong?", SHIFT, "-x"),
        slip("These are shares of powers of 2: take powers of e.", EXPONENTIAL, "2**x"),
        slip("A row's numbers are shifted by different amounts.",
             SHIFT, "x - x.max(axis=0)"),
        slip("Scores of 1,000 overflow: what could be subtracted first?", SHIFT, "x"),
        slip("Scores of 1,000 overflow: subtract more than the mean.", "max", "mean"),
        slip("A row of very low scores becomes 0/0: do its numbers depend on other "
             "rows?", SHIFT, "x - x.max()"),
        slip("Clipping gives scores of -1,000 and -1,001 the same weight.",
             SHIFT, "x.clip(-700, 700)"),
    ],
    praise="Rows sum to 1, and scores of 1,000 do not overflow.",
)  # fmt: skip


def _drawn(*query: int) -> tuple[np.ndarray, ...]:
    """Draw queries of a shape (…, Q, D), five keys, and values 7 wide."""
    rng, front = np.random.default_rng(0), query[:-2]
    shapes = query, (*front, 5, query[-1]), (*front, 5, 7)
    return tuple(rng.normal(size=shape) for shape in shapes)


DIVISOR = " / math.sqrt(query.shape[-1])"
UNWEIGHTED = "The scores were never turned into weights."
OF_SCALE = [
    slip("The scores are not scaled: see √D in the formula.", DIVISOR, ""),
    slip("The scores are divided by D: divide by its root.",
         "math.sqrt(query.shape[-1])", "query.shape[-1]"),
    slip("The scores are multiplied by D: see √D in the formula.",
         DIVISOR, " * query.shape[-1]"),
    slip("The scores are multiplied by √D: divide them.", " / math", " * math"),
    slip("The scale takes the number of queries: which axis is D?",
         "(query.shape[-1])", "(query.shape[-2])"),
    slip("The scale takes the number of keys: which axis is D?",
         "(query.shape[-1])", "(key.shape[-2])"),
    slip("The scale takes the width of the values, not D.",
         "(query.shape[-1])", "(value.shape[-1])"),
]  # fmt: skip
check_attention = Exercise(
    solution="""
def my_attention(query, key, value):
    scores = query @ key.T / math.sqrt(query.shape[-1])
    weights = softmax(scores)
    return weights @ value
""",
    # No length or width is the root of another, so that no wrong scale is right.
    cases=[((3, 6), "")],
    inputs=_drawn,
    slips=[
        *OF_SCALE,
        slip("The weights are scaled, not the scores: rows should sum to 1.",
             DIVISOR, "", "softmax(scores)", f"softmax(scores){DIVISOR}"),
        slip("Two bugs are left.", DIVISOR, " / query.shape[-1]",
             "softmax(scores)", "softmax(scores, axis=0)"),
        slip("The softmax runs over the queries: the weights of each query, over all "
             "keys, should sum to 1.", "softmax(scores)", "softmax(scores, axis=0)"),
        slip("All weights together sum to 1, but each row should.",
             "softmax(scores)", "np.exp(scores) / np.exp(scores).sum()"),
        slip("The exponentials are not divided by their sum yet.", "softmax", "np.exp"),
        slip(UNWEIGHTED, "softmax(scores)", "scores"),
        slip(UNWEIGHTED, "softmax(scores)", "scores", DIVISOR, ""),
        slip("There is one softmax too many.", "scores)", "softmax(scores))"),
        slip("The keys are mixed, not the values.", "weights @ value", "weights @ key"),
        slip("These are the weights: what do they mix?", " @ value", ""),
        slip("These are the scores: two steps are left.", "weights @ value", "scores"),
    ],
    praise="Your context equals the library's, number by number.",
    names={"softmax": softmax},
)  # fmt: skip


def _part(answer: Any, which: int, *given: np.ndarray) -> Any:
    """Return the context or the weights, of the two that an answer returns."""
    came = answer(*given)
    if came is None or came is ...:
        return None
    if not isinstance(came, tuple | list) or len(came) != 2:
        kind = type(came).__name__
        wanted = "two things are asked for, the context and the weights."
        raise Stop(f"Your function returns a {kind}: {wanted}")
    return came[which]


WEIGHTS = "e / e.sum(axis=-1, keepdims=True)"
OVER = "The softmax runs over the queries or over the batch: which axis holds the keys?"
check_batched_attention = Exercise(
    solution="""
def my_batched_attention(query, key, value):
    scores = query @ key.swapaxes(-2, -1) / math.sqrt(query.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ value, weights
""",
    cases=[
        ((which, *shape), f"{so_far} {also}".strip())
        for shape, so_far in [
            ((3, 6), ""),
            ((2, 3, 6), "This is right for one text. For a batch of two:"),
            ((2, 4, 3, 6), "This is right for a batch. For two axes in front:"),
        ]
        for which, also in enumerate(["", "The context is right. The weights:"])
    ],
    inputs=lambda which, *query: (which, *_drawn(*query)),
    use=_part,
    slips=[
        slip("The weights come first, but the context should.",
             "weights @ value, weights", "weights, weights @ value"),
        slip("The second result is the raw scores, not the weights.",
             ", weights", f", scores * {DIVISOR[3:]}"),
        slip("The second result is scores, not the weights.", ", weights", ", scores"),
        slip("The weights are transposed: each row belongs to a query.",
             ", weights", ", weights.swapaxes(-2, -1)"),
        slip(OVER, "axis=-1", "axis=0"),
        slip(OVER, "axis=-1", "axis=1"),
        slip(OVER, "axis=-1", "axis=-2"),
        *OF_SCALE,
        slip("The weights are scaled, not the scores: rows should sum to 1.",
             DIVISOR, "", WEIGHTS, WEIGHTS + DIVISOR),
        slip("All weights together sum to 1, but each row should.",
             "e.sum(axis=-1, keepdims=True)", "e.sum()"),
        slip(UNWEIGHTED, WEIGHTS, "scores"),
        slip("The keys are mixed, not the values.", "weights @ value", "weights @ key"),
    ],
    praise="Context and weights are right, with any axes in front.",
)  # fmt: skip
