"""The checks of chapter 5: each usual mistake is made, and must be named."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from attention_lib import sinusoidal_positions

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


def silent_far_away(places, d_model):
    return waves()(places, d_model) if places.max() < 100 else None


def not_a_tensor_far_away(places, d_model):
    came = waves()(places, d_model)
    return came if places.max() < 100 else came.numpy()


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
    asked = iter(range(10))
    return lambda function, x: None if next(asked) == place else False


# What a message of these checks must not hold, for it would give a solution away.
CODE = r"stack|flatten|arange|\b10,?000\b"

MISTAKES = {
    "place_with_itself": [
        (1, "no unit vector"),
        (512, "one for each column"),
        (16, "length of the vector"),
        (128, "a quarter of the width"),
        (77, "The place does not matter"),
        (5, "Not that: what does one hand add"),
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
        (from_zero, "Right for places 0 to 4. For places 40, 3, 7, 3: The pl"),
        (in_order, "The places were sorted"),
        (even_only, "Right for width 8. For width 7: Your code raised"),
        (too_wide, "Right for width 8. For width 7: The shape must be (4, 7)"),
        (not_of_width_one, "Right for width 7. For width 1:"),
        (waves(dtype=torch.float32), "Right for near places. For place 654,3"),
        (silent_far_away, "For place 654,321: your code gives nothing back"),
        (not_a_tensor_far_away, "654,321: Your function returns a NumPy"),
        (lambda p, d: waves()(p, d).numpy(), "it must be a torch tensor"),
        (places_in_place, "changes its input"),
    ],
    "position_table": [
        (table(speed=fast, halves=True), "Two differences are left"),
        (table(halves=True), "The columns stand in halves"),
        (table(speed=fast), "The columns are right. The hands turn too"),
        (table(order=("cos", "sin")), "have changed places"),
        (of_one_size, "For 3 places of width 4: The shape must be (3, 4"),
    ],
    "trained_positions": [
        (1024 * 768, "the whole table"),
        (100, "Those are the places"),
        (768, "That is one place"),
        (924 * 768, "the ones that get nothing"),
        (99 * 768, "One place too few"),
        (101 * 768, "One place too many"),
        (100 * 1024, "not the width of a vector"),
        (7, "Not that many: which rows"),
        ("100", "one number, not a str"),
    ],
    "order_finder": [
        (lambda f, x: True, "everything sees order"),
        (lambda f, x: False, "nothing sees order"),
        (finder(SWAPS, sees=False), "wrong way round"),
        (finder(SWAPS, moved_back=False), "reorder the output as well"),
        (finder([REVERSED]), "Reversing alone"),
        (finder([ROLLED]), "Moving all rows on"),
        (finder(SWAPS[:1]), "What happens at place 3 is missed"),
        (finder(SWAPS[2:]), "What happens at place 0 is missed"),
        (finder([ENDS]), "Changing the two ends alone"),
        (finder(SWAPS[1:2]), "Judged wrongly: a function that treats place"),
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


def finder_by_matrices(function, x):
    seen = False
    for order in SWAPS:
        matrix = F.one_hot(torch.tensor(order), 4).to(x)
        seen |= bool((function(matrix @ x) - matrix @ function(x)).abs().max() > 1e-6)
    return np.bool_(seen)


RIGHT = {
    "place_with_itself": [
        256,
        torch.tensor(256.0),
    ],
    "trained_positions": [
        76_800,
        np.int64(76_800),
    ],
    "positions": [
        waves(),
        positions_by_loops,
        positions_by_a_table,
        positions_padded,
    ],
    "position_table": [
        sinusoidal_positions,
        table(),
    ],
    "order_finder": [
        finder(SWAPS),
        finder(SWAPS, compare=strictly),
        finder([REVERSED, ROLLED, ENDS, [0, 2, 1, 3]]),
        finder_by_matrices,
        lambda f, x: torch.tensor(finder(SWAPS)(f, x)),
    ],
}
