"""Checks of chapter 10: slow pairs, a rotation, rows reordered, offsets found."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attention_lib.course.exercises.ch03 import Suspects, judge_finder
from attention_lib.course.exercises.verdict import (
    Mistakes,
    Verdict,
    after,
    judge,
    judge_number,
    run,
)
from attention_lib.positions import sinusoidal_positions
from attention_lib.reproducibility import seeded
from attention_lib.rope import apply_rope, convert_layout, rope_angles


def check_slow_pairs(answer: object) -> Verdict:
    """Checks the pairs of Llama 3 that make no full turn in 8,192 positions."""
    mistakes = [
        (35, "Those are the pairs that do make a full turn."),
        (28, "One too few: pairs are counted from 0, and pair 35 is slow already."),
        (30, "One too many: pair 34 just makes its turn."),
        (58, "Those are coordinates: two of them are one pair."),
        (64, "That is every pair. The fast ones turn more than a thousand times."),
        (14, "That belongs to base 10,000. What is the base here?"),
        (20, "A full turn is 2π radians, not one."),
    ]
    return judge_number(
        answer,
        29,
        "29 pairs: pair 35, the first of them, needs 8,219 positions for a turn.",
        mistakes,
        "Not that many: compare 2π divided by each speed with 8,192.",
    )


def check_rotary(answer: object) -> Verdict:
    """Checks a class ``Rotary(head_dim, base)``, called with x and positions."""
    x = torch.randn(2, 3, 5, 8, generator=seeded(0), dtype=torch.float64)
    first = torch.arange(5)
    mixed = torch.tensor([40, 3, 7, 3, 0])
    far = torch.tensor([50_000, 50_003])
    trials = [
        ("", (x, first), {}),
        ("Right for positions 0 to 4. For positions 40, 3, 7, 3, 0:", (x, mixed), {}),
        ("Right for base 10,000. For base 100:", (x, mixed), {"base": 100.0}),
        ("Right near 0. For positions 50,000 and 50,003:", (x[..., :2, :], far), {}),
        ("Right for (2, 3, 5, 8). For (5, 6):", (x[0, 0, :, :6], first), {}),
    ]
    for so_far, (vectors, positions), options in trials:
        made = run(answer, vectors.shape[-1], *options.values())
        if isinstance(made, Verdict):
            return made
        if not callable(made):
            return _no_object(made)
        right = _turned(vectors, positions, **options)
        mistakes = _wrong_turns(vectors, positions, **options)
        inputs = vectors, positions
        if wrong := judge(made, inputs, right, mistakes, so_far=so_far):
            return wrong
    for dtype in (torch.float32, torch.bfloat16):
        name, short = str(dtype).removeprefix("torch."), x[..., :2, :].to(dtype)
        came = run(run(answer, 8), short, far)
        if isinstance(came, Tensor) and came.dtype != dtype:
            return Verdict(
                False, f"Right, but {name} became a result of type {came.dtype}."
            )
        if isinstance(came, Verdict):
            return after(f"Right in float64. In {name}:", came)
        if not torch.allclose(came.double(), _turned(short.double(), far), atol=0.1):
            return Verdict(False, f"Right in float64. In {name}, the angles of "
                           "position 50,000 were rounded too much: round only their "
                           "cosines and sines.")  # fmt: skip
    return Verdict(True, "Equal to the library's, for any positions, base and width.")


def check_pair_layout(answer: object) -> Verdict:
    """Checks ``load(weight, num_heads)``: from interleaved rows to halves."""
    weight = torch.arange(24.0)[:, None] + torch.tensor([0.0, 0.5, 0.75])
    for heads, so_far in [(2, ""), (3, "Right for 2 heads. For 3 heads:")]:
        right = convert_layout(weight, heads, layout="half")
        wrong = judge(
            answer, (weight, heads), right, _wrong_rows(weight, heads), so_far=so_far
        )
        if wrong:
            return wrong
    return Verdict(True, "Each pair's first coordinates come first, in every head.")


def check_offset_finder(answer: object) -> Verdict:
    """Checks ``offset_only(scores, x)`` on tables of scores of equal words."""
    word = torch.randn(1, 8, generator=seeded(1), dtype=torch.float64)
    return judge_finder(
        answer,
        word.repeat(6, 1),
        _SUSPECTS,
        _PATTERNS,
        claims=("depends on more than the offset", "depends on the offset only"),
        changed="Your code changes x itself: leave it as it is.",
    )


def _no_object(made: object) -> Verdict:
    kind = type(made).__name__
    return Verdict(
        False, f"Your function returns a {kind}; it must be what can be called."
    )


def _turned(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    return apply_rope(x, rope_angles(positions.double(), x.shape[-1], base=base))


def _wrong_turns(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Mistakes:
    """What the usual mistakes give: other angles, pairs, signs, positions."""
    width = x.shape[-1]
    right = rope_angles(positions.double(), width, base=base)
    pair = torch.arange(width // 2).double()
    place = positions.double()[:, None]
    in_order = torch.arange(len(positions)).double()
    first, second = x.chunk(2, dim=-1)
    cos, sin = right.cos(), right.sin()
    short = rope_angles(positions, width, base=base).double()
    interleaved = apply_rope(x, right, layout="interleaved")
    parts = first * cos - second * sin, second * cos + first * sin
    apart = x[..., 0::2], x[..., 1::2]
    mixed = apart[0] * cos - apart[1] * sin, apart[1] * cos + apart[0] * sin
    return [
        (interleaved, "The pairs are 2i and 2i + 1 here: the layout wanted is half."),
        (apply_rope(x, -right), "Each pair turns the wrong way: look at the signs."),
        (apply_rope(x, place / base ** (pair / width)), "Pairs turn too fast: the "
         "exponent is 2i / head_dim."),
        (apply_rope(x, place * base ** (2 * pair / width)), "Later pairs turn faster: "
         "they must turn more slowly."),
        (apply_rope(x, rope_angles(in_order, width, base=base)), "The positions given "
         "are ignored: it counts from 0."),
        (_turned(x, positions), "The base given is ignored."),
        (apply_rope(x, rope_angles(positions.double().sort().values, width, base=base)),
         "The positions were sorted: keep their order."),
        (torch.cat([first * cos + second * sin, second * cos + first * sin], -1),
         "One sine lacks its minus sign: lengths change."),
        (torch.cat(parts[::-1], -1), "The two halves have changed places."),
        (torch.stack(parts, -1).flatten(-2), "Right pairs, but the results stand "
         "interleaved: put the halves side by side."),
        (torch.cat(mixed, -1), "The pairs are 2i and 2i + 1 here, stored as halves: "
         "other pairs than wanted."),
        (x * cos.repeat(1, 2), "Only the cosines are there: where are the sines?"),
        (x, "Nothing is turned: x comes back as it was."),
        (apply_rope(x, short), "The angles are too coarse: compute them in float64."),
        (apply_rope(x, right * 2 * math.pi), "A speed is in radians per position, not "
         "in turns."),
    ]  # fmt: skip


def _wrong_rows(weight: Tensor, heads: int) -> Mistakes:
    """What the usual mistakes give: the inverse, no heads, whole rows swapped."""
    by_head = weight.unflatten(0, (heads, -1))
    pairs = weight.unflatten(0, (heads, -1, 2))
    alone = convert_layout(weight, 1, layout="half")
    return [
        (convert_layout(weight, heads, layout="interleaved"), "That is the way back: "
         "rows that stand in halves become interleaved."),
        (weight, "Nothing is reordered: the rows are as they were."),
        (alone, "The rows are reordered across heads: do it within each head."),
        (convert_layout(weight, 1, layout="interleaved"), "The heads are ignored, and "
         "it is the way back."),
        (pairs.flip(2).flatten(0, 2), "The two of each pair changed places; they still "
         "stand side by side."),
        (pairs.flip(2).transpose(1, 2).flatten(0, 2), "Halves, but the second "
         "coordinates stand first."),
        (pairs.transpose(0, 1).flatten(0, 2), "Heads and pairs changed places."),
        (by_head.flip(1).flatten(0, 1), "The rows of each head are only reversed."),
    ]  # fmt: skip


Scores = Callable[[Tensor], Tensor]


def _steps(x: Tensor) -> Tensor:
    place = torch.arange(len(x), dtype=x.dtype)
    return place[:, None] - place


def _rotated(x: Tensor) -> Tensor:
    turned = _turned(x, torch.arange(len(x)))
    return turned @ turned.T


def _added(x: Tensor) -> Tensor:
    moved = x + sinusoidal_positions(*x.shape).to(x)
    return moved @ moved.T


def _keys_only(x: Tensor) -> Tensor:
    return x @ _turned(x, torch.arange(len(x))).T


def _half_by_half(x: Tensor) -> Tensor:
    """Turns queries in one layout and keys in the other."""
    angles = rope_angles(torch.arange(len(x)).double(), x.shape[-1])
    return apply_rope(x, angles) @ apply_rope(x, angles, layout="interleaved").T


def _changed(row: int, column: int) -> Scores:
    """Gives scores of offsets, of which one cell differs."""

    def scores(x: Tensor) -> Tensor:
        table = -_steps(x).abs()
        table[row, column] += 1
        return table

    return scores


def _mean_kept(x: Tensor) -> Tensor:
    """Gives scores of offsets, of which two cells differ, and no diagonal's mean."""
    table = -_steps(x).abs()
    table[2, 2], table[3, 3] = 1, -1
    return table


def _by_parity(x: Tensor) -> Tensor:
    return (torch.arange(len(x)) % 2).to(x)[:, None] + _steps(x)


# Scores of 6 equal words, and whether they depend on the offset only.
_SUSPECTS: Suspects = [
    ("a rotation of queries and keys", _rotated, True),
    ("words with sinusoids added", _added, False),
    ("words without positions", lambda x: x @ x.T, True),
    ("a penalty for the distance", lambda x: x @ x.T - _steps(x).abs() / 4, True),
    ("a rotation of the keys alone", _keys_only, False),
    ("queries in one layout, keys in the other", _half_by_half, False),
    ("scores that grow from left to right", lambda x: _steps(x) * 2, True),
    ("scores with two changed cells on the diagonal", _mean_kept, False),
    ("scores with a changed last cell of row 0", _changed(0, 5), True),
    ("scores with a changed cell in row 5", _changed(5, 1), False),
    ("scores with a changed cell in row 1", _changed(1, 5), False),
    ("rows that take turns", _by_parity, False),
]

# What the usual mistakes say of all these (1: the offset only), and what to say then.
_PATTERNS = {
    12 * "1": "You say that all of them see the offset only: is anything compared?",
    12 * "0": "You say that none of them sees the offset only: compare with a "
    "tolerance.",
    "010011010111": "Every judgement is the wrong way round: True must mean the offset "
    "only.",
    "101100101110": "Only the diagonal is compared: look at the other offsets as well.",
    "101100101111": "Two rows further on is not enough: compare neighbours.",
    "101100111100": "Only rows 0 and 1 are compared: what of the rows below?",
    "101100111010": "Only columns 0 and 1 are compared: what of the others?",
    "101100101100": "Only cells on one side of the diagonal are compared: a cell below "
    "it is missed.",
    "101100101010": "Only cells on one side of the diagonal are compared: a cell above "
    "it is missed.",
    "101100111000": "Sums can be equal where single cells are not: compare the cells.",
    "001010000000": "You compare each row with the row above it, column by column: "
    "move one column, too.",
    "001000000000": "Cells of different offsets may differ: compare along diagonals.",
    "111100010000": "Symmetric is another thing: an offset has a sign, and may occur "
    "often.",
    "101100000000": "The table need not be symmetric: an offset has a sign.",
}
