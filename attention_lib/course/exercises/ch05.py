"""Exercises of chapter 5: position tables, what they train, and what sees order."""

from collections.abc import Callable

import torch
from torch import Tensor

from attention_lib.attention import scaled_dot_product_attention
from attention_lib.course.exercises.exercise import Exercise, NumberExercise, Slip, slip
from attention_lib.course.exercises.shared import FinderExercise, Suspects
from attention_lib.masks import causal_mask
from attention_lib.positions import sinusoidal_positions
from attention_lib.reproducibility import seeded

check_place_with_itself = NumberExercise(
    right=256,
    praise="There are 256 hands, and each adds sin² + cos² = 1, at every position.",
    mistakes=[
        (1, "A position is no unit vector: what does each hand add?"),
        (512, "That is one for each column: a hand owns two of them."),
        (16, "That is the length of the vector: its product with itself is another."),
        (128, "That is a quarter of the width: how many columns has a hand?"),
        (77, "The position does not matter: which offset has it to itself?"),
        (77 * 256, "The position does not matter: which offset has it to itself?"),
    ],
    otherwise="That is not the number: what does one hand add, and how many are there?",
)  # fmt: skip


check_trained_positions = NumberExercise(
    right=100 * 768,
    praise="The text trains 100 positions of 768 numbers, and the other 924 none.",
    mistakes=[
        (1024 * 768, "That is the whole table: did the text use all of it?"),
        (100, "Those are the positions: how wide is the vector of each?"),
        (768, "That is one position: how many does the text have?"),
        (924 * 768, "Those are the ones that get nothing: count the others."),
        (99 * 768, "That is one position too few: they are counted from zero."),
        (101 * 768, "That is one position too many: the last one is number 99."),
        (100 * 1024, "The table's length is not the width of a vector."),
    ],
    otherwise="That is not the number: which rows were used, and how wide are they?",
)  # fmt: skip


STACK = "torch.stack([angles.sin(), angles.cos()], dim=-1)"
HALVES = "torch.stack", "torch.cat", ".flatten(start_dim=1)", ""
BY_COLUMN = "torch.where(torch.arange(d_model) % 2 == 0, angles.sin(), angles.cos())"


def _waves(fast: tuple[str, ...], columns: tuple[str, ...]) -> list[Slip]:
    """Return the slips of any table, given how hands become too fast or too many."""
    return [
        slip("Two differences are left.", *fast, *HALVES),
        slip("The angles are right. The columns are in halves, all sines first, as "
             "some models have them: here sines and cosines take turns.", *HALVES),
        slip("The columns are right. The hands turn too fast: compare the exponent "
             "with the formula.", *fast),
        slip("Later hands must turn more slowly: here they turn faster and faster.",
             " / 10_000", " * 10_000"),
        slip("Sine and cosine have changed places: the sine comes first.",
             "angles.sin(), angles.cos()", "angles.cos(), angles.sin()"),
        slip("Each column has its own speed: a sine and its cosine must share one.",
             *columns, STACK, BY_COLUMN),
        slip("Half of the columns are missing: the cosines.", STACK, "angles.sin()"),
        slip("These are the angles: take sines and cosines of them.", STACK, "angles"),
    ]  # fmt: skip


EVEN_FAST = "even / d_model", "even / 2 / d_model"
EVEN_ALL = "torch.arange(0, d_model, 2)", "torch.arange(d_model)"
MIXED = torch.tensor([40, 3, 7, 3])
check_positions = Exercise(
    solution="""
def my_positions(positions, d_model):
    even = torch.arange(0, d_model, 2)
    angles = positions[:, None] / 10_000 ** (even / d_model)
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return waves.flatten(start_dim=1)[:, :d_model]
""",
    cases=[
        ((torch.arange(5), 8), ""),
        ((MIXED, 8), "This is right for positions 0 to 4. For positions 40, 3, 7, 3:"),
        ((MIXED, 7), "This is right for width 8. For width 7:"),
        ((MIXED, 1), "This is right for width 7. For width 1:"),
    ],
    slips=[
        *_waves(EVEN_FAST, EVEN_ALL),
        slip("The positions given are ignored: it counts from 0.",
             "positions[", "torch.arange(len(positions))["),
        slip("The positions were sorted: keep their order.",
             "positions[", "positions.sort().values["),
    ],
    praise="Your function takes any positions in any order and any width.",
)  # fmt: skip

HAND_FAST = "2 * hand", "hand"
HAND_ALL = "d_model // 2", "d_model", "2 * hand", "hand"
check_position_table = Exercise(
    solution="""
def my_table(length, d_model):
    position = torch.arange(length, dtype=torch.float64)
    hand = torch.arange(d_model // 2, dtype=torch.float64)
    angles = position[:, None] / 10_000 ** (2 * hand / d_model)
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return waves.flatten(start_dim=1).float()
""",
    cases=[
        ((6, 8), ""),
        ((3, 4), "This is right for 6 positions of width 8. For 3 positions of width "
         "4:"),
    ],
    slips=_waves(HAND_FAST, HAND_ALL),
    praise="Your table equals the library's, column by column.",
)  # fmt: skip


def _attend(x: Tensor) -> Tensor:
    return scaled_dot_product_attention(x, x, x)


def _attend_to_past(x: Tensor) -> Tensor:
    return scaled_dot_product_attention(x, x, x, causal_mask(x.shape[1]))


def _attend_with_positions(x: Tensor) -> Tensor:
    return _attend(x + sinusoidal_positions(*x.shape[1:]))


def _change(*positions: int) -> Callable[[Tensor], Tensor]:
    """Return a function that treats the rows of these positions in another way."""

    def function(x: Tensor) -> Tensor:
        factor = torch.ones(x.shape[1], 1)
        factor[list(positions)] = 2
        return x * factor

    return function


def _ring(*positions: int) -> Callable[[Tensor], Tensor]:
    """Return a function that adds to each row both neighbours in a ring.

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
check_order_finder = FinderExercise(
    # float64, so that what rounding alone changes lies far below any tolerance.
    inputs=lambda: torch.randn(1, 4, 3, generator=seeded(0), dtype=torch.float64),
    suspects=_SUSPECTS,
    patterns=_PATTERNS,
    claims=("does not see order", "sees order"),
    changed="Your code changes x itself: reorder a copy of it.",
)
