"""Checks of chapter 1: softmax, temperature, attention without parameters."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from attention_lib.course.exercises.verdict import (
    Mistakes,
    Verdict,
    judge,
    judge_number,
    positive_number,
    run,
)
from attention_lib.toy import attention, softmax


def check_temperature(answer: object) -> Verdict:
    """Checks the temperature at which the largest of eight weights is one half."""
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
    """Checks the head width at which unscaled scores have standard deviation 32."""
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


def check_softmax(answer: object) -> Verdict:
    """Checks a softmax over the last axis that stays stable for large scores."""
    scores = np.array([[1.0, 2.0, 4.0], [0.5, -1.0, 0.0]])
    wrong = judge(answer, (scores,), softmax(scores), _softmax_mistakes(scores))
    if wrong and "broadcast" in wrong.message:
        message = f"{wrong.message}. Was an axis lost on the way?"
        return Verdict(False, message)
    large = np.array([[1000.0, 0, 0, 0, 0], [-1000, -1001, -1002, -1000, -1000]])
    return (
        wrong
        or judge(
            answer,
            (large,),
            softmax(large),
            _unstable_ways(large),
            so_far="This is right for small scores.",
        )
        or Verdict(True, "Rows sum to 1, and scores of 1,000 do not overflow.")
    )


def check_attention(answer: object) -> Verdict:
    """Checks attention without parameters, written by the reader in NumPy."""
    rng = np.random.default_rng(0)
    # No length or width is the root of another, so that no wrong scale is right.
    query, key = rng.normal(size=(3, 6)), rng.normal(size=(5, 6))
    value = rng.normal(size=(5, 7))
    right = softmax(query @ key.T / math.sqrt(6)) @ value
    mistakes = [*_wrong_scales(query, key, value), *_wrong_steps(query, key, value)]
    return judge(answer, (query, key, value), right, mistakes) or Verdict(
        True, "Your context equals the library's, number by number."
    )


def check_batched_attention(answer: object) -> Verdict:
    """Checks attention written from an empty function: context, weights, any batch."""
    rng = np.random.default_rng(0)
    for front, so_far in [
        ((), ""),
        ((2,), "This is right for one text. For a batch of two:"),
        ((2, 4), "This is right for a batch. For two axes in front:"),
    ]:
        shapes = [(3, 6), (5, 6), (5, 7)]
        given = tuple(rng.normal(size=(*front, *shape)) for shape in shapes)
        came = run(answer, *(array.copy() for array in given))
        if isinstance(came, Verdict):
            words = f"{so_far} {came.message}".strip()
            return Verdict(False, words) if so_far else came
        if not isinstance(came, tuple | list) or len(came) != 2:
            kind = type(came).__name__
            wanted = "two things are asked for, the context and the weights."
            return Verdict(False, f"Your function returns a {kind}: {wanted}")
        if wrong := _judge_both(answer, given, so_far):
            return wrong
    return Verdict(True, "Context and weights are right, with any axes in front.")


def _judge_both(
    answer: Any, given: tuple[np.ndarray, ...], so_far: str
) -> Verdict | None:
    """Judges the context, then the weights; None where both are right."""

    def part(n: int) -> Callable[..., Any]:
        return lambda *inputs: answer(*inputs)[n]

    query, key, value = given
    context, weights = attention(query, key, value)
    scores = query @ key.swapaxes(-2, -1)
    scaled = scores / math.sqrt(query.shape[-1])
    mistakes = [(weights, "The weights come first, but the context should.")]
    for axis in range(query.ndim - 1):
        by = 1 / math.sqrt(query.shape[axis])
        mistakes += [
            (softmax(scaled, axis=axis) @ value, "The softmax runs over the queries or "
             "over the batch: which axis holds the keys?"),
            (softmax(scores * by) @ value, "The scale takes the length of another "
             "axis than D."),
        ]  # fmt: skip
    if query.ndim == 2:
        mistakes += _wrong_scales(query, key, value)
        mistakes += _wrong_steps(query, key, value)
    if wrong := judge(part(0), given, context, mistakes, so_far=so_far):
        return wrong
    others = [
        (scores, "The second result is the raw scores, not the weights."),
        (scaled, "The second result is the scores, not the weights."),
        (
            weights.swapaxes(-2, -1),
            "The weights are transposed: each row belongs to a query.",
        ),
    ]
    so_far = f"{so_far} The context is right. The weights:".strip()
    return judge(part(1), given, weights, others, so_far=so_far)


def _is_half(weight: float) -> bool:
    return abs(weight - 0.5) <= 0.005


def _top_weight(temperature: float) -> float:
    """Gives the largest weight of exercise 1.1."""
    scores = np.array([1.0, 2, 7, 12, 8, 5, 2, 1])
    # The inverse of a tiny temperature is infinite, which softmax refuses.
    return float(softmax(scores, temperature=min(temperature, 1e9)).max())


def _softmax_mistakes(scores: np.ndarray) -> Mistakes:
    e = np.exp(scores)
    unsummed = "These exponentials are not divided by their sum yet."
    from_columns = np.exp(scores - scores.max(0))
    return [
        (e / e.sum(0), "Each column sums to 1, not each row: which axis is the last?"),
        (e / e.sum(), "The whole array sums to 1, not each row: name the axis."),
        (e, unsummed),
        (np.exp(scores - scores.max()), unsummed),
        (np.exp(scores - scores.max(-1, keepdims=True)), unsummed),
        (_shares(scores), "The exponential is missing."),
        (np.log(softmax(scores)), "These are the logarithms of the weights."),
        (
            softmax(-scores),
            "The largest score gets the smallest weight: is a sign wrong?",
        ),
        (_shares(2**scores), "These are shares of powers of 2: take powers of e."),
        (_shares(from_columns), "A row's numbers are shifted by different amounts."),
    ]


def _unstable_ways(large: np.ndarray) -> Mistakes:
    """Gives what unstable ways make of a row of high and one of low scores."""
    with np.errstate(all="ignore"):
        naive = _shares(np.exp(large))
        centred = _shares(np.exp(large - large.mean(-1, keepdims=True)))
        together = _shares(np.exp(large - large.max()))
    clipped = softmax(large.clip(-700, 700))
    return [
        (naive, "Scores of 1,000 overflow: what could be subtracted first?"),
        (centred, "Scores of 1,000 still overflow: subtract more than the mean."),
        (
            together,
            "A row of very low scores becomes 0/0: do its numbers depend on "
            "other rows?",
        ),
        (clipped, "Clipping gives scores of -1,000 and -1,001 the same weight."),
    ]


def _shares(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / x.sum(-1, keepdims=True))


def _wrong_scales(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> Mistakes:
    def scaled(by: float) -> np.ndarray:
        return np.asarray(softmax(query @ key.T * by) @ value)

    (query_len, width), key_len, value_width = query.shape, len(key), value.shape[-1]
    late = softmax(query @ key.T) / math.sqrt(width) @ value
    return [
        (scaled(1.0), "The scores are not scaled: see √D in the formula."),
        (scaled(1 / width), "The scores are divided by D: divide by its root."),
        (
            scaled(float(width)),
            "The scores are multiplied by D: see √D in the formula.",
        ),
        (scaled(math.sqrt(width)), "The scores are multiplied by √D: divide them."),
        (
            scaled(query_len**-0.5),
            "The scale takes the number of queries: which axis is D?",
        ),
        (scaled(key_len**-0.5), "The scale takes the number of keys: which axis is D?"),
        (scaled(value_width**-0.5), "The scale takes the width of the values, not D."),
        (late, "The weights are scaled, not the scores: rows should sum to 1."),
    ]


def _wrong_steps(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> Mistakes:
    raw = query @ key.T
    scores = raw / math.sqrt(query.shape[-1])
    e, weights = np.exp(scores), softmax(scores)
    unweighted = "The scores were never turned into weights."
    both = softmax(raw / query.shape[-1], axis=0) @ value
    return [
        (both, "Two bugs are left."),
        (softmax(scores, axis=0) @ value, "The softmax runs over the queries: the "
         "weights of each query, over all keys, should sum to 1."),
        (e / e.sum() @ value, "All weights together sum to 1, but each row should."),
        (e @ value, "The exponentials are not divided by their sum yet."),
        (scores @ value, unweighted),
        (raw @ value, unweighted),
        (softmax(weights) @ value, "There is one softmax too many."),
        (weights @ key, "The keys are mixed, not the values."),
        (weights, "These are the weights: what do they mix?"),
        (scores, "These are the scores: two steps are left."),
    ]  # fmt: skip
