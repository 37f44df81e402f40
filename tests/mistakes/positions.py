"""The checks of chapter 5: each usual mistake is made, and must be named."""

import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F

from attention_lib.positions import sinusoidal_positions
from attention_lib.reproducibility import seeded

# What readers write. Each function is named in MISTAKES with the words it must meet.


def waves(
    speed=lambda hand, width: 10_000 ** (-2 * hand / width),
    halves=False,
    order=("sin", "cos"),
    dtype=torch.float64,
):
    """Positions for any places and even or odd widths, with one step another."""

    def answer(places, d_model):
        hand = torch.arange((d_model + 1) // 2, dtype=dtype)
        angles = places[:, None].to(dtype) * speed(hand, d_model)
        first, then = (getattr(angles, name)() for name in order)
        if halves:
            return torch.cat([first, then], -1)[:, :d_model].float()
        return torch.stack([first, then], -1).flatten(1)[:, :d_model].float()

    return answer


def own_speed(places, d_model):
    column = torch.arange(d_model, dtype=torch.float64)
    angles = places[:, None] / 10_000 ** (column / d_model)
    return torch.where(column % 2 == 0, angles.sin(), angles.cos()).float()


def angles_only(places, d_model):
    hand = torch.arange(0, d_model, 2, dtype=torch.float64)
    return (places[:, None] / 10_000 ** (hand / d_model)).float()


def fast(hand, width):
    return 10_000 ** (-hand / width)


def faster(hand, width):
    return 10_000 ** (2 * hand / width)


def from_zero(places, d_model):
    return sinusoidal_positions(len(places), d_model)


def in_order(places, d_model):
    return waves()(places.sort().values, d_model)


def even_only(places, d_model):
    table = torch.zeros(len(places), d_model)
    hand = torch.arange(0, d_model, 2, dtype=torch.float64)
    angles = places[:, None] / 10_000 ** (hand / d_model)
    table[:, 0::2] = angles.sin().float()
    table[:, 1::2] = angles.cos().float()
    return table


def too_wide(places, d_model):
    return waves()(places, d_model + d_model % 2)


def not_of_width_one(places, d_model):
    return waves()(places, d_model) * (d_model > 1)


def silent_for_width_one(places, d_model):
    return waves()(places, d_model) if d_model > 1 else None


def not_a_tensor_for_width_7(places, d_model):
    came = waves()(places, d_model)
    return came.numpy() if d_model == 7 else came


def places_in_place(places, d_model):
    places += 1
    return waves()(places - 1, d_model)


def table(**options):
    return lambda length, d_model: waves(**options)(torch.arange(length), d_model)


def of_one_size(length, d_model):
    return table()(6, 8)


def finder(orders, moved_back=True, sees=True, compare=torch.allclose):
    """Looks for order: tries these orders of four rows."""

    def answer(function, x):
        for order in orders:
            output = function(x)
            if not compare(
                function(x[:, order]), output[:, order] if moved_back else output
            ):
                return sees
        return not sees

    return answer


SWAPS = [[1, 0, 2, 3], [0, 2, 1, 3], [0, 1, 3, 2]]
REVERSED = [3, 2, 1, 0]
ROLLED = [3, 0, 1, 2]
ENDS = [3, 1, 2, 0]


def exactly(a, b):
    return torch.equal(a, b)


def strictly(a, b):
    return torch.allclose(a, b, rtol=0, atol=1e-12)


def as_a_set(a, b):
    return torch.allclose(a.sort(1).values, b.sort(1).values)


def by_the_mean(a, b):
    return torch.allclose(a.mean(1), b.mean(1))


def finder_in_place(function, x):
    before = function(x)[:, REVERSED]
    x[:] = x[:, REVERSED]
    return not torch.allclose(function(x), before)


def finder_without_return(function, x):
    if not finder(SWAPS)(function, x):
        return False
    return None


def finder_silent_at(place):
    """Says nothing of one of the functions that it is asked about."""
    asked = iter(range(16))
    return lambda function, x: None if next(asked) == place else False


# What a message of these checks must not hold, for it would give a solution away.
CODE = r"stack|flatten|arange|\b10,?000\b"

MISTAKES = {
    "place_with_itself": [
        (1, "no unit vector"),
        (512, "one for each column"),
        (16, "length of the vector"),
        (128, "a quarter of the width"),
        (77, "The position does not matter"),
        (77 * 256, "The position does not matter"),
        (77**2, "not the number: what does one hand"),
        (256**2, "not the number: what does one hand"),
        (5, "not the number: what does one hand add"),
        (0, "above 0, not 0"),
    ],
    "positions": [
        (waves(speed=fast, halves=True), "Two differences are left"),
        (waves(halves=True), "The angles are right. The columns stand in"),
        (waves(speed=fast), "The columns are right. The hands turn too fast"),
        (waves(speed=faster), "here they turn faster and faster"),
        (waves(order=("cos", "sin")), "Sine and cosine have changed places"),
        (own_speed, "Each column has a speed of its own"),
        (lambda p, d: angles_only(p, d).sin(), "Half of the columns"),
        (angles_only, "These are the angles"),
        (lambda p, d: waves()(p, d) * 2, "The shape is right, the content"),
        (from_zero, "right for positions 0 to 4. For positions 40, 3, 7, 3: The p"),
        (in_order, "The positions were sorted"),
        (even_only, "right for width 8. For width 7: Your code raised"),
        (too_wide, "right for width 8. For width 7: The shape must be (4, 7)"),
        (not_of_width_one, "right for width 7. For width 1:"),
        (silent_for_width_one, "For width 1: your code gives nothing back"),
        (not_a_tensor_for_width_7, "For width 7: Your function returns a NumPy"),
        (lambda p, d: waves()(p + 1, d), "The shape is right, the content"),
        (waves(speed=lambda hand, width: 1e4 ** (2 * hand / width - 1)), "content is"),
        (lambda p, d: waves()(p, d).numpy(), "it must be a torch tensor"),
        (places_in_place, "changes its input"),
    ],
    "position_table": [
        (table(speed=fast, halves=True), "Two differences are left"),
        (table(halves=True), "The columns stand in halves"),
        (table(speed=fast), "The columns are right. The hands turn too"),
        (table(speed=faster), "here they turn faster and faster"),
        (table(order=("cos", "sin")), "have changed places"),
        (lambda n, d: own_speed(torch.arange(n), d), "Each column has a speed"),
        (lambda n, d: angles_only(torch.arange(n), d).sin(), "Half of the columns"),
        (lambda n, d: angles_only(torch.arange(n), d), "These are the angles"),
        (lambda n, d: table()(n, d).T, "The shape must be (6, 8)"),
        (lambda n, d: table()(n, d).numpy(), "it must be a torch tensor"),
        (of_one_size, "For 3 positions of width 4: The shape must be (3, 4"),
    ],
    "trained_positions": [
        (1024 * 768, "the whole table"),
        (100, "Those are the positions"),
        (768, "That is one position"),
        (924 * 768, "the ones that get nothing"),
        (99 * 768, "one position too few"),
        (101 * 768, "one position too many"),
        (100 * 1024, "not the width of a vector"),
        (7, "not the number: which rows"),
        ("100", "one number, not a str"),
    ],
    "order_finder": [
        (lambda f, x: True, "everything sees order"),
        (lambda f, x: False, "nothing sees order"),
        (finder(SWAPS, sees=False), "wrong way round"),
        (finder(SWAPS, moved_back=False), "reorder the output as well"),
        (finder([REVERSED]), "Reversing alone"),
        (finder([ROLLED]), "Moving all rows on"),
        (finder([[1, 2, 3, 0], [2, 3, 0, 1], ROLLED]), "Moving all rows on"),
        (finder([REVERSED, ROLLED]), "a ring, in which each row takes its neighbours"),
        (finder(SWAPS[:1]), "What happens at position 3 is missed"),
        (finder(SWAPS[2:]), "What happens at position 0 is missed"),
        (finder([ENDS]), "Changing the two ends alone"),
        (finder([SWAPS[0], SWAPS[2]]), "Swaps that share no row"),
        (finder(SWAPS, compare=as_a_set), "moves each row on by one sees order"),
        (finder(SWAPS, compare=by_the_mean), "moves each row on by one sees order"),
        (finder(SWAPS[1:2]), "a function that treats position 0 in its own way sees"),
        (finder([[2, 1, 3, 0]]), "treats position 1 in its own way sees order"),
        (finder([[1, 3, 2, 0]]), "treats position 2 in its own way sees order"),
        (finder([[0, 2, 3, 1], [0, 3, 1, 2]]), "treats position 0 in its own way"),
        (finder([[1, 2, 0, 3]]), "treats position 3 in its own way sees order"),
        (finder([[2, 1, 0, 3], [0, 3, 2, 1]]), "treats positions 0 and 2 alike"),
        (finder([ENDS, SWAPS[1]]), "treats positions 0 and 3 alike sees order"),
        (finder([[2, 0, 3, 1]]), "a ring in the order 0, 2, 3, 1 sees order"),
        (finder([[2, 3, 1, 0]]), "a ring in the order 0, 2, 1, 3 sees order"),
        (finder(SWAPS, compare=exactly), "does not see order."),
        (finder_in_place, "changes x itself"),
        (finder_without_return, "Nothing comes back for attention under"),
        (lambda f, x: 0.5, "attention without a mask came a float"),
        (lambda f, x: f(x) > 0, "came a Tensor"),
    ],
}


# What is right, in the book's way and in others.


def positions_by_loops(places, d_model):
    rows = []
    for place in places.tolist():
        angles = [place / 10_000 ** (c // 2 * 2 / d_model) for c in range(d_model)]
        rows.append(
            [(math.cos if c % 2 else math.sin)(a) for c, a in enumerate(angles)]
        )
    return torch.tensor(rows)


def positions_by_a_table(places, d_model):
    return sinusoidal_positions(int(places.max()) + 1, d_model)[places]


def positions_padded(places, d_model):
    even = d_model + d_model % 2
    hand = torch.arange(0, even, 2).double()
    angles = places[:, None] * torch.exp(-math.log(10_000) * hand / d_model)
    result = torch.zeros(len(places), even, dtype=torch.float64)
    result[:, 0::2], result[:, 1::2] = angles.sin(), angles.cos()
    return result[:, :d_model]


def positions_in_float32(places, d_model):
    even = torch.arange(0, d_model, 2).float()
    angles = places.float()[:, None] * torch.exp(-even * math.log(1e4) / d_model)
    result = torch.zeros(len(places), d_model)
    result[:, 0::2] = angles.sin()
    result[:, 1::2] = angles.cos()[:, : d_model // 2]
    return result


def positions_by_phase(places, d_model):
    """A cosine is a sine, a quarter of a turn ahead."""
    column = torch.arange(d_model)
    speed = 10_000.0 ** -((column - column % 2) / d_model)
    return torch.sin(torch.outer(places.float(), speed) + column % 2 * math.pi / 2)


def positions_by_where(places, d_model):
    column = torch.arange(d_model)
    angles = places[:, None] / 10_000 ** (2 * (column // 2) / d_model)
    return torch.where(column % 2 == 0, angles.sin(), angles.cos())


def positions_by_complex(places, d_model):
    even = torch.arange(0, d_model, 2)
    angles = places[:, None] / 10_000 ** (even / d_model)
    waves = torch.polar(torch.ones_like(angles), math.pi / 2 - angles)
    return torch.view_as_real(waves).flatten(1)[:, :d_model]


def positions_in_numpy(places, d_model):
    even = np.arange(0, d_model, 2)
    angles = places.numpy()[:, None] / 10_000 ** (even / d_model)
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    return torch.from_numpy(waves.reshape(len(places), -1)[:, :d_model])


def finder_by_matrices(function, x):
    seen = False
    for order in SWAPS:
        matrix = F.one_hot(torch.tensor(order), 4).to(x)
        seen |= bool((function(matrix @ x) - matrix @ function(x)).abs().max() > 1e-6)
    return np.bool_(seen)


def finder_of_all(function, x):
    every = torch.tensor(list(itertools.permutations(range(x.shape[1]))))
    return not torch.allclose(function(x[0][every]), function(x)[0][every])


def finder_back(function, x):
    """Takes the output back into the first order, instead of reordering it."""
    seen = []
    for order in itertools.permutations(range(4)):
        back = torch.tensor(order).argsort()
        change = function(x[:, list(order)])[:, back] - function(x)
        seen.append(change.norm() > 1e-8)
    return any(seen)


def finder_by_chance(function, x):
    orders = [torch.randperm(4, generator=seeded(n)) for n in range(30)]
    return any(
        (function(x[:, o]) - function(x)[:, o]).abs().sum() > 1e-9 for o in orders
    )


RIGHT = {
    "place_with_itself": [
        256,
        256.0,
        512 // 2,
        512 / 2,
        16.0**2,
        sum(256 * [1]),
        np.int64(256),
        np.float32(255.99998),
        np.array(256.0),
        torch.tensor(256.0),
        sinusoidal_positions(78, 512)[77].square().sum(),
    ],
    "trained_positions": [
        76_800,
        76_800.0,
        100 * 768,
        1024 * 768 - 924 * 768,
        7.68e4,
        sum(100 * [768]),
        np.int64(76_800),
        np.array(76_800),
        torch.tensor(76_800),
        torch.ones(100, 768).count_nonzero(),
    ],
    "positions": [
        waves(),
        waves(dtype=torch.float32),
        positions_by_loops,
        positions_by_a_table,
        positions_padded,
        positions_in_float32,
        positions_by_phase,
        positions_by_where,
        positions_by_complex,
        positions_in_numpy,
    ],
    "position_table": [
        sinusoidal_positions,
        table(),
        table(dtype=torch.float32),
        *(
            lambda length, d_model, rows=rows: rows(torch.arange(length), d_model)
            for rows in [
                positions_by_loops,
                positions_padded,
                positions_in_float32,
                positions_by_phase,
                positions_by_where,
                positions_by_complex,
                positions_in_numpy,
            ]
        ),
    ],
    "order_finder": [
        finder(SWAPS),
        finder(SWAPS, compare=strictly),
        finder([REVERSED, ROLLED, ENDS, [0, 2, 1, 3]]),
        finder([[1, 0, 2, 3], [1, 2, 3, 0]]),
        finder(list(itertools.permutations(range(4)))),
        finder_by_matrices,
        finder_of_all,
        finder_back,
        finder_by_chance,
        lambda f, x: torch.tensor(finder(SWAPS)(f, x)),
    ],
}
