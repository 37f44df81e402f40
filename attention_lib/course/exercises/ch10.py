"""Exercises of chapter 10: slow pairs, a rotation, keys moved, offsets found."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attention_lib.course.exercises.exercise import (
    Exercise,
    NumberExercise,
    make_object,
    slip,
)
from attention_lib.course.exercises.shared import FinderExercise, Suspects
from attention_lib.course.exercises.verdict import Verdict, after, run
from attention_lib.positions import sinusoidal_positions
from attention_lib.reproducibility import seeded
from attention_lib.rope import apply_rope, rope_angles

check_slow_pairs = NumberExercise(
    solution="""
frequencies = rope_angles(torch.ones(1), 128, base=500_000.0)[0]
my_pairs = int((2 * math.pi / frequencies > 8192).sum())
""",
    names={"rope_angles": rope_angles},
    mistakes=[
        (35, "Those are the pairs that do make a full turn."),
        (28, "One too few: pairs are counted from 0, and pair 35 is slow already."),
        (30, "One too many: pair 34 just makes its turn."),
        (58, "Those are coordinates: two of them are one pair."),
        (64, "That is every pair. The fast ones turn more than a thousand times."),
        (14, "That belongs to base 10,000. What is the base here?"),
        (20, "A full turn is 2π radians, not one."),
    ],
    praise="29 pairs: pair 35, the first of them, needs 8,219 positions for a turn.",
    otherwise="Not that many: compare 2π divided by each frequency with 8,192.",
)  # fmt: skip


def _rounding(answer: Any) -> Verdict | None:
    """Say whether the type changes, or angles of high positions are rounded."""
    far = torch.tensor([50_000, 50_003])
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        x = torch.randn(2, 3, 2, 8, generator=seeded(0), dtype=torch.float64).to(dtype)
        came = run(answer(8), x, far)
        if isinstance(came, Verdict):
            return after(f"Right in float64. In {name}:", came)
        if came.dtype != dtype:
            words = f"Right, but {name} became a result of type {came.dtype}."
            return Verdict(False, words)
        if not torch.allclose(came.double(), _turned(x.double(), far), atol=0.1):
            return Verdict(
                False,
                f"Right in float64. In {name}, the angles of position 50,000 were "
                "rounded too much: round only their cosines and sines.",
            )
    return None


def _turned(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    return apply_rope(x, rope_angles(positions.double(), x.shape[-1], base=base))


BOTH = "first * cos - second * sin, second * cos + first * sin"
SWAPPED = "second * cos + first * sin, first * cos - second * sin"
CHUNK, PAIRS = "x.chunk(2, dim=-1)", "x[..., 0::2], x[..., 1::2]"
CAT = f"torch.cat([{BOTH}], -1)"
STACK = f"torch.stack([{BOTH}], -1).flatten(-2)"
PLACES, FREQUENCIES = "positions[:, None]", "* self.frequencies"
check_rotary = Exercise(
    solution="""
class Rotary:
    def __init__(self, head_dim, base=10_000.0):
        even = torch.arange(0, head_dim, 2, dtype=torch.float64)
        self.frequencies = base ** (-even / head_dim)

    def __call__(self, x, positions):
        angles = positions[:, None] * self.frequencies
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
""",
    cases=[
        (((8,), (2, 3, 5, 8), [0, 1, 2, 3, 4]), ""),
        (((8,), (2, 3, 5, 8), [40, 3, 7, 3, 0]), "Right for positions 0 to 4. For "
         "positions 40, 3, 7, 3, 0:"),
        (((8, 100.0), (2, 3, 5, 8), [40, 3, 7, 3, 0]), "Right for base 10,000. "
         "For base 100:"),
        (((8,), (2, 3, 2, 8), [50_000, 50_003]), "Right near 0. For positions 50,000 "
         "and 50,003:"),
        (((6,), (5, 6), [0, 1, 2, 3, 4]), "Right for (2, 3, 5, 8). For (5, 6):"),
    ],
    inputs=lambda sizes, shape, positions: (
        sizes,
        torch.randn(shape, generator=seeded(0), dtype=torch.float64),
        torch.tensor(positions),
    ),
    use=lambda kind, sizes, *given: make_object(
        kind, *sizes, methods=["__call__"]
    )(*given),
    lastly=_rounding,
    slips=[
        slip("The pairs are 2i and 2i + 1 here: the layout wanted is half.",
             CHUNK, PAIRS, CAT, STACK),
        slip("Each pair turns the wrong way: look at the signs.",
             "- second", "+ second", "+ first", "- first"),
        slip("Pairs turn too fast: the exponent is 2i / head_dim.",
             "0, head_dim, 2", "head_dim // 2"),
        slip("Later pairs turn faster: they must turn more slowly.", "-even", "even"),
        slip("The positions given are ignored: it counts from 0.",
             PLACES, "torch.arange(len(positions))[:, None]"),
        slip("The base given is ignored.", "base **", "10_000.0 **"),
        slip("The positions were sorted: keep their order.",
             PLACES, "positions.sort().values[:, None]"),
        slip("One sine lacks its minus sign: lengths change.", "- second", "+ second"),
        slip("The two halves have changed places.", BOTH, SWAPPED),
        slip("Right pairs, but the results are interleaved: put the halves side by "
             "side.", CAT, STACK),
        slip("The pairs are 2i and 2i + 1 here, stored as halves: other pairs than "
             "wanted.", CHUNK, PAIRS),
        slip("Only the cosines are there: where are the sines?",
             BOTH, "first * cos, second * cos"),
        slip("Nothing is rotated: x comes back as it was.", CAT, "x"),
        slip("The angles are too coarse: compute them in float64.",
             FREQUENCIES, f"{FREQUENCIES}.float()"),
        slip("The angles are too coarse: compute them in float64.",
             "torch.float64", "torch.float32"),
        slip("A frequency is in radians per position, not in turns.",
             FREQUENCIES, f"{FREQUENCIES} * 2 * math.pi"),
    ],
    praise="Equal to the library's, for any positions, base and width.",
)  # fmt: skip

FAR, ROTATED = "new - old", "apply_rope(keys, angles)"
check_moved_keys = Exercise(
    solution="""
def move(keys, old, new):
    angles = rope_angles(new - old, keys.shape[-1])
    return apply_rope(keys, angles)
""",
    names={"apply_rope": apply_rope, "rope_angles": rope_angles},
    cases=[
        (((3, 8), [10, 11, 12], [4, 5, 6]), ""),
        (((2, 5, 8), [0, 1, 2, 43, 44], [0, 1, 2, 3, 4]), "Right where all keys move "
         "by 6. Where three stay and two move by 40:"),
        (((2, 2, 3, 6), [0, 1, 2], [5, 9, 30]), "Right for keys that get smaller "
         "positions. For larger ones:"),
    ],
    inputs=lambda shape, old, new: (
        _turned(torch.randn(shape, generator=seeded(0)), torch.tensor(old)),
        torch.tensor(old),
        torch.tensor(new),
    ),
    slips=[
        slip("The keys get smaller positions again.", FAR, "-(new - old).abs()"),
        slip("The keys are rotated for their old positions already: your rotation is "
             "added to that.", FAR, "new"),
        slip("Each key moves as far as it should, but the wrong way.",
             FAR, "old - new"),
        slip("All keys are back at position 0: where should they be?", FAR, "-old"),
        slip("That rotates by the old positions once more.", FAR, "old"),
        slip("The positions are added: how far does each key move?", FAR, "new + old"),
        slip("The positions in `new` are ignored: it counts from 0.",
             FAR, "torch.arange(len(old)) - old"),
        slip("All keys move as far as the first.",
             FAR, "(new - old)[:1].expand(len(old))"),
        slip("All keys move as far as the last.",
             FAR, "(new - old)[-1:].expand(len(old))"),
        slip("Each key ends one position too late.", FAR, "new - old + 1"),
        slip("Each key ends one position too early.", FAR, "new - old - 1"),
        slip("The pairs are 2i and 2i + 1 here: these keys have the layout half.",
             "(keys, angles)", "(keys, angles, layout='interleaved')"),
        slip("Nothing is rotated: the keys are as they were.", ROTATED, "keys"),
    ],
    praise="Rotations add up, so the difference is enough: no key is computed again. "
    "(What later tokens have read from the deleted ones stays in them.)",
)  # fmt: skip


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
    """Rotate queries in one layout and keys in the other."""
    angles = rope_angles(torch.arange(len(x)).double(), x.shape[-1])
    return apply_rope(x, angles) @ apply_rope(x, angles, layout="interleaved").T


def _changed(row: int, column: int) -> Scores:
    """Return scores of offsets, of which one cell differs."""

    def scores(x: Tensor) -> Tensor:
        table = -_steps(x).abs()
        table[row, column] += 1
        return table

    return scores


def _mean_kept(x: Tensor) -> Tensor:
    """Return scores of offsets, of which two cells differ, and no diagonal's mean."""
    table = -_steps(x).abs()
    table[2, 2], table[3, 3] = 1, -1
    return table


def _by_parity(x: Tensor) -> Tensor:
    return (torch.arange(len(x)) % 2).to(x)[:, None] + _steps(x)


# Scores of 6 equal words, and whether they depend on the offset only.
_SUSPECTS: Suspects = [
    ("a rotation of queries and keys", _rotated, True),
    ("a text with sinusoids added", _added, False),
    ("a text without positions", lambda x: x @ x.T, True),
    ("a penalty for the distance", lambda x: x @ x.T - _steps(x).abs() / 4, True),
    ("a rotation of the keys alone", _keys_only, False),
    ("a rotation of queries and keys in two layouts", _half_by_half, False),
    ("a table that grows from left to right", lambda x: _steps(x) * 2, True),
    ("a table with two changed cells on the diagonal", _mean_kept, False),
    ("a table with a changed last cell of row 0", _changed(0, 5), True),
    ("a table with a changed cell in row 5", _changed(5, 1), False),
    ("a table with a changed cell in row 1", _changed(1, 5), False),
    ("a table whose rows take turns", _by_parity, False),
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


def _equal_words() -> Tensor:
    word = torch.randn(1, 8, generator=seeded(1), dtype=torch.float64)
    return word.repeat(6, 1)


check_offset_finder = FinderExercise(
    inputs=_equal_words,
    suspects=_SUSPECTS,
    patterns=_PATTERNS,
    claims=("depends on more than the offset", "depends on the offset only"),
    changed="Your code changes x itself: leave it as it is.",
)
