"""The checks of chapter 5: each usual mistake is made, and must be named."""

import itertools
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F

from attention_lib.course.exercises.ch05 import check_positions
from attention_lib.positions import sinusoidal_positions
from attention_lib.reproducibility import seeded
from tests.answers import as_numbers
from tests.loops import positions_by_loops

# What readers write: each solution, and below it with pieces of its text replaced.

waves = check_positions.made
STACK = "torch.stack([angles.sin(), angles.cos()], dim=-1)"
FILLED = """torch.zeros(len(positions), {})
    waves[:, 0::2] = angles.sin()
    waves[:, 1::2] = angles.cos()"""


def table(answer):
    """A table for the first positions, by an answer for any."""
    return lambda length, d_model: answer(torch.arange(length), d_model)


def finder(orders, moved_back=True, sees=True, compare=torch.allclose):
    """Look for order: try these orders of four rows."""

    def answer(function, x):
        before = function(x)
        pairs = [(function(x[:, o]), before[:, o]) for o in orders]
        same = [compare(new, old if moved_back else before) for new, old in pairs]
        return all(same) != sees

    return answer


SWAPS = [[1, 0, 2, 3], [0, 2, 1, 3], [0, 1, 3, 2]]
REVERSED = [3, 2, 1, 0]
ROLLED = [3, 0, 1, 2]
ENDS = [3, 1, 2, 0]


def as_a_set(a, b):
    return torch.allclose(a.sort(1).values, b.sort(1).values)


def finder_in_place(function, x):
    before = function(x)[:, REVERSED]
    x[:] = x[:, REVERSED]
    return not torch.allclose(function(x), before)


# What a message of these checks must not hold, for it would give a solution away.
CODE = r"stack|flatten|arange|\b10,?000\b"

MISTAKES = {
    "place_with_itself": [
        (77**2, "not the number: what does one hand"),
        (256**2, "not the number: what does one hand"),
        (5, "not the number: what does one hand add"),
        (0, "above 0, not 0"),
    ],
    "positions": [
        (waves("return waves", "return 2 * waves"), "The shape is right, the content"),
        (waves("positions[", "(positions + 1)["), "The shape is right, the content"),
        (waves(STACK, FILLED.format("d_model")), "For width 7: Your code"),
        (waves("[:, :d_model]", ""), "For width 7: The shape must be (4, 7)"),
        (waves("return", "return (d_model > 1) *"), "right for width 7. For width 1:"),
        (lambda p, d: waves()(p, d) if d > 1 else None, "1: your code gives nothing"),
        (lambda p, d: np.array(waves()(p, d)) if d == 7 else waves()(p, d), "a NumPy"),
        (waves("even / d_model)", "1 - even / d_model)"), "content is"),
    ],
    "position_table": [
        (lambda n, d: table(waves())(n, d).T, "The shape must be (6, 8)"),
        (lambda n, d: table(waves())(6, 8), "For 3 positions of width 4: The shape"),
    ],
    "trained_positions": [
        (7, "That is not the number: which rows"),
        (0, "above 0, not 0"),
        ("100", "one number, not a str"),
    ],
    "order_finder": [
        (lambda f, x: True, "everything sees order"),
        (lambda f, x: False, "nothing sees order"),
        (finder(SWAPS, sees=False), "wrong way round"),
        (finder(SWAPS, moved_back=False), "reorder the output as well"),
        (finder([REVERSED]), "Reversing alone"),
        (finder([ROLLED]), "Moving all rows on"),
        (finder([REVERSED, ROLLED]), "a ring, in which each row takes its neighbours"),
        (finder(SWAPS[:1]), "What happens at position 3 is missed"),
        (finder(SWAPS[2:]), "What happens at position 0 is missed"),
        (finder([ENDS]), "Changing the two ends alone"),
        (finder([SWAPS[0], SWAPS[2]]), "Swaps that share no row"),
        (finder(SWAPS, compare=as_a_set), "moves each row on by one sees order"),
        (finder(SWAPS[1:2]), "a function that treats position 0 in its own way sees"),
        (finder([[2, 1, 3, 0]]), "treats position 1 in its own way sees order"),
        (finder([[1, 3, 2, 0]]), "treats position 2 in its own way sees order"),
        (finder([[1, 2, 0, 3]]), "treats position 3 in its own way sees order"),
        (finder([[2, 1, 0, 3], [0, 3, 2, 1]]), "treats positions 0 and 2 alike"),
        (finder([ENDS, SWAPS[1]]), "treats positions 0 and 3 alike sees order"),
        (finder([[2, 0, 3, 1]]), "a ring in the order 0, 2, 3, 1 sees order"),
        (finder([[2, 3, 1, 0]]), "a ring in the order 0, 2, 1, 3 sees order"),
        (finder(SWAPS, compare=torch.equal), "does not see order."),
        (finder_in_place, "changes x itself"),
        (lambda f, x: finder(SWAPS)(f, x) and None, "Nothing comes back for attention"),
        (lambda f, x: 0.5, "attention without a mask came a float"),
        (lambda f, x: f(x) > 0, "came a Tensor"),
    ],
}


# What is right, in the book's way and in others.


OTHER_WAYS = [
    lambda p, d: positions_by_loops(int(p.max()) + 1, d)[p].float(),
    waves("10_000 ** (even", "torch.exp(math.log(10_000) * even"),
    waves(STACK, FILLED.format("2 * len(even)")),
    waves(
        STACK,
        "angles.repeat_interleave(2, 1).sin()" + "\n    waves[:, 1::2] = angles.cos()",
    ),
    # A cosine is a sine, a quarter of a turn ahead.
    waves(STACK, "torch.sin(angles[..., None] + torch.tensor([0, math.pi / 2]))"),
    waves(
        *("angles.sin(), angles.cos()", "turned.imag, turned.real"),
        *(
            "    waves =",
            "    turned = torch.polar(angles * 0 + 1, angles)\n    waves =",
        ),
    ),
    waves(
        *("torch.stack", "torch.tensor(np.stack"),
        *(
            "angles.sin(), angles.cos()], dim=-1",
            "np.sin(angles), np.cos(angles)], -1)",
        ),
        *("    waves =", "    angles = angles.numpy()\n    waves ="),
    ),
    waves(
        "positions[:, None]", "positions.double()[:, None]", "[:, :d", ".float()[:, :d"
    ),
]


def finder_by_matrices(function, x):
    seen = False
    for order in SWAPS:
        matrix = F.one_hot(torch.tensor(order), 4).to(x)
        seen |= bool((function(matrix @ x) - matrix @ function(x)).abs().max() > 1e-6)
    return np.bool_(seen)


def finder_back(function, x):
    """Take the output back into the first order, instead of reordering it."""
    seen = []
    for order in itertools.permutations(range(4)):
        back = torch.tensor(order).argsort()
        change = function(x[:, list(order)])[:, back] - function(x)
        seen.append(change.norm() > 1e-8)
    return any(seen)


def finder_by_chance(function, x):
    orders = [torch.randperm(4, generator=seeded(n)) for n in range(30)]
    return any((function(x[:, o]) - function(x)[:, o]).norm() > 1e-9 for o in orders)


RIGHT = {
    "place_with_itself": [
        *as_numbers(256),
        *(512 // 2, 16.0**2, np.float32(255.99998)),
        sinusoidal_positions(78, 512)[77].square().sum(),
    ],
    "trained_positions": [
        *as_numbers(76_800),
        *(100 * 768, 1024 * 768 - 924 * 768),
        torch.ones(100, 768).count_nonzero(),
    ],
    "positions": [
        lambda p, d: sinusoidal_positions(int(p.max()) + 1, d)[p],
        *OTHER_WAYS,
    ],
    "position_table": [
        sinusoidal_positions,
        table(waves()),
        *map(table, OTHER_WAYS),
    ],
    "order_finder": [
        finder(SWAPS),
        finder(SWAPS, compare=partial(torch.allclose, rtol=0, atol=1e-12)),
        finder([REVERSED, ROLLED, ENDS, [0, 2, 1, 3]]),
        finder([[1, 0, 2, 3], [1, 2, 3, 0]]),
        finder(list(itertools.permutations(range(4)))),
        finder_by_matrices,
        finder([[1, 0, 3, 2], *SWAPS[1:], ENDS]),
        finder_back,
        finder_by_chance,
        lambda f, x: torch.tensor(finder(SWAPS)(f, x)),
    ],
}
