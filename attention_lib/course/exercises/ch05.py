"""Checks of chapter 5: position tables, what they train, and what sees order."""

from collections.abc import Callable

import torch
from torch import Tensor

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.course.exercises.ch03 import Suspects, judge_finder
from attention_lib.course.exercises.verdict import (
    Mistakes,
    Verdict,
    judge,
    judge_number,
)
from attention_lib.masks import causal_mask
from attention_lib.positions import sinusoidal_positions
from attention_lib.reproducibility import seeded


def check_place_with_itself(answer: object) -> Verdict:
    """Checks the dot product of a sinusoidal position with itself, 512 wide."""
    mistakes = [
        (1, "A position is no unit vector: what does each hand add?"),
        (512, "That is one for each column: a hand owns two of them."),
        (16, "That is the length of the vector: its product with itself is another."),
        (128, "That is a quarter of the width: how many columns has a hand?"),
        (77, "The position does not matter: which offset has it to itself?"),
        (77 * 256, "The position does not matter: which offset has it to itself?"),
    ]
    return judge_number(
        answer,
        256,
        "There are 256 hands, and each adds sin² + cos² = 1, at every position.",
        mistakes,
        "That is not the number: what does one hand add, and how many hands are there?",
    )


def check_trained_positions(answer: object) -> Verdict:
    """Checks how many of 1024 × 768 learned numbers a text of 100 tokens trains."""
    mistakes = [
        (1024 * 768, "That is the whole table: did the text use all of it?"),
        (100, "Those are the positions: how wide is the vector of each?"),
        (768, "That is one position: how many does the text have?"),
        (924 * 768, "Those are the ones that get nothing: count the others."),
        (99 * 768, "That is one position too few: they are counted from zero."),
        (101 * 768, "That is one position too many: the last one is number 99."),
        (100 * 1024, "The table's length is not the width of a vector."),
    ]
    return judge_number(
        answer,
        100 * 768,
        "The text trains 100 positions of 768 numbers, and the other 924 none.",
        mistakes,
        "That is not the number: which rows were used, and how wide are they?",
    )


def check_positions(answer: object) -> Verdict:
    """Checks sinusoidal vectors of any positions, in any width."""
    first, mixed = torch.arange(5), torch.tensor([40, 3, 7, 3])
    ignored = [
        (
            _rows(torch.arange(4), 8),
            "The positions given are ignored: it counts from 0.",
        ),
        (_rows(mixed.sort().values, 8), "The positions were sorted: keep their order."),
    ]
    wrong = judge(answer, (first, 8), _rows(first, 8), _wrong_waves(first, 8))
    wrong = wrong or judge(
        answer,
        (mixed, 8),
        _rows(mixed, 8),
        ignored,
        so_far="This is right for positions 0 to 4. For positions 40, 3, 7, 3:",
    )
    for width, before in [(7, 8), (1, 7)]:
        so_far = f"This is right for width {before}. For width {width}:"
        wrong = wrong or judge(
            answer, (mixed, width), _rows(mixed, width), so_far=so_far
        )
    return wrong or Verdict(
        True, "Your function takes any positions in any order and any width."
    )


def check_position_table(answer: object) -> Verdict:
    """Checks the mended table: the right speeds, sines and cosines in turns."""
    first = torch.arange(6)
    wrong = judge(answer, (6, 8), sinusoidal_positions(6, 8), _wrong_waves(first, 8))
    wrong = wrong or judge(
        answer,
        (3, 4),
        sinusoidal_positions(3, 4),
        so_far="This is right for 6 positions of width 8. For 3 positions of width 4:",
    )
    return wrong or Verdict(True, "Your table equals the library's, column by column.")


def check_order_finder(answer: object) -> Verdict:
    """Checks ``sees_order(f, x)`` on functions that see order and that do not."""
    # float64, so that what rounding alone changes lies far below any tolerance.
    x = torch.randn(1, 4, 3, generator=seeded(0), dtype=torch.float64)
    return judge_finder(
        answer,
        x,
        _SUSPECTS,
        _PATTERNS,
        claims=("does not see order", "sees order"),
        changed="Your code changes x itself: reorder a copy of it.",
    )


def _wrong_waves(positions: Tensor, width: int) -> Mistakes:
    """What the usual mistakes give: other speeds, another order of columns."""
    position = positions.double()[:, None]
    hand = torch.arange(width // 2, dtype=torch.float64)
    right = 10_000 ** (2 * hand / width)
    fast = 10_000 ** (hand / width)

    def turns(first: Tensor, then: Tensor) -> Tensor:
        return torch.stack([first, then], -1).flatten(1).float()

    def halves(first: Tensor, then: Tensor) -> Tensor:
        return torch.cat([first, then], -1).float()

    angles, too_fast = position / right, position / fast
    columns = torch.arange(width, dtype=torch.float64)
    own = position / 10_000 ** (columns / width)
    return [
        (halves(too_fast.sin(), too_fast.cos()), "Two differences are left."),
        (halves(angles.sin(), angles.cos()), "The angles are right. The columns stand "
         "in halves, all sines first, which is used too, but is not what is asked: "
         "sines and cosines take turns."),
        (turns(too_fast.sin(), too_fast.cos()), "The columns are right. The hands turn "
         "too fast: compare the exponent with the formula."),
        (turns((position * right).sin(), (position * right).cos()), "Later hands must "
         "turn more slowly: here they turn faster and faster."),
        (turns(angles.cos(), angles.sin()), "Sine and cosine have changed places: the "
         "sine comes first."),
        (torch.where(columns % 2 == 0, own.sin(), own.cos()).float(), "Each column has "
         "a speed of its own: a sine and its cosine must share one."),
        (angles.sin().float(), "Half of the columns are missing: the cosines."),
        (angles.float(), "These are the angles: take sines and cosines of them."),
    ]  # fmt: skip


def _rows(positions: Tensor, width: int) -> Tensor:
    """Gives the vectors of these positions, without those between them."""
    columns = torch.arange(width)
    pair = columns - columns % 2
    angles = positions.double()[:, None] / 10_000 ** (pair.double() / width)
    return torch.where(columns % 2 == 0, angles.sin(), angles.cos()).float()


def _attend(x: Tensor) -> Tensor:
    return scaled_dot_product_attention(x, x, x)


def _attend_to_past(x: Tensor) -> Tensor:
    return scaled_dot_product_attention(x, x, x, causal_mask(x.shape[1]))


def _attend_with_positions(x: Tensor) -> Tensor:
    return _attend(x + sinusoidal_positions(*x.shape[1:]))


def _change(*positions: int) -> Callable[[Tensor], Tensor]:
    """Gives a function that treats the rows of these positions in another way."""

    def function(x: Tensor) -> Tensor:
        factor = torch.ones(x.shape[1], 1)
        factor[list(positions)] = 2
        return x * factor

    return function


def _ring(*positions: int) -> Callable[[Tensor], Tensor]:
    """Gives a function that adds to each row both neighbours in a ring.

    Turned or reversed, the ring is the same.
    """
    mix = torch.eye(4, dtype=torch.float64)
    for one, other in zip(positions, positions[1:] + positions[:1], strict=True):
        mix[one, other] = mix[other, one] = 1
    return lambda x: mix @ x


# Functions of 4 positions, and whether they see order. For each single order of rows,
# there is one that this order alone does not betray.
_SUSPECTS: Suspects = [
    ("attention without a mask", _attend, False),
    ("attention under a causal mask", _attend_to_past, True),
    ("attention on words and positions", _attend_with_positions, True),
    ("a function of each row alone", lambda x: x.square(), False),
    ("the average, given to every row", lambda x: 0 * x + x.mean(1, True), False),
    *(
        (f"a function that treats position {p} in its own way", _change(p), True)
        for p in range(4)
    ),
    ("a function that treats positions 0 and 1 alike", _change(0, 1), True),
    ("a function that treats positions 0 and 2 alike", _change(0, 2), True),
    ("a function that treats positions 0 and 3 alike", _change(0, 3), True),
    ("a function that moves each row on by one", lambda x: x.roll(1, 1), True),
    ("a ring, in which each row takes its neighbours", _ring(0, 1, 2, 3), True),
    ("a ring in the order 0, 2, 3, 1", _ring(0, 2, 3, 1), True),
    ("a ring in the order 0, 2, 1, 3", _ring(0, 2, 1, 3), True),
]

# What the usual mistakes say of all these (1: it sees order), and what to say then.
_PATTERNS = {
    16 * "1": "You say that everything sees order: is the output reordered too?",
    16 * "0": "You say that nothing sees order: are two results compared?",
    "1001100000000000": "Every judgement is the wrong way round: True must mean "
    "that it sees order.",
    "1111011111111111": "Each output moves with its row: reorder the output as well.",
    "0110011111101000": "Reversing alone misses what is the same from both ends.",
    "0110011111110011": "Moving all rows on alone misses what is the same around a "
    "ring.",
    "0110011000111110": "What happens at position 3 is missed: move the last row.",
    "0110000110111110": "What happens at position 0 is missed: move the first row.",
    "0110010011101101": "Changing the two ends alone misses what treats them alike.",
    "0110011110111110": "Swaps that share no row miss what treats two rows alike.",
}
